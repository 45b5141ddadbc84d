package main

import (
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// Field is one line of the data file. Key order is the order of the struct.
type Field struct {
	Name       string   `json:"name"`
	Number     int      `json:"number"`
	Via        any      `json:"via,omitempty"`
	Go         string   `json:"go,omitempty"`
	Type       string   `json:"type"`
	Wrapped    bool     `json:"wrapped,omitempty"`
	Pointer    bool     `json:"pointer,omitempty"`
	Presence   string   `json:"presence"`
	OmitZero   bool     `json:"omitzero,omitempty"`
	List       string   `json:"list,omitempty"`
	Keys       []string `json:"keys,omitempty"`
	Map        string   `json:"map,omitempty"`
	Struct     string   `json:"struct,omitempty"`
	Patch      string   `json:"patch,omitempty"`
	MergeKey   string   `json:"mergeKey,omitempty"`
	Default    any      `json:"default,omitempty"`
	Sometimes  any      `json:"conditionalDefault,omitempty"`
	Documented any      `json:"openapiDefault,omitempty"`
	Enum       []string `json:"enum,omitempty"`
	Required   bool     `json:"required,omitempty"`
	Format     string   `json:"format,omitempty"`
	Min        any      `json:"min,omitempty"`
	Max        any      `json:"max,omitempty"`
	MinLength  any      `json:"minLength,omitempty"`
	MaxLength  any      `json:"maxLength,omitempty"`
	MinItems   any      `json:"minItems,omitempty"`
	MaxItems   any      `json:"maxItems,omitempty"`
	Pattern    string   `json:"pattern,omitempty"`
	Union      any      `json:"union,omitempty"`
	Immutable  bool     `json:"immutable,omitempty"`
	Gate       string   `json:"gate,omitempty"`
	Deprecated bool     `json:"deprecated,omitempty"`

	index []int        // path of the Go field in the flattened struct
	owner reflect.Type // the struct that declares it
	typ   reflect.Type
}

// GVK names a kind.
type GVK struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// Type is one struct of the data file.
type Type struct {
	Name    string   `json:"name"`
	OpenAPI string   `json:"openapi"`
	GVK     []GVK    `json:"gvk,omitempty"`
	Flavour string   `json:"flavour"`
	Struct  string   `json:"struct,omitempty"`
	Fields  []*Field `json:"fields"`

	typ reflect.Type
}

// protobufNumber reads the field number out of a gogo protobuf tag; 0 when there is none.
func protobufNumber(tag reflect.StructTag) int {
	parts := strings.Split(tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		panic(err)
	}
	return n
}

// jsonTag splits a JSON tag; name is "" for inlined fields.
func jsonTag(f reflect.StructField) (name string, omitempty, omitzero, inline, skip bool) {
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "", false, false, false, true
	}
	parts := strings.Split(tag, ",")
	for _, p := range parts[1:] {
		switch p {
		case "omitempty":
			omitempty = true
		case "omitzero":
			omitzero = true
		case "inline":
			inline = true
		}
	}
	if f.Anonymous && parts[0] == "" {
		inline = true
	}
	return parts[0], omitempty, omitzero, inline, false
}

// flatten lists the fields of a struct in Go's declaration order, embedded structs in place.
func flatten(t reflect.Type, via []int, index []int) []*Field {
	var out []*Field
	for i := range t.NumField() {
		f := t.Field(i)
		name, omitempty, omitzero, inline, skip := jsonTag(f)
		if skip || !f.IsExported() {
			continue
		}
		at := append(append([]int(nil), index...), i)
		if inline {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				panic("embedded pointer in " + t.String())
			}
			v := via
			if n := protobufNumber(f.Tag); n != 0 {
				v = append(append([]int(nil), via...), n)
			}
			out = append(out, flatten(inner, v, at)...)
			continue
		}
		if name == "" {
			panic("field without a JSON name: " + t.String() + "." + f.Name)
		}
		wire, wrapped, _ := wireType(f.Type)
		field := &Field{Name: name, Number: protobufNumber(f.Tag), Type: wire, Wrapped: wrapped, index: at, owner: t, typ: f.Type}
		field.Pointer = f.Type.Kind() == reflect.Pointer
		if !strings.EqualFold(f.Name, name) {
			field.Go = f.Name
		}
		switch len(via) {
		case 0:
		case 1:
			field.Via = via[0]
		default:
			field.Via = via
		}
		// encoding/json never omits a struct value for omitempty, only for omitzero: say what happens, not what the tag says.
		if f.Type.Kind() == reflect.Struct {
			omitempty = false
		}
		switch {
		case omitempty:
			field.Presence, field.OmitZero = "omitempty", omitzero
		case omitzero:
			field.Presence = "omitzero"
		default:
			field.Presence = "always"
		}
		if s := f.Tag.Get("patchStrategy"); s != "" {
			field.Patch = s
			field.MergeKey = f.Tag.Get("patchMergeKey")
		}
		out = append(out, field)
	}
	return out
}

// walk reaches every struct type from the roots.
func walk(roots []reflect.Type) []*Type {
	seen := map[reflect.Type]*Type{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		if _, ok := seen[t]; ok {
			return
		}
		if _, ok := special[t]; ok {
			return
		}
		ty := &Type{Name: typeName(t), OpenAPI: openAPIName(t), Flavour: "struct", typ: t}
		seen[t] = ty
		ty.Fields = flatten(t, nil, nil)
		for _, f := range ty.Fields {
			_, _, refs := wireType(f.typ)
			for _, r := range refs {
				visit(r)
			}
		}
	}
	for _, r := range roots {
		visit(r)
	}
	// JSONSchemaPropsOr… refer to JSONSchemaProps, which a CustomResourceDefinition reaches anyway.
	var out []*Type
	for _, t := range seen {
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
