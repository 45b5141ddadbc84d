//! Policies evaluated in other processes, over an in-memory bus and in virtual time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oarlock_admission::policy::{
    Action, Answer, BoundPolicy, Input, Policy, PolicyId, Question, RemoteEvaluator, Request, judge, serve,
};
use oarlock_bus::proto::admission::v1::policy_answer::Said;
use oarlock_bus::proto::admission::v1::{PolicyAnswer, PolicyQuestion};
use oarlock_bus::subjects::Kind;
use oarlock_bus::{Bus, Exchange, Identity, Role, Subject};
use oarlock_codec::Mode;
use oarlock_runtime::{Options, System, clock};
use oarlock_schema::{Obj, resource};
use serde_json::{Value, json};

type Policies = HashMap<PolicyId, Arc<Policy>>;

struct World {
    system: System,
    exchange: Exchange,
    asker: Bus,
}

impl World {
    async fn new() -> Self {
        let (system, exchange) = (System::start(Options::default()).await.unwrap(), Exchange::new());
        let asker = Bus::memory(&exchange, Identity::new(Role::ApiServer, "a").unwrap());
        Self { system, exchange, asker }
    }

    /// Starts another process that evaluates policies.
    async fn judge(&self, name: &str) -> Bus {
        let bus = Bus::memory(&self.exchange, Identity::new(Role::Admission, name).unwrap());
        serve(&self.system, bus.clone(), 4).await.unwrap();
        clock::sleep(Duration::from_millis(1)).await;
        bus
    }

    /// Returns the number of questions that the API server has sent.
    fn asked(&self) -> u64 {
        self.asker
            .stats()
            .iter()
            .filter(|kind| kind.kind == Kind::Service.row().name)
            .map(|kind| kind.sent_messages)
            .sum()
    }
}

fn obj(group: &str, plural: &str, object: &Value) -> Obj {
    let ty = resource(group, "v1", plural).unwrap().ty;
    oarlock_codec::json::decode(object.to_string().as_bytes(), ty, Mode::Strict).unwrap().value
}

/// A policy with one validation for every object.
fn policy(name: &str, expression: &str) -> Policies {
    let spec = json!({"validations": [{"expression": expression, "message": "no"}]});
    let object = json!({"metadata": {"name": name, "uid": "u", "generation": 1}, "spec": spec});
    let policy = Policy::compile(obj("admissionregistration.k8s.io", "validatingadmissionpolicies", &object));
    [(policy.id.clone(), Arc::new(policy))].into()
}

fn question(policies: &Policies, name: &str) -> Question {
    let object = Some(obj("", "configmaps", &json!({"metadata": {"name": name}})));
    let input = Input { request: Request::default(), object, old: None, namespace: None };
    let asked = |id: &PolicyId| BoundPolicy {
        policy: id.clone(),
        binding: "b".to_owned(),
        actions: vec![Action::Deny],
        params: vec![None],
    };
    Question { input, asked: policies.keys().map(asked).collect() }
}

fn refused(answer: &Answer) -> Vec<&str> {
    answer.denials.iter().map(|denial| denial.message.as_str()).collect()
}

const GOOD: &str = "object.metadata.name != 'bad'";

