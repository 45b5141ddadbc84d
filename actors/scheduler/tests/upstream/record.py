#!/usr/bin/env python3
"""Records what a live kube-scheduler decides, for `src/tests/upstream.rs` to compare with.

Usage: record.py [--preemption] URL CA CERT KEY OUT [SEED...]   (an admin's client certificate; a cluster without nodes of its own,
in which no controller taints nodes: run kube-controller-manager with --controllers=serviceaccount)

Each scenario makes random nodes, services and pods, one pod at a time, and writes down the objects as the API
returns them together with the node that was chosen, or the text of the refusal. One JSON document per line.
With --preemption (no controllers at all, and admission without ServiceAccount) nodes are full of pods of lower
priority, and it is written down who had to leave which node.
"""
import json, random, ssl, sys, time, http.client, urllib.parse

preemption = "--preemption" in sys.argv
arguments = [argument for argument in sys.argv[1:] if argument != "--preemption"]
url, ca, cert, key, out = arguments[:5]
seeds = [int(seed) for seed in arguments[5:]] or [1]
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


CLASSES = {"p0": 0, "p1": 10, "p2": 100, "p3": 1000, "minus": -10}


def preemptions(seed, sink):
    rng = random.Random(seed)
    emit = lambda **line: sink.write(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n")
    emit(scenario=seed)
    some = lambda chance: rng.random() < chance
    for name, value in CLASSES.items():
        call("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
        call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
    for name in ("red", "blue"):
        call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        emit(namespace=trim(call("GET", f"/api/v1/namespaces/{name}")))
    nodes = [f"n{number}" for number in range(rng.randint(3, 6))]
    for number, name in enumerate(nodes):
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 2}"}
        call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": some(0.1)}})
        call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": []}}, "application/merge-patch+json")
        sizes = {"cpu": f"{rng.randint(2, 4)}", "memory": "8Gi", "pods": str(rng.randint(5, 9)), "ephemeral-storage": "20Gi"}
        call("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"capacity": sizes, "allocatable": sizes}}, "application/merge-patch+json")
        emit(node=trim(call("GET", f"/api/v1/nodes/{name}")))
    for number in range(rng.randint(0, 3)):
        namespace = rng.choice(["red", "blue"])
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        call("POST", path, {"metadata": {"name": f"b{number}"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": rng.choice("abc")}}}})
        status = {"status": {"disruptionsAllowed": rng.randint(0, 2), "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}
        call("PATCH", f"{path}/b{number}/status", status, "application/merge-patch+json")
        emit(budget=trim(call("GET", f"{path}/b{number}")))
    made = 0

    def pod(namespace, classes, sizes):
        nonlocal made
        made += 1
        container = {"name": "c", "image": "img:1", "resources": {"requests": {"cpu": f"{rng.choice(sizes)}m"}}}
        if some(0.15):
            container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([8080, 8081])}]
        spec = {"containers": [container], "priorityClassName": rng.choice(classes)}
        term = {"topologyKey": rng.choice(["kubernetes.io/hostname", "topology.kubernetes.io/zone"]), "labelSelector": {"matchLabels": {"app": rng.choice("abc")}}}
        if some(0.12):
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif some(0.08):
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif some(0.1):
            spec["topologySpreadConstraints"] = [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}]
        labels = {"app": rng.choice("abc")} if some(0.85) else {}
        return namespace, f"p{made}", {"metadata": {"name": f"p{made}", "labels": labels}, "spec": spec}

    # No two pods have started in the same second, so that nothing is left to the order of a map.
    starts = rng.sample(range(1000, 9000), 4000)

    def start(path):
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1700000000 + starts.pop()))
        call("PATCH", f"{path}/status", {"status": {"startTime": when}}, "application/merge-patch+json")
        emit(placed=trim(call("GET", path)))

    used = set()
    port = lambda body: body["spec"]["containers"][0].get("ports", [{}])[0].get("hostPort")

    def fill(count):
        for _ in range(count):
            namespace, name, body = pod(rng.choice(["red", "blue"]), ["p0", "p1", "p2", "minus"], [200, 500, 700, 1000])
            node = body["spec"]["nodeName"] = rng.choice(nodes)
            # Upstream forgets a port when the first of two pods that have it leaves; only who comes past the scheduler can make it so.
            if port(body) and (node, port(body)) in used:
                del body["spec"]["containers"][0]["ports"]
            used.add((node, port(body)))
            call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
            start(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def remove(namespace, name):
        call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})

    fill(4 * len(nodes))
    for _ in range(45):
        time.sleep(0.3)
        namespace, name, body = pod(rng.choice(["red", "blue"]), ["p1", "p2", "p3"], [300, 1000, 1500, 2500])
        own = f"/api/v1/namespaces/{namespace}/pods/{name}"
        new = trim(call("POST", f"/api/v1/namespaces/{namespace}/pods", body))
        for _ in range(400):
            now = call("GET", own)
            said = [c["message"] for c in now["status"].get("conditions", []) if c["type"] == "PodScheduled" and c["status"] == "False"]
            if now["spec"].get("nodeName") or said:
                break
            time.sleep(0.01)
        else:
            raise RuntimeError(f"{name}: no outcome")
        if now["spec"].get("nodeName"):
            used.add((now["spec"]["nodeName"], port(body)))
            emit(pod=new, node=now["spec"]["nodeName"])
            start(own)
            continue
        nominated = now["status"].get("nominatedNodeName")
        if not nominated:
            emit(pod=new, refused=said[0])
            remove(namespace, name)
            continue
        # Nobody lets the victims go, so that they can be counted when the deletions are through.
        time.sleep(0.4)
        remove(namespace, name)
        everybody = [pod for where in ("red", "blue") for pod in call("GET", f"/api/v1/namespaces/{where}/pods")["items"]]
        victims = [pod for pod in everybody if pod["metadata"].get("deletionTimestamp")]
        emit(pod=new, nominated=nominated, said=said[0], preempted=sorted(pod["metadata"]["uid"] for pod in victims))
        for victim in victims:
            remove(victim["metadata"]["namespace"], victim["metadata"]["name"])
            emit(gone=victim["metadata"]["uid"])
        fill(len(victims))


with open(out, "w") as sink:
    for seed in seeds:
        (preemptions if preemption else scenario)(seed, sink)
        for path in ("red", "blue"):
            for prefix, kind in (("/api/v1", "pods"), ("/api/v1", "services"), ("/apis/policy/v1", "poddisruptionbudgets")):
                for item in call("GET", f"{prefix}/namespaces/{path}/{kind}")["items"]:
                    call("DELETE", f"{prefix}/namespaces/{path}/{kind}/{item['metadata']['name']}", {"gracePeriodSeconds": 0})
            call("DELETE", f"/api/v1/namespaces/{path}")
            call("PUT", f"/api/v1/namespaces/{path}/finalize", {"metadata": {"name": path}, "spec": {"finalizers": []}})
        call("DELETE", "/api/v1/nodes")
        time.sleep(0.5)
