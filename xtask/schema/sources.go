package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
)

// packageDirs asks the go command where the packages of a pattern lie.
func packageDirs(patterns ...string) map[string]string {
	cmd := exec.Command("go", append([]string{"list", "-f", "{{.ImportPath}} {{.Dir}}"}, patterns...)...)
	out, err := cmd.Output()
	if err != nil {
		panic("go list " + strings.Join(patterns, " ") + ": " + err.Error())
	}
	dirs := map[string]string{}
	for _, l := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, dir, _ := strings.Cut(l, " ")
		dirs[path] = dir
	}
	return dirs
}

// conversionDirs are the packages that hold upstream's conversions and the constants they use, field labels among them.
var conversionDirs = sync.OnceValue(func() []string {
	var out []string
	for path, dir := range packageDirs("k8s.io/api/...", "k8s.io/kubernetes/pkg/apis/...", "k8s.io/apiextensions-apiserver/pkg/apis/...", "k8s.io/kube-aggregator/pkg/apis/...") {
		if strings.HasPrefix(filepath.Base(path), "v") {
			out = append(out, dir)
		}
	}
	sort.Strings(out)
	return out
})

// parseDir parses the hand-written files of a package.
func parseDir(dir string) []*ast.File {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		panic(err)
	}
	sort.Strings(names)
	var out []*ast.File
	for _, n := range names {
		base := filepath.Base(n)
		if strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_") || strings.HasPrefix(base, "generated") || strings.HasPrefix(base, "types_swagger") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), n, nil, parser.ParseComments)
		if err != nil {
			panic(err)
		}
		out = append(out, f)
	}
	return out
}
