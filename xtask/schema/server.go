package main

import (
	"context"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"time"
	_ "unsafe" // for go:linkname

	"gopkg.in/go-jose/go-jose.v2/jwt"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdstorage "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiservicerest "k8s.io/kube-aggregator/pkg/registry/apiservice/rest"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	autoscalingrest "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batchrest "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	svmrest "k8s.io/kubernetes/pkg/registry/storagemigration/rest"
)

//go:linkname apiVersionPriorities k8s.io/kubernetes/cmd/kube-apiserver/app.apiVersionPriorities
var apiVersionPriorities map[schema.GroupVersion]controlplaneapiserver.APIServicePriority

// server is every REST storage that a default kube-apiserver installs, over a store that holds nothing.
type server struct {
	scheme   map[schema.GroupVersion]*runtime.Scheme
	storages map[schema.GroupVersion]map[string]rest.Storage
	legacy   *serverstorage.DefaultStorageFactory
}

// Group is one row of the /apis order.
type Group struct {
	Group    string   `json:"group"`
	Versions []string `json:"versions"`
}

// restOptions hands every store upstream's codec and prefix, and a storage that is never asked.
type restOptions struct {
	legacy *serverstorage.DefaultStorageFactory
}

func (o restOptions) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	var config *storagebackend.ConfigForResource
	prefix := gr.Group + "/" + gr.Resource
	switch gr.Group {
	case "apiextensions.k8s.io":
		// As upstream's CreateAPIExtensionsConfig sets it up; it still prefers v1beta1 because that is more compact.
		config = &storagebackend.ConfigForResource{GroupResource: gr}
		config.Codec = apiextensionsserver.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion)
	case "apiregistration.k8s.io":
		config = &storagebackend.ConfigForResource{GroupResource: gr}
		config.Codec = aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion)
	default:
		c, err := o.legacy.NewConfig(gr, example)
		if err != nil {
			return generic.RESTOptions{}, err
		}
		config, prefix = c, o.legacy.ResourcePrefix(gr)
	}
	return generic.RESTOptions{
		StorageConfig: config, ResourcePrefix: prefix, EnableGarbageCollection: true, DeleteCollectionWorkers: 1,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nothing{}, func() {}, nil
		},
	}, nil
}

// nothing is a storage nobody may use.
type nothing struct{ storage.Interface }

func (nothing) ReadinessCheck() error { return nil }

type noTokens struct{}

func (noTokens) GenerateToken(context.Context, *jwt.Claims, any) (string, error) {
	return "", fmt.Errorf("no tokens here")
}

