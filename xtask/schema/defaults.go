package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sort"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// trials is how many differently filled objects of each kind go through the defaulters.
const trials = 300

type fieldKey struct {
	owner reflect.Type
	name  string
}

// seen is what the defaulters did to one field when it was empty.
type seen struct {
	left   int
	values map[string]any
}

// fromDefaulters runs upstream's registered defaulting functions over objects with random gaps. A field that came back with the same
// value every time it was empty has an unconditional default; one that came back filled only sometimes has a conditional one.
func fromDefaulters(types []*Type, kinds map[reflect.Type][]GVK) (problems []string) {
	enums := map[fieldKey][]string{}
	for _, t := range types {
		for _, f := range t.Fields {
			enums[fieldKey{f.owner, f.owner.Field(f.index[len(f.index)-1]).Name}] = f.Enum
		}
	}
	found := map[fieldKey]*seen{}
	for _, t := range types {
		if len(kinds[t.typ]) == 0 {
			continue
		}
		if _, ok := reflect.New(t.typ).Interface().(runtime.Object); !ok {
			continue
		}
		for _, s := range schemes {
			if _, _, err := s.ObjectKinds(reflect.New(t.typ).Interface().(runtime.Object)); err != nil {
				continue
			}
			for n := range trials {
				r := rand.New(rand.NewPCG(35, uint64(n)))
				fill := filler{r: r, enums: enums, gap: []float64{0, 0.2, 0.5, 0.8, 0.95, 1}[n%6]}
				before := reflect.New(t.typ)
				fill.value(before.Elem(), fieldKey{}, 0)
				after := before.Interface().(runtime.Object).DeepCopyObject()
				if err := apply(s, after); err != nil {
					problems = append(problems, fmt.Sprintf("%s: %v", t.Name, err))
					continue
				}
				compare(before.Elem(), reflect.ValueOf(after).Elem(), found)
			}
		}
	}
	for _, t := range types {
		for _, f := range t.Fields {
			s := found[fieldKey{f.owner, f.owner.Field(f.index[len(f.index)-1]).Name}]
			switch {
			case s == nil || len(s.values) == 0:
				if f.Documented != nil {
					problems = append(problems, fmt.Sprintf("%s.%s: default %v is documented and not applied", t.Name, f.Name, f.Documented))
				}
			case f.Type == "Time" || f.Type == "MicroTime":
				f.Sometimes = "now" // the clock of the write, no constant
			case s.left == 0 && len(s.values) == 1:
				for _, v := range s.values {
					f.Default = v
				}
				if f.Documented != nil && string(line(f.Documented)) == string(line(f.Default)) {
					f.Documented = nil
				}
			case len(s.values) > 5:
				f.Sometimes = "varies"
			default:
				var keys []string
				for k := range s.values {
					keys = append(keys, k)
				}
				sort.Strings(keys)
				var values []any
				for _, k := range keys {
					values = append(values, s.values[k])
				}
				f.Sometimes = values
			}
		}
	}
	return problems
}

func apply(s *runtime.Scheme, o runtime.Object) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("defaulter panicked: %v", r)
		}
	}()
	s.Default(o)
	return nil
}

// compare walks an object before and after defaulting and notes every field that was empty before.
func compare(before, after reflect.Value, found map[fieldKey]*seen) {
	switch before.Kind() {
	case reflect.Pointer:
		if !before.IsNil() && !after.IsNil() {
			compare(before.Elem(), after.Elem(), found)
		}
	case reflect.Slice:
		if before.Len() == after.Len() {
			for i := range before.Len() {
				compare(before.Index(i), after.Index(i), found)
			}
		}
	case reflect.Map:
		for _, k := range before.MapKeys() {
			if v := after.MapIndex(k); v.IsValid() {
				compare(before.MapIndex(k), v, found)
			}
		}
	case reflect.Struct:
		if _, ok := special[before.Type()]; ok {
			return
		}
		for i := range before.NumField() {
			f := before.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			b, a := before.Field(i), after.Field(i)
			_, isSpecial := special[b.Type()]
			if b.Kind() == reflect.Struct && !isSpecial {
				compare(b, a, found)
				continue
			}
			if !empty(b) {
				compare(b, a, found)
				continue
			}
			key := fieldKey{before.Type(), f.Name}
			s := found[key]
			if s == nil {
				s = &seen{values: map[string]any{}}
				found[key] = s
			}
			if empty(a) {
				s.left++
				continue
			}
			raw, err := json.Marshal(a.Interface())
			if err != nil {
				panic(err)
			}
			s.values[string(raw)] = json.RawMessage(raw)
		}
	}
}

// empty is the state that defaulting functions take for "not set".
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// filler fills objects; gap is the chance that a field stays empty.
type filler struct {
	r     *rand.Rand
	enums map[fieldKey][]string
	gap   float64
}

func (f *filler) value(v reflect.Value, key fieldKey, depth int) {
	t := v.Type()
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(*resource.NewMilliQuantity(int64(1+f.r.IntN(5000)), resource.DecimalSI)))
		return
	case reflect.TypeFor[intstr.IntOrString]():
		v.Set(reflect.ValueOf(intstr.FromInt32(int32(1 + f.r.IntN(100)))))
		return
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return
	}
	if _, ok := special[t]; ok || depth > 14 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			sf := t.Field(i)
			if !sf.IsExported() {
				continue
			}
			_, isSpecial := special[sf.Type]
			if (sf.Type.Kind() != reflect.Struct || isSpecial) && f.r.Float64() < f.gap {
				continue
			}
			f.value(v.Field(i), fieldKey{t, sf.Name}, depth+1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		f.value(v.Elem(), key, depth+1)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("x"))
			return
		}
		n := 1
		if depth < 6 {
			n = 1 + f.r.IntN(2)
		}
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			f.value(v.Index(i), key, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		e := reflect.New(t.Elem()).Elem()
		f.value(e, key, depth+1)
		v.SetMapIndex(reflect.ValueOf("key").Convert(t.Key()), e)
	case reflect.String:
		if values := f.enums[key]; len(values) > 0 {
			v.SetString(values[f.r.IntN(len(values))])
		} else {
			v.SetString([]string{"a", "b", "image:latest", "image:1.0"}[f.r.IntN(4)])
		}
	case reflect.Bool:
		v.SetBool(f.r.IntN(2) == 0)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(1 + f.r.IntN(100)))
	case reflect.Float64:
		v.SetFloat(1.5)
	}
}
