//! Requests of the size limit for lists, maps, texts and numbers of every kind of object, in every encoding and patch type, sixteen at a time: each gets its
//! answer, and the server answers others meanwhile.
//!
//! What one such request may cost is judged without a server, by the growth of its work (`work.rs` of `oarlock-apis`, `oarlock-patch` and `oarlock-meta`, and
//! the counted steps of RBAC's escalation check in `oarlock-auth`). Here the path through the whole server counts: reading, admission with a policy, answers, lanes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use oarlock_codec::{Mode, json, protobuf, yaml};
use oarlock_schema::{Obj, Resource};
use oarlock_testkit::Cluster;
use oarlock_testkit::bodies::{Place, places};
use oarlock_testkit::http::{Answer, Http, Who};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{MAPS, somebody};
use crate::samples;

/// The limit of a server: 3 MiB.
const LIMIT: usize = 3 << 20;
/// Just below the limit.
const BODY_BYTES: usize = 2_900_000;
/// Hostile requests at a time.
const CLIENTS: usize = 16;
/// Generated cases of one run: `$OARLOCK_WORK_CASES`, where `all` is one for each place, or this many. `cargo xtask nightly` runs all; the work tests of the
/// libraries run all places each time.
const CASES: usize = 24;
const VARIABLE: &str = "OARLOCK_WORK_CASES";
/// A prime stride, so that the cases of a run spread over kinds, shapes and transports.
const STRIDE: usize = 389;

const JSON: &str = "application/json";

/// One hostile request.
struct Case {
    name: String,
    method: &'static str,
    path: String,
    media: &'static str,
    body: Vec<u8>,
}

