package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Row is one served resource.
type Row struct {
	Group               string              `json:"group"`
	Version             string              `json:"version"`
	Resource            string              `json:"resource"`
	Singular            string              `json:"singular"`
	Kind                string              `json:"kind"`
	Namespaced          bool                `json:"namespaced"`
	ShortNames          []string            `json:"shortNames"`
	Categories          []string            `json:"categories"`
	Verbs               []string            `json:"verbs"`
	Type                string              `json:"type"`
	ListType            string              `json:"listType,omitempty"`
	Subresources        []Subresource       `json:"subresources"`
	Storage             *Storage            `json:"storage,omitempty"`
	Selectable          []string            `json:"selectable"`
	Columns             []Column            `json:"columns"`
	Reset               map[string][]string `json:"reset"`
	CreateOnUpdate      bool                `json:"createOnUpdate"`
	UnconditionalUpdate bool                `json:"unconditionalUpdate"`
	ReturnsObject       bool                `json:"returnsObject"`
	Graceful            bool                `json:"graceful"`
	Generation          bool                `json:"generation"`
}

// Subresource is an endpoint below a resource. Connect names the methods of streaming and proxy endpoints, which discovery hides.
type Subresource struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Group   string   `json:"group"`
	Version string   `json:"version"`
	Type    string   `json:"type"`
	Verbs   []string `json:"verbs"`
	Connect []string `json:"connect,omitempty"`
}

// Storage says where and how objects lie in etcd.
type Storage struct {
	Prefix   string  `json:"prefix"`
	Version  string  `json:"version"`
	Encoding string  `json:"encoding"`
	Group    *string `json:"group,omitempty"`
}

// Column is a printed column.
type Column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Format   string `json:"format"`
	Priority int32  `json:"priority"`
}

