//! Every expression is bounded in length, nesting, value size and cost.

use crate::common::{env, run, run_with};
use oarlock_cel::{Budget, EvalError, Program, Value, limits};

fn eval(text: &str, budget: &mut Budget) -> Result<bool, EvalError> {
    let program = Program::compile(text, &env()).unwrap_or_else(|error| panic!("{error}"));
    program.eval(&crate::common::Vars::default(), budget).map(|_| true)
}

/// Returns nested comprehensions over twenty elements: `20^depth` steps.
fn bomb(depth: usize) -> String {
    let list = (0..20).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    (0..depth).fold("1".to_owned(), |inner, level| format!("[{list}].map(v{level}, {inner})"))
}

#[test]
fn a_bomb_of_comprehensions_is_stopped() {
    let mut budget = Budget::new(limits::POLICY_COST);
    assert_eq!(eval(&bomb(3), &mut budget), Ok(true), "8000 steps are fine");
    for text in [
        bomb(8),
        "lists.range(1000).map(a, lists.range(1000).map(b, lists.range(1000).map(c, a + b + c)))".to_owned(),
        "lists.range(100000).all(a, lists.range(100000).all(b, b >= 0))".to_owned(),
        "lists.range(4000000000000).size() > 0".to_owned(),
        "lists.range(5000).map(i, 'x').join('').replace('', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\
         yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\
         yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\
         yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')\
         .replace('y', 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz').size() > 0"
            .to_owned(),
        "lists.range(3000).distinct().size() > 0".to_owned(),
        "lists.range(2000).all(i, sets.equivalent(lists.range(2000), lists.range(2000)))".to_owned(),
    ] {
        let mut budget = Budget::new(limits::POLICY_COST);
        let stopped = eval(&text, &mut budget);
        assert!(stopped.as_ref().is_err_and(EvalError::is_final), "{}: {stopped:?}", text.split_at(30).0);
    }
}

#[test]
fn logical_operators_do_not_absorb_the_limit() {
    for text in [format!("true || {}.size() > 0", bomb(8)), format!("false && {}.size() > 0", bomb(8))] {
        assert_eq!(
            eval(&text, &mut Budget::new(limits::POLICY_COST)),
            Ok(true),
            "nothing is evaluated that does not matter"
        );
    }
    let both = format!("{}.size() > 0 || true", bomb(8));
    assert_eq!(eval(&both, &mut Budget::new(limits::POLICY_COST)), Err(EvalError::TooExpensive));
    let within = format!("[1].exists(i, {}.size() > 0 || i == 1)", bomb(8));
    assert_eq!(eval(&within, &mut Budget::new(limits::POLICY_COST)), Err(EvalError::TooExpensive));
}

#[test]
fn expressions_share_one_budget_and_have_a_limit_each() {
    let mut budget = Budget::new(1_500_000);
    let expensive = "lists.range(100000).all(i, i >= 0)";
    assert_eq!(eval(expensive, &mut budget), Ok(true));
    let left = budget.left();
    assert!(left < 1_500_000 && left > 500_000, "{left}");
    assert_eq!(eval(expensive, &mut budget), Ok(true));
    assert_eq!(eval(expensive, &mut budget), Err(EvalError::OutOfBudget));
    assert_eq!(eval("1 + 1 == 2", &mut budget), Err(EvalError::OutOfBudget), "what is used up stays so");
}

#[test]
fn nesting_is_bounded_wherever_it_comes_from() {
    let nested = [
        "(".repeat(300),
        format!("{}1{}", "(".repeat(300), ")".repeat(300)),
        "[".repeat(100_000),
        "{1:".repeat(30_000),
        "a.f(".repeat(20_000),
        "x[".repeat(30_000),
        "true?true:".repeat(9_000),
        "a?".repeat(40_000),
        "-(".repeat(40_000),
        format!("1{}", "+1".repeat(300)),
        format!("x{}", ".a".repeat(300)),
        format!("x{}", "[0]".repeat(300)),
        format!("x{}", ".f()".repeat(300)),
        "[1].map(a,".repeat(9_000),
        "has(".repeat(20_000),
    ];
    for text in nested {
        let error = run(&text).unwrap_err();
        let bounded = error.contains("recursion") || error.contains("Syntax error");
        assert!(bounded, "{}: {}", &text[..10], &error[..error.len().min(200)]);
    }
    // A text without nesting may be long.
    assert_eq!(run(&vec!["true"; 10_000].join("&&")).unwrap(), "true");
    assert_eq!(run(&format!("{}true", "!".repeat(10_000))).unwrap(), "true");
    assert_eq!(run(&format!("[{}].size()", vec!["1"; 10_000].join(","))).unwrap(), "10000");
    let error = run(&"a".repeat(100_001)).unwrap_err();
    assert_eq!(error, "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000");
}

/// Each evaluation wraps the previous result, like variables that build upon one another.
#[test]
fn values_do_not_nest_without_bound() {
    let program = Program::compile("[x]", &env()).unwrap();
    let mut value = Value::Null;
    for round in 0..2 * limits::VALUE_DEPTH {
        let vars = crate::common::Vars { values: [("x", value.clone())].into(), authorizer: None };
        match program.eval(&vars, &mut Budget::new(1000)) {
            Ok(next) => value = next,
            Err(error) => {
                assert_eq!(error.to_string(), "values are nested too deeply");
                assert!(round >= limits::VALUE_DEPTH - 2, "{round}");
                let vars = crate::common::Vars { values: [("x", value)].into(), authorizer: None };
                assert_eq!(run_with("x == x", &vars).unwrap(), "true", "and what there is can be walked");
                return;
            }
        }
    }
    panic!("nothing stopped it");
}
