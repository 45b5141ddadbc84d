//! Impersonation headers and the resulting checks and user. Texts are those of kube-apiserver 1.35.

use http::{HeaderName, HeaderValue};

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn acting_as(pairs: &[(&str, &str)]) -> Impersonation {
    requested(&headers(pairs)).unwrap().unwrap()
}

#[test]
fn no_header_is_no_impersonation() {
    assert_eq!(requested(&headers(&[("accept", "x"), ("impersonate-user", "")])).unwrap(), None);
}

#[test]
fn everything_asked_for_is_checked() {
    let asked = acting_as(&[
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Extra-Foo%2fX", "a"),
        ("Impersonate-Extra-Foo%2fX", "b"),
        ("Impersonate-Uid", "1"),
    ]);
    let shown: Vec<String> =
        asked.checks.iter().map(|c| format!("{}/{} {} {}", c.group, c.resource, c.subresource, c.name)).collect();
    assert_eq!(
        shown,
        [
            "/users  bob",
            "/groups  g",
            "authentication.k8s.io/userextras foo/x a",
            "authentication.k8s.io/userextras foo/x b",
            "authentication.k8s.io/uids  1"
        ]
    );
    assert_eq!(asked.user.groups, ["g", AUTHENTICATED]);
    assert_eq!(asked.user.extra["foo/x"], ["a", "b"]);
    assert_eq!(asked.user.uid, "1");
    let requester = UserInfo::new("admin", [""; 0]);
    let check = asked.checks[2].attributes(&requester);
    assert_eq!((check.verb, check.version, check.user.name.as_str()), ("impersonate", "v1", "admin"));
}

#[test]
fn an_account_is_checked_in_its_namespace_and_gets_its_groups() {
    let asked = acting_as(&[("impersonate-user", "system:serviceaccount:ns:x")]);
    assert_eq!(
        asked.checks[0],
        Check { resource: "serviceaccounts", namespace: "ns".into(), name: "x".into(), ..Check::default() }
    );
    assert_eq!(asked.user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]);
    let asked = acting_as(&[("impersonate-user", "system:serviceaccount:ns:x"), ("impersonate-group", "g")]);
    assert_eq!(asked.user.groups, ["g", AUTHENTICATED]);
}

#[test]
fn the_anonymous_stays_unauthenticated() {
    assert_eq!(acting_as(&[("impersonate-user", ANONYMOUS)]).user.groups, [UNAUTHENTICATED]);
    let asked = acting_as(&[("impersonate-user", "bob"), ("impersonate-group", UNAUTHENTICATED)]);
    assert_eq!(asked.user.groups, [UNAUTHENTICATED]);
}

#[test]
fn groups_without_a_user_are_a_bad_request_with_upstreams_text() {
    let status = requested(&headers(&[("impersonate-group", "a")])).unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "requested [{Group  a    }] without impersonating a user")
    );
    let status = requested(&headers(&[("impersonate-extra-foo", "a"), ("impersonate-uid", "1")])).unwrap_err();
    assert_eq!(
        status.message,
        "requested [{UserExtra  a  authentication.k8s.io/v1  foo} {UID  1  authentication.k8s.io/v1  }] without impersonating a user"
    );
}

#[test]
fn cleared_headers_are_gone() {
    let mut all =
        headers(&[("impersonate-user", "a"), ("impersonate-extra-x", "b"), ("impersonate-group", "c"), ("host", "h")]);
    clear(&mut all);
    assert_eq!(all.len(), 1);
}

/// The text is that of kube-apiserver 1.35.
#[test]
fn the_first_check_that_fails_is_the_answer() {
    use crate::authorizers::rbac::{Binding, Change, PolicyRule, RoleRef, Subject, SubjectKind};
    let authorizers = Authorizers::new();
    authorizers.rbac().apply([
        Change::Role {
            namespace: "".into(),
            name: "r".into(),
            rules: vec![PolicyRule::resources(&["impersonate"], &[""], &["users"]).named(&["bob"])],
        },
        Change::Binding(Binding {
            namespace: "".into(),
            name: "b".into(),
            role: RoleRef { kind: "ClusterRole".into(), name: "r".into() },
            subjects: vec![Subject { kind: SubjectKind::User, name: "carol".into(), namespace: "".into() }],
        }),
    ]);
    let carol = UserInfo::new("carol", [AUTHENTICATED]);
    let ask = |pairs: &[(&str, &str)]| {
        check(&authorizers, &carol, &acting_as(pairs)).map_err(|status| status.message.clone())
    };
    assert_eq!(ask(&[("impersonate-user", "bob")]), Ok(()));
    assert_eq!(
        ask(&[("impersonate-user", "bob"), ("impersonate-group", "g"), ("impersonate-uid", "1")]).unwrap_err(),
        r#"groups "g" is forbidden: User "carol" cannot impersonate resource "groups" in API group "" at the cluster scope"#
    );
    assert_eq!(
        ask(&[("impersonate-user", "bob"), ("impersonate-extra-foo", "x")]).unwrap_err(),
        r#"userextras.authentication.k8s.io "x" is forbidden: User "carol" cannot impersonate resource "userextras/foo" in API group "authentication.k8s.io" at the cluster scope"#
    );
    assert_eq!(
        ask(&[("impersonate-user", "system:serviceaccount:ns:x")]).unwrap_err(),
        r#"serviceaccounts "x" is forbidden: User "carol" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns""#
    );
}
