// Command schema reflects over upstream's own Go types and writes the facts that Oarlock is built from.
// See README.md for what comes from where.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

const release = "v1.35.0"

func main() {
	out := flag.String("out", "", "the data file to write; empty writes to standard output")
	verbose := flag.Bool("v", false, "print disagreements between upstream's sources")
	flag.Parse()
	data, problems, err := generate()
	if err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
	if *verbose {
		for _, p := range problems {
			fmt.Fprintln(os.Stderr, p)
		}
	}
	if *out == "" {
		os.Stdout.Write(data)
		return
	}
	if err := os.WriteFile(*out, data, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func generate() ([]byte, []string, error) {
	server, err := newServer()
	if err != nil {
		return nil, nil, err
	}
	groups, served := server.groups()
	rootTypes, kinds := roots(served)
	types := walk(rootTypes)
	for _, t := range types {
		t.GVK = kinds[t.typ]
	}
	problems := fromOpenAPI(types)
	fromMarkers(types)
	problems = append(problems, fromDefaulters(types, kinds)...)
	rows, err := server.rows(groups)
	if err != nil {
		return nil, nil, err
	}
	return render(types, groups, rows), problems, nil
}

// line encodes one value on one line, HTML characters kept as they are.
func line(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// render writes one line per field, group and resource, so that the next release is a reviewable diff.
func render(types []*Type, groups []Group, rows []*Row) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n\"kubernetes\":%q,\n\"types\":[\n", release)
	for i, t := range types {
		fields := t.Fields
		t.Fields = nil
		head := bytes.TrimSuffix(line(t), []byte("null}"))
		b.Write(head)
		b.WriteString("[\n")
		for j, f := range fields {
			b.WriteString("  ")
			b.Write(line(f))
			comma(&b, j, len(fields))
		}
		b.WriteString("]}")
		t.Fields = fields
		comma(&b, i, len(types))
	}
	b.WriteString("],\n\"groups\":[\n")
	for i, g := range groups {
		b.Write(line(g))
		comma(&b, i, len(groups))
	}
	b.WriteString("],\n\"resources\":[\n")
	for i, r := range rows {
		b.Write(line(r))
		comma(&b, i, len(rows))
	}
	b.WriteString("],\n\"gates\":[\n")
	all := gates()
	for i, g := range all {
		b.Write(line(g))
		comma(&b, i, len(all))
	}
	b.WriteString("]\n}\n")
	return b.Bytes()
}

func comma(b *bytes.Buffer, i, n int) {
	if i+1 < n {
		b.WriteByte(',')
	}
	b.WriteByte('\n')
}
