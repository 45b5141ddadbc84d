//! Requests that a subresource must refuse: a kubelet's request of a token for another node's pod, an ephemeral container written by an update of the pod, a
//! decision about a signing request without a right for its signer. Policies about subresources are tested here too.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use oarlock_pki::{Authority, Leaf, Subject, UnixTime};
use oarlock_testkit::http::{Answer, Http, Who};
use oarlock_testkit::{Cluster, read};
use serde_json::{Value, json};

use super::{healthy, refused};

const N: &str = "/api/v1/namespaces/default";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const MERGE: (&str, &str) = ("Content-Type", "application/merge-patch+json");
const STRATEGIC: (&str, &str) = ("Content-Type", "application/strategic-merge-patch+json");
const MASTER: &str = include_str!("../../../../actors/admission/tests/data/master.csr");
const PLAIN: &str = include_str!("../../../../actors/admission/tests/data/plain.csr");

/// The real clock's seconds: the server's clock is the machine's.
#[expect(clippy::disallowed_methods, reason = "tests watch a real process in real time")]
fn now() -> UnixTime {
    UnixTime::since_unix_epoch(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap())
}

fn kubelet(cluster: &Cluster, node: &str) -> Http {
    let pki = cluster.data_dir().pki();
    let authority = Authority::from_pem(&read(&pki.join("ca.crt")), &read(&pki.join("ca.key"))).unwrap();
    let leaf = Leaf::client(Subject::node(node)).good_for(Duration::from_secs(3600));
    let issued = authority.issue(&leaf, now()).unwrap();
    cluster.http(Who::Certificate(issued.certificate, issued.key))
}

fn patch(http: &Http, path: &str, kind: (&str, &str), body: &Value) -> Answer {
    http.send("PATCH", path, &[kind], body.to_string().as_bytes())
}

fn created(answer: &Answer) -> Value {
    assert_eq!(answer.code, 201, "{answer}");
    answer.json()
}

#[test]
fn a_kubelet_gets_tokens_for_its_own_pods_and_their_audiences_only() {
    let cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"]);
    let admin = cluster.http(Who::Admin);
    created(&admin.json("POST", &format!("{N}/serviceaccounts"), &json!({"metadata": {"name": "robot"}})));
    let pod = |name: &str, node: &str| {
        created(&admin.json(
            "POST",
            PODS,
            &json!({"metadata": {"name": name}, "spec": {
                "serviceAccountName": "robot", "nodeName": node,
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}],
            }}),
        ))
    };
    let (own, other) = (pod("own", "n1"), pod("other", "n2"));
    let http = kubelet(&cluster, "n1");
    let ask = |spec: Value| http.json("POST", &format!("{N}/serviceaccounts/robot/token"), &json!({"spec": spec}));
    let bound = |pod: &Value, audiences: Value| {
        let reference = json!({
            "apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
        });
        json!({"boundObjectRef": reference, "audiences": audiences})
    };
    // The authorizer knows the pod after it has read the store up to the pod's revision.
    oarlock_testkit::wait::eventually("the kubelet may ask for its pods' account", || {
        let answer = ask(bound(&own, json!(["vault"])));
        if answer.code == 201 { Ok(()) } else { Err(answer) }
    });
    assert_eq!(
        ask(bound(&own, json!([]))).code,
        201,
        "the server's own audience, which the pod's default volume asks for"
    );
    let refusal = |text: &str| format!("serviceaccounts \"robot\" is forbidden: {text}");
    let forbidden = |spec: Value, text: &str| refused(&ask(spec), 403, "Forbidden", &refusal(text));
    forbidden(json!({}), "node requested token not bound to a pod");
    forbidden(json!({"expirationSeconds": 4_294_967_296_i64}), "node requested token not bound to a pod");
    let mut without_uid = bound(&own, json!([]));
    without_uid["boundObjectRef"]["uid"] = json!("");
    forbidden(without_uid, "node requested token with a pod binding without a uid");
    forbidden(bound(&other, json!([])), "node requested token bound to a pod scheduled on a different node");
    let audience = "audience \"elsewhere\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience";
    forbidden(bound(&own, json!(["elsewhere"])), audience);
    forbidden(bound(&own, json!(["vault", "elsewhere"])), "node may only request 0 or 1 audiences");
    healthy(&admin);
}

