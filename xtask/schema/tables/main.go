// Command tables prints objects as upstream's servers do: it reads objects in their served JSON form, one a line, and writes each with
// the cells of its table row and the moment for which they were made.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
)

// row is one object with its cells.
type row struct {
	Object    json.RawMessage `json:"object"`
	NowMicros int64           `json:"now"`
	Cells     []any           `json:"cells"`
	Completed string          `json:"completed,omitempty"`
}

func main() {
	in := flag.String("in", "", "objects, one a line; a line may hold the object in a field \"json\"; .gz is unpacked")
	flag.Parse()
	if err := run(*in); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var reader io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if reader, err = gzip.NewReader(file); err != nil {
			return err
		}
	}
	generator := printers.NewTableGenerator().With(printersinternal.AddHandlers)
	lines := bufio.NewScanner(reader)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := bytes.Clone(lines.Bytes())
		var sample struct {
			JSON string `json:"json"`
		}
		if json.Unmarshal(line, &sample) == nil && sample.JSON != "" {
			line = []byte(sample.JSON)
		}
		if err := one(generator, line); err != nil {
			fmt.Fprintln(os.Stderr, "tables: left out:", err)
		}
	}
	return lines.Err()
}

func one(generator printers.TableGenerator, line []byte) (err error) {
	defer func() {
		// Random objects may be ones that no validation would let in; a printer may panic on them.
		if r := recover(); r != nil {
			err = fmt.Errorf("%.80s: panic: %v", line, r)
		}
	}()
	var meta runtime.TypeMeta
	if err := json.Unmarshal(line, &meta); err != nil {
		return err
	}
	gvk := schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind)
	external, err := legacyscheme.Scheme.New(gvk)
	if err != nil {
		return err
	}
	// Without defaulting: stored objects had theirs.
	if err := json.Unmarshal(line, external); err != nil {
		return err
	}
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(external, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return err
	}
	now := time.Now()
	table, err := generator.GenerateTable(internal, printers.GenerateOptions{Wide: true})
	if err != nil {
		return err
	}
	if len(table.Rows) != 1 {
		return fmt.Errorf("%.80s: %d rows", line, len(table.Rows))
	}
	out := row{Object: line, NowMicros: now.UnixMicro(), Cells: table.Rows[0].Cells}
	for _, condition := range table.Rows[0].Conditions {
		out.Completed = condition.Reason + ": " + condition.Message
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}
