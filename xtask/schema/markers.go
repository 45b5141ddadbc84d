package main

import (
	"encoding/json"
	"go/ast"
	"regexp"
	"sort"
	"strconv"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Gate is a feature gate of this release.
type Gate struct {
	Name    string `json:"name"`
	Default bool   `json:"default"`
	Locked  bool   `json:"locked,omitempty"`
	Stage   string `json:"stage"`
}

// gates lists every gate the API server knows, with its default.
func gates() []Gate {
	var out []Gate
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		stage := string(spec.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		out = append(out, Gate{string(name), spec.Default, spec.LockToDefault, stage})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

type comment struct {
	markers    []string
	deprecated bool
	gates      []string
}

var (
	proseGate  = regexp.MustCompile(`\b([A-Z][A-Za-z]{5,})\b`)
	deprecated = regexp.MustCompile(`^Deprecated[:. ]|^DEPRECATED|field is deprecated|now is deprecated|^deprecated[A-Z]`)
)

func readComment(g *ast.CommentGroup, known map[string]bool) comment {
	var c comment
	if g == nil {
		return c
	}
	for _, l := range g.List {
		line := strings.TrimSpace(strings.TrimPrefix(l.Text, "//"))
		if strings.HasPrefix(line, "+") {
			c.markers = append(c.markers, strings.TrimPrefix(line, "+"))
			continue
		}
		if deprecated.MatchString(line) {
			c.deprecated = true
		}
		if strings.Contains(strings.ToLower(line), "feature") {
			for _, m := range proseGate.FindAllString(line, -1) {
				if known[m] {
					c.gates = append(c.gates, m)
				}
			}
		}
	}
	return c
}

// fieldComments reads the comments of every struct field of the packages, keyed by package path, type and Go field name.
func fieldComments(packages map[string]string) map[[3]string]comment {
	known := map[string]bool{}
	for _, g := range gates() {
		known[g.Name] = true
	}
	out := map[[3]string]comment{}
	for path, dir := range packages {
		for _, file := range parseDir(dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				st, ok := spec.Type.(*ast.StructType)
				if !ok {
					return true
				}
				for _, f := range st.Fields.List {
					c := readComment(f.Doc, known)
					for _, name := range f.Names {
						out[[3]string{path, spec.Name.Name, name.Name}] = c
					}
				}
				return true
			})
		}
	}
	return out
}

// fromMarkers adds what only comments tell: gates, bounds, immutability, deprecation, unions.
func fromMarkers(types []*Type) {
	set := map[string]bool{}
	for _, t := range types {
		for _, f := range t.Fields {
			set[f.owner.PkgPath()] = true
		}
	}
	var paths []string
	for p := range set {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	comments := fieldComments(packageDirs(paths...))
	for _, t := range types {
		for _, f := range t.Fields {
			c, ok := comments[[3]string{f.owner.PkgPath(), f.owner.Name(), f.owner.Field(f.index[len(f.index)-1]).Name}]
			if !ok {
				continue
			}
			f.Deprecated = f.Deprecated || c.deprecated
			var marked []string
			for _, m := range c.markers {
				key, value, _ := strings.Cut(m, "=")
				applyMarker(f, key, value)
				if key == "featureGate" {
					marked = append(marked, strings.Split(value, ",")...)
				}
			}
			if len(marked) == 0 {
				marked = c.gates
			}
			f.Gate = strings.Join(unique(marked), ",")
		}
	}
}

func applyMarker(f *Field, key, value string) {
	number := func(into *any) {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && *into == nil {
			*into = n
		}
	}
	switch key {
	case "k8s:immutable":
		f.Immutable = true
	case "k8s:deprecated":
		f.Deprecated = true
	case "k8s:minimum", "kubebuilder:validation:Minimum":
		number(&f.Min)
	case "k8s:maximum", "kubebuilder:validation:Maximum":
		number(&f.Max)
	case "k8s:maxItems", "kubebuilder:validation:MaxItems":
		number(&f.MaxItems)
	case "k8s:maxLength", "kubebuilder:validation:MaxLength":
		number(&f.MaxLength)
	case "kubebuilder:validation:MinLength":
		number(&f.MinLength)
	case "k8s:format":
		if f.Format == "" {
			f.Format = value
		}
	case "oneOf", "zeroOrOneOf":
		f.Union = map[string]any{key: value}
	case "k8s:unionMember":
		f.Union = map[string]any{"oneOf": ""}
	case "k8s:zeroOrOneOfMember":
		f.Union = map[string]any{"zeroOrOneOf": ""}
	case "unionDiscriminator", "k8s:unionDiscriminator":
		f.Union = map[string]any{"is": "discriminator"}
	case "default":
		// The marker and what the defaulters do are compared in defaults.go.
		var v any
		if json.Unmarshal([]byte(value), &v) == nil && f.Documented == nil {
			f.Documented = v
		}
	}
}

func unique(in []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range in {
		if s = strings.TrimSpace(s); s != "" && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