#[test]
fn policies_see_subresources_as_what_they_are() {
    let cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"]);
    let admin = cluster.http(Who::Admin);
    created(&admin.json("POST", &format!("{N}/serviceaccounts"), &json!({"metadata": {"name": "robot"}})));
    let spec = json!({"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]});
    created(&admin.json("POST", PODS, &json!({"metadata": {"name": "p"}, "spec": spec})));
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    created(&admin.json("POST", deployments, &deployment));
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rules = json!([{
        "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": [
            "serviceaccounts/token", "pods/eviction", "pods/binding", "bindings", "pods/exec", "pods/proxy",
            "pods/ephemeralcontainers", "deployments/scale", "selfsubjectreviews",
        ],
    }]);
    let policy = json!({
        "metadata": {"name": "no"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{
                "expression": "false",
                "messageExpression": "'seen ' + request.operation + ' of ' + request.kind.kind + (request.kind.kind == 'Scale' ? ' ' + string(oldObject.spec.replicas) + ' to ' + string(object.spec.replicas) : '')",
            }],
        },
    });
    created(&admin.json("POST", policies, &policy));
    let binding = json!({"metadata": {"name": "no"}, "spec": {"policyName": "no", "validationActions": ["Deny"]}});
    created(&admin.json("POST", &policies.replace("policies", "policybindings"), &binding));
    let target = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let scale = json!({"spec": {"replicas": 3}});
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "x", "image": "i"}]}});
    let pod = format!("{PODS}/p");
    for (answer, seen) in [
        (admin.json("POST", &format!("{N}/serviceaccounts/robot/token"), &json!({})), "CREATE of TokenRequest"),
        (admin.json("POST", &format!("{pod}/eviction"), &eviction), "CREATE of Eviction"),
        (admin.json("POST", &format!("{pod}/binding"), &target), "CREATE of Binding"),
        (admin.json("POST", &format!("{N}/bindings"), &target), "CREATE of Binding"),
        (patch(&admin, &format!("{deployments}/d/scale"), MERGE, &scale), "UPDATE of Scale 1 to 3"),
        (patch(&admin, &format!("{pod}/ephemeralcontainers"), STRATEGIC, &debug), "UPDATE of Pod"),
        (admin.send("POST", &format!("{pod}/exec?command=ls&stdout=true"), &[], b""), "CONNECT of PodExecOptions"),
        (admin.get(&format!("{pod}/proxy/")), "CONNECT of PodProxyOptions"),
    ] {
        refused(&answer, 422, "Invalid", &format!("denied request: seen {seen}"));
    }
    let review = admin.json("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}));
    assert_eq!(review.code, 201, "no policy judges reviews: {review}");
    assert_eq!(admin.get(&pod).json()["spec"]["nodeName"], Value::Null);
    healthy(&admin);
}

#[test]
fn ephemeral_containers_come_through_their_own_endpoint_and_stay() {
    let cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"]);
    let admin = cluster.http(Who::Admin);
    created(&admin.json("POST", &format!("{N}/serviceaccounts"), &json!({"metadata": {"name": "default"}})));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    created(&admin.json("POST", PODS, &pod));
    let (own, debug) = (format!("{PODS}/p"), format!("{PODS}/p/ephemeralcontainers"));
    let with = |container: Value| json!({"spec": {"ephemeralContainers": [container]}});
    let privileged = with(json!({"name": "d", "image": "x", "securityContext": {"privileged": true}}));
    let fixed = "pod updates may not change fields other than";
    refused(&patch(&admin, &own, STRATEGIC, &privileged), 422, "Invalid", fixed);
    let mut whole = admin.get(&own).json();
    whole["spec"]["ephemeralContainers"] = json!([{"name": "d", "image": "x"}]);
    refused(&admin.json("PUT", &own, &whole), 422, "Invalid", fixed);
    let nobody = with(json!({"name": "d", "image": "x", "targetContainerName": "nope"}));
    refused(&patch(&admin, &debug, STRATEGIC, &nobody), 422, "Invalid", "targetContainerName: Not found: \"nope\"");
    let mut good = with(json!({"name": "d", "image": "x", "targetContainerName": "c"}));
    good["metadata"] = json!({"labels": {"a": "b"}, "finalizers": ["a.b/c"]});
    assert_eq!(patch(&admin, &debug, STRATEGIC, &good).code, 200);
    let stored = admin.get(&own).json();
    assert_eq!(stored["spec"]["ephemeralContainers"][0]["name"], "d");
    assert_eq!((&stored["metadata"]["labels"], &stored["metadata"]["finalizers"]), (&Value::Null, &Value::Null));
    for (body, text) in [
        (with(json!({"name": "d", "image": "y"})), "may not be changed"),
        (with(json!({"name": "d", "$patch": "delete"})), "may not be removed"),
        (json!({"spec": {"ephemeralContainers": null}}), "may not be removed"),
    ] {
        refused(&patch(&admin, &debug, STRATEGIC, &body), 422, "Invalid", text);
    }
    refused(&patch(&admin, &own, STRATEGIC, &json!({"spec": {"ephemeralContainers": null}})), 422, "Invalid", fixed);
    healthy(&admin);
}