#[tokio::test(start_paused = true)]
async fn others_judge_as_one_would_oneself_and_learn_a_policy_once() {
    let world = World::new().await;
    world.judge("j").await;
    let (elsewhere, policies) = (RemoteEvaluator::default(), policy("p", GOOD));
    for (name, messages) in [("bad", &["no"][..]), ("good", &[]), ("bad", &["no"])] {
        let question = question(&policies, name);
        let answer = elsewhere.judge(&world.asker, &question, &policies).await.unwrap();
        assert_eq!(answer, judge(&question, &policies, None));
        assert_eq!(refused(&answer), messages, "{name}");
    }
    assert_eq!(world.asked(), 4, "once more for the policy");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_answers_one_judges_oneself_and_does_not_ask_for_a_while() {
    let world = World::new().await;
    let (elsewhere, policies) = (RemoteEvaluator::default(), policy("p", GOOD));
    let question = question(&policies, "bad");
    for _ in 0..3 {
        assert_eq!(elsewhere.judge(&world.asker, &question, &policies).await, None);
    }
    assert_eq!(world.asked(), 1);
    let judge = world.judge("j").await;
    clock::sleep(Duration::from_secs(1)).await;
    assert!(elsewhere.judge(&world.asker, &question, &policies).await.is_some(), "somebody has come");
    world.exchange.cut(judge.identity());
    let began = clock::now();
    assert_eq!(elsewhere.judge(&world.asker, &question, &policies).await, None, "and is gone");
    assert!(began.elapsed() <= Duration::from_millis(500), "{:?}", began.elapsed());
    world.exchange.stop();
    clock::sleep(Duration::from_secs(1)).await;
    assert_eq!(elsewhere.judge(&world.asker, &question, &policies).await, None, "without a bus");
}

#[tokio::test(start_paused = true)]
async fn who_may_do_what_is_asked_of_nobody_else() {
    let world = World::new().await;
    world.judge("j").await;
    let asks = "authorizer.group('').resource('configmaps').check('get').allowed()";
    let (elsewhere, policies) = (RemoteEvaluator::default(), policy("p", asks));
    for _ in 0..3 {
        assert_eq!(elsewhere.judge(&world.asker, &question(&policies, "x"), &policies).await, None);
    }
    assert_eq!(world.asked(), 2, "with the policy once, and then never again");
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_known_by_what_it_says_and_not_by_its_name() {
    let world = World::new().await;
    world.judge("j").await;
    // A client with permission to ask makes the evaluator cache another policy of the same name, uid and generation.
    let (real, forged) = (policy("p", GOOD), policy("p", "true"));
    let liar = Bus::memory(&world.exchange, Identity::new(Role::Controllers, "liar").unwrap());
    let elsewhere = RemoteEvaluator::default();
    let answer = elsewhere.judge(&liar, &question(&forged, "bad"), &forged).await.unwrap();
    assert!(refused(&answer).is_empty());
    let answer = elsewhere.judge(&world.asker, &question(&real, "bad"), &real).await.unwrap();
    assert_eq!(refused(&answer), ["no"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_declined() {
    let world = World::new().await;
    world.judge("j").await;
    let subject = Subject::service(Role::Admission, "policies").unwrap();
    let ask = |question: PolicyQuestion| {
        let (asker, subject) = (world.asker.clone(), subject.clone());
        async move { asker.ask::<_, PolicyAnswer>(&subject, &question, Duration::from_secs(1)).await }
    };
    for question in [
        PolicyQuestion { review: Bytes::from_static(b"{"), ..PolicyQuestion::default() },
        PolicyQuestion {
            review: Bytes::from_static(b"{}"),
            policies: vec![Bytes::from_static(b"[")],
            ..PolicyQuestion::default()
        },
    ] {
        assert!(ask(question).await.is_err());
    }
    let review = serde_json::to_vec(&question(&policy("p", GOOD), "x")).unwrap();
    let unknown =
        PolicyQuestion { review: review.into(), digests: vec![Bytes::from_static(b"?")], policies: Vec::new() };
    assert!(matches!(ask(unknown).await.unwrap().said, Some(Said::Unknown(_))));
}

#[tokio::test(start_paused = true)]
async fn what_is_secret_does_not_leave_the_process() {
    let world = World::new().await;
    world.judge("j").await;
    let (elsewhere, policies) = (RemoteEvaluator::default(), policy("p", GOOD));
    let secret = || Some(obj("", "secrets", &json!({"metadata": {"name": "bad"}, "data": {"a": "c2VjcmV0"}})));
    let review = json!({"metadata": {"name": "bad"}, "spec": {"token": "t"}});
    let review = || Some(obj("authentication.k8s.io", "tokenreviews", &review));
    let of = |object, old, params: Option<Obj>| {
        let mut question = question(&policies, "bad");
        question.input = Input { object, old, ..question.input };
        question.asked.iter_mut().for_each(|asked| asked.params = vec![None, params.clone()]);
        question
    };
    let plain = || Some(obj("", "configmaps", &json!({"metadata": {"name": "bad"}})));
    let cases = [
        ("made", of(secret(), None, None)),
        ("changed", of(secret(), secret(), None)),
        ("deleted", of(None, secret(), None)),
        ("a parameter", of(plain(), None, secret())),
        ("a token", of(review(), None, None)),
    ];
    for (what, question) in cases {
        assert_eq!(elsewhere.judge(&world.asker, &question, &policies).await, None, "{what}");
    }
    assert_eq!(world.asked(), 0, "nothing was sent");
    let answer = elsewhere.judge(&world.asker, &of(plain(), None, plain()), &policies).await;
    assert_eq!(answer.map(|answer| answer.denials.len()), Some(2), "everything else is asked of others");
}

#[tokio::test(start_paused = true)]
async fn what_no_policy_is_about_is_not_sent() {
    let elsewhere = World::new().await;
    elsewhere.judge("j").await;
    let world =
        crate::common::World { bus: Some(elsewhere.asker.clone()), ..crate::common::World::with_namespace("n") };
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let validations = json!([{"expression": GOOD, "message": "no"}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": validations});
    world.put("validatingadmissionpolicies", &json!({"metadata": {"name": "p", "generation": 1}, "spec": spec}));
    let spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    world.put("validatingadmissionpolicybindings", &json!({"metadata": {"name": "b"}, "spec": spec}));
    let named = |name: &str| json!({"metadata": {"name": name}});
    for plural in ["secrets", "serviceaccounts", "services"] {
        assert!(world.create(plural, "n", &named("bad")).await.is_ok(), "{plural}");
    }
    assert_eq!(elsewhere.asked(), 0);
    assert!(world.create("configmaps", "n", &named("bad")).await.is_err());
    assert_eq!(elsewhere.asked(), 2, "once more for the policy");
}
