"""The official Python client: typed, dynamic and watching, errors and their bodies. Prints "ok" at the end."""

import json
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

config.load_kube_config()
core, apps = client.CoreV1Api(), client.AppsV1Api()


def expect(code, reason, call):
    """A call that must be refused, with the Status that says why."""
    try:
        call()
    except ApiException as refused:
        status = json.loads(refused.body)
        assert (refused.status, status["reason"]) == (code, reason), (refused.status, status)
    else:
        raise AssertionError(f"{reason} expected")


def labelled(app):
    return client.V1ObjectMeta(labels={"app": app})


# Typed: a Deployment, scaled by a patch, followed by a watch until all its pods run.
container = client.V1Container(name="c", image="registry.k8s.io/pause:3.10")
template = client.V1PodTemplateSpec(metadata=labelled("py"), spec=client.V1PodSpec(containers=[container]))
selector = client.V1LabelSelector(match_labels={"app": "py"})
spec = client.V1DeploymentSpec(replicas=1, selector=selector, template=template)
deployment = client.V1Deployment(metadata=client.V1ObjectMeta(name="py"), spec=spec)
made = apps.create_namespaced_deployment("default", deployment)
assert made.metadata.uid and made.spec.strategy.type == "RollingUpdate", made
expect(409, "AlreadyExists", lambda: apps.create_namespaced_deployment("default", deployment))
expect(404, "NotFound", lambda: core.read_namespaced_pod("nobody", "default"))
apps.patch_namespaced_deployment("py", "default", {"spec": {"replicas": 3}})
assert apps.read_namespaced_deployment_scale("py", "default").spec.replicas == 3

running = set()
for event in watch.Watch().stream(
    core.list_namespaced_pod, "default", label_selector="app=py", timeout_seconds=60
):
    pod = event["object"]
    if pod.status.phase == "Running":
        running.add(pod.metadata.name)
    if len(running) == 3:
        break
assert len(running) == 3, running

# A list in pages has every pod once.
names, token = [], None
while token != "":
    page = core.list_namespaced_pod("default", limit=2, _continue=token)
    names += [pod.metadata.name for pod in page.items]
    token = page.metadata._continue or ""
assert sorted(names) == sorted(running), names

# Optimistic concurrency: of two writers with the same resourceVersion one is refused.
settings = core.create_namespaced_config_map(
    "default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="settings"), data={"a": "1"})
)
core.replace_namespaced_config_map("settings", "default", settings)
settings.data["a"] = "2"
core.replace_namespaced_config_map("settings", "default", settings)
expect(409, "Conflict", lambda: core.replace_namespaced_config_map("settings", "default", settings))

# Dynamic: discovery, create, apply, merge patch, watch, delete.
api = dynamic.DynamicClient(client.ApiClient())
services = api.resources.get(api_version="v1", kind="Service")
body = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "py"},
    "spec": {"selector": {"app": "py"}, "ports": [{"port": 80}]},
}
address = services.create(body=body, namespace="default").spec.clusterIP
assert address.startswith("10.96."), address
seen, ready = [], threading.Event()


def follow():
    stream = services.watch(namespace="default", name="py", timeout=60)
    for event in stream:
        seen.append((event["type"], event["object"].metadata.annotations))
        ready.set()
        if event["type"] == "DELETED":
            return


follower = threading.Thread(target=follow)
follower.start()
assert ready.wait(60)
patch = {"metadata": {"name": "py", "annotations": {"by": "patch"}}}
services.patch(body=patch, name="py", namespace="default", content_type="application/merge-patch+json")
applied = {**body, "metadata": {"name": "py", "labels": {"by": "apply"}}}
services.server_side_apply(
    body=applied, name="py", namespace="default", field_manager="py", force_conflicts=True
)
services.delete(name="py", namespace="default")
follower.join(60)
kinds = [kind for kind, _ in seen]
assert kinds[0] == "ADDED" and kinds[-1] == "DELETED" and kinds.count("MODIFIED") == 2, seen

apps.delete_namespaced_deployment("py", "default", propagation_policy="Foreground")
for event in watch.Watch().stream(
    apps.list_namespaced_deployment, "default", field_selector="metadata.name=py", timeout_seconds=60
):
    if event["type"] == "DELETED":
        break
else:
    raise AssertionError("the deployment is still there")
print("ok")
