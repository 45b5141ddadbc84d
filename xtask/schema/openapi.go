package main

import (
	"fmt"
	"strings"

	aggregatoropenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// definitions are the OpenAPI definitions that upstream's generator made from its Go types.
func definitions() map[string]common.OpenAPIDefinition {
	ref := func(path string) spec.Ref { return spec.MustCreateRef("#/definitions/" + path) }
	out := openapi.GetOpenAPIDefinitions(ref)
	for name, d := range aggregatoropenapi.GetOpenAPIDefinitions(ref) {
		if _, ok := out[name]; !ok {
			out[name] = d
		}
	}
	return out
}

func text(e spec.Extensions, key string) string {
	s, _ := e[key].(string)
	return s
}

// fromOpenAPI adds list, map, enum, required, format, bounds and union facts. problems lists disagreements.
func fromOpenAPI(types []*Type) (problems []string) {
	defs := definitions()
	atomic := map[string]string{}
	for _, t := range types {
		d, ok := defs[t.OpenAPI]
		if !ok {
			problems = append(problems, "no OpenAPI definition: "+t.Name)
			continue
		}
		t.Struct = text(d.Schema.Extensions, "x-kubernetes-map-type")
		atomic[t.Name] = t.Struct
		required := map[string]bool{}
		for _, r := range d.Schema.Required {
			required[r] = true
		}
		for _, f := range t.Fields {
			p, ok := d.Schema.Properties[f.Name]
			if !ok {
				problems = append(problems, fmt.Sprintf("%s.%s: not in OpenAPI", t.Name, f.Name))
				continue
			}
			f.Required = required[f.Name]
			e := p.Extensions
			isList, isMap := strings.HasPrefix(f.Type, "[]"), strings.HasPrefix(f.Type, "map[")
			f.List = text(e, "x-kubernetes-list-type")
			if keys, ok := e["x-kubernetes-list-map-keys"].([]any); ok {
				for _, k := range keys {
					f.Keys = append(f.Keys, k.(string))
				}
			}
			if f.List != "" && !isList {
				problems = append(problems, fmt.Sprintf("%s.%s: list type on %s", t.Name, f.Name, f.Type))
				f.List, f.Keys = "", nil
			}
			if m := text(e, "x-kubernetes-map-type"); m != "" {
				if isMap {
					f.Map = m
				} else {
					f.Struct = m
				}
			}
			if s := text(e, "x-kubernetes-patch-strategy"); s != f.Patch {
				problems = append(problems, fmt.Sprintf("%s.%s: patch strategy %q in the tag, %q in OpenAPI", t.Name, f.Name, f.Patch, s))
			}
			if s := text(e, "x-kubernetes-patch-merge-key"); s != f.MergeKey {
				problems = append(problems, fmt.Sprintf("%s.%s: merge key %q in the tag, %q in OpenAPI", t.Name, f.Name, f.MergeKey, s))
			}
			for _, v := range p.Enum {
				f.Enum = append(f.Enum, fmt.Sprint(v))
			}
			if isList && p.Items != nil && p.Items.Schema != nil {
				for _, v := range p.Items.Schema.Enum {
					f.Enum = append(f.Enum, fmt.Sprint(v))
				}
			}
			if ownFormat(f.Type) != p.Format {
				f.Format = p.Format
			}
			f.Min, f.Max = bound(p.Minimum), bound(p.Maximum)
			f.MinLength, f.MaxLength = bound(p.MinLength), bound(p.MaxLength)
			f.MinItems, f.MaxItems = bound(p.MinItems), bound(p.MaxItems)
			f.Pattern = p.Pattern
			if p.Default != nil && !zeroDefault(p.Default) {
				f.Documented = p.Default
			}
		}
		if unions, ok := d.Schema.Extensions["x-kubernetes-unions"].([]any); ok {
			applyUnions(t, unions)
		}
	}
	for _, t := range types {
		for _, f := range t.Fields {
			if strings.HasPrefix(f.Type, "[]") && f.List == "" {
				f.List = "atomic"
			}
			if f.Struct == "" && !strings.HasPrefix(f.Type, "[]") && !strings.HasPrefix(f.Type, "map[") {
				f.Struct = atomic[f.Type]
			}
		}
	}
	return problems
}

// ownFormat is the OpenAPI format a type has by itself.
func ownFormat(t string) string {
	switch t {
	case "int32", "int64":
		return t
	case "float64":
		return "double"
	case "bytes":
		return "byte"
	case "Time", "MicroTime":
		return "date-time"
	case "IntOrString":
		return "int-or-string"
	}
	return ""
}

func bound[T int64 | float64](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func zeroDefault(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case bool:
		return !v
	case int:
		return v == 0
	case int64:
		return v == 0
	case float64:
		return v == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// applyUnions writes each member's discriminator, value and siblings' group number.
func applyUnions(t *Type, unions []any) {
	for n, u := range unions {
		m, ok := u.(map[string]any)
		if !ok {
			continue
		}
		discriminator, _ := m["discriminator"].(string)
		members, _ := m["fields-to-discriminateBy"].(map[string]any)
		for _, f := range t.Fields {
			if v, ok := members[f.Name]; ok {
				f.Union = map[string]any{"group": n, "value": v, "discriminator": discriminator}
			}
			if discriminator != "" && f.Name == discriminator {
				f.Union = map[string]any{"group": n, "is": "discriminator"}
			}
		}
	}
}
