//! For random texts nothing panics, and nothing runs for long.

use crate::common::{Vars, env};
use oarlock_cel::{Budget, Program, Value};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

fn try_it(text: &str) {
    let Ok(program) = Program::compile(text, &env()) else { return };
    let values = [("object", Value::Null), ("x", Value::Int(1)), ("n", Value::Int(2)), ("s", Value::from("s"))];
    let vars = Vars { values: values.into(), authorizer: None };
    // The result does not matter: an error is as good as a value.
    let _ = program.eval(&vars, &mut Budget::new(20_000));
}

fn known() -> Vec<String> {
    let lines = include_str!("data/recorded.jsonl").lines();
    lines
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["expr"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn damaged_expressions_do_no_harm() {
    let (known, mut rng) = (known(), SmallRng::seed_from_u64(1));
    for text in &known {
        for _ in 0..20 {
            let mut chars: Vec<char> = text.chars().collect();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..=chars.len());
                match rng.random_range(0..4) {
                    0 if at < chars.len() => drop(chars.remove(at)),
                    1 => chars.insert(
                        at,
                        *['(', ')', '[', '{', '.', '?', '\'', '"', '\\', '0', 'é', '\0', '%', '-']
                            .choose(&mut rng)
                            .unwrap(),
                    ),
                    2 => chars.truncate(at),
                    _ => {
                        let other: Vec<char> = known.choose(&mut rng).unwrap().chars().collect();
                        chars.splice(at..at, other);
                    }
                }
            }
            try_it(&chars.into_iter().collect::<String>());
        }
    }
}

#[test]
fn random_sequences_of_tokens_do_no_harm() {
    const WORDS: &[&str] = &[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        "-",
        "!",
        "?",
        ":",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        ">=",
        "&&",
        "||",
        "in",
        "true",
        "null",
        "1",
        "2u",
        "1.5",
        "'a'",
        "b'a'",
        "object",
        "x",
        "n",
        "s",
        "has",
        "all",
        "map",
        "size",
        "int",
        "string",
        "matches",
        "format",
        "optional",
        "of",
        "none",
        "sets",
        "contains",
        "dyn",
        "type",
        " ",
        "\n",
        "//c\n",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615u",
        "duration('1s')",
        "timestamp(0)",
        "quantity('1')",
        "ip('::1')",
        "[1,2]",
        "{'a':1}",
        ".all(i, ",
        ".map(i, ",
        ".?a",
        "[?0]",
        ".orValue(",
        "x.",
    ];
    let mut rng = SmallRng::seed_from_u64(2);
    for _ in 0..20_000 {
        let len = rng.random_range(1..25);
        let text: String = (0..len).map(|_| *WORDS.choose(&mut rng).unwrap()).collect();
        try_it(&text);
    }
}

#[test]
fn random_calls_with_odd_arguments_do_no_harm() {
    const ARGS: &[&str] = &[
        "dyn(-1)",
        "dyn(9223372036854775807)",
        "dyn(-9223372036854775808)",
        "dyn(18446744073709551615u)",
        "dyn(0.0/0.0)",
        "dyn(1.0/0.0)",
        "dyn(-1e308)",
        "dyn('')",
        "dyn('é😀')",
        "dyn('%s%.5000f%.99999999999999999999e')",
        "dyn(b'\\xff')",
        "dyn([])",
        "dyn({})",
        "dyn(null)",
        "dyn(true)",
        "dyn(duration('2562047h'))",
        "dyn(duration('-2562047h'))",
        "dyn(timestamp('0001-01-01T00:00:00Z'))",
        "dyn(timestamp('9999-12-31T23:59:59Z'))",
        "dyn(optional.none())",
        "dyn(quantity('1e1000000'))",
        "dyn(quantity('-1n'))",
        "dyn(ip('::'))",
        "dyn(cidr('0.0.0.0/0'))",
        "dyn(cidr('::/0'))",
        "dyn(semver('1.2.3'))",
        "dyn(url('/'))",
        "dyn([1, 2, 3])",
        "dyn('[a-z]{1000}{1000}')",
        "dyn('+99:99')",
        "dyn('-2147483648:59')",
    ];
    const NAMES: &[&str] = &[
        "size",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "bool",
        "duration",
        "timestamp",
        "quantity",
        "ip",
        "cidr",
        "url",
        "semver",
        "isURL",
        "isIP",
        "isCIDR",
        "isQuantity",
        "isSemver",
        "sign",
        "lists.range",
        "sets.contains",
        "strings.quote",
        "format.named",
        "ip.isCanonical",
        "optional.ofNonZeroValue",
        "contains",
        "startsWith",
        "charAt",
        "indexOf",
        "lastIndexOf",
        "join",
        "replace",
        "split",
        "substring",
        "trim",
        "format",
        "matches",
        "find",
        "findAll",
        "getHours",
        "getFullYear",
        "getMilliseconds",
        "getDayOfWeek",
        "sum",
        "min",
        "max",
        "isSorted",
        "sort",
        "distinct",
        "slice",
        "flatten",
        "reverse",
        "add",
        "sub",
        "compareTo",
        "asInteger",
        "asApproximateFloat",
        "isInteger",
        "isGreaterThan",
        "containsIP",
        "containsCIDR",
        "masked",
        "family",
        "isGlobalUnicast",
        "major",
        "value",
        "orValue",
        "or",
        "unwrapOpt",
        "first",
        "getQuery",
        "getPort",
        "first",
        "last",
    ];
    const SIGNS: &[&str] = &["+", "-", "*", "/", "%", "<", "==", "in"];
    let mut rng = SmallRng::seed_from_u64(3);
    for _ in 0..30_000 {
        let mut arg = || *ARGS.choose(&mut rng).unwrap();
        let (a, b, c, d) = (arg(), arg(), arg(), arg());
        let (name, sign) = (*NAMES.choose(&mut rng).unwrap(), *SIGNS.choose(&mut rng).unwrap());
        let text = match rng.random_range(0..7) {
            0 => format!("{name}({a})"),
            1 => format!("{name}({a}, {b})"),
            2 => format!("{a}.{name}()"),
            3 => format!("{a}.{name}({b})"),
            4 => format!("{a}.{name}({b}, {c})"),
            5 => format!("{a}.{name}({b}, {c}, {d})"),
            _ => format!("{a} {sign} {b} {sign} {c}"),
        };
        try_it(&text);
    }
}
