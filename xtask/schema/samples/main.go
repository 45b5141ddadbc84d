// Command samples fills upstream's API types with seeded random values and writes each object in both of its wire forms: the
// protobuf that upstream's serializer makes of it, and the JSON that upstream makes of what that protobuf decodes to. A codec is
// right when both decode to the same value.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"reflect"
	"sort"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
)

type gvkRow struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

type sample struct {
	GVK      gvkRow `json:"gvk"`
	Type     string `json:"type"`
	Variant  string `json:"variant"`
	Protobuf string `json:"protobuf"`
	JSON     string `json:"json"`
}

type root struct {
	gvk schema.GroupVersionKind
	typ reflect.Type
}

func main() {
	out := flag.String("out", "samples.ndjson.gz", "the file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "samples:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	var buffer bytes.Buffer
	zip, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(zip)
	lines.SetEscapeHTML(false)
	n := 0
	for _, r := range roots() {
		for _, v := range variants {
			if strings.HasSuffix(r.gvk.Kind, "List") && v.heavy {
				continue
			}
			s, err := encode(r, v)
			if err != nil {
				return fmt.Errorf("%v %s: %w", r.gvk, v.name, err)
			}
			if err := lines.Encode(s); err != nil {
				return err
			}
			n++
		}
	}
	if err := zip.Close(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d samples, %d bytes\n", n, buffer.Len())
	return os.WriteFile(path, buffer.Bytes(), 0o644)
}

// message is a type with a protobuf form.
type message interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// roots are the kinds of the served group-versions that have a protobuf form, each under one name.
func roots() []root {
	served := controlplane.DefaultAPIResourceConfigSource()
	found := map[reflect.Type]schema.GroupVersionKind{}
	for _, s := range []*runtime.Scheme{legacyscheme.Scheme, apiextensionsserver.Scheme, aggregatorscheme.Scheme} {
		for gvk, t := range s.AllKnownTypes() {
			gv := gvk.GroupVersion()
			own := gv.Version == "v1" && (gv.Group == "apiextensions.k8s.io" || gv.Group == "apiregistration.k8s.io")
			if gvk.Version == runtime.APIVersionInternal || !own && !served.GroupVersionConfigs[gv] {
				continue
			}
			if _, ok := reflect.New(t).Interface().(message); !ok || skipped[gvk.Kind] {
				continue
			}
			if old, ok := found[t]; !ok || less(gvk, old) {
				found[t] = gvk
			}
		}
	}
	meta := schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}
	found[reflect.TypeFor[metav1.PartialObjectMetadata]()] = meta.WithKind("PartialObjectMetadata")
	found[reflect.TypeFor[metav1.PartialObjectMetadataList]()] = meta.WithKind("PartialObjectMetadataList")
	found[reflect.TypeFor[policyv1.Eviction]()] = policyv1.SchemeGroupVersion.WithKind("Eviction")
	var out []root
	for t, gvk := range found {
		out = append(out, root{gvk, t})
	}
	sort.Slice(out, func(i, j int) bool { return less(out[i].gvk, out[j].gvk) })
	return out
}

// skipped kinds travel in other ways: frames of a watch without an envelope, options as query parameters.
var skipped = map[string]bool{
	"WatchEvent": true, "InternalEvent": true, "ListOptions": true, "GetOptions": true, "RangeAllocation": true, "SerializedReference": true,
	"NodeProxyOptions": true, "PodAttachOptions": true, "PodExecOptions": true, "PodLogOptions": true, "PodPortForwardOptions": true,
	"PodProxyOptions": true, "ServiceProxyOptions": true, "ConversionReview": true,
}

func less(a, b schema.GroupVersionKind) bool {
	if a.Group != b.Group {
		return a.Group < b.Group
	}
	if a.Kind != b.Kind {
		return a.Kind < b.Kind
	}
	return a.Version < b.Version
}

func encode(r root, v variant) (*sample, error) {
	hash := fnv.New64a()
	fmt.Fprint(hash, r.gvk, v.name)
	obj := reflect.New(r.typ).Interface().(message)
	fill(obj, v, int64(hash.Sum64()>>1))
	obj.GetObjectKind().SetGroupVersionKind(r.gvk)
	var wire bytes.Buffer
	if err := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme).Encode(obj, &wire); err != nil {
		return nil, err
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(bytes.TrimPrefix(wire.Bytes(), []byte("k8s\x00"))); err != nil {
		return nil, err
	}
	back := reflect.New(r.typ).Interface().(message)
	if err := back.Unmarshal(unknown.Raw); err != nil {
		return nil, err
	}
	back.GetObjectKind().SetGroupVersionKind(r.gvk)
	var text bytes.Buffer
	encoder := serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, serializerjson.SerializerOptions{})
	if err := encoder.Encode(back, &text); err != nil {
		return nil, err
	}
	return &sample{
		GVK: gvkRow{r.gvk.Group, r.gvk.Version, r.gvk.Kind}, Type: typeName(r.typ), Variant: v.name,
		Protobuf: base64.StdEncoding.EncodeToString(wire.Bytes()), JSON: strings.TrimSuffix(text.String(), "\n"),
	}, nil
}

func typeName(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/") + "." + t.Name()
}
