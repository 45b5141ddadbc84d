package main

import (
	"reflect"
	"sort"

	admissionv1 "k8s.io/api/admission/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane"
)

var schemes = []*runtime.Scheme{legacyscheme.Scheme, apiextensionsserver.Scheme, aggregatorscheme.Scheme}

// extras are wire types that belong to no served group-version.
var extras = []struct {
	gv  schema.GroupVersion
	typ reflect.Type
}{
	{schema.GroupVersion{Group: "admission.k8s.io", Version: "v1"}, reflect.TypeFor[admissionv1.AdmissionReview]()},
	{schema.GroupVersion{Group: "apidiscovery.k8s.io", Version: "v2"}, reflect.TypeFor[apidiscoveryv2.APIGroupDiscoveryList]()},
	{schema.GroupVersion{Group: "apidiscovery.k8s.io", Version: "v2"}, reflect.TypeFor[apidiscoveryv2.APIGroupDiscovery]()},
	{schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}, reflect.TypeFor[metav1.Table]()},
	{schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}, reflect.TypeFor[metav1.TableOptions]()},
	{schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}, reflect.TypeFor[metav1.PartialObjectMetadata]()},
	{schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}, reflect.TypeFor[metav1.PartialObjectMetadataList]()},
	{schema.GroupVersion{}, reflect.TypeFor[metav1.List]()},
	{schema.GroupVersion{Version: "v1"}, reflect.TypeFor[metav1.Status]()},
	{schema.GroupVersion{Version: "v1"}, reflect.TypeFor[metav1.APIVersions]()},
	{schema.GroupVersion{Version: "v1"}, reflect.TypeFor[metav1.APIGroup]()},
	{schema.GroupVersion{Version: "v1"}, reflect.TypeFor[metav1.APIGroupList]()},
	{schema.GroupVersion{Version: "v1"}, reflect.TypeFor[metav1.APIResourceList]()},
	{schema.GroupVersion{}, reflect.TypeFor[apiextensionsv1.ConversionReview]()},
}

// roots are the types registered in a served group-version, with every kind they are known by there.
func roots(served map[schema.GroupVersion]bool) ([]reflect.Type, map[reflect.Type][]GVK) {
	kinds := map[reflect.Type]map[GVK]bool{}
	add := func(t reflect.Type, k GVK) {
		if kinds[t] == nil {
			kinds[t] = map[GVK]bool{}
		}
		if k.Kind != "" {
			kinds[t][k] = true
		}
	}
	for _, s := range schemes {
		for gvk, t := range s.AllKnownTypes() {
			if !served[gvk.GroupVersion()] {
				continue
			}
			if _, ok := shortPackage(t.PkgPath()); !ok {
				continue
			}
			add(t, GVK{gvk.Group, gvk.Version, gvk.Kind})
		}
	}
	for _, e := range extras {
		k := GVK{e.gv.Group, e.gv.Version, e.typ.Name()}
		if e.gv.Version == "" {
			k.Kind = ""
		}
		add(e.typ, k)
	}
	var types []reflect.Type
	out := map[reflect.Type][]GVK{}
	for t, set := range kinds {
		types = append(types, t)
		for k := range set {
			out[t] = append(out[t], k)
		}
		sort.Slice(out[t], func(i, j int) bool {
			a, b := out[t][i], out[t][j]
			if a.Group != b.Group {
				return a.Group < b.Group
			}
			if a.Version != b.Version {
				return a.Version < b.Version
			}
			return a.Kind < b.Kind
		})
	}
	sort.Slice(types, func(i, j int) bool { return typeName(types[i]) < typeName(types[j]) })
	return types, out
}
