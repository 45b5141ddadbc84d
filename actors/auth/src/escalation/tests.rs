//! Which users may grant which permissions. Texts are those of kube-apiserver 1.35.

use super::*;
use crate::authorizers::rbac::{Binding, Change, Subject, SubjectKind};

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> PolicyRule {
    PolicyRule::resources(verbs, groups, resources)
}

/// Carol may write roles and bindings, and get pods and /metrics; one of her bindings refers to a missing role. Erin may escalate and bind.
fn authorizers() -> Authorizers {
    let authorizers = Authorizers::new();
    let write =
        rule(&["create", "update"], &[GROUP], &["roles", "rolebindings", "clusterroles", "clusterrolebindings"]);
    let held = vec![write, rule(&["get"], &[""], &["pods"]), PolicyRule::paths(&["get"], &["/metrics"])];
    let delegate = vec![
        rule(&["escalate"], &[GROUP], &["clusterroles", "roles"]),
        rule(&["bind"], &[GROUP], &["clusterroles"]).named(&["powerful"]),
    ];
    let role = |name: &str, rules| Change::Role { namespace: "".into(), name: name.into(), rules };
    let bind = |name: &str, role: &str, user: &str| {
        Change::Binding(Binding {
            namespace: "".into(),
            name: name.into(),
            role: RoleRef { kind: "ClusterRole".into(), name: role.into() },
            subjects: vec![Subject { kind: SubjectKind::User, name: user.into(), namespace: "".into() }],
        })
    };
    authorizers.rbac().apply([
        role("writer", held),
        role("delegate", delegate),
        role("powerful", vec![rule(&["*"], &["*"], &["*"]), PolicyRule::paths(&["*"], &["*"])]),
        role("small", vec![rule(&["get"], &[""], &["pods"])]),
        bind("w", "writer", "carol"),
        bind("x", "gone", "carol"),
        bind("d", "delegate", "erin"),
        bind("p", "powerful", "root"),
    ]);
    authorizers
}

fn carol() -> UserInfo {
    UserInfo::new("carol", ["g1", "g2", "system:authenticated"])
}

fn write_role(user: &UserInfo, rules: &[PolicyRule], aggregated: bool) -> Result<(), String> {
    let write = RoleWrite { namespace: "", request_name: "", name: "e", rules, aggregated };
    check_role(&authorizers(), user, &write).map_err(|status| status.message.clone())
}

fn write_binding(user: &UserInfo, namespace: &str, kind: &str, role: &str) -> Result<(), (u16, String)> {
    let role = RoleRef { kind: kind.into(), name: role.into() };
    let write = BindingWrite { namespace, name: "b", role: &role };
    check_binding(&authorizers(), user, &write).map_err(|status| (status.code, status.message.clone()))
}

#[test]
fn what_is_held_may_be_granted_and_what_is_not_is_listed() {
    assert_eq!(write_role(&carol(), &[rule(&["get"], &[""], &["pods"]).named(&["a"])], false), Ok(()));
    let asked = [
        rule(&["get", "list", "watch"], &[""], &["pods", "secrets"]),
        rule(&["get", "list", "watch"], &["apps"], &["deployments"]),
    ];
    assert_eq!(
        write_role(&carol(), &asked, false).unwrap_err(),
        concat!(
            r#"clusterroles.rbac.authorization.k8s.io "e" is forbidden: user "carol" (groups=["g1" "g2" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#,
            "\n",
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            "\n",
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
            "\n",
            r#"{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list" "watch"]}; resolution errors: [clusterroles.rbac.authorization.k8s.io "gone" not found]"#
        )
    );
}

#[test]
fn names_and_paths_are_listed_one_by_one() {
    let text = write_role(&carol(), &[rule(&["get"], &[""], &["secrets"]).named(&["a", "b"])], false).unwrap_err();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines[0], r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}"#);
    assert!(lines[1].starts_with(r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#));
    let text = write_role(&carol(), &[PolicyRule::paths(&["get", "post"], &["/metrics", "/logs"])], false).unwrap_err();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines[..2],
        [r#"{NonResourceURLs:["/logs"], Verbs:["get"]}"#, r#"{NonResourceURLs:["/logs"], Verbs:["post"]}"#]
    );
    assert!(lines[2].starts_with(r#"{NonResourceURLs:["/metrics"], Verbs:["post"]}"#));
}

#[test]
fn an_aggregation_rule_needs_everything() {
    assert_eq!(
        write_role(&carol(), &[], true).unwrap_err(),
        r#"clusterroles.rbac.authorization.k8s.io "e" is forbidden: must have cluster-admin privileges to use the aggregationRule"#
    );
    assert_eq!(write_role(&UserInfo::new("root", [""; 0]), &[], true), Ok(()));
}

#[test]
fn escalate_bind_and_masters_pass() {
    let everything = [rule(&["*"], &["*"], &["*"])];
    assert!(write_role(&carol(), &everything, false).is_err());
    let erin = UserInfo::new("erin", [""; 0]);
    assert_eq!(write_role(&erin, &everything, true), Ok(()));
    assert_eq!(write_role(&UserInfo::new("x", [crate::user::MASTERS]), &everything, true), Ok(()));
    assert_eq!(write_binding(&erin, "", "ClusterRole", "powerful"), Ok(()));
    assert_eq!(write_binding(&erin, "team", "ClusterRole", "powerful"), Ok(()));
    assert_eq!(write_binding(&erin, "", "ClusterRole", "small").unwrap_err().0, 403);
}

#[test]
fn a_binding_hands_out_no_more_than_its_writer_holds() {
    assert_eq!(write_binding(&carol(), "", "ClusterRole", "small"), Ok(()));
    assert_eq!(write_binding(&carol(), "team", "ClusterRole", "small"), Ok(()));
    let (code, text) = write_binding(&carol(), "team", "ClusterRole", "powerful").unwrap_err();
    assert_eq!(code, 403);
    assert!(text.starts_with(r#"rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "carol""#), "{text}");
    assert!(text.contains("\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n"), "{text}");
}

#[test]
fn a_missing_role_is_404_in_the_words_of_the_request() {
    let missing = |namespace, kind| write_binding(&carol(), namespace, kind, "nope").unwrap_err();
    assert_eq!(
        missing("", "ClusterRole"),
        (404, r#"clusterrolebindings.rbac.authorization.k8s.io "nope" not found"#.to_owned())
    );
    assert_eq!(missing("team", "Role"), (404, r#"rolebindings.rbac.authorization.k8s.io "nope" not found"#.to_owned()));
}
