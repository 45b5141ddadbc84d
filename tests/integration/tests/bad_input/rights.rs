//! A user with few rights reaches only what the rights allow, however the user writes a request.

use std::fmt::Write as _;

use oarlock_testkit::http::{Answer, Http, Who};
use oarlock_testkit::{Cluster, wait};
use serde_json::{Value, json};

use super::{healthy, refused};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const N: &str = "/api/v1/namespaces/t";
const NOT_FOUND: &str = "the server could not find the requested resource";

/// An API server, its administrator, and the ServiceAccount `t/eve`.
struct Scene {
    // The first field, so that the cluster is stopped before the other fields are dropped.
    _cluster: Cluster,
    admin: Http,
    eve: Http,
}

impl Scene {
    fn new() -> Self {
        let cluster = Cluster::api_only();
        let admin = cluster.http(Who::Admin);
        made(&admin.json("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "t"}})));
        made(&admin.json("POST", &format!("{N}/serviceaccounts"), &json!({"metadata": {"name": "eve"}})));
        let token = admin.json("POST", &format!("{N}/serviceaccounts/eve/token"), &json!({"spec": {}}));
        made(&token);
        let token = token.json()["status"]["token"].as_str().unwrap().to_owned();
        let eve = cluster.http(Who::Token(token));
        Self { _cluster: cluster, admin, eve }
    }

    /// Gives the user eve these rules, in a namespace or in all, and waits until `probe` shows that they are in force.
    fn grant(&self, namespace: Option<&str>, rules: &Value, probe: &str) {
        let (scope, kind) = namespace.map_or((String::new(), "ClusterRole"), |n| (format!("/namespaces/{n}"), "Role"));
        let (roles, bindings) =
            if namespace.is_some() { ("roles", "rolebindings") } else { ("clusterroles", "clusterrolebindings") };
        let role = json!({"metadata": {"name": "eve"}, "rules": rules});
        made(&self.admin.json("POST", &format!("{RBAC}{scope}/{roles}"), &role));
        self.bind(&format!("{RBAC}{scope}/{bindings}"), "eve", kind, "eve");
        wait::eventually("what eve may is known", || match self.eve.get(probe) {
            answer if answer.code == 403 => Err(answer),
            _ => Ok(()),
        });
    }

    fn bind(&self, bindings: &str, name: &str, kind: &str, role: &str) {
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": "t", "name": "eve"}],
        });
        made(&self.admin.json("POST", bindings, &binding));
    }

    fn secrets(&self, names: &[&str]) {
        for name in names {
            made(&self.admin.json("POST", &format!("{N}/secrets"), &json!({"metadata": {"name": name}})));
        }
    }
}

#[track_caller]
fn made(answer: &Answer) {
    assert_eq!(answer.code, 201, "{answer}");
}

fn merge(http: &Http, path: &str, body: &Value) -> Answer {
    http.send("PATCH", path, &[("Content-Type", "application/merge-patch+json")], body.to_string().as_bytes())
}

/// The text of a selector in a query.
fn quoted(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "%{byte:02X}");
        out
    })
}

#[test]
fn who_may_read_one_object_reads_no_other_by_any_path_or_selector() {
    let scene = Scene::new();
    scene.secrets(&["one", "two"]);
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"],
        "verbs": ["get", "list", "watch"]}]);
    scene.grant(Some("t"), &rules, &format!("{N}/secrets/one"));
    let watch = "/api/v1/watch/namespaces/t/secrets";
    for path in [
        format!("{watch}/one?timeoutSeconds=1"),
        format!("{watch}/one?timeoutSeconds=1&fieldSelector=metadata.name%3Done"),
        format!("{N}/secrets?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Done"),
        format!("{N}/secrets?fieldSelector=metadata.name%3Done"),
    ] {
        let answer = scene.eve.get(&path);
        assert_eq!(answer.code, 200, "{path}: {answer}");
        let text = answer.text();
        assert!(text.contains("\"one\"") && !text.contains("\"two\""), "{path}: {text}");
    }
    let other = scene.eve.get(&format!("{watch}/one?fieldSelector=metadata.name%3Dtwo"));
    refused(&other, 400, "BadRequest", "fieldSelector metadata.name doesn't match requested name");
    for path in [
        watch.to_owned(),
        format!("{watch}?fieldSelector=metadata.name%3Done"),
        format!("{watch}/two"),
        format!("{N}/secrets"),
        format!("{N}/secrets?fieldSelector={}", quoted(r"metadata.name!=a\,metadata.name=one")),
        format!("{N}/secrets?watch=1&fieldSelector={}", quoted(r"type!=a\,metadata.name=one")),
        format!("{N}/secrets?fieldSelector=metadata.name!%3Done"),
    ] {
        refused(&scene.eve.get(&path), 403, "Forbidden", "cannot");
    }
    healthy(&scene.admin);
}