impl Case {
    fn send(&self, http: &Http) -> Answer {
        http.try_send(self.method, &self.path, &[("Content-Type", self.media)], &self.body)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// Ways in which a body reaches the server.
#[derive(Clone, Copy, Debug)]
enum Way {
    Json,
    Yaml,
    Protobuf,
    Merge,
    Strategic,
    JsonPatch,
    Apply,
    Replace,
}

const WAYS: [Way; 8] =
    [Way::Json, Way::Yaml, Way::Protobuf, Way::Merge, Way::Strategic, Way::JsonPatch, Way::Apply, Way::Replace];

fn collection(row: &Resource) -> String {
    let root = if row.group.is_empty() { "/api" } else { "/apis" };
    let namespace = if row.namespaced { "/namespaces/default" } else { "" };
    format!("{root}/{}{namespace}/{}", row.group_version(), row.plural)
}

/// The body of a place that comes close to the limit, in the encoding of its transport, which may be longer than JSON.
fn body<B: AsRef<[u8]>>(place: &Place, encode: impl Fn(String) -> B) -> B {
    let (short, long) = (place.body(1_000).len(), place.body(2_000).len());
    let each = (long - short).max(1).div_ceil(1_000);
    let mut count = BODY_BYTES / each.max(1);
    loop {
        let body = encode(place.body(count).replacen("\"namespace\":\"d\"", "\"namespace\":\"default\"", 1));
        let length = body.as_ref().len();
        if length <= LIMIT {
            return body;
        }
        count = count * BODY_BYTES / length;
    }
}

/// The request that brings a place's body to the server in one way; `kept` are the paths of objects that can be changed.
fn case(place: &Place, way: Way, kept: &[String]) -> Case {
    let row = place.resource;
    let list = collection(row);
    let own = kept.iter().find(|path| path.split('/').rev().nth(1) == Some(row.plural) && path.contains(row.group));
    let name = format!("{way:?} {}", place.name());
    let options = "dryRun=All&fieldManager=work";
    let create =
        |media, body| Case { name: name.clone(), method: "POST", path: format!("{list}?{options}"), media, body };
    let obj = |body: String| {
        json::decode(body.as_bytes(), row.ty, Mode::Lenient).map_or_else(|_| Obj::new(row.ty), |read| read.value)
    };
    let plain = || body(place, |body| body);
    let patch = match (way, own) {
        (Way::Yaml, _) => return create("application/yaml", body(place, |body| yaml::encode(&obj(body)))),
        (Way::Protobuf, _) => {
            let bytes = body(place, |body| protobuf::encode(&obj(body)));
            return create("application/vnd.kubernetes.protobuf", bytes);
        }
        (Way::Json, _) | (_, None) => return create(JSON, plain().into_bytes()),
        (Way::Merge, Some(own)) => ("PATCH", own, "application/merge-patch+json"),
        (Way::Strategic, Some(own)) => ("PATCH", own, "application/strategic-merge-patch+json"),
        (Way::JsonPatch, Some(own)) => ("PATCH", own, "application/json-patch+json"),
        (Way::Apply, Some(own)) => ("PATCH", own, "application/apply-patch+yaml"),
        (Way::Replace, Some(own)) => ("PUT", own, JSON),
    };
    let (method, own, media) = patch;
    let mut body = plain();
    let called = own.rsplit('/').next().unwrap_or_default();
    let segments: Vec<&str> = own.split('/').collect();
    let namespace = segments.iter().position(|part| *part == "namespaces").and_then(|at| segments.get(at + 1));
    body = body.replacen("\"name\":\"a\"", &format!("\"name\":\"{called}\""), 1);
    if let Some(namespace) = namespace.filter(|_| row.namespaced) {
        body = body.replacen("\"namespace\":\"default\"", &format!("\"namespace\":\"{namespace}\""), 1);
    }
    if let Way::JsonPatch = way {
        let value = serde_json::from_str::<Value>(&body).map_or(Value::Null, |body| {
            body.get(place.path.first().map_or("", |def| def.name)).cloned().unwrap_or_default()
        });
        let at = format!("/{}", place.path.first().map_or("", |def| def.name));
        body = json!([{"op": "add", "path": at, "value": value}]).to_string();
    }
    let force = if let Way::Apply = way { "&force=true" } else { "" };
    Case { name, method, path: format!("{own}?{options}{force}"), media, body: body.into_bytes() }
}

/// Requests whose cost is not that of one list, map, text or number.
fn others() -> Vec<Case> {
    let case = |name: &str, method, path: String, media, body: String| Case {
        name: name.to_owned(),
        method,
        path,
        media,
        body: body.into_bytes(),
    };
    let policy = |text: String| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "long"},
            "spec": {"matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
            }]}, "validations": [{"expression": text}]},
        })
        .to_string()
    };
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?dryRun=All".to_owned();
    let review = |selector: Value| {
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"resource": "pods", "verb": "list", "labelSelector": selector}},
        })
        .to_string()
    };
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned();
    let many = |n: usize| (0..n).map(|i| (format!("k{i}"), json!("v"))).collect::<Value>();
    let operations: Vec<Value> = (0..10_000)
        .map(|i| match i % 3 {
            0 => json!({"op": "add", "path": format!("/data/k{i}"), "value": "x"}),
            1 => json!({"op": "copy", "from": format!("/data/k{}", i - 1), "path": format!("/data/c{i}")}),
            _ => json!({"op": "move", "from": format!("/data/c{}", i - 1), "path": format!("/data/m{i}")}),
        })
        .collect();
    vec![
        case("a long sum", "POST", policies.clone(), JSON, policy(format!("0{} == 1", "+1".repeat(45_000)))),
        case(
            "deep brackets",
            "POST",
            policies.clone(),
            JSON,
            policy(format!("{}true{}", "(".repeat(45_000), ")".repeat(45_000))),
        ),
        case("a large expression", "POST", policies, JSON, policy("x".repeat(BODY_BYTES))),
        case(
            "a raw selector",
            "POST",
            reviews.clone(),
            JSON,
            review(json!({"rawSelector": "!a,".repeat(BODY_BYTES / 3)})),
        ),
        case(
            "requirements",
            "POST",
            reviews,
            JSON,
            review(
                json!({"requirements": (0..40_000).map(|i| json!({"key": format!("k{i}"), "operator": "In", "values": ["v"]})).collect::<Vec<_>>()}),
            ),
        ),
        case("label selector", "GET", format!("{MAPS}?labelSelector={}a", "!a,".repeat(60_000)), JSON, String::new()),
        case(
            "field selector",
            "GET",
            format!("{MAPS}?fieldSelector={}metadata.name!=x", "metadata.name!=y,".repeat(12_000)),
            JSON,
            String::new(),
        ),
        case(
            "a watch with a label selector",
            "GET",
            format!("{MAPS}?watch=1&timeoutSeconds=1&labelSelector={}a", "!a,".repeat(60_000)),
            JSON,
            String::new(),
        ),
        case(
            "many entries before a policy",
            "POST",
            format!("{MAPS}?dryRun=All"),
            JSON,
            json!({"metadata": {"name": "many"}, "data": many(120_000)}).to_string(),
        ),
        case(
            "ten thousand operations",
            "PATCH",
            format!("{MAPS}/map-0?dryRun=All"),
            "application/json-patch+json",
            json!(operations).to_string(),
        ),
    ]
}

