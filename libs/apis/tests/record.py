#!/usr/bin/env python3
"""Asks a live kube-apiserver what it makes of our requests and writes its answers down.

Usage: record.py DIR PORT   (DIR/pki holds ca.crt, admin.crt, admin.key of the server; admission plugins that change objects are off)

Reads  tests/data/defaults.yaml  one object per document, created with dryRun=All;
       tests/data/invalid.yaml   lists of (base objects and) broken ones, with the Status that each meets;
       tests/data/statuses.yaml  base objects, statuses that each may have, and what becomes of writing other ones then;
writes tests/data/defaults.jsonl, tests/data/invalid.jsonl and tests/data/statuses.jsonl, one {"request", "answer"} a line.
"""
import http.client, json, os, re, ssl, sys
import yaml

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
pki, port = os.path.join(sys.argv[1], "pki"), int(sys.argv[2])
context = ssl.create_default_context(cafile=f"{pki}/ca.crt")
context.load_cert_chain(f"{pki}/admin.crt", f"{pki}/admin.key")
connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)


def ask(method, path, body=None):
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    response = connection.getresponse()
    warnings = [re.match(r'299 - "(.*)"$', w).group(1).replace('\\"', '"') for w in response.headers.get_all("Warning") or []]
    return response.status, json.loads(response.read()), warnings


def discover():
    kinds = {}
    roots = ["/api/v1"] + [f"/apis/{v['groupVersion']}" for g in ask("GET", "/apis")[1]["groups"] for v in g["versions"]]
    for root in roots:
        for r in ask("GET", root)[1]["resources"]:
            if "/" not in r["name"]:
                kinds[(root.split("/", 2)[2] if root != "/api/v1" else "v1", r["kind"])] = (root, r["name"], r["namespaced"])
    return kinds


kinds = discover()


def collection(obj):
    root, plural, namespaced = kinds[(obj["apiVersion"], obj["kind"])]
    if namespaced:
        return f"{root}/namespaces/{obj['metadata'].setdefault('namespace', 'default')}/{plural}"
    return f"{root}/{plural}"


class Loader(yaml.SafeLoader):
    """Texts like dates stay texts."""


Loader.yaml_implicit_resolvers = {
    k: [(t, r) for t, r in v if t != "tag:yaml.org,2002:timestamp"] for k, v in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents(name):
    with open(os.path.join(here, name)) as f:
        return [d for d in yaml.load_all(f, Loader) if d]


def line(out, **fields):
    out.write(json.dumps(fields, separators=(",", ":"), ensure_ascii=False) + "\n")


def merged(base, change):
    """A copy of `base` with a JSON merge patch applied; a key `a.0.b` addresses below."""
    out = json.loads(json.dumps(base))
    for key, value in (change or {}).items():
        node, parts = out, key.split("/")
        for part in parts[:-1]:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        last = int(parts[-1]) if isinstance(node, list) else parts[-1]
        if value is None and isinstance(node, dict):
            node.pop(last, None)
        elif isinstance(node, list) and last == len(node):
            node.append(value)
        else:
            node[last] = value
    return out


def defaults():
    with open(os.path.join(here, "defaults.jsonl"), "w") as out:
        for obj in documents("defaults.yaml"):
            obj.setdefault("metadata", {}).setdefault("name", "x")
            path = collection(obj)
            status, answer, warnings = ask("POST", f"{path}?dryRun=All", obj)
            if status != 201:
                print("refused:", obj, answer["message"], file=sys.stderr)
                continue
            answer["metadata"].pop("managedFields", None)
            line(out, request=obj, answer=answer)


def status_of(answer):
    details = answer.get("details") or {}
    return {"code": answer["code"], "reason": answer["reason"], "message": answer["message"], "causes": details.get("causes", [])}


def invalid():
    with open(os.path.join(here, "invalid.jsonl"), "w") as out:
        for group in documents("invalid.yaml"):
            base = group["base"]
            base.setdefault("metadata", {}).setdefault("name", "x")
            path = collection(base)
            for change in group.get("create", []):
                obj = merged(base, change)
                status, answer, warnings = ask("POST", f"{path}?dryRun=All", obj)
                if status == 201:
                    line(out, request=obj, warnings=warnings)
                elif status == 422:
                    line(out, request=obj, answer=status_of(answer))
                else:
                    print("odd:", obj, answer, file=sys.stderr)
            if "update" in group:
                status, old, _ = ask("POST", path, base)
                if status != 201:
                    print("base:", base, old, file=sys.stderr)
                    continue
                old["metadata"].pop("managedFields", None)
                for change in group["update"]:
                    obj = merged(old, change)
                    status, answer, _ = ask("PUT", f"{path}/{base['metadata']['name']}?dryRun=All", obj)
                    if status == 200:
                        line(out, request=obj, old=old)
                    elif status == 422:
                        line(out, request=obj, old=old, answer=status_of(answer))
                    else:
                        print("odd:", obj, answer, file=sys.stderr)
                ask("DELETE", f"{path}/{base['metadata']['name']}?gracePeriodSeconds=0&propagationPolicy=Background")


def statuses():
    with open(os.path.join(here, "statuses.jsonl"), "w") as out:
        for group in documents("statuses.yaml"):
            base = group["base"]
            base.setdefault("metadata", {}).setdefault("name", "x")
            path = collection(base)
            here_is = f"{path}/{base['metadata']['name']}"
            for case in group["cases"]:
                status, old, _ = ask("POST", path, base)
                if status != 201:
                    print("base:", base, old, file=sys.stderr)
                    break
                if "was" in case:
                    status, old, _ = ask("PUT", f"{here_is}/status", {**old, "status": case["was"]})
                    if status != 200:
                        print("was:", case["was"], old, file=sys.stderr)
                old["metadata"].pop("managedFields", None)
                for now in case["now"]:
                    new = {**old, "status": now}
                    status, answer, _ = ask("PUT", f"{here_is}/status?dryRun=All", new)
                    while status == 409:  # The server itself writes some statuses.
                        old = ask("GET", here_is)[1]
                        old["metadata"].pop("managedFields", None)
                        new = {**old, "status": now}
                        status, answer, _ = ask("PUT", f"{here_is}/status?dryRun=All", new)
                    if status == 200:
                        line(out, request=new, old=old)
                    elif status == 422:
                        line(out, request=new, old=old, answer=status_of(answer))
                    else:
                        print("odd:", new, answer, file=sys.stderr)
                ask("DELETE", f"{here_is}?gracePeriodSeconds=0&propagationPolicy=Background")
                status, left, _ = ask("GET", here_is)
                if status == 200:  # Nobody is there to take finalizers off.
                    left["metadata"].pop("finalizers", None)
                    left["spec"].pop("finalizers", None)
                    ask("PUT", f"{here_is}/finalize" if left["kind"] == "Namespace" else here_is, left)


for what in sys.argv[3:] or ["defaults", "invalid", "statuses"]:
    {"defaults": defaults, "invalid": invalid, "statuses": statuses}[what]()
