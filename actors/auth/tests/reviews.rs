//! The authorizers answer as a real kube-apiserver 1.35 does. Its whole policy (bootstrap roles and bindings, aggregated roles filled by their
//! controller) and its answers to SubjectAccessReviews are recorded in `data/reviews/recorded.json`.
//!
//! To record again, start upstream's etcd, kube-apiserver and kube-controller-manager and run
//! `UPSTREAM_KUBECONFIG=… cargo test -p oarlock-auth --test all -- --ignored record`.

use std::path::PathBuf;

use oarlock_auth::authorizers::node::PodRefs;
use oarlock_auth::authorizers::rbac::{AggregatedRole, Binding, Change, PolicyRule, RoleRef, Subject, aggregate};
use oarlock_auth::{Attributes, Authorizers, Decision, UserInfo};
use oarlock_meta::{FieldSelector, LabelSelector};
use serde_json::{Value, json};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/reviews").join(name)
}

/// One line of `questions.txt`.
struct Question {
    ambiguous: bool,
    user: UserInfo,
    verb: String,
    target: Target,
}

enum Target {
    Path(String),
    Resource { group: String, resource: String, subresource: String, namespace: String, name: String, fields: String },
}

impl Question {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.trim_start_matches("? ").split(' ').collect();
        let option = |key: &str| words.iter().find_map(|w| w.strip_prefix(key)).unwrap_or("").to_owned();
        let target = if words[3].starts_with('/') {
            Target::Path(words[3].to_owned())
        } else {
            let (group, resource) = words[3].split_once(':').unwrap_or(("", words[3]));
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            Target::Resource {
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                namespace: option("ns="),
                name: option("name="),
                fields: option("fields="),
            }
        };
        Self {
            ambiguous: line.starts_with("? "),
            user: UserInfo::new(words[0], words[1].split(',').filter(|g| *g != "-")),
            verb: words[2].to_owned(),
            target,
        }
    }

    fn review(&self) -> Value {
        let mut spec = json!({"user": self.user.name, "groups": self.user.groups});
        match &self.target {
            Target::Path(path) => spec["nonResourceAttributes"] = json!({"verb": self.verb, "path": path}),
            Target::Resource { group, resource, subresource, namespace, name, fields } => {
                let mut attributes = json!({
                    "verb": self.verb, "group": group, "version": "v1", "resource": resource, "subresource": subresource,
                    "namespace": namespace, "name": name,
                });
                if let Some((key, value)) = fields.split_once('=') {
                    attributes["fieldSelector"] =
                        json!({"requirements": [{"key": key, "operator": "In", "values": [value]}]});
                }
                spec["resourceAttributes"] = attributes;
            }
        }
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    }

    fn ask(&self, authorizers: &Authorizers) -> Decision {
        match &self.target {
            Target::Path(path) => authorizers.authorize(&Attributes::path(&self.user, &self.verb, path)),
            Target::Resource { group, resource, subresource, namespace, name, fields } => {
                let fields = FieldSelector::parse(fields).unwrap();
                authorizers.authorize(&Attributes {
                    version: "v1",
                    subresource,
                    namespace,
                    name,
                    fields: Some(&fields),
                    ..Attributes::resource(&self.user, &self.verb, group, resource)
                })
            }
        }
    }
}

