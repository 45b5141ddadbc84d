#!/usr/bin/env python3
"""Records what a live kube-scheduler decides, for `src/tests/upstream.rs` to compare with.

Usage: record.py URL CA CERT KEY OUT [SEED...]   (an admin's client certificate; a cluster without nodes of its own,
in which no controller taints nodes: run kube-controller-manager with --controllers=serviceaccount)

Each scenario makes random nodes, services and pods, one pod at a time, and writes down the objects as the API
returns them together with the node that was chosen, or the text of the refusal. One JSON document per line.
"""
import json, random, ssl, sys, time, http.client, urllib.parse

url, ca, cert, key, out = sys.argv[1:6]
seeds = [int(seed) for seed in sys.argv[6:]] or [1]
context = ssl.create_default_context(cafile=ca)
context.load_cert_chain(cert, key)
host = urllib.parse.urlparse(url).netloc
link = http.client.HTTPSConnection(host, context=context)


def call(method, path, body=None, kind="application/json"):
    link.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
    answer = link.getresponse()
    data = json.loads(answer.read())
    if answer.status >= 400 and answer.status != 404:
        raise RuntimeError(f"{method} {path}: {data.get('message')}")
    return data


def trim(value):
    """Leaves out what no scheduler reads."""
    value.pop("apiVersion", None), value.pop("kind", None)
    for field in ("managedFields", "creationTimestamp", "annotations"):
        value["metadata"].pop(field, None)
    spec, status = value.get("spec", {}), value.get("status", {})
    for field in ("volumes", "serviceAccount", "serviceAccountName", "enableServiceLinks", "dnsPolicy", "restartPolicy", "securityContext", "terminationGracePeriodSeconds", "ports", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity", "finalizers"):
        spec.pop(field, None)
    for container in spec.get("containers", []):
        for field in ("volumeMounts", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"):
            container.pop(field, None)
    for field in ("capacity", "daemonEndpoints", "nodeInfo", "qosClass", "phase", "loadBalancer"):
        status.pop(field, None)
    return value


def scenario(seed, sink):
    rng = random.Random(seed)
    emit = lambda **line: sink.write(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n")
    emit(scenario=seed)
    some = lambda chance: rng.random() < chance
    for name in ("red", "blue"):
        call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"team": name[0]}}})
        emit(namespace=trim(call("GET", f"/api/v1/namespaces/{name}")))
    while any(call("GET", f"/api/v1/namespaces/{n}/serviceaccounts/default").get("kind") == "Status" for n in ("red", "blue")):
        time.sleep(0.05)
    count = rng.randint(6, 14)
    for number in range(count):
        name = f"n{number}"
        labels = {"kubernetes.io/hostname": name, "disk": rng.choice(["ssd", "hdd"]), "gen": str(rng.randint(1, 9))}
        if some(0.85):
            labels["topology.kubernetes.io/zone"] = f"z{number % 3}"
        taints = [{"key": "soft", "value": "x", "effect": "PreferNoSchedule"}] if some(0.3) else []
        taints += [{"key": "hard", "value": "x", "effect": "NoSchedule"}] if some(0.2) else []
        call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": some(0.08)}})
        call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}, "application/merge-patch+json")
        sizes = {"cpu": f"{rng.randint(2, 8) * 500}m", "memory": f"{rng.randint(2, 16)}Gi", "pods": str(rng.randint(4, 12)), "ephemeral-storage": "20Gi"}
        if some(0.3):
            sizes["example.com/gpu"] = "2"
        images = [{"names": [f"img{i}:1"], "sizeBytes": rng.randint(1, 900) * 2**20} for i in range(4) if some(0.4)]
        status = {"status": {"capacity": sizes, "allocatable": sizes, "images": images}}
        call("PATCH", f"/api/v1/nodes/{name}/status", status, "application/merge-patch+json")
        emit(node=trim(call("GET", f"/api/v1/nodes/{name}")))
    for namespace in ("red", "blue"):
        if some(0.6):
            service = {"metadata": {"name": "svc"}, "spec": {"ports": [{"port": 80}], "selector": {"app": rng.choice("ab")}}}
            call("POST", f"/api/v1/namespaces/{namespace}/services", service)
            emit(service=trim(call("GET", f"/api/v1/namespaces/{namespace}/services/svc")))
    time.sleep(0.5)
    placed = []
    for number in range(70):
        if placed and some(0.12):
            namespace, name = placed.pop(rng.randrange(len(placed)))
            pod = call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
            call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})
            emit(gone=pod["metadata"]["uid"])
            time.sleep(0.15)
        namespace, name = rng.choice(["red", "blue"]), f"p{number}"
        term = lambda key: {"topologyKey": key, "labelSelector": {"matchLabels": {"app": rng.choice("ab")}}, **({"namespaceSelector": {"matchLabels": {"team": rng.choice("rb")}}} if some(0.3) else {})}
        topology = lambda: rng.choice(["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
        requests = {}
        if some(0.7):
            requests["cpu"] = f"{rng.randint(1, 14) * 50}m"
        if some(0.6):
            requests["memory"] = f"{rng.randint(1, 30) * 64}Mi"
        limits = {}
        if some(0.08):
            requests["example.com/gpu"] = limits["example.com/gpu"] = "1"
        container = {"name": "c", "image": f"img{rng.randint(0, 5)}:1", "resources": {"requests": requests, "limits": limits}}
        if some(0.1):
            container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([8080, 8081])}]
        spec, affinity = {"containers": [container]}, {}
        if some(0.2):
            spec["containers"].append({"name": "d", "image": f"img{rng.randint(0, 5)}:1"})
        if some(0.15):
            spec["nodeSelector"] = {"disk": rng.choice(["ssd", "hdd"])}
        if some(0.3):
            spec["tolerations"] = [{"key": rng.choice(["soft", "hard"]), "operator": "Exists"}]
        if some(0.15):
            terms = [{"matchExpressions": [{"key": "gen", "operator": "Gt", "values": [str(rng.randint(1, 6))]}]}]
            affinity.setdefault("nodeAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if some(0.25):
            preferred = [{"weight": rng.randint(1, 20), "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}, {"weight": rng.randint(1, 20), "preference": {"matchExpressions": [{"key": "gen", "operator": "Lt", "values": ["5"]}]}}]
            affinity.setdefault("nodeAffinity", {})["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        for kind, likely in (("podAffinity", 0.12), ("podAntiAffinity", 0.15)):
            if some(likely):
                affinity.setdefault(kind, {})["requiredDuringSchedulingIgnoredDuringExecution"] = [term(topology())]
            if some(0.2):
                affinity.setdefault(kind, {})["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": rng.randint(1, 50), "podAffinityTerm": term(topology())}]
        if affinity:
            spec["affinity"] = affinity
        if some(0.25):
            spec["topologySpreadConstraints"] = [{"maxSkew": rng.randint(1, 2), "topologyKey": topology(), "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]), "labelSelector": {"matchLabels": {"app": rng.choice("ab")}}, **({"nodeTaintsPolicy": "Honor"} if some(0.3) else {})}]
        labels = {"app": rng.choice("ab")} if some(0.8) else {}
        pod = trim(call("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name, "labels": labels}, "spec": spec}))
        for _ in range(400):
            now = call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
            said = [c["message"] for c in now["status"].get("conditions", []) if c["type"] == "PodScheduled" and c["status"] == "False"]
            if now["spec"].get("nodeName"):
                emit(pod=pod, node=now["spec"]["nodeName"])
                placed.append((namespace, name))
                break
            if said:
                emit(pod=pod, refused=said[0])
                call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})
                break
            time.sleep(0.01)
        else:
            raise RuntimeError(f"{name}: no outcome")
        # The scheduler's cache must have seen the outcome before the next pod comes.
        time.sleep(0.05)


with open(out, "w") as sink:
    for seed in seeds:
        scenario(seed, sink)
        for path in ("red", "blue"):
            for kind in ("pods", "services"):
                for item in call("GET", f"/api/v1/namespaces/{path}/{kind}")["items"]:
                    call("DELETE", f"/api/v1/namespaces/{path}/{kind}/{item['metadata']['name']}", {"gracePeriodSeconds": 0})
            call("DELETE", f"/api/v1/namespaces/{path}")
            call("PUT", f"/api/v1/namespaces/{path}/finalize", {"metadata": {"name": path}, "spec": {"finalizers": []}})
        call("DELETE", "/api/v1/nodes")
        time.sleep(0.5)