#[test]
fn who_may_delete_one_object_deletes_no_collection() {
    let scene = Scene::new();
    scene.secrets(&["one"]);
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"],
        "verbs": ["get", "deletecollection"]}]);
    scene.grant(Some("t"), &rules, &format!("{N}/secrets/one"));
    let answer = scene.eve.send("DELETE", &format!("{N}/secrets?fieldSelector=metadata.name%3Done"), &[], b"");
    refused(&answer, 403, "Forbidden", "cannot deletecollection resource \"secrets\"");
    assert_eq!(scene.admin.get(&format!("{N}/secrets/one")).code, 200);
}

#[test]
fn a_subresource_without_an_object_is_none() {
    let scene = Scene::new();
    scene.secrets(&["one"]);
    let rules = json!([{"apiGroups": [""], "resources": ["secrets/x", "pods/log", "pods/status"], "verbs": ["*"]}]);
    scene.grant(Some("t"), &rules, &format!("{N}/pods/none/log"));
    let map = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (method, path) in [
        ("GET", "secrets//x"),
        ("GET", "secrets//x?watch=1&timeoutSeconds=1"),
        ("GET", "pods//log"),
        ("DELETE", "secrets//x"),
        ("DELETE", "pods//status"),
        ("POST", "pods//status"),
        ("POST", "secrets//x"),
    ] {
        let answer = scene.eve.json(method, &format!("{N}/{path}"), &map);
        assert!(matches!(answer.code, 400 | 404 | 405), "{method} {path}: {answer}");
    }
    assert_eq!(scene.admin.get(&format!("{N}/secrets/one")).code, 200);
    assert_eq!(scene.admin.get(&format!("{N}/pods/p")).code, 404);
}

#[test]
fn rights_in_a_namespace_reach_no_other_namespace() {
    let scene = Scene::new();
    made(&scene.admin.json("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "other"}})));
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    scene.grant(Some("t"), &rules, &format!("{N}/pods"));
    let new = json!({"metadata": {"name": "new", "labels": {"a": "b"}}});
    for (kinds, one) in [
        ("/api/v1/namespaces/t/namespaces", "other"),
        ("/api/v1/namespaces/t/namespaces", "t"),
        ("/api/v1/namespaces/t/nodes", "other"),
        ("/api/v1/namespaces/t/persistentvolumes", "other"),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/t/clusterroles", "cluster-admin"),
        ("/apis/storage.k8s.io/v1/namespaces/t/storageclasses", "other"),
    ] {
        let named = format!("{kinds}/{one}");
        let named = named.as_str();
        for (method, path) in
            [("GET", kinds), ("POST", kinds), ("DELETE", kinds), ("GET", named), ("PUT", named), ("DELETE", named)]
        {
            refused(&scene.eve.json(method, path, &new), 404, "NotFound", NOT_FOUND);
        }
        refused(&merge(&scene.eve, named, &new), 404, "NotFound", NOT_FOUND);
        refused(&scene.eve.get(&format!("{kinds}?watch=1&timeoutSeconds=1")), 404, "NotFound", NOT_FOUND);
        refused(&scene.eve.get(&named.replace("/v1/", "/v1/watch/")), 404, "NotFound", NOT_FOUND);
    }
    assert_eq!(scene.admin.get("/api/v1/namespaces/new").code, 404);
    let other = scene.admin.get("/api/v1/namespaces/other").json();
    assert_eq!((&other["status"]["phase"], &other["metadata"]["labels"]["a"]), (&"Active".into(), &Value::Null));
    // Rights in a namespace include the Namespace object itself, as upstream authorizes it.
    assert_eq!(scene.eve.get(N).code, 200);
}

#[test]
fn labels_and_aggregation_rules_grant_nothing_that_their_writer_does_not_hold() {
    let scene = Scene::new();
    let rules = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"],
        "verbs": ["get", "list", "patch", "update"]}]);
    scene.bind(&format!("{RBAC}/clusterrolebindings"), "eve-view", "ClusterRole", "view");
    scene.grant(None, &rules, &format!("{RBAC}/clusterroles"));
    let label = json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let missing = "is attempting to grant RBAC permissions not currently held";
    for kind in ["clusterroles", "clusterrolebindings"] {
        let path = format!("{RBAC}/{kind}/cluster-admin");
        refused(&merge(&scene.eve, &path, &label), 403, "Forbidden", missing);
        let mut whole = scene.eve.get(&path).json();
        whole["metadata"]["labels"]["a"] = "b".into();
        refused(&scene.eve.json("PUT", &path, &whole), 403, "Forbidden", missing);
    }
    let view = format!("{RBAC}/clusterroles/view");
    let privileges = "must have cluster-admin privileges to use the aggregationRule";
    refused(&merge(&scene.eve, &view, &json!({"aggregationRule": null, "rules": []})), 403, "Forbidden", privileges);
    // A merge patch of finalizers, as the garbage collector sends.
    let finalizers = json!({"metadata": {"finalizers": ["example.org/x"]}});
    assert_eq!(merge(&scene.eve, &format!("{RBAC}/clusterroles/cluster-admin"), &finalizers).code, 200);
}

