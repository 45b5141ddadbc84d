//! Rules of the language and of Kubernetes' environment that the recorded answers do not cover.

use crate::common::{Vars, check};
use oarlock_cel::{Env, Program, Type, Value};

#[test]
fn dotted_variables_come_before_fields_and_local_names_before_both() {
    let env = Env::new()
        .with("variables", Type::object("kubernetes.variables", []))
        .with("variables.limit", Type::Int)
        .with("request", Type::object("kubernetes.AdmissionRequest", [("name", Type::String), ("dryRun", Type::Bool)]));
    let ty = |text: &str| {
        Program::compile(text, &env).map(|p| p.result().clone()).map_err(|e| e.issues()[0].message.clone())
    };
    assert_eq!(ty("variables.limit + 1"), Ok(Type::Int));
    assert_eq!(ty("has(variables.limit)"), Ok(Type::Bool));
    assert_eq!(ty("variables.other"), Err("undefined field 'other'".to_owned()));
    assert_eq!(ty("[{'limit': 'a'}].map(variables, variables.limit)"), Ok(Type::list(Type::String)));
    assert_eq!(ty("request.name.size()"), Ok(Type::Int));
    assert_eq!(ty("request.nam"), Err("undefined field 'nam'".to_owned()));
    assert_eq!(
        ty("request.name + 1"),
        Err("found no matching overload for '_+_' applied to '(string, int)'".to_owned())
    );
}

#[test]
fn bindings_are_there_where_the_environment_says_so() {
    let text = "cel.bind(a, 2 + 3, a * a)";
    assert!(Program::compile(text, &Env::new()).is_err());
    let program = Program::compile(text, &Env::new().with_bindings()).unwrap();
    let mut budget = oarlock_cel::Budget::new(100);
    assert_eq!(crate::common::show(&program.eval(&Vars::default(), &mut budget).unwrap()), "25");
}

#[test]
fn names_that_are_no_identifiers_are_escaped_where_the_environment_says_so() {
    let map = "{'a-b': 1, 'a.b': 2, 'a/b': 3, 'namespace': 4, '__x': 5, 'x__dash': 6}";
    for (field, want) in [
        ("a__dash__b", "1"),
        ("a__dot__b", "2"),
        ("a__slash__b", "3"),
        ("__namespace__", "4"),
        ("__underscores__x", "5"),
        ("x__dash", "6"),
        ("namespace", "4"),
    ] {
        let program = Program::compile(&format!("{map}.{field}"), &Env::new().with_escaped_fields()).unwrap();
        let value = program.eval(&Vars::default(), &mut oarlock_cel::Budget::new(1000)).unwrap();
        assert_eq!(crate::common::show(&value), want, "{field}");
    }
    check(&Vars::default(), &[(&format!("{map}.a__dash__b"), "!no such key: a__dash__b")]);
}

#[test]
fn errors_of_one_element_are_absorbed_by_another_that_decides() {
    let vars = Vars { values: [("x", Value::Int(0))].into(), authorizer: None };
    check(
        &vars,
        &[
            ("[0, 1].exists(i, 1 / i == 1)", "true"),
            ("[0, 2].exists(i, 1 / i == 1)", "!division by zero"),
            ("[0, 2].all(i, 1 / i == 1)", "false"),
            ("1 / x == 1 || true", "true"),
            ("true || 1 / x == 1", "true"),
            ("1 / x == 1 && false", "false"),
            ("1 / x == 1 || false", "!division by zero"),
            ("x == 0 ? 'none' : string(1 / x)", "\"none\""),
            ("[1, 2, 3].all(i, [i].all(j, i == j && [j].all(k, k == i)))", "true"),
            ("[1].map(x, [2].map(x, x))", "[[2]]"),
        ],
    );
}

#[test]
fn every_error_of_a_text_is_reported_where_it_stands() {
    let error = Program::compile("foo + 1 == bar &&\n  1 + 'a' == 2", &Env::new()).unwrap_err();
    let found: Vec<_> = error.issues().iter().map(|issue| (issue.at.unwrap().line, issue.at.unwrap().column)).collect();
    assert_eq!(found, [(1, 0), (1, 11), (2, 4)]);
}
