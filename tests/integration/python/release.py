"""Helm's own SDK: install with hooks and wait, upgrade, a failed upgrade, rollback, history, uninstall. Prints "ok" at the end."""

import os
import sys

from helm_python import Chart, Config, HelmError
from kubernetes import client, config

kubeconfig, folder = os.environ["KUBECONFIG"], sys.argv[1]
config.load_kube_config()
core, apps = client.CoreV1Api(), client.AppsV1Api()
helm = Config(kubeconfig_path=kubeconfig, namespace="default")
helm.check_reachable()


def install(action, values):
    with Chart.load(folder) as chart:
        return action(chart, "web", values, namespace="default", wait="watcher", timeout=120)


def replicas():
    return apps.read_namespaced_deployment("web", "default").status.ready_replicas


install(helm.install, {"replicas": 2})
assert replicas() == 2
# The hook ran first, and its pod is kept, done.
assert core.read_namespaced_pod("web-before", "default").status.phase == "Succeeded"
owner = apps.read_namespaced_deployment("web", "default").metadata
assert owner.labels["app.kubernetes.io/managed-by"] == "Helm", owner.labels
assert owner.annotations["meta.helm.sh/release-name"] == "web", owner.annotations

install(helm.upgrade, {"replicas": 3})
assert replicas() == 3

try:
    install(helm.upgrade, {"replicas": -1})
except HelmError as refused:
    assert "replicas" in str(refused), refused
else:
    raise AssertionError("a negative count must be refused")

helm.rollback("web", version=1, wait="watcher", timeout=120)
assert replicas() == 2
history = [(release["revision"], release["status"]) for release in helm.history("web")]
assert history == [(1, "superseded"), (2, "superseded"), (3, "failed"), (4, "deployed")], history

helm.uninstall("web", wait="watcher", timeout=120)
assert not apps.list_namespaced_deployment("default").items
assert not core.list_namespaced_secret("default", label_selector="owner=helm").items
print("ok")
