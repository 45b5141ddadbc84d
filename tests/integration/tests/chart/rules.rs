//! Rules about rendered manifests, as a function from manifests to the faults in them.

use std::collections::BTreeSet;

use serde_json::Value;

/// Longest name of an object whose name becomes a label of its pods.
const MAX_NAME: usize = 63;
/// Longest name of an object whose controller appends to it for the names or labels of others.
const MAX_OWNER_NAME: usize = 52;
/// Secret of keys that pods of each component mount, after `<release>-keys-`.
const KEYS: [(&str, &str); 11] = [
    ("admission", "admission"),
    ("apiserver", "apiserver"),
    ("cloud", "cloud-controller-manager"),
    ("controller-manager", "controller-manager"),
    ("etcd", "etcd"),
    ("nats", "nats"),
    ("scheduler", "scheduler"),
    // These call the API as its administrator.
    ("snapshots", "user"),
    ("snapshots-hook", "user"),
    ("test", "user"),
    // What makes the keys reads them through the API.
    ("keys", ""),
];
/// Secret of keys that containers of these names mount in the pods of another component, after `<release>-keys-`.
const SIDECARS: [(&str, &str); 1] = [("konnectivity-server", "konnectivity-server")];
/// Components whose pods have a token of the hosting cluster, where they make keys in it.
const MAKERS: [&str; 2] = ["keys", "keys-hook"];

/// A pod's template or a pod.
pub(super) struct Pod<'a> {
    pub(super) owner: String,
    pub(super) labels: &'a Value,
    pub(super) spec: &'a Value,
}

impl Pod<'_> {
    pub(super) fn component(&self) -> &str {
        self.labels["app.kubernetes.io/component"].as_str().unwrap_or_default()
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = &Value> {
        ["initContainers", "containers"].iter().flat_map(|field| items(&self.spec[*field]))
    }
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn name(object: &Value) -> String {
    format!(
        "{}/{}",
        object["kind"].as_str().unwrap_or_default(),
        object["metadata"]["name"].as_str().unwrap_or_default()
    )
}

/// Returns the pods that these manifests make.
pub(super) fn pods(objects: &[Value]) -> Vec<Pod<'_>> {
    objects.iter().filter_map(pod).collect()
}

fn pod(object: &Value) -> Option<Pod<'_>> {
    let template = match object["kind"].as_str() {
        Some("Deployment" | "StatefulSet" | "Job") => "/spec/template",
        Some("CronJob") => "/spec/jobTemplate/spec/template",
        Some("Pod") => "",
        _ => return None,
    };
    let at = object.pointer(template)?;
    Some(Pod { owner: name(object), labels: &at["metadata"]["labels"], spec: &at["spec"] })
}

/// Returns every fault of a release's manifests. `outside` names Secrets that the values name.
pub(super) fn faults(objects: &[Value], outside: &[&str]) -> Vec<String> {
    let pods = pods(objects);
    let mut faults = Vec::new();
    names(objects, &mut faults);
    for pod in &pods {
        hardening(pod, &mut faults);
        keys(pod, outside, &mut faults);
        accounts(pod, objects, &mut faults);
        volumes(pod, &mut faults);
    }
    for object in objects {
        selectors(object, objects, &pods, &mut faults);
        rights(object, &mut faults);
    }
    faults
}

fn names(objects: &[Value], faults: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for object in objects {
        let name = name(object);
        let length = object["metadata"]["name"].as_str().map_or(0, str::len);
        let owner = matches!(object["kind"].as_str(), Some("StatefulSet" | "CronJob"));
        if length == 0 || length > if owner { MAX_OWNER_NAME } else { MAX_NAME } {
            faults.push(format!("{name}: a name of {length} letters"));
        }
        for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
            if value.as_str().is_none_or(|value| value.len() > MAX_NAME) {
                faults.push(format!("{name}: label {key} is {value}"));
            }
        }
        if !seen.insert(name.clone()) {
            faults.push(format!("{name}: is there twice"));
        }
    }
}

