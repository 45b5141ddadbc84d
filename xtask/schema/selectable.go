package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"sort"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// selectable asks the scheme's own conversion function about every candidate label.
func selectable(scheme *runtime.Scheme, gvk schema.GroupVersionKind) []string {
	out := []string{}
	for _, l := range candidateLabels() {
		if _, _, err := scheme.ConvertFieldLabel(gvk, l, "x"); err == nil {
			out = append(out, l)
		}
	}
	return out
}

var labelForm = regexp.MustCompile(`^[a-z][A-Za-z]*(\.[a-zA-Z]+)*$`)

// candidateLabels are the strings that upstream's conversion code mentions and that look like a field path: a conversion function
// cannot be enumerated, only asked.
var candidateLabels = sync.OnceValue(func() []string {
	set := map[string]bool{"metadata.name": true, "metadata.namespace": true}
	for _, dir := range conversionDirs() {
		for _, file := range parseDir(dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if s, err := strconv.Unquote(l.Value); err == nil && labelForm.MatchString(s) {
						set[s] = true
					}
				}
				return true
			})
		}
	}
	var out []string
	for l := range set {
		out = append(out, l)
	}
	sort.Strings(out)
	return out
})