fn questions() -> Vec<String> {
    let text = std::fs::read_to_string(data("questions.txt")).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn recorded() -> Value {
    serde_json::from_str(&std::fs::read_to_string(data("recorded.json")).unwrap()).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn rules(value: &Value) -> Vec<PolicyRule> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Loads the recorded policy into the authorizers.
fn authorizers() -> Authorizers {
    let recorded = recorded();
    let authorizers = Authorizers::new();
    let roles = recorded["roles"].as_array().unwrap().iter().map(|role| Change::Role {
        namespace: text(&role["namespace"]).into(),
        name: text(&role["name"]).into(),
        rules: rules(&role["rules"]),
    });
    let bindings = recorded["bindings"].as_array().unwrap().iter().map(|binding| {
        Change::Binding(Binding {
            namespace: text(&binding["namespace"]).into(),
            name: text(&binding["name"]).into(),
            role: serde_json::from_value::<RoleRef>(binding["roleRef"].clone()).unwrap(),
            subjects: serde_json::from_value::<Vec<Subject>>(binding["subjects"].clone()).unwrap(),
        })
    });
    authorizers.rbac().apply(roles.chain(bindings));
    // The pod and the volume of `objects.yaml`.
    authorizers.node().upsert_pod(PodRefs {
        namespace: "team".into(),
        name: "web".into(),
        node: "n1".into(),
        service_account: "robot".into(),
        secrets: vec!["key".into(), "cert".into()],
        config_maps: vec!["settings".into()],
        claims: vec!["data".into()],
        ..PodRefs::default()
    });
    let claim = Some(("team".to_owned(), "data".to_owned()));
    authorizers.node().upsert_volume("disk", claim, vec![("vault".to_owned(), "mount".to_owned())]);
    authorizers
}

#[test]
fn every_recorded_review_is_answered_alike() {
    let (authorizers, recorded) = (authorizers(), recorded());
    let (questions, answers) = (questions(), recorded["reviews"].as_array().unwrap());
    assert!(questions.len() > 120 && questions.len() == answers.len(), "record again");
    let mut wrong = Vec::new();
    for (line, answer) in questions.iter().zip(answers) {
        assert_eq!(text(&answer["question"]), line, "record again");
        let question = Question::parse(line);
        let ours = question.ask(&authorizers);
        let (allowed, reason) = (answer["allowed"] == true, text(&answer["reason"]));
        let same_reason = ours.reason() == reason || (question.ambiguous && ours.allowed());
        if ours.allowed() != allowed || !same_reason {
            wrong.push(format!("{line}\n  upstream: {allowed} {reason}\n  ours: {} {}", ours.allowed(), ours.reason()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), answers.len(), wrong.join("\n"));
}

/// [`aggregate`] gives what upstream's controller wrote into `admin`, `edit` and `view`.
#[test]
fn aggregated_roles_are_those_of_upstreams_controller() {
    let recorded = recorded();
    let roles = recorded["roles"].as_array().unwrap();
    let labels = |role: &Value| -> Vec<(String, String)> {
        role["labels"].as_object().unwrap().iter().map(|(k, v)| (k.clone(), text(v).to_owned())).collect()
    };
    let (names, sources): (Vec<_>, Vec<_>) = roles
        .iter()
        .filter(|role| role["namespace"] == "")
        .map(|role| (labels(role), (text(&role["name"]), rules(&role["rules"]))))
        .unzip();
    let candidates: Vec<AggregatedRole<'_>> =
        names.iter().zip(&sources).map(|(labels, (name, rules))| AggregatedRole { name, labels, rules }).collect();
    let mut checked = 0;
    for role in roles {
        let Some(selectors) = role["selectors"].as_array() else { continue };
        let selectors: Vec<LabelSelector> = selectors
            .iter()
            .map(|s| {
                LabelSelector::from_labels(
                    s["matchLabels"].as_object().unwrap().iter().map(|(k, v)| (k.as_str(), text(v))),
                )
            })
            .collect();
        assert_eq!(aggregate(text(&role["name"]), &selectors, &candidates), rules(&role["rules"]), "{}", role["name"]);
        checked += 1;
    }
    assert_eq!(checked, 3);
}

/// The users and groups whose rules in namespace `team` are recorded.
const LISTED: [(&str, &[&str]); 6] = [
    ("alice", &["system:authenticated"]),
    ("x", &["devs", "system:authenticated"]),
    ("carol", &["ops", "system:authenticated"]),
    ("dave", &["system:authenticated"]),
    (
        "system:serviceaccount:team:robot",
        &["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"],
    ),
    ("system:node:n1", &["system:nodes", "system:authenticated"]),
];

/// SelfSubjectRulesReview lists the same rules the same number of times; upstream's order is that of a map.
#[test]
fn listed_rules_are_those_upstream_lists() {
    let (authorizers, recorded) = (authorizers(), recorded());
    let sorted = |rules: Vec<PolicyRule>| {
        let mut lines: Vec<String> = rules.iter().map(|rule| serde_json::to_string(rule).unwrap()).collect();
        lines.sort();
        lines
    };
    let answers = recorded["rules"].as_array().unwrap();
    assert_eq!(answers.len(), LISTED.len(), "record again");
    for ((user, groups), answer) in LISTED.iter().zip(answers) {
        let ours = authorizers.rules_for(&UserInfo::new(*user, groups.iter().copied()), "team");
        assert_eq!(sorted(ours.resource), sorted(rules(&answer["resourceRules"])), "{user}");
        assert_eq!(sorted(ours.non_resource), sorted(rules(&answer["nonResourceRules"])), "{user}");
        assert_eq!(ours.incomplete, answer["incomplete"] == true, "{user}");
        assert_eq!(ours.evaluation_error, text(&answer["evaluationError"]), "{user}");
    }
}

/// Upstream's bootstrap policy is part of the recorded policy.
#[test]
fn the_recorded_policy_is_the_whole_bootstrap_set() {
    let recorded = recorded();
    let count = |list: &str, namespaced: bool| {
        let bootstrap = |v: &&Value| {
            v["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults" && (v["namespace"] != "") == namespaced
        };
        recorded[list].as_array().unwrap().iter().filter(bootstrap).count()
    };
    assert_eq!((count("roles", false), count("bindings", false)), (68, 49));
    assert_eq!((count("roles", true), count("bindings", true)), (7, 7));
}

fn kubectl(arguments: &[&str], input: Option<&str>) -> String {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let kubeconfig =
        std::env::var("UPSTREAM_KUBECONFIG").expect("UPSTREAM_KUBECONFIG names a kube-apiserver's kubeconfig");
    let mut child = Command::new("kubectl")
        .args(["--kubeconfig", &kubeconfig])
        .args(arguments)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    if let Some(input) = input {
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "kubectl {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "records answers of a real kube-apiserver"]
fn record() {
    kubectl(&["apply", "-f", data("objects.yaml").to_str().unwrap()], None);
    let items = |kind: &str| -> Vec<Value> {
        let list: Value = serde_json::from_str(&kubectl(&["get", kind, "-A", "-o", "json"], None)).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let common = |item: &Value| {
        let labels = item["metadata"].get("labels").cloned().unwrap_or(json!({}));
        json!({"namespace": text(&item["metadata"]["namespace"]), "name": item["metadata"]["name"], "labels": labels})
    };
    let role = |item: Value| {
        let mut role = common(&item);
        role["rules"] = item.get("rules").filter(|r| !r.is_null()).cloned().unwrap_or(json!([]));
        if let Some(rule) = item.get("aggregationRule") {
            role["selectors"] = rule["clusterRoleSelectors"].clone();
            assert_ne!(role["rules"], json!([]), "the clusterrole-aggregation controller must have run");
        }
        role
    };
    let binding = |item: Value| {
        let mut binding = common(&item);
        binding["roleRef"] = item["roleRef"].clone();
        binding["subjects"] = item.get("subjects").cloned().unwrap_or(json!([]));
        binding
    };
    let roles: Vec<Value> = items("clusterroles").into_iter().chain(items("roles")).map(role).collect();
    let bindings: Vec<Value> =
        items("clusterrolebindings").into_iter().chain(items("rolebindings")).map(binding).collect();

    let lines = questions();
    let reviews: Vec<Value> = lines.iter().map(|line| Question::parse(line).review()).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": reviews}).to_string();
    let answer = kubectl(&["create", "-f", "-", "-o", "json"], Some(&list));
    let answers: Vec<Value> = serde_json::Deserializer::from_str(&answer).into_iter().map(Result::unwrap).collect();
    let reviews: Vec<Value> = lines
        .iter()
        .zip(&answers)
        .map(|(line, review)| {
            let status = &review["status"];
            json!({"question": line, "allowed": status["allowed"], "reason": text(&status["reason"])})
        })
        .collect();
    assert_eq!(reviews.len(), lines.len());
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "team"}});
    let listed = LISTED.iter().map(|(user, groups)| {
        let mut arguments = vec!["create", "-f", "-", "-o", "json", "--validate=false", "--as", user];
        arguments.extend(groups.iter().flat_map(|group| ["--as-group", group]));
        let answer: Value = serde_json::from_str(&kubectl(&arguments, Some(&review.to_string()))).unwrap();
        answer["status"].clone()
    });
    let listed: Vec<Value> = listed.collect();

    // One line per object, so that a diff shows what changed.
    let lines = |list: Vec<Value>| list.iter().map(|v| format!("  {v}")).collect::<Vec<_>>().join(",\n");
    let text = format!(
        "{{\n\"roles\": [\n{}\n],\n\"bindings\": [\n{}\n],\n\"reviews\": [\n{}\n],\n\"rules\": [\n{}\n]\n}}\n",
        lines(roles),
        lines(bindings),
        lines(reviews),
        lines(listed)
    );
    std::fs::write(data("recorded.json"), text).unwrap();
}
