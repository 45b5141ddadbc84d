package main

import (
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// special maps Go types with a wire form of their own to the data file's primitive names.
var special = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():                            "Quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "IntOrString",
	reflect.TypeFor[metav1.Time]():                                  "Time",
	reflect.TypeFor[metav1.MicroTime]():                             "MicroTime",
	reflect.TypeFor[metav1.Duration]():                              "Duration",
	reflect.TypeFor[runtime.RawExtension]():                         "RawExtension",
	reflect.TypeFor[metav1.FieldsV1]():                              "FieldsV1",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "JSON",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "JSONSchemaPropsOrBool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "JSONSchemaPropsOrArray",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "JSONSchemaPropsOrStringArray",
}

// shortPackage maps the import path of a served package to its short group/version.
func shortPackage(path string) (string, bool) {
	switch path {
	case "k8s.io/apimachinery/pkg/apis/meta/v1":
		return "meta/v1", true
	case "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1":
		return "apiextensions/v1", true
	case "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1":
		return "apiregistration/v1", true
	}
	return strings.CutPrefix(path, "k8s.io/api/")
}

// typeName is the data file's name of a Go struct type, such as core/v1.Pod.
func typeName(t reflect.Type) string {
	p, ok := shortPackage(t.PkgPath())
	if !ok {
		panic(fmt.Sprintf("type %v lies in an unexpected package %q", t, t.PkgPath()))
	}
	return p + "." + t.Name()
}

// openAPIName is the name of a type in OpenAPI documents.
func openAPIName(t reflect.Type) string {
	if n, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return n.OpenAPIModelName()
	}
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

// wireType writes the data file's type of a Go type. wrapped tells that protobuf carries the slice in a message of its own.
func wireType(t reflect.Type) (name string, wrapped bool, refs []reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := special[t]; ok {
		return s, false, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool", false, nil
	case reflect.Int32, reflect.Int64:
		return t.Kind().String(), false, nil
	case reflect.Int:
		return "int64", false, nil
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		panic(fmt.Sprintf("unsigned integer %v has no place in the format", t))
	case reflect.Float64:
		return "float64", false, nil
	case reflect.String:
		return "string", false, nil
	case reflect.Interface:
		return "JSON", false, nil
	case reflect.Struct:
		return typeName(t), false, []reflect.Type{t}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", false, nil
		}
		// A named slice with a protobuf message of its own travels as {1: repeated items}.
		_, message := reflect.New(t).Interface().(interface{ Unmarshal([]byte) error })
		n, w, r := wireType(t.Elem())
		return "[]" + n, w || message, r
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(fmt.Sprintf("map %v is not keyed by strings", t))
		}
		n, w, r := wireType(t.Elem())
		return "map[string]" + n, w, r
	}
	panic(fmt.Sprintf("type %v has no place in the format", t))
}