func newServer() (*server, error) {
	s := &server{scheme: map[schema.GroupVersion]*runtime.Scheme{}, storages: map[schema.GroupVersion]map[string]rest.Storage{}}
	etcd := options.NewEtcdOptions(&storagebackend.Config{Prefix: kubeapiserverPrefix})
	etcd.StorageConfig.Transport.ServerList = []string{"http://127.0.0.1:1"}
	etcd.DefaultStorageMediaType = "application/vnd.kubernetes.protobuf"
	config := kubeapiserver.NewStorageFactoryConfig()
	resources := controlplane.DefaultAPIResourceConfigSource()
	config.APIResourceConfig = resources
	legacy, err := config.Complete(etcd).New()
	if err != nil {
		return nil, err
	}
	s.legacy = legacy
	getter := restOptions{legacy}
	loopback := &restclient.Config{Host: "https://127.0.0.1:1"}
	client, err := kubernetes.NewForConfig(loopback)
	if err != nil {
		return nil, err
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	allow := authorizerfactory.NewAlwaysAllowAuthorizer()
	coreConfig := corerest.GenericConfig{
		StorageFactory: legacy, EventTTL: time.Hour, ServiceAccountIssuer: noTokens{}, LoopbackClientConfig: loopback, Informers: shared,
	}
	core, err := coreStorages(&coreConfig, resources, getter, client)
	if err != nil {
		return nil, err
	}
	s.add(schema.GroupVersion{Version: "v1"}, legacyscheme.Scheme, core)
	providers := []controlplaneapiserver.RESTStorageProvider{
		authenticationrest.RESTStorageProvider{Authenticator: noRequests{}},
		authorizationrest.RESTStorageProvider{Authorizer: allow, RuleResolver: authorizerfactory.NewAlwaysAllowAuthorizer()},
		autoscalingrest.RESTStorageProvider{}, batchrest.RESTStorageProvider{}, certificatesrest.RESTStorageProvider{Authorizer: allow},
		coordinationrest.RESTStorageProvider{}, discoveryrest.StorageProvider{}, networkingrest.RESTStorageProvider{}, noderest.RESTStorageProvider{},
		policyrest.RESTStorageProvider{}, rbacrest.RESTStorageProvider{Authorizer: allow}, schedulingrest.RESTStorageProvider{}, storagerest.RESTStorageProvider{},
		svmrest.RESTStorageProvider{}, flowcontrolrest.RESTStorageProvider{InformerFactory: shared}, appsrest.StorageProvider{},
		admissionregistrationrest.RESTStorageProvider{Authorizer: allow, DiscoveryClient: client.Discovery()}, eventsrest.RESTStorageProvider{TTL: time.Hour},
		resourcerest.RESTStorageProvider{NamespaceClient: client.CoreV1().Namespaces()},
	}
	for _, p := range providers {
		info, err := p.NewRESTStorage(resources, getter)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.GroupName(), err)
		}
		for version, storages := range info.VersionedResourcesStorageMap {
			s.add(schema.GroupVersion{Group: p.GroupName(), Version: version}, legacyscheme.Scheme, storages)
		}
	}
	crds, err := crdstorage.NewREST(apiextensionsserver.Scheme, getter)
	if err != nil {
		return nil, err
	}
	s.add(apiextensionsv1.SchemeGroupVersion, apiextensionsserver.Scheme, map[string]rest.Storage{
		"customresourcedefinitions": crds, "customresourcedefinitions/status": crdstorage.NewStatusREST(apiextensionsserver.Scheme, crds),
	})
	apiServices := apiservicerest.NewRESTStorage(aggregatorserver.DefaultAPIResourceConfigSource(), getter, false)
	s.add(apiregistrationv1.SchemeGroupVersion, aggregatorscheme.Scheme, apiServices.VersionedResourcesStorageMap["v1"])
	return s, nil
}

const kubeapiserverPrefix = "/registry"

type noRequests struct{}

func (noRequests) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	return nil, false, nil
}

func (s *server) add(gv schema.GroupVersion, scheme *runtime.Scheme, storages map[string]rest.Storage) {
	if len(storages) > 0 {
		s.scheme[gv], s.storages[gv] = scheme, storages
	}
}

// groups is the order of /apis: by group priority, then version priority, as the aggregator sorts APIServices.
func (s *server) groups() ([]Group, map[schema.GroupVersion]bool) {
	served := map[schema.GroupVersion]bool{}
	var all []schema.GroupVersion
	for gv := range s.storages {
		served[gv] = true
		all = append(all, gv)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := priority(all[i]), priority(all[j])
		if a.Group != b.Group {
			return a.Group > b.Group
		}
		if all[i].Group != all[j].Group {
			return all[i].Group < all[j].Group
		}
		if a.Version != b.Version {
			return a.Version > b.Version
		}
		return all[i].Version < all[j].Version
	})
	var out []Group
	for _, gv := range all {
		if n := len(out); n > 0 && out[n-1].Group == gv.Group {
			out[n-1].Versions = append(out[n-1].Versions, gv.Version)
			continue
		}
		out = append(out, Group{gv.Group, []string{gv.Version}})
	}
	return out, served
}

// priority of a group-version; the aggregator's own group stands before all others but core.
func priority(gv schema.GroupVersion) controlplaneapiserver.APIServicePriority {
	p, ok := apiVersionPriorities[gv]
	if !ok && gv.Group == "apiregistration.k8s.io" {
		return controlplaneapiserver.APIServicePriority{Group: 17999, Version: 1}
	}
	if !ok {
		panic("no priority for " + gv.String())
	}
	return p
}

func split(path string) (resource, sub string) {
	resource, sub, _ = strings.Cut(path, "/")
	return
}
