package main

import (
	"fmt"
	"math"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// variant is one way to fill an object.
type variant struct {
	name     string
	nils     float64
	elements int
	zero     bool // every scalar is its zero value, so that pointers to zeros and empty strings appear
	heavy    bool // too large for lists
}

var variants = []variant{
	{name: "full", nils: 0.02, elements: 1, heavy: true},
	{name: "half", nils: 0.5, elements: 2, heavy: true},
	{name: "sparse", nils: 0.85, elements: 1},
	{name: "zeros", nils: 0.3, elements: 1, zero: true, heavy: true},
	{name: "empty", nils: 1, elements: 0, zero: true},
}

var words = []string{"", "a", "b", "web", "nginx:1.29", "example.com/name", "10.0.0.7", "x y", "ünïcode ☃ 🚀", "<a href=\"b\">&\\</a>", "line\nfeed\ttab\r", "\u2028", "\x7f\u0001", "{\"a\":1}", "true", "0"}

var quantities = []string{"0", "1", "100m", "1500m", "1Gi", "128Mi", "500k", "2E", "1e3", "-5", "0.5", "1.5Gi", "123456789012345678901", "3n"}

var raws = []string{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"k":"<v>"}}`, `{"kind":"Foo","apiVersion":"ex.io/v1","n":1.50,"list":[1,"a",null,true]}`}

var values = []string{`{"a":[1,2.5,"x"],"b":null}`, `"text"`, `12`, `-0.25`, `true`, `[]`, `{}`, `"<&>"`}

// fill fills obj. The same seed gives the same object.
func fill(obj any, v variant, seed int64) {
	f := randfill.NewWithSeed(seed).NilChance(v.nils).NumElements(1, max(1, v.elements)).MaxDepth(24)
	if v.nils == 1 {
		return
	}
	depth := 0
	pick := func(c randfill.Continue, from []string) string { return from[c.Intn(len(from))] }
	f.Funcs(
		func(s *string, c randfill.Continue) {
			if !v.zero {
				*s = pick(c, words)
			}
		},
		func(b *bool, c randfill.Continue) { *b = !v.zero && c.Intn(2) == 0 },
		func(i *int32, c randfill.Continue) {
			if !v.zero {
				*i = []int32{0, 1, 2, 443, 8080, -1, math.MaxInt32, math.MinInt32}[c.Intn(8)]
			}
		},
		func(i *int64, c randfill.Continue) {
			if !v.zero {
				*i = []int64{0, 1, 30, -1, 1 << 40, math.MaxInt64, math.MinInt64}[c.Intn(7)]
			}
		},
		func(n *float64, c randfill.Continue) {
			if !v.zero {
				*n = []float64{0, 1, 1.5, -2.25, 1e21, 1e-7, 100}[c.Intn(7)]
			}
		},
		func(b *[]byte, c randfill.Continue) {
			switch {
			case v.zero:
				*b = []byte{}
			default:
				*b = []byte(fmt.Sprintf("%c%s\x00\xff", rune(c.Intn(128)), pick(c, words)))
			}
		},
		func(q *resource.Quantity, c randfill.Continue) {
			if v.zero {
				*q = resource.MustParse("0")
				return
			}
			*q = resource.MustParse(pick(c, quantities))
		},
		func(i *intstr.IntOrString, c randfill.Continue) {
			switch {
			case v.zero:
				*i = intstr.FromInt32(0)
			case c.Intn(2) == 0:
				*i = intstr.FromInt32(int32(c.Intn(70000) - 10))
			default:
				*i = intstr.FromString([]string{"25%", "http", "", "8080"}[c.Intn(4)])
			}
		},
		func(t *metav1.Time, c randfill.Continue) {
			if !v.zero {
				*t = metav1.Unix(int64(c.Uint64()%4e9), 0)
			}
		},
		func(t *metav1.MicroTime, c randfill.Continue) {
			if !v.zero {
				*t = metav1.NewMicroTime(time.Unix(int64(c.Uint64()%4e9), int64(c.Intn(1e6))*1000))
			}
		},
		// A pointer to the zero time is null in JSON and comes back as no pointer, even in Go: never sample one.
		func(t **metav1.Time, c randfill.Continue) {
			if !v.zero && c.Float64() >= v.nils {
				n := metav1.Unix(int64(c.Uint64()%4e9), 0)
				*t = &n
			}
		},
		func(t **metav1.MicroTime, c randfill.Continue) {
			if !v.zero && c.Float64() >= v.nils {
				n := metav1.NewMicroTime(time.Unix(int64(c.Uint64()%4e9), int64(c.Intn(1e6))*1000))
				*t = &n
			}
		},
		func(d *metav1.Duration, c randfill.Continue) {
			if !v.zero {
				d.Duration = time.Duration(c.Intn(1e9)) * time.Millisecond
			}
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(pick(c, raws)) },
		func(r *metav1.FieldsV1, c randfill.Continue) {
			r.Raw = []byte(`{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"k:{\"name\":\"x\"}":{}}}`)
		},
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = []byte(pick(c, values)) },
		func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			if depth >= 2 {
				s.Type = "string"
				return
			}
			depth++
			c.FillNoCustom(s)
			depth--
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
			if c.Intn(2) == 0 {
				s.Allows = c.Intn(2) == 0
				return
			}
			s.Allows, s.Schema = true, &apiextensionsv1.JSONSchemaProps{}
			c.Fill(s.Schema)
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			if c.Intn(2) == 0 {
				s.Schema = &apiextensionsv1.JSONSchemaProps{}
				c.Fill(s.Schema)
				return
			}
			s.JSONSchemas = make([]apiextensionsv1.JSONSchemaProps, 1+c.Intn(2))
			for i := range s.JSONSchemas {
				c.Fill(&s.JSONSchemas[i])
			}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			if c.Intn(2) == 0 {
				s.Schema = &apiextensionsv1.JSONSchemaProps{}
				c.Fill(s.Schema)
				return
			}
			s.Property = []string{"a", "b"}
		},
	)
	f.Fill(obj)
}