/// The Pod Security Standard `restricted`, and a file system that is read-only.
fn hardening(pod: &Pod<'_>, faults: &mut Vec<String>) {
    let mut wants = |holds: bool, what: &str| {
        if !holds {
            faults.push(format!("{}: {what}", pod.owner));
        }
    };
    let security = &pod.spec["securityContext"];
    wants(
        security["runAsNonRoot"] == true && security["runAsUser"].as_u64().is_some_and(|user| user > 0),
        "may be root",
    );
    wants(security["seccompProfile"]["type"] == "RuntimeDefault", "has no seccomp profile");
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        wants(pod.spec[field].is_null(), field);
    }
    wants(items(&pod.spec["volumes"]).all(|volume| volume["hostPath"].is_null()), "mounts a folder of the host");
    for container in pod.containers() {
        let security = &container["securityContext"];
        wants(security["allowPrivilegeEscalation"] == false, "may gain privileges");
        wants(security["readOnlyRootFilesystem"] == true, "may write to its image");
        wants(security["privileged"].is_null(), "is privileged");
        wants(security["capabilities"] == serde_json::json!({"drop": ["ALL"]}), "has capabilities");
        wants(container["resources"]["limits"]["memory"].is_string(), "has no limit of memory");
        wants(container["resources"]["requests"]["cpu"].is_string(), "requests no processor");
    }
}

/// Whether a container of a component may mount a Secret. `outside` names Secrets for the components themselves, and not for what is beside them.
fn may_mount(component: &str, container: &Value, secret: &str, outside: &[&str]) -> bool {
    let is_named = |(name, _): &&(&str, &str)| container["name"] == *name;
    let sidecar = SIDECARS.iter().find(is_named);
    let own = sidecar.or_else(|| KEYS.iter().find(|(name, _)| *name == component)).map_or("", |(_, secret)| secret);
    let is_own = secret.split_once("-keys-").is_some_and(|(_, part)| part == own);
    is_own || (sidecar.is_none() && outside.contains(&secret))
}

/// A container gets only the keys of its role: as files, read-only, of the one Secret that its component may have.
fn keys(pod: &Pod<'_>, outside: &[&str], faults: &mut Vec<String>) {
    for volume in items(&pod.spec["volumes"]) {
        let Some(secret) = volume["secret"]["secretName"].as_str() else {
            if !volume["projected"].is_null() {
                faults.push(format!("{}: a projected volume may hold any key", pod.owner));
            }
            continue;
        };
        let mounts =
            |container: &&Value| items(&container["volumeMounts"]).any(|mount| mount["name"] == volume["name"]);
        let is_unused = !pod.containers().any(|container| mounts(&container));
        for container in pod.containers().filter(|container| is_unused || mounts(container)) {
            if !may_mount(pod.component(), container, secret, outside) {
                let name = container["name"].as_str().unwrap_or_default();
                faults.push(format!("{}: {name} mounts the Secret {secret}", pod.owner));
            }
        }
    }
    for container in pod.containers() {
        let secrets = items(&container["env"]).any(|variable| !variable["valueFrom"]["secretKeyRef"].is_null());
        if secrets || !container["envFrom"].is_null() {
            faults.push(format!("{}: a key in a variable", pod.owner));
        }
        for mount in items(&container["volumeMounts"]) {
            let volume = items(&pod.spec["volumes"]).find(|volume| volume["name"] == mount["name"]);
            if volume.is_some_and(|volume| !volume["secret"].is_null()) && mount["readOnly"] != true {
                faults.push(format!("{}: {} may be written", pod.owner, mount["mountPath"]));
            }
        }
    }
}

fn accounts(pod: &Pod<'_>, objects: &[Value], faults: &mut Vec<String>) {
    let account = pod.spec["serviceAccountName"].as_str().unwrap_or_default();
    if !objects.iter().any(|object| name(object) == format!("ServiceAccount/{account}")) {
        faults.push(format!("{}: nobody makes the account {account:?}", pod.owner));
    }
    let acts =
        objects.iter().filter(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding")));
    let acts = acts.flat_map(|object| items(&object["subjects"])).any(|subject| subject["name"] == account);
    let token = pod.spec["automountServiceAccountToken"] != false;
    if token != acts && pod.component() != "test" {
        faults.push(format!("{}: has a token: {token}; has something to do with it: {acts}", pod.owner));
    }
}

fn volumes(pod: &Pod<'_>, faults: &mut Vec<String>) {
    let known: BTreeSet<&str> = items(&pod.spec["volumes"]).filter_map(|volume| volume["name"].as_str()).collect();
    let mut used = BTreeSet::new();
    for container in pod.containers() {
        used.extend(items(&container["volumeMounts"]).filter_map(|mount| mount["name"].as_str()));
    }
    // A StatefulSet's claims are volumes too.
    let claims = pod.owner.starts_with("StatefulSet/");
    let unknown: Vec<_> = used.difference(&known).filter(|name| !(claims && **name == "data")).collect();
    let unused: Vec<_> = known.difference(&used).collect();
    if !unknown.is_empty() || !unused.is_empty() {
        faults.push(format!("{}: volumes {unknown:?} are unknown, {unused:?} unused", pod.owner));
    }
}

/// Whether `labels` have what a selector asks for; only the operator `In` is known.
fn selects(selector: &Value, labels: &Value) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut inside = items(&selector["matchExpressions"]);
    equal.all(|(key, value)| labels[key] == *value)
        && inside.all(|rule| {
            rule["operator"] == "In"
                && items(&rule["values"]).any(|value| Some(value) == rule["key"].as_str().map(|key| &labels[key]))
        })
}

