//! Tests with small made-up crates.

use std::collections::BTreeMap;

use super::findings;
use super::graph::Graph;
use super::modules::Modules;
use super::{ADVICE, TABLE_ADVICE};

/// The graph of a crate of these files.
fn graph(files: &[(&str, &str)]) -> Graph {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let read = |file: &str| files.get(file).map(|text| (*text).to_owned());
    let mut graph = Graph::default();
    graph.add(&Modules::load("lib.rs", &read).unwrap());
    graph
}

/// The imports of circles as `from:line to`.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    graph(files).in_circles().iter().map(|one| format!("{}:{} {}", one.from, one.line, one.to)).collect()
}

#[test]
fn two_files_that_import_each_other_are_a_circle() {
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "\nuse crate::b::B;"), ("b.rs", "fn f() -> super::a::A {}")];
    assert_eq!(circles(&files), ["a.rs:2 b.rs", "b.rs:1 a.rs"]);
    assert!(circles(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "struct B;")]).is_empty());
}

#[test]
fn a_circle_may_be_longer_and_its_shortest_way_is_shown() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::{b::{self, B}, d::D};"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "fn f() { crate::a::f() }"),
        ("d.rs", "struct D;"),
    ];
    assert_eq!(circles(&files), ["a.rs:1 b.rs", "b.rs:1 c.rs", "c.rs:1 a.rs"]);
    let found = findings(&[("made-up".to_owned(), graph(&files))]);
    let circle = "made-up: files import one another in a circle\n    a.rs:1 imports b.rs\n    b.rs:1 imports c.rs\n    c.rs:1 imports a.rs";
    assert_eq!(found, [circle, ADVICE]);
}

#[test]
fn a_file_and_those_in_its_folder_may_import_each_other() {
    let files = [
        ("lib.rs", "mod a; use a::b::B; struct Root;"),
        ("a.rs", "pub mod b; mod c; use b::B; struct A;"),
        ("a/b.rs", "use super::A; use crate::Root; struct B;"),
        ("a/c.rs", "use crate::a::A;"),
    ];
    assert!(circles(&files).is_empty());
}

#[test]
fn a_name_that_is_passed_on_leads_to_the_file_that_defines_it() {
    let files = [
        ("lib.rs", "mod rows; mod harness; pub use harness::Row;"),
        ("harness.rs", "mod env; mod row; pub(crate) use row::Row; pub use env::*;"),
        ("harness/row.rs", "pub struct Row;"),
        ("harness/env.rs", "use crate::rows::ROWS; pub struct Env;"),
        ("rows.rs", "use crate::Row; use crate::harness::Env; static ROWS: &[Row] = &[];"),
    ];
    assert_eq!(circles(&files), ["harness/env.rs:1 rows.rs", "rows.rs:1 harness/env.rs"]);
}

#[test]
fn a_module_by_its_bare_name_is_an_import() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub mod x; pub mod y;"),
        ("a/x.rs", "use crate::a; fn f() { a::y::f() }"),
        ("a/y.rs", "use super::x;"),
        ("b.rs", ""),
    ];
    assert_eq!(circles(&files), ["a/x.rs:1 a/y.rs", "a/y.rs:1 a/x.rs"]);
}

#[test]
fn tests_do_not_count_and_conditional_code_does() {
    let of = |b: &str| circles(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b;"), ("b.rs", b)]).len();
    for text in [
        "#[cfg(test)] mod tests { use crate::a; }",
        "#[cfg(test)]\n#[allow(x)]\nuse crate::a;",
        "#[cfg(test)] fn f<A, B>() { crate::a::f() }",
        "#[cfg(all(test, unix))] const X: [u8; 1] = crate::a::X;",
        "struct B { #[cfg(test)] a: crate::a::A, b: u8 }",
        "#![cfg(test)] use crate::a;",
        "// use crate::a;\n/* crate::a /* crate::a */ */ const X: &str = \"crate::a \\\" crate::a\"; const Y: &str = r#\"\" crate::a\"#;",
        "fn f<'a>(x: &'a u8) -> char { '\\'' } const Z: u8 = b'\"'; const W: &[u8] = b\"crate::a\";",
        "pub(in crate::a) struct X;",
    ] {
        assert_eq!(of(text), 0, "{text}");
    }
    for text in [
        "#[cfg(unix)] use crate::a;",
        "#[cfg(not(test))] use crate::a;",
        "#[cfg(any(test, feature = \"x\"))] use crate::a;",
        "#[cfg(test)] mod tests { fn f() {} } use crate::a;",
        "struct B { #[cfg(test)] b: u8, a: crate::a::A }",
        "mod inner { use super::super::a; }",
        "fn f<'a>(x: &'a u8) -> crate::a::A {}",
        "const X: char = '\"'; use crate::a;",
        "fn f() { if x { g() } else { crate::a::f() } }",
    ] {
        assert_eq!(of(text), 2, "{text}");
    }
}

#[test]
fn a_module_without_a_file_is_an_error() {
    let read = |file: &str| (file == "lib.rs").then(|| "mod a;".to_owned());
    let error = Modules::load("lib.rs", &read).err().unwrap().to_string();
    assert_eq!(error, "lib.rs declares module a, and there is no a.rs or a/mod.rs");
}

#[test]
fn a_list_of_rows_is_imported_by_what_starts_them() {
    let files = [
        ("lib.rs", "mod row; mod start; mod table; mod x; pub use table::ROWS;"),
        ("row.rs", "pub struct Row;"),
        ("start.rs", "use crate::table::ROWS;"),
        ("table.rs", "use crate::row::Row; pub static ROWS: &[Row] = &[];"),
        ("x.rs", "\nfn f() { crate::ROWS.len() }"),
    ];
    let crates = [("made-up".to_owned(), graph(&files))];
    let found = findings(&crates);
    assert_eq!(found, ["made-up: x.rs:2 imports table.rs", TABLE_ADVICE]);
}

#[test]
fn of_many_circles_the_shortest_are_shown() {
    let names = ["c", "d", "e", "f", "g", "h"];
    let rows: Vec<(String, String)> =
        names.iter().map(|row| (format!("{row}.rs"), "use crate::b;".to_owned())).collect();
    let table: String = names.iter().map(|row| format!("use crate::{row};")).collect();
    let mut files = vec![("lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f; mod g; mod h;"), ("a.rs", &table)];
    files.push(("b.rs", "use crate::a;"));
    files.extend(rows.iter().map(|(file, text)| (file.as_str(), text.as_str())));
    let found = findings(&[("made-up".to_owned(), graph(&files))]);
    assert_eq!(found.len(), 5 + 2, "{found:?}");
    assert_eq!(found[5], "made-up: 1 more circles, which may be gone with the first");
}
