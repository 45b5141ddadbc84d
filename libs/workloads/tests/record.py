#!/usr/bin/env python3
"""Lets a live kube-controller-manager make revisions of our StatefulSets and writes down what it made.

Usage: record.py KUBECONFIG   (of upstream's kube-apiserver 1.35.0, beside which upstream's kube-controller-manager runs)

Reads  tests/data/templates.yaml   one document per set: its name and its pod templates, given to the set one after the other;
writes tests/data/revisions.jsonl  one {"set", "revision"} a line: the set as the server shows it, and the revision of its template.
"""
import json, os, subprocess, sys, time
import yaml

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
DEADLINE_SECONDS = 60


def kubectl(*words, body=None):
    text = json.dumps(body) if body is not None else None
    ran = subprocess.run(["kubectl", "--kubeconfig", sys.argv[1], *words], input=text, stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"kubectl {' '.join(words)} failed")
    return json.loads(ran.stdout) if "json" in words else ran.stdout


def until(what, answer):
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        found = answer()
        if found:
            return found
        time.sleep(0.2)
    sys.exit(f"not in time: {what}")


def observed(name):
    found = kubectl("get", "statefulset", name, "-o", "json")
    is_new = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
    return found if is_new else None


def bare(found):
    for field in ("managedFields", "creationTimestamp", "resourceVersion", "uid"):
        found["metadata"].pop(field, None)
    return found


with open(os.path.join(here, "templates.yaml")) as templates, open(os.path.join(here, "revisions.jsonl"), "w") as out:
    for document in yaml.safe_load_all(templates):
        name = document["name"]
        for template in document["templates"]:
            labels = {"app": name}
            template.setdefault("metadata", {}).setdefault("labels", {}).update(labels)
            spec = {"replicas": 0, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
            kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", body={
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
            found = until(f"{name} is observed", lambda: observed(name))
            revision = kubectl("get", "controllerrevision", found["status"]["updateRevision"], "-o", "json")
            line = {"set": bare(found), "revision": bare(revision)}
            out.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