fn selectors(object: &Value, objects: &[Value], pods: &[Pod<'_>], faults: &mut Vec<String>) {
    let (kind, spec) = (object["kind"].as_str().unwrap_or_default(), &object["spec"]);
    let mut wants = |holds: bool, what: &str| {
        if !holds {
            faults.push(format!("{}: {what}", name(object)));
        }
    };
    match kind {
        "Deployment" | "StatefulSet" => {
            wants(selects(&spec["selector"], &spec["template"]["metadata"]["labels"]), "does not select its own pods");
            let selected = pods.iter().filter(|pod| selects(&spec["selector"], pod.labels)).count();
            wants(selected == 1, "selects pods of another workload");
            if kind == "StatefulSet" {
                let service = format!("Service/{}", spec["serviceName"].as_str().unwrap_or_default());
                wants(objects.iter().any(|object| name(object) == service), "its Service is not there");
            }
        }
        "Service" => {
            let selector = serde_json::json!({"matchLabels": spec["selector"]});
            let selected: Vec<&Pod<'_>> = pods.iter().filter(|pod| selects(&selector, pod.labels)).collect();
            wants(selected.len() == 1, "does not select the pods of one workload");
            for port in items(&spec["ports"]) {
                let has = |pod: &&Pod<'_>| {
                    let mut ports = pod.containers().flat_map(|container| items(&container["ports"]));
                    ports.any(|known| known["name"] == port["targetPort"])
                };
                wants(selected.iter().all(has), &format!("port {} is no port of its pods", port["targetPort"]));
            }
        }
        "PodDisruptionBudget" => {
            let selected = pods.iter().filter(|pod| selects(&spec["selector"], pod.labels)).count();
            wants(selected == 1, "does not select the pods of one workload");
        }
        "NetworkPolicy" => {
            let mut selected = pods.iter().filter(|pod| selects(&spec["podSelector"], pod.labels));
            wants(selected.next().is_some(), "selects no pod");
            let rules = items(&spec["ingress"])
                .flat_map(|rule| items(&rule["from"]))
                .chain(items(&spec["egress"]).flat_map(|rule| items(&rule["to"])));
            for peer in rules.filter(|peer| peer["podSelector"].is_object()) {
                wants(pods.iter().any(|pod| selects(&peer["podSelector"], pod.labels)), "has a peer that is no pod");
            }
        }
        "HorizontalPodAutoscaler" => {
            let target = &spec["scaleTargetRef"];
            let scaled = objects
                .iter()
                .find(|object| object["kind"] == target["kind"] && object["metadata"]["name"] == target["name"]);
            wants(
                scaled.is_some_and(|scaled| scaled["spec"]["replicas"].is_null()),
                "scales nothing, or what has replicas of its own",
            );
        }
        "ServiceMonitor" => {
            let mut services = objects.iter().filter(|other| other["kind"] == "Service");
            let service = services.find(|service| selects(&spec["selector"], &service["metadata"]["labels"]));
            for endpoint in items(&spec["endpoints"]) {
                let known = service.is_some_and(|service| {
                    items(&service["spec"]["ports"]).any(|port| port["name"] == endpoint["port"])
                });
                wants(known, "scrapes a port of no Service");
            }
        }
        _ => {}
    }
}

/// Only what makes keys has rights on Secrets, and on none but its own.
fn rights(object: &Value, faults: &mut Vec<String>) {
    if !matches!(object["kind"].as_str(), Some("Role" | "ClusterRole")) {
        return;
    }
    let maker = object["metadata"]["labels"]["app.kubernetes.io/component"].as_str();
    for rule in items(&object["rules"]) {
        let verbs: Vec<&str> = items(&rule["verbs"]).filter_map(Value::as_str).collect();
        let bounded = !rule["resourceNames"].is_null() || verbs == ["create"];
        let known = verbs.iter().all(|verb| ["get", "patch", "create"].contains(verb));
        if !bounded
            || !known
            || rule["resources"] != serde_json::json!(["secrets"])
            || !maker.is_some_and(|name| MAKERS.contains(&name))
        {
            faults.push(format!("{}: may do too much: {rule}", name(object)));
        }
    }
}
