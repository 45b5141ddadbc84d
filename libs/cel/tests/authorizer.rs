//! The questions that `authorizer` receives, and the use of its answers.

use crate::common::{Vars, check};
use oarlock_cel::{AccessQuery, Authorizer, Decision, Value};

/// Allows to get pods, paths below `/healthz`, and every request of one account.
struct Rules;

impl Authorizer for Rules {
    fn check(&self, query: &AccessQuery) -> Decision {
        let decide = |allowed| Decision { allowed, reason: "rules".to_owned(), error: None };
        if query.account.as_ref().is_some_and(|(namespace, name)| namespace == "ns" && name == "robot") {
            return decide(true);
        }
        if !query.path.is_empty() {
            return decide(query.path.starts_with("/healthz") && query.verb == "get");
        }
        if query.resource == "broken" {
            return Decision { allowed: false, reason: String::new(), error: Some("no answer".to_owned()) };
        }
        let of_pods = query.group.is_empty() && query.resource == "pods" && query.subresource.is_empty();
        decide(of_pods && query.verb == "get" && query.namespace != "secret" && query.name != "hidden")
    }
}

#[test]
fn asks_what_the_expression_says() {
    let vars = Vars { values: [("authorizer", Value::authorizer())].into(), authorizer: Some(&Rules) };
    check(
        &vars,
        &[
            ("authorizer.group('').resource('pods').check('get').allowed()", "true"),
            ("authorizer.group('').resource('pods').check('delete').allowed()", "false"),
            ("authorizer.group('apps').resource('pods').check('get').allowed()", "false"),
            ("authorizer.group('').resource('pods').namespace('secret').check('get').allowed()", "false"),
            ("authorizer.group('').resource('pods').name('hidden').check('get').allowed()", "false"),
            ("authorizer.group('').resource('pods').subresource('log').check('get').allowed()", "false"),
            ("authorizer.group('').resource('pods').check('get').reason()", "\"rules\""),
            ("authorizer.group('').resource('broken').check('get').errored()", "true"),
            ("authorizer.group('').resource('broken').check('get').error()", "\"no answer\""),
            ("authorizer.path('/healthz').check('get').allowed()", "true"),
            ("authorizer.path('/metrics').check('get').allowed()", "false"),
            ("authorizer.path('').check('get').allowed()", "!path must not be empty"),
            ("authorizer.serviceAccount('ns', 'robot').group('x').resource('y').check('z').allowed()", "true"),
            ("authorizer.serviceAccount('ns', 'other').group('x').resource('y').check('z').allowed()", "false"),
        ],
    );
}

/// Three authorizer calls cost more than one expression may.
#[test]
fn questions_are_expensive() {
    let vars = Vars { values: [("authorizer", Value::authorizer())].into(), authorizer: Some(&Rules) };
    let ask = "authorizer.path('/metrics').check('get').allowed()";
    let two = format!("{ask} || {ask}");
    let three = format!("{two} || {ask}");
    check(&vars, &[(&two, "false"), (&three, "!operation cancelled: actual cost limit exceeded")]);
}