#[test]
fn a_claim_of_nobody_is_refused_before_it_is_compared() {
    let scene = Scene::new();
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]);
    scene.grant(Some("t"), &rules, &format!("{N}/configmaps/none"));
    let map = json!({"metadata": {"name": "a"}}).to_string();
    for claim in ["arbiter@1", "no-such-unit@7"] {
        let headers = [("Content-Type", "application/json"), ("Oarlock-Fence", claim)];
        let answer = scene.eve.send("POST", &format!("{N}/configmaps"), &headers, map.as_bytes());
        refused(&answer, 403, "Forbidden", "cannot claim resource \"assignments\" in API group \"oarlock.dev\"");
    }
    made(&scene.eve.json("POST", &format!("{N}/configmaps"), &json!({"metadata": {"name": "a"}})));
}

#[test]
fn paths_outside_resources_are_routed_as_upstream_routes_them() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    for path in ["//api/v1/namespaces/default/pods", "//version", "/healthz/", "/metrics/", "/metrics/slis/"] {
        let answer = http.get(path);
        assert_eq!((answer.code, answer.text().trim_end()), (404, "404 page not found"), "{path}");
    }
    for path in ["/api//v1/namespaces/default/pods", "/api/v1//namespaces/default/pods", "/apis/apps//v1", "/version/x"]
    {
        refused(&http.get(path), 404, "NotFound", NOT_FOUND);
    }
    for path in ["/apis/apps/v9", "/api/v9"] {
        let headers = [("Accept", "text/html")];
        for method in ["GET", "POST"] {
            let answer = http.send(method, path, &headers, b"");
            assert_eq!(answer.code, 404, "{method} {path}: {answer}");
        }
    }
    for path in ["/version/", "/api/v1/namespaces/default/pods/", "/apis/apps/v1/", "/%76ersion"] {
        assert_eq!(http.get(path).code, 200, "{path}");
    }
    for (path, form) in [
        ("/version", "application/json"),
        ("/.well-known/openid-configuration", "application/json"),
        ("/openid/v1/jwks", "application/jwk-set+json"),
    ] {
        let answer = http.send("GET", path, &[("Accept", "text/html")], b"");
        let text = format!("406: Not Acceptable\n\nAvailable representations: {form}");
        refused(&answer, 406, "NotAcceptable", &text);
        assert_eq!(http.send("GET", path, &[("Accept", "text/html, */*;q=0.1")], b"").code, 200, "{path}");
    }
    assert_eq!(http.get("/readyz").code, 200);
    let slis = http.get("/metrics/slis");
    assert_eq!(slis.code, 200);
    let ready = "kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1";
    assert!(slis.text().lines().any(|line| line == ready), "{slis}");
    assert!(slis.text().contains("kubernetes_healthchecks_total{name=\"ping\",type=\"readyz\",status=\"success\"}"));
}

#[test]
fn a_field_manager_is_printable_and_a_body_of_a_deletion_silences_the_query() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "a"}});
    let answer = http.json("POST", &format!("{maps}?fieldManager=a%0Ab"), &map);
    refused(&answer, 422, "Invalid", "invalid character U+000A (at position 1)");
    made(&http.json("POST", maps, &map));
    // Upstream does not read a query beside a body, so this is no dry run.
    assert_eq!(http.json("DELETE", &format!("{maps}/a?dryRun=All"), &json!({})).code, 200);
    assert_eq!(http.get(&format!("{maps}/a")).code, 404);
}

#[test]
fn the_right_to_every_path_is_no_right_to_every_object() {
    let scene = Scene::new();
    scene.grant(None, &json!([{"nonResourceURLs": ["*"], "verbs": ["*"]}]), "/metrics");
    assert_eq!(scene.eve.get("/metrics").code, 200);
    refused(&scene.eve.get("/snapshot"), 403, "Forbidden", "cannot * resource \"*\"");
    assert_eq!(scene.admin.get("/snapshot").code, 200);
    healthy(&scene.admin);
}
