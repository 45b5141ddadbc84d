//! No patch makes a document deeper than decoders accept, because all code that walks a document recurses.

use oarlock_codec::{MAX_DEPTH, Mode, json};
use oarlock_patch::{PatchKind, Validation, apply_patch};
use oarlock_schema::Obj;
use oarlock_testkit::work::too_steep;

/// A stack that suffices to walk a document of the greatest allowed depth, but not one of forty thousand levels.
const STACK: usize = 512 << 10;

fn config() -> Obj {
    let ty = oarlock_schema::type_of_kind("", "v1", "ConfigMap").unwrap();
    json::decode(b"{\"metadata\":{\"name\":\"a\"}}", ty, Mode::Lenient).unwrap().value
}

/// Returns the code and the message of a refused patch, `None` for an accepted one.
fn refused(patch: String) -> Option<(u16, String)> {
    let run = move || apply_patch(PatchKind::Json, &config(), patch.as_bytes(), Validation::Ignore).err();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap();
    thread.join().unwrap().map(|status| (status.code, status.message.to_string()))
}

/// Makes a patch of these operations.
fn patch(operations: &[String]) -> String {
    format!("[{}]", operations.join(","))
}

fn add(path: &str, value: &str) -> String {
    format!("{{\"op\":\"add\",\"path\":\"{path}\",\"value\":{value}}}")
}

fn from(op: &str, from: &str, path: &str) -> String {
    format!("{{\"op\":\"{op}\",\"from\":\"{from}\",\"path\":\"{path}\"}}")
}

/// Makes lists nested in lists, with this many levels.
fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

/// Returns the pointer to the first position of the innermost of this many lists in the member `x`.
fn innermost(levels: usize) -> String {
    format!("/x{}", "/0".repeat(levels))
}

const TEXT: &str = "the server rejected our request due to an error in our request";

#[test]
fn a_value_copied_into_its_own_deepest_place_again_and_again_is_refused() {
    let mut operations = vec![add("/x", &nested(1))];
    let mut levels = 1;
    while levels < 40_000 {
        // The copy becomes the first item of the innermost list of the copied value.
        operations.push(from("copy", "/x", &innermost(levels)));
        levels *= 2;
    }
    assert_eq!(operations.len(), 17);
    assert_eq!(refused(patch(&operations)), Some((422, TEXT.to_owned())));
}

#[test]
fn what_is_added_moved_or_replaced_lies_no_deeper_than_a_decoder_reads() {
    let most = MAX_DEPTH as usize;
    // The member `x` of the document lies in one map.
    let room = most - 1;
    let half = room / 2;
    let base = |levels| add("/x", &nested(levels));
    let drop = "{\"op\":\"remove\",\"path\":\"/x\"}".to_owned();
    for (deepest, more) in [(false, 0), (true, 1)] {
        let rest = room - half + more;
        for operations in [
            vec![base(half), add(&innermost(half), &nested(rest))],
            vec![
                base(half),
                add(&innermost(half), "0"),
                add(&innermost(half), "0")
                    .replace("add", "replace")
                    .replace("\"value\":0", &format!("\"value\":{}", nested(rest))),
            ],
            vec![base(half), add("/y", &nested(rest)), from("move", "/y", &innermost(half))],
            vec![
                base(half),
                add("/y", &nested(rest)),
                from("copy", "/y", &innermost(half)),
                "{\"op\":\"remove\",\"path\":\"/y\"}".to_owned(),
            ],
        ] {
            let operations: Vec<String> = operations.into_iter().chain([drop.clone()]).collect();
            let wanted = deepest.then(|| (422, TEXT.to_owned()));
            assert_eq!(refused(patch(&operations)), wanted, "{more} {operations:?}");
        }
    }
}

#[test]
fn moves_of_a_large_value_downwards_again_and_again_are_refused() {
    let large = format!("[{}]", vec!["0"; 100_000].join(","));
    let mut operations = vec![add("/x", &large), add("/y", "{}")];
    operations.extend((0..4_000).flat_map(|_| [from("move", "/x", "/y/z"), from("move", "/y/z", "/x")]));
    assert_eq!(refused(patch(&operations)), Some((422, TEXT.to_owned())));
    // A few operations are accepted.
    operations.truncate(22);
    operations.push("{\"op\":\"remove\",\"path\":\"/x\"}".to_owned());
    operations.push("{\"op\":\"remove\",\"path\":\"/y\"}".to_owned());
    assert_eq!(refused(patch(&operations)), None);
}

#[test]
fn to_know_the_depth_of_what_is_added_costs_no_more_than_its_length() {
    let make = |n: usize| {
        let list = vec!["[0]"; 10 * n].join(",");
        let adds: Vec<String> = (0..n).map(|_| add("/x/0", "[[0]]")).collect();
        patch(&[vec![add("/x", &format!("[{list}]"))], adds].concat())
    };
    let run = |patch: &String| apply_patch(PatchKind::Json, &config(), patch.as_bytes(), Validation::Warn).is_ok();
    assert_eq!(too_steep(2_000, make, run), None);
}