/// A policy that looks at each entry of each ConfigMap.
fn judge(http: &Http) {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "metadata": {"name": "entries"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
            }]},
            "validations": [{"expression": "!has(object.data) || object.data.all(k, object.data[k].matches('^[a-z]*$') || true)"}],
        },
    });
    let made = http.json("POST", &format!("{group}/validatingadmissionpolicies"), &policy);
    assert_eq!(made.code, 201, "{made}");
    let binding =
        json!({"metadata": {"name": "entries"}, "spec": {"policyName": "entries", "validationActions": ["Deny"]}});
    let made = http.json("POST", &format!("{group}/validatingadmissionpolicybindings"), &binding);
    assert_eq!(made.code, 201, "{made}");
}

#[test]
fn requests_of_the_size_limit_of_every_kind_end_and_stall_nothing() {
    let flags = ["--ephemeral", "--request-timeout", "20m", "--disable", "scheduler,controller-manager,kubelet"];
    let mut cluster = Cluster::up(&flags);
    let (admin, somebody) = (cluster.http(Who::Admin), somebody(&cluster));
    samples::room(&admin);
    let kept = samples::make(&admin, &samples::all(&admin), "w");
    for n in 0..200 {
        let map = json!({"metadata": {"name": format!("map-{n}")}, "data": {"a": "b"}});
        assert_eq!(admin.json("POST", MAPS, &map).code, 201);
    }
    judge(&admin);
    let places: Vec<Place> = places().into_iter().filter(|place| place.resource.has_verb("create")).collect();
    assert!(places.len() > 1_000 && !places.len().is_multiple_of(STRIDE), "{} places", places.len());
    let count = std::env::var(VARIABLE).map_or(CASES, |count| match count.as_str() {
        "all" => places.len(),
        count => count.parse().unwrap(),
    });
    let generated = (0..count).map(|i| (&places[i * STRIDE % places.len()], WAYS[i % WAYS.len()]));
    let generated: Vec<(&Place, Way)> = generated.collect();
    let (others, next, done) = (others(), AtomicUsize::new(0), AtomicBool::new(false));
    let codes: Mutex<BTreeMap<u16, Vec<String>>> = Mutex::default();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let client = || loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let made;
                    let case = match (others.get(at), generated.get(at.wrapping_sub(others.len()))) {
                        (Some(case), _) => case,
                        (None, Some((place, way))) => {
                            made = case(place, *way, &kept);
                            &made
                        }
                        (None, None) => return,
                    };
                    let answer = case.send(&somebody);
                    let text = answer.text();
                    let said = format!("{}: {}", case.name, text.get(..200).unwrap_or(&text));
                    codes.lock().entry(answer.code).or_default().push(said);
                };
                scope.spawn(client)
            })
            .collect();
        let others = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(admin.get("/readyz").text(), "ok");
                assert_eq!(admin.get("/api/v1/namespaces/default").code, 200);
            }
        });
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Relaxed);
        others.join().unwrap();
        ended.into_iter().for_each(|client| client.unwrap());
    });
    let codes = codes.into_inner();
    let all: usize = codes.values().map(Vec::len).sum();
    assert_eq!(all, others_and(count), "{:?}", codes.keys());
    for (code, answers) in &codes {
        // Refusals and successes; no answer that the server itself takes for a fault of its own, and none that was not worked on. A live v1.35.0 server
        // answers four faults of the client with 500, too: an applied object whose types are wrong, or whose text its type cannot parse, an item of a strategic
        // patch without its merge key, and a Binding without a target.
        const UPSTREAMS: [&str; 4] = [
            "failed to create typed patch object",
            "failed to convert new object",
            "\"message\":\"map: map[",
            "\"message\":\"target.name: Required value\"",
        ];
        let as_upstream = |answer: &String| UPSTREAMS.iter().any(|fault| answer.contains(fault));
        let accepted = (200..500).contains(code) && *code != 429 || answers.iter().all(as_upstream);
        assert!(accepted, "{code}: {}", answers.join("\n"));
    }
    assert!(cluster.runs(), "{}", cluster.log_tail());
    let log = cluster.said_in_log();
    assert!(!log.contains("panicked") && !log.contains("aborting"), "{}", cluster.log_tail());
}

/// The number of requests of a run with this many generated cases.
fn others_and(count: usize) -> usize {
    others().len() + count
}