#[test]
fn rights_on_signing_requests_are_rights_for_signers() {
    let cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"]);
    let admin = cluster.http(Who::Admin);
    let request = |name: &str, signer: &str, pem: &str| {
        let request = base64::engine::general_purpose::STANDARD.encode(pem);
        let spec = json!({"signerName": signer, "request": request, "usages": ["client auth"]});
        admin.json("POST", CSRS, &json!({"metadata": {"name": name}, "spec": spec}))
    };
    let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    refused(&request("m", "kubernetes.io/kube-apiserver-client", MASTER), 403, "Forbidden", why);
    created(&request("a", "example.com/foo", PLAIN));
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{
        "apiGroups": ["certificates.k8s.io"], "verbs": ["update", "patch"],
        "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
    }]);
    created(&admin.json("POST", &format!("{rbac}/clusterroles"), &json!({"metadata": {"name": "x"}, "rules": rules})));
    let signs = json!([{
        "apiGroups": ["certificates.k8s.io"], "verbs": ["approve", "sign"],
        "resources": ["signers"], "resourceNames": ["example.com/*"],
    }]);
    created(&admin.json("POST", &format!("{rbac}/clusterroles"), &json!({"metadata": {"name": "y"}, "rules": signs})));
    let bind = |role: &str, users: &[&str]| {
        let subjects: Value = users.iter().map(|name| json!({"kind": "User", "name": name})).collect();
        let role_ref = json!({"kind": "ClusterRole", "name": role});
        let binding = json!({"metadata": {"name": role}, "roleRef": role_ref, "subjects": subjects});
        created(&admin.json("POST", &format!("{rbac}/clusterrolebindings"), &binding));
    };
    bind("x", &["eve", "signer"]);
    bind("y", &["signer"]);
    let ask = |user: &str, endpoint: &str, status: Value| {
        let headers = [MERGE, ("Impersonate-User", user)];
        let body = json!({"status": status}).to_string();
        admin.send("PATCH", &format!("{CSRS}/a/{endpoint}"), &headers, body.as_bytes())
    };
    let approved = || json!({"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]});
    oarlock_testkit::wait::eventually("both users may write", || {
        let eve = ask("eve", "approval", approved());
        let text = "user not permitted to approve requests with signerName \"example.com/foo\"";
        if eve.code == 403 && eve.text().contains("user not permitted") {
            refused(&eve, 403, "Forbidden", text);
            return Ok(());
        }
        Err(eve)
    });
    oarlock_testkit::wait::eventually("the signer may approve", || {
        let answer = ask("signer", "approval", approved());
        if answer.code == 200 { Ok(()) } else { Err(answer) }
    });
    let certificate = |text: &str| json!({"certificate": base64::engine::general_purpose::STANDARD.encode(text)});
    let pem = "must contain at least one CERTIFICATE PEM block";
    refused(&ask("signer", "status", certificate("nonsense")), 422, "Invalid", pem);
    let good = read(&cluster.data_dir().pki().join("ca.crt"));
    refused(&ask("eve", "status", certificate(&good)), 403, "Forbidden", "user not permitted to sign requests");
    assert_eq!(ask("signer", "status", certificate(&good)).code, 200);
    healthy(&admin);
}

#[test]
fn what_has_no_effect_is_answered_with_a_warning() {
    let cluster = Cluster::api_only();
    let admin = cluster.http(Who::Admin);
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let webhook = json!({
        "name": "a.b.c", "clientConfig": {"url": "https://example.com/"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"metadata": {"name": "things.a.b"}, "spec": {
        "group": "a.b", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    for (path, body, about) in [
        ("/api/v1/namespaces", json!({"metadata": {"name": "w", "labels": labels}}), "PodSecurity"),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"metadata": {"name": "w"}, "webhooks": [webhook]}),
            "webhooks are not called",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            json!({"metadata": {"name": "w"}, "webhooks": [webhook]}),
            "webhooks are not called",
        ),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, "custom resources are not served"),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            json!({"metadata": {"name": "v1.a.b"}, "spec": {"group": "a.b", "version": "v1", "groupPriorityMinimum": 1,
                "versionPriority": 1, "insecureSkipTLSVerify": true, "service": {"name": "s", "namespace": "default"}}}),
            "not passed on to Services",
        ),
    ] {
        let answer = admin.json("POST", path, &body);
        created(&answer);
        let warning = answer.header("warning").unwrap_or_default();
        assert!(warning.starts_with("299 - \"oarlock: ") && warning.contains(about), "{warning:?} on {path}");
    }
    let plain = admin.json("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "plain"}}));
    assert_eq!((plain.code, plain.header("warning")), (201, None));
}
