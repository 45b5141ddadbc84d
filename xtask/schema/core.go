package main

import (
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/kubernetes"
	api "k8s.io/kubernetes/pkg/apis/core"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/kubernetes/pkg/registry/core/componentstatus"
	endpointsstore "k8s.io/kubernetes/pkg/registry/core/endpoint/storage"
	limitrangestore "k8s.io/kubernetes/pkg/registry/core/limitrange/storage"
	nodestore "k8s.io/kubernetes/pkg/registry/core/node/storage"
	pvstore "k8s.io/kubernetes/pkg/registry/core/persistentvolume/storage"
	pvcstore "k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	podtemplatestore "k8s.io/kubernetes/pkg/registry/core/podtemplate/storage"
	controllerstore "k8s.io/kubernetes/pkg/registry/core/replicationcontroller/storage"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// coreStorages wires the storages of the core group. Upstream's own constructor asks etcd for the service ports before it
// returns anything, so the stores it would make are made here one by one, with allocators in memory.
func coreStorages(c *corerest.GenericConfig, resources serverstorage.APIResourceConfigSource, getter generic.RESTOptionsGetter, client kubernetes.Interface) (map[string]rest.Storage, error) {
	info, err := c.NewRESTStorage(resources, getter)
	if err != nil {
		return nil, err
	}
	out := info.VersionedResourcesStorageMap["v1"]
	transport := &http.Transport{}
	templates, err := podtemplatestore.NewREST(getter)
	if err != nil {
		return nil, err
	}
	limits, err := limitrangestore.NewREST(getter)
	if err != nil {
		return nil, err
	}
	pv, pvStatus, err := pvstore.NewREST(getter)
	if err != nil {
		return nil, err
	}
	pvc, pvcStatus, err := pvcstore.NewREST(getter)
	if err != nil {
		return nil, err
	}
	endpoints, err := endpointsstore.NewREST(getter)
	if err != nil {
		return nil, err
	}
	node, err := nodestore.NewStorage(getter, kubeletclient.KubeletClientConfig{PreferredAddressTypes: []string{"InternalIP"}, Port: 10250, ReadOnlyPort: 10255}, transport)
	if err != nil {
		return nil, err
	}
	pod, err := podstore.NewStorage(getter, node.KubeletConnectionInfo, transport, client.PolicyV1(), authorizerfactory.NewAlwaysAllowAuthorizer())
	if err != nil {
		return nil, err
	}
	_, serviceNet, err := net.ParseCIDR("10.96.0.0/16")
	if err != nil {
		return nil, err
	}
	addresses, err := ipallocator.NewInMemory(serviceNet)
	if err != nil {
		return nil, err
	}
	ports, err := portallocator.NewInMemory(utilnet.PortRange{Base: 30000, Size: 2768})
	if err != nil {
		return nil, err
	}
	service, serviceStatus, serviceProxy, err := servicestore.NewREST(getter, api.IPv4Protocol, map[api.IPFamily]ipallocator.Interface{api.IPv4Protocol: addresses}, ports, endpoints, pod.Pod, transport)
	if err != nil {
		return nil, err
	}
	controllers, err := controllerstore.NewStorage(getter)
	if err != nil {
		return nil, err
	}
	for path, s := range map[string]rest.Storage{
		"pods": pod.Pod, "pods/attach": pod.Attach, "pods/status": pod.Status, "pods/log": pod.Log, "pods/exec": pod.Exec, "pods/portforward": pod.PortForward,
		"pods/proxy": pod.Proxy, "pods/binding": pod.Binding, "pods/eviction": pod.Eviction, "pods/ephemeralcontainers": pod.EphemeralContainers,
		"pods/resize": pod.Resize, "bindings": pod.LegacyBinding, "podtemplates": templates,
		"replicationcontrollers": controllers.Controller, "replicationcontrollers/status": controllers.Status, "replicationcontrollers/scale": controllers.Scale,
		"services": service, "services/proxy": serviceProxy, "services/status": serviceStatus, "endpoints": endpoints,
		"nodes": node.Node, "nodes/proxy": node.Proxy, "nodes/status": node.Status, "limitranges": limits,
		"persistentvolumes": pv, "persistentvolumes/status": pvStatus, "persistentvolumeclaims": pvc, "persistentvolumeclaims/status": pvcStatus,
		"componentstatuses": componentstatus.NewStorage(func() map[string]componentstatus.Server { return nil }),
	} {
		out[path] = s
	}
	return out, nil
}
