//! The index decides as the plain scan does, after any sequence of changes; texts are upstream's.

use compact_str::CompactString;
use proptest::prelude::*;

use super::*;

fn binding(namespace: &str, name: &str, kind: &str, role: &str, subjects: &[(SubjectKind, &str, &str)]) -> Binding {
    Binding {
        namespace: namespace.into(),
        name: name.into(),
        role: RoleRef { kind: kind.into(), name: role.into() },
        subjects: subjects
            .iter()
            .map(|(kind, name, namespace)| Subject {
                kind: kind.clone(),
                name: (*name).into(),
                namespace: (*namespace).into(),
            })
            .collect(),
    }
}

fn role(namespace: &str, name: &str, rules: Vec<PolicyRule>) -> Change {
    Change::Role { namespace: namespace.into(), name: name.into(), rules }
}

#[test]
fn reasons_name_the_binding_and_the_subject() {
    let rbac = Rbac::new();
    rbac.apply([
        role("", "view", vec![PolicyRule::resources(&["get"], &[""], &["pods"])]),
        Change::Binding(binding(
            "",
            "b",
            "ClusterRole",
            "view",
            &[(SubjectKind::Group, "g", ""), (SubjectKind::User, "alice", "")],
        )),
        Change::Binding(binding("ns", "rb", "ClusterRole", "view", &[(SubjectKind::ServiceAccount, "sa", "")])),
    ]);
    let reason = |user: &UserInfo, namespace| {
        rbac.authorize(&Attributes { namespace, ..Attributes::resource(user, "get", "", "pods") }).reason()
    };
    let alice = UserInfo::new("alice", ["x"]);
    assert_eq!(reason(&alice, ""), r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "view" to User "alice""#);
    let bob = UserInfo::new("bob", ["x", "g"]);
    assert_eq!(reason(&bob, "ns"), r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "view" to Group "g""#);
    let account = UserInfo::service_account("ns", "sa", "");
    assert_eq!(
        reason(&account, "ns"),
        r#"RBAC: allowed by RoleBinding "rb/ns" of ClusterRole "view" to ServiceAccount "sa/ns""#
    );
    assert_eq!(reason(&account, "other"), "");
}

#[test]
fn missing_roles_are_named_once_in_the_refusal() {
    let rbac = Rbac::new();
    let dave = (SubjectKind::User, "dave", "");
    rbac.apply([
        Change::Binding(binding("", "w3", "ClusterRole", "gone", &[dave.clone(), (SubjectKind::Group, "g", "")])),
        Change::Binding(binding("team", "w4", "Role", "gone2", &[dave])),
    ]);
    let user = UserInfo::new("dave", ["g"]);
    let decision = rbac.authorize(&Attributes { namespace: "team", ..Attributes::resource(&user, "list", "", "pods") });
    assert_eq!(
        decision.reason(),
        r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone2" not found]"#
    );
    rbac.apply([role("", "gone", vec![PolicyRule::resources(&["*"], &["*"], &["*"])])]);
    assert!(rbac.authorize(&Attributes::resource(&user, "list", "", "pods")).allowed());
    rbac.apply([Change::RoleGone { namespace: "".into(), name: "gone".into() }]);
    assert!(!rbac.authorize(&Attributes::resource(&user, "list", "", "pods")).allowed());
}

#[test]
fn subresources_names_and_paths_match_as_upstream() {
    let user = UserInfo::new("u", [""; 0]);
    let check = |rule: &PolicyRule, resource: &str, subresource: &str, name: &str| {
        let attributes = Attributes { subresource, name, ..Attributes::resource(&user, "get", "apps", resource) };
        let allowed = rule.allows(&attributes);
        let compiled = compiled::Role::compile(vec![rule.clone()]);
        assert_eq!(compiled.allows(&attributes, compiled::RequestKey::of(&attributes)), allowed);
        allowed
    };
    let rule = |resources: &[&str]| PolicyRule::resources(&["get"], &["apps"], resources);
    assert!(check(&rule(&["deployments"]), "deployments", "", "x"));
    assert!(!check(&rule(&["deployments"]), "deployments", "scale", "x"));
    assert!(check(&rule(&["*/scale"]), "deployments", "scale", "x"));
    assert!(!check(&rule(&["*/scale"]), "deployments", "", "x"));
    assert!(check(&rule(&["*"]), "deployments", "scale", "x"));
    assert!(check(&rule(&["userextras/a/b"]), "userextras", "a/b", ""));
    assert!(check(&rule(&["pods/log"]), "pods/log", "", ""));
    assert!(check(&rule(&["deployments"]).named(&["x"]), "deployments", "", "x"));
    assert!(!check(&rule(&["deployments"]).named(&["x"]), "deployments", "", ""));
    for (rule, path, expected) in [
        ("/healthz", "/healthz", true),
        ("/healthz", "/healthz/etcd", false),
        ("/healthz/*", "/healthz/etcd", true),
        ("/healthz/*", "/healthz", false),
        ("*", "/x", true),
        ("/a**", "/ab", true),
    ] {
        assert_eq!(
            PolicyRule::paths(&["get"], &[rule]).allows(&Attributes::path(&user, "get", path)),
            expected,
            "{rule} {path}"
        );
    }
}

#[test]
fn an_account_without_a_namespace_means_the_bindings_own() {
    let rbac = Rbac::new();
    rbac.apply([
        role("", "all", vec![PolicyRule::resources(&["*"], &["*"], &["*"])]),
        Change::Binding(binding("", "c", "ClusterRole", "all", &[(SubjectKind::ServiceAccount, "sa", "")])),
        Change::Binding(binding("a", "r", "ClusterRole", "all", &[(SubjectKind::ServiceAccount, "sa", "")])),
    ]);
    let ask = |account: &str, namespace| {
        let user = UserInfo::service_account(account, "sa", "");
        rbac.authorize(&Attributes { namespace, ..Attributes::resource(&user, "get", "", "pods") }).allowed()
    };
    assert!(ask("a", "a"));
    assert!(!ask("b", "a") && !ask("a", "b") && !ask("a", "") && !ask("", ""));
}

#[test]
fn a_snapshot_in_use_does_not_change() {
    let rbac = Rbac::new();
    rbac.apply([
        role("", "all", vec![PolicyRule::resources(&["*"], &["*"], &["*"])]),
        Change::Binding(binding("", "b", "ClusterRole", "all", &[(SubjectKind::User, "u", "")])),
    ]);
    let before = rbac.index.load_full();
    rbac.apply([Change::BindingGone { namespace: "".into(), name: "b".into() }]);
    let user = UserInfo::new("u", [""; 0]);
    assert_eq!(before.scopes("").flat_map(|s| s.grants(&user)).count(), 1);
    assert_eq!(rbac.index.load().scopes("").flat_map(|s| s.grants(&user)).count(), 0);
}

#[test]
fn nothing_is_left_of_what_was_deleted() {
    let rbac = Rbac::new();
    rbac.apply([Change::Binding(binding("ns", "b", "Role", "r", &[(SubjectKind::User, "u", "")]))]);
    rbac.apply([Change::BindingGone { namespace: "ns".into(), name: "b".into() }]);
    assert_eq!(rbac.index.load().scopes("ns").count(), 1);
    assert!(rbac.state.lock().is_empty());
}

fn rule() -> impl Strategy<Value = PolicyRule> {
    fn some(words: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
        proptest::collection::vec(proptest::sample::select(words), 0..3)
    }
    (
        some(&["get", "list", "create", "*"]),
        some(&["", "apps", "*"]),
        some(&["pods", "pods/log", "deployments", "*/log", "*/scale", "*"]),
        some(&["a", "b"]),
        some(&["/healthz", "/healthz/*", "*", "/m*"]),
    )
        .prop_map(|(verbs, groups, resources, names, urls)| PolicyRule {
            non_resource_urls: PolicyRule::paths(&[], &urls).non_resource_urls,
            ..PolicyRule::resources(&verbs, &groups, &resources).named(&names)
        })
}

fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
    proptest::collection::vec(rule(), 0..4)
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(words)
}

fn change() -> impl Strategy<Value = Change> {
    let namespace = || word(&["", "n1", "n2"]);
    let name = || word(&["r1", "r2", "r3"]);
    let subject = (
        word(&["User", "Group", "ServiceAccount", "Robot"]),
        word(&["alice", "g1", "sa", "system:serviceaccount:n1:sa"]),
        namespace(),
    )
        .prop_map(|(kind, name, namespace)| Subject {
            kind: match kind {
                "User" => SubjectKind::User,
                "Group" => SubjectKind::Group,
                "ServiceAccount" => SubjectKind::ServiceAccount,
                other => SubjectKind::Other(other.into()),
            },
            name: name.into(),
            namespace: namespace.into(),
        });
    let binding = (
        namespace(),
        name(),
        word(&["Role", "ClusterRole", "Other"]),
        name(),
        proptest::collection::vec(subject, 0..4),
    )
        .prop_map(|(namespace, name, kind, role, subjects)| {
            Change::Binding(Binding {
                namespace: namespace.into(),
                name: name.into(),
                role: RoleRef { kind: kind.into(), name: role.into() },
                subjects,
            })
        });
    prop_oneof![
        3 => (namespace(), name(), rules()).prop_map(|(n, r, rules)| role(n, r, rules)),
        1 => (namespace(), name()).prop_map(|(n, r)| Change::RoleGone { namespace: n.into(), name: r.into() }),
        4 => binding,
        1 => (namespace(), name()).prop_map(|(n, r)| Change::BindingGone { namespace: n.into(), name: r.into() }),
    ]
}

fn follow(policy: &mut Policy, change: &Change) {
    match change {
        Change::Role { namespace, name, rules } => {
            policy.roles.retain(|(ns, n, _)| !(ns == namespace && n == name));
            policy.roles.push((namespace.to_string(), name.to_string(), rules.clone()));
        }
        Change::RoleGone { namespace, name } => policy.roles.retain(|(ns, n, _)| !(ns == namespace && n == name)),
        Change::Binding(new) => {
            policy.bindings.retain(|b| (&b.namespace, &b.name) != (&new.namespace, &new.name));
            policy.bindings.push(new.clone());
        }
        Change::BindingGone { namespace, name } => {
            policy.bindings.retain(|b| (&b.namespace, &b.name) != (namespace, name))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The index, updated change by change, decides as the scan over the current objects.
    #[test]
    fn the_index_decides_as_the_scan(changes in proptest::collection::vec(change(), 1..30), batch in 1_usize..5) {
        let rbac = Rbac::new();
        let mut policy = Policy::default();
        for chunk in changes.chunks(batch) {
            rbac.apply(chunk.iter().cloned());
            chunk.iter().for_each(|change| follow(&mut policy, change));
        }
        let users = [
            UserInfo::new("alice", ["g1"]),
            UserInfo::new("bob", ["g1", "sa"]),
            UserInfo::service_account("n1", "sa", ""),
            UserInfo::new("alice", [""; 0]),
        ];
        for user in &users {
            for namespace in ["", "n1", "n2"] {
                for verb in ["get", "list", "delete", "*"] {
                    for (group, resource, subresource) in [("", "pods", ""), ("", "pods", "log"), ("apps", "deployments", "scale"), ("apps", "deployments", ""), ("*", "*", ""), ("", "pods/log", "")] {
                        for name in ["", "a"] {
                            let attributes = Attributes { subresource, namespace, name, ..Attributes::resource(user, verb, group, resource) };
                            prop_assert_eq!(rbac.authorize(&attributes).allowed(), policy.allows(&attributes), "{:?}", attributes);
                        }
                    }
                    for path in ["/healthz", "/healthz/x", "/metrics"] {
                        let attributes = Attributes::path(user, verb, path);
                        prop_assert_eq!(rbac.authorize(&attributes).allowed(), policy.allows(&attributes));
                    }
                }
                // The listed rules allow exactly the allowed requests.
                let (held, _) = rbac.rules_for(user, namespace);
                let attributes = Attributes { namespace, name: "a", ..Attributes::resource(user, "get", "", "pods") };
                prop_assert_eq!(held.iter().any(|rule| rule.allows(&attributes)), policy.allows(&attributes));
            }
        }
    }

    /// Rules cover themselves, and covered rules allow nothing that the holder may not do.
    #[test]
    fn covering_never_hands_out_more(held in rules(), asked in rules()) {
        // A rule with both names and paths, which validation refuses, does not cover its own paths; neither does upstream's.
        let valid: Vec<_> = held.iter().filter(|r| r.resource_names.is_empty() || r.non_resource_urls.is_empty()).cloned().collect();
        prop_assert!(covers(&valid, &valid).is_empty());
        if !covers(&held, &asked).is_empty() {
            return Ok(());
        }
        let user = UserInfo::new("u", [""; 0]);
        for verb in ["get", "list", "create", "delete"] {
            for (group, resource, subresource) in [("", "pods", ""), ("", "pods", "log"), ("apps", "deployments", "scale"), ("x", "y", "log")] {
                for name in ["", "a", "b", "c"] {
                    let attributes = Attributes { subresource, name, ..Attributes::resource(&user, verb, group, resource) };
                    if asked.iter().any(|rule| rule.allows(&attributes)) {
                        prop_assert!(held.iter().any(|rule| rule.allows(&attributes)), "{:?}", attributes);
                    }
                }
            }
        }
    }
}

/// Returns the atoms of `asked` that no rule of `held` includes, one by one, as upstream computes them.
fn missing_one_by_one(held: &[PolicyRule], asked: &[PolicyRule]) -> Vec<PolicyRule> {
    fn any(list: &[CompactString], word: &str) -> bool {
        list.iter().any(|known| known == "*" || known == word)
    }
    fn resource(list: &[CompactString], word: &str) -> bool {
        any(list, word)
            || word.split_once('/').is_some_and(|(_, below)| list.iter().any(|own| *own == format!("*/{below}")))
    }
    let url = |list: &[CompactString], url: &str| list.iter().any(|own| rule::path_matches(own, url));
    let mut missing = Vec::new();
    for rule in asked {
        let names: Vec<Vec<CompactString>> = match rule.resource_names.as_slice() {
            [] => vec![Vec::new()],
            names => names.iter().map(|name| vec![name.clone()]).collect(),
        };
        for group in &rule.api_groups {
            for kind in &rule.resources {
                for verb in &rule.verbs {
                    for name in &names {
                        let included = held.iter().any(|own| {
                            (own.resource_names.is_empty()
                                || name.first().is_some_and(|name| own.resource_names.contains(name)))
                                && any(&own.verbs, verb)
                                && any(&own.api_groups, group)
                                && resource(&own.resources, kind)
                        });
                        if !included {
                            let atom = PolicyRule::resources(&[verb], &[group], &[kind]);
                            missing.push(PolicyRule { resource_names: name.clone(), ..atom });
                        }
                    }
                }
            }
        }
        for path in &rule.non_resource_urls {
            for verb in &rule.verbs {
                let included = held.iter().any(|own| {
                    own.resource_names.is_empty() && any(&own.verbs, verb) && url(&own.non_resource_urls, path)
                });
                if !included {
                    missing.push(PolicyRule::paths(&[verb], &[path]));
                }
            }
        }
    }
    missing
}

proptest! {
    #[test]
    fn what_is_missing_is_what_a_look_at_each_atom_finds(held in rules(), asked in rules()) {
        let missing = covers(&held, &asked);
        prop_assert!(!missing.cut);
        prop_assert_eq!(missing.atoms, missing_one_by_one(&held, &asked));
    }
}

#[test]
fn a_small_role_with_a_million_permissions_is_refused_without_listing_them_all() {
    let words = |prefix: &str| (0..100).map(|i| format!("{prefix}{i}").into()).collect::<Vec<CompactString>>();
    let asked =
        PolicyRule { verbs: words("v"), api_groups: words("g"), resources: words("r"), ..PolicyRule::default() };
    let held = PolicyRule::resources(&["get", "v7"], &["", "g7"], &["pods", "r7"]);
    let missing = covers(std::slice::from_ref(&held), std::slice::from_ref(&asked));
    assert!(missing.cut && missing.atoms.len() <= 10_000, "{} atoms", missing.atoms.len());
    assert!(describe_missing(missing).ends_with("\n... and more"));
    // A user who holds everything is allowed at once, by one rule or by a hundred.
    assert!(covers(&[PolicyRule::resources(&["*"], &["*"], &["*"])], std::slice::from_ref(&asked)).is_empty());
    let each: Vec<PolicyRule> =
        asked.verbs.iter().map(|verb| PolicyRule { verbs: vec![verb.clone()], ..asked.clone() }).collect();
    assert!(covers(&each, std::slice::from_ref(&asked)).is_empty());
    assert!(!covers(&each[1..], std::slice::from_ref(&asked)).is_empty());
}

/// Returns `held` rules about all objects of one kind each and one rule about named objects of the requested kind; and a request with 2 × `held` names.
fn held_and_names(held: usize) -> (Vec<PolicyRule>, Vec<PolicyRule>) {
    let names: Vec<CompactString> = (0..2 * held).map(|i| format!("n{i}").into()).collect();
    let kinds = (0..held).map(|i| PolicyRule::resources(&["get"], &[""], &[&format!("r{i}")]));
    let asked = PolicyRule { resource_names: names, ..PolicyRule::resources(&["get"], &[""], &["asked"]) };
    let mut named = asked.clone();
    named.resource_names.truncate(2 * held - 3);
    (kinds.chain([named]).collect(), vec![asked])
}

#[test]
fn names_are_looked_up_among_the_rules_that_have_names_only() {
    let steps = |n: usize| {
        let (held, asked) = held_and_names(n);
        let (missing, left) = covers::counted(&held, &asked);
        assert!(!missing.cut && missing.atoms.len() == 3, "{n} {}", missing.atoms.len());
        covers::MAX_STEPS - left
    };
    let (one, two) = (steps(5_000), steps(10_000));
    assert!(one > 0 && 10 * two <= 21 * one, "{one} {two}");
}

/// All work per value counts as steps, so that every request is bounded.
#[test]
fn steps_that_do_not_suffice_end_the_search_with_a_refusal() {
    let words = |prefix: &str| (0..20_000).map(|i| format!("{prefix}{i}").into()).collect::<Vec<CompactString>>();
    let name = words("n");
    // Every rule has all names: each name has a class of ten thousand rules.
    let rule = |i: usize| PolicyRule {
        resource_names: name.iter().take(i % 7 + 300).cloned().collect(),
        ..PolicyRule::resources(&["get"], &[""], &["pods"])
    };
    let held: Vec<PolicyRule> = (0..10_000).map(rule).collect();
    let asked = |names: Vec<CompactString>| PolicyRule {
        resource_names: names,
        ..PolicyRule::resources(&["get"], &[""], &["pods"])
    };
    let many = asked((0..100).flat_map(|_| name.iter().take(300).cloned()).collect());
    let (missing, left) = covers::counted(&held, &[many]);
    assert!(missing.cut && left < 30_000, "{left}");
    let urls = PolicyRule { non_resource_urls: words("/u"), ..PolicyRule::paths(&["get"], &[]) };
    let own = PolicyRule { non_resource_urls: words("/v"), ..PolicyRule::paths(&["get"], &[]) };
    let (missing, left) = covers::counted(&[own], &[urls]);
    assert!(missing.cut && left < 30_000, "{left}");
    // A request with few values is decided.
    assert!(covers(&held, &[asked(name.iter().take(20).cloned().collect())]).is_empty());
}

/// A measurement without assertion: an RBAC-bound user with ten bindings, in a cluster with many more.
#[test]
#[ignore = "prints a figure"]
#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn authorization_figure() {
    let rbac = Rbac::new();
    let resources = ["pods", "services", "configmaps", "secrets", "endpoints", "events", "pods/log", "pods/exec"];
    let mut changes = Vec::new();
    for i in 0..1000 {
        let rules = vec![
            PolicyRule::resources(&["get", "list", "watch"], &["", "apps"], &resources),
            PolicyRule::resources(&["create", "update"], &["batch"], &["jobs", "cronjobs"]),
            PolicyRule::resources(&["*"], &["acme.com"], &["*"]),
        ];
        changes.push(role("", &format!("role{i}"), rules));
        let subject = if i < 10 { "alice".to_owned() } else { format!("user{}", i / 10) };
        let namespace = if i % 2 == 0 { "" } else { "ns" };
        changes.push(Change::Binding(binding(
            namespace,
            &format!("b{i}"),
            "ClusterRole",
            &format!("role{i}"),
            &[(SubjectKind::User, &subject, "")],
        )));
    }
    let begin = std::time::Instant::now();
    rbac.apply(changes);
    println!("load of 1000 roles and bindings: {:?}", begin.elapsed());
    let user = UserInfo::new("alice", ["dev", "ops", "system:authenticated"]);
    let time = |what: &str, attributes: Attributes<'_>| {
        let rounds = 100_000;
        let begin = std::time::Instant::now();
        let allowed = (0..rounds).filter(|_| rbac.authorize(std::hint::black_box(&attributes)).allowed()).count();
        println!("{what}: {:?}, {}", begin.elapsed() / rounds as u32, if allowed > 0 { "allowed" } else { "refused" });
    };
    time("first binding", Attributes { namespace: "ns", ..Attributes::resource(&user, "list", "", "pods") });
    time("all ten, in vain", Attributes { namespace: "ns", ..Attributes::resource(&user, "delete", "", "pods") });
    let begin = std::time::Instant::now();
    for i in 0..1000 {
        rbac.apply([role(
            "",
            "role5",
            vec![PolicyRule::resources(&["get"], &[""], &[if i % 2 == 0 { "a" } else { "b" }])],
        )]);
    }
    println!("one role changed: {:?}", begin.elapsed() / 1000);
}