// rows are the served resources in the order of discovery.
func (s *server) rows(groups []Group) ([]*Row, error) {
	var rows []*Row
	for _, g := range groups {
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Group, Version: v}
			paths := sets.List(sets.KeySet(s.storages[gv]))
			for _, p := range paths {
				if strings.Contains(p, "/") {
					continue
				}
				row, err := s.row(gv, p, paths)
				if err != nil {
					return nil, fmt.Errorf("%v %s: %w", gv, p, err)
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func (s *server) row(gv schema.GroupVersion, path string, paths []string) (*Row, error) {
	storage, scheme := s.storages[gv][path], s.scheme[gv]
	gvk, err := endpoints.GetResourceKind(gv, storage, scheme)
	if err != nil {
		return nil, err
	}
	t, err := goType(scheme, gvk)
	if err != nil {
		return nil, err
	}
	row := &Row{Group: gv.Group, Version: gv.Version, Resource: path, Kind: gvk.Kind, Type: typeName(t),
		ShortNames: []string{}, Categories: []string{}, Subresources: []Subresource{}, Selectable: []string{}, Columns: []Column{}, Reset: map[string][]string{}}
	row.Verbs, _ = verbs(storage)
	row.Namespaced = storage.(rest.Scoper).NamespaceScoped()
	if n, ok := storage.(rest.SingularNameProvider); ok {
		row.Singular = n.GetSingularName()
	}
	if n, ok := storage.(rest.ShortNamesProvider); ok {
		row.ShortNames = append(row.ShortNames, n.ShortNames()...)
	}
	if n, ok := storage.(rest.CategoriesProvider); ok {
		row.Categories = append(row.Categories, n.Categories()...)
	}
	if l, ok := storage.(rest.Lister); ok {
		listKinds, _, err := scheme.ObjectKinds(l.NewList())
		if err != nil {
			return nil, err
		}
		lt, err := goType(scheme, gv.WithKind(listKinds[0].Kind))
		if err != nil {
			return nil, err
		}
		row.ListType = typeName(lt)
		if row.Columns, err = columns(l); err != nil {
			return nil, err
		}
	}
	for _, p := range paths {
		resource, sub := split(p)
		if resource != path || sub == "" {
			continue
		}
		st := s.storages[gv][p]
		k, err := endpoints.GetResourceKind(gv, st, scheme)
		if err != nil {
			return nil, err
		}
		t, err := goType(scheme, k)
		if err != nil {
			return nil, err
		}
		v, c := verbs(st)
		row.Subresources = append(row.Subresources, Subresource{sub, k.Kind, k.Group, k.Version, typeName(t), v, c})
		if r := reset(st, gv); r != nil {
			row.Reset[sub] = r
		}
	}
	if r := reset(storage, gv); r != nil {
		row.Reset[""] = r
	}
	if d, ok := storage.(rest.MayReturnFullObjectDeleter); ok {
		row.ReturnsObject = d.DeleteReturnsDeletedObject()
	}
	store := findStore(reflect.ValueOf(storage), 0)
	if store == nil {
		return row, nil
	}
	row.Storage, err = stored(store, gvk, row.Namespaced)
	if err != nil {
		return nil, err
	}
	row.ReturnsObject = row.ReturnsObject || store.ReturnDeletedObject
	if store.UpdateStrategy != nil {
		row.CreateOnUpdate, row.UnconditionalUpdate = store.UpdateStrategy.AllowCreateOnUpdate(), store.UpdateStrategy.AllowUnconditionalUpdate()
	}
	_, row.Graceful = store.DeleteStrategy.(rest.RESTGracefulDeleteStrategy)
	row.Generation, err = maintainsGeneration(store, row.Namespaced)
	if err != nil {
		return nil, err
	}
	row.Selectable = selectable(scheme, gvk)
	return row, nil
}

func goType(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (reflect.Type, error) {
	o, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return reflect.TypeOf(o).Elem(), nil
}

// verbs applies the rule of upstream's installer: what a storage can do is what it is served for.
func verbs(s rest.Storage) (kube, connect []string) {
	set := sets.New[string]()
	has := func(ok bool, v ...string) {
		if ok {
			set.Insert(v...)
		}
	}
	_, getter := s.(rest.Getter)
	_, withOptions := s.(rest.GetterWithOptions)
	has(getter || withOptions, "get")
	_, ok := s.(rest.Lister)
	has(ok, "list")
	_, creater := s.(rest.Creater)
	_, named := s.(rest.NamedCreater)
	has(creater || named, "create")
	_, ok = s.(rest.Updater)
	has(ok, "update")
	_, ok = s.(rest.Patcher)
	has(ok, "patch")
	_, ok = s.(rest.GracefulDeleter)
	has(ok, "delete")
	_, ok = s.(rest.CollectionDeleter)
	has(ok, "deletecollection")
	_, ok = s.(rest.Watcher)
	has(ok, "watch")
	if c, ok := s.(rest.Connecter); ok {
		connect = append(connect, c.ConnectMethods()...)
		for _, m := range connect {
			// Discovery names the verb of each HTTP method that a connecter answers.
			set.Insert(map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[m])
		}
		set.Delete("")
		sort.Strings(connect)
	}
	return sets.List(set), connect
}

func columns(c rest.TableConvertor) ([]Column, error) {
	l := c.(rest.Lister).NewList()
	table, err := c.ConvertToTable(context.Background(), l, &metav1.TableOptions{})
	if err != nil {
		return nil, err
	}
	out := []Column{}
	for _, d := range table.ColumnDefinitions {
		out = append(out, Column{d.Name, d.Type, d.Format, d.Priority})
	}
	return out, nil
}

// reset are the dotted paths an endpoint's strategy puts back, in the row's own version.
func reset(s rest.Storage, gv schema.GroupVersion) []string {
	r, ok := s.(rest.ResetFieldsStrategy)
	if !ok {
		return nil
	}
	set := r.GetResetFields()[fieldpath.APIVersion(gv.String())]
	if set == nil {
		return nil
	}
	var out []string
	set.Iterate(func(p fieldpath.Path) { out = append(out, strings.TrimPrefix(p.String(), ".")) })
	sort.Strings(out)
	return out
}

// findStore looks for the generic store inside a REST storage, wherever its author keeps it.
func findStore(v reflect.Value, depth int) *genericregistry.Store {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil
		}
		if v.Kind() == reflect.Pointer && v.Type() == reflect.TypeFor[*genericregistry.Store]() {
			return (*genericregistry.Store)(unsafe.Pointer(v.Pointer()))
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || depth > 3 {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); !f.Anonymous && f.Name != "store" {
			continue
		}
		if s := findStore(v.Field(i), depth+1); s != nil {
			return s
		}
	}
	return nil
}

// stored encodes an empty object as the store would and looks at the bytes.
func stored(store *genericregistry.Store, gvk schema.GroupVersionKind, namespaced bool) (*Storage, error) {
	b, err := runtime.Encode(store.Storage.Codec, store.NewFunc())
	if err != nil {
		return nil, err
	}
	out := &Storage{Encoding: "json"}
	var tm metav1.TypeMeta
	if raw, ok := bytes.CutPrefix(b, []byte("k8s\x00")); ok {
		out.Encoding = "protobuf"
		var u runtime.Unknown
		if err := u.Unmarshal(raw); err != nil {
			return nil, err
		}
		tm.APIVersion, tm.Kind = u.APIVersion, u.Kind
	} else if err := json.Unmarshal(b, &tm); err != nil {
		return nil, err
	}
	sgv, err := schema.ParseGroupVersion(tm.APIVersion)
	if err != nil {
		return nil, err
	}
	out.Version = sgv.Version
	if sgv.Group != gvk.Group {
		out.Group = &sgv.Group
	}
	ctx := genericapirequest.NewContext()
	if namespaced {
		ctx = genericapirequest.WithNamespace(ctx, "n")
	}
	root := store.KeyRootFunc(ctx)
	if namespaced {
		root = strings.TrimSuffix(strings.TrimSuffix(root, "/"), "/n")
	}
	out.Prefix = kubeapiserverPrefix + root
	return out, nil
}

// maintainsGeneration runs the create strategy on an object and looks whether it set metadata.generation: first on an empty one,
// then, for strategies that rely on defaults, on one whose pointers all point somewhere.
func maintainsGeneration(store *genericregistry.Store, namespaced bool) (bool, error) {
	if store.CreateStrategy == nil {
		return false, nil
	}
	found, err := runCreate(store, store.NewFunc(), namespaced)
	if err == nil || found {
		return found, nil
	}
	full := store.NewFunc()
	allocate(reflect.ValueOf(full).Elem(), 6)
	found, err = runCreate(store, full, namespaced)
	if found {
		return true, nil
	}
	return found, err
}

func runCreate(store *genericregistry.Store, o runtime.Object, namespaced bool) (found bool, err error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return false, err
	}
	defer func() {
		if r := recover(); r != nil {
			found, err = m.GetGeneration() == 1, fmt.Errorf("create strategy panicked: %v", r)
		}
	}()
	m.SetGeneration(0)
	ctx := genericapirequest.NewContext()
	if namespaced {
		m.SetNamespace("n")
		ctx = genericapirequest.WithNamespace(ctx, "n")
	}
	store.CreateStrategy.PrepareForCreate(ctx, o)
	return m.GetGeneration() == 1, nil
}

// allocate makes every pointer below v point to a zero value.
func allocate(v reflect.Value, depth int) {
	switch {
	case depth == 0:
	case v.Kind() == reflect.Pointer && v.CanSet():
		v.Set(reflect.New(v.Type().Elem()))
		allocate(v.Elem(), depth-1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				allocate(v.Field(i), depth-1)
			}
		}
	}
}
