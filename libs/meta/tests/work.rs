//! Parsing takes time linear in the length of the text, and a long selector decides as fast as a short one.

use std::cell::Cell;

use oarlock_meta::selector::{FieldSelector, LabelMatcher, LabelSelector};
use oarlock_meta::{ErrorList, FieldError, Path, Quantity};
use oarlock_testkit::work::too_steep;

#[test]
fn a_selector_is_read_in_the_time_of_its_length() {
    for symbol in ["(", "!", "=", "a,", "a in (b,c),", "a!=b,"] {
        let parse = |text: &String| (LabelSelector::parse(text).is_ok(), FieldSelector::parse(text).is_ok());
        assert_eq!(too_steep(2_000, |n| symbol.repeat(n), parse), None, "{symbol}");
    }
}

#[test]
fn a_quantity_is_read_in_the_time_of_its_length() {
    for (digits, rest) in [("7", ""), ("0", "1"), ("7", "Ki"), ("7", "e-2000000000")] {
        let parse = |text: &String| Quantity::canonicalize(text).is_ok();
        assert_eq!(too_steep(20_000, |n| format!("1{}{rest}", digits.repeat(n)), parse), None, "{digits}{rest}");
        assert_eq!(too_steep(20_000, |n| format!("0.{}{rest}", digits.repeat(n)), parse), None, "0.{digits}{rest}");
    }
    // A few bytes may ask for as much work; the number is too small to leave anything.
    let tiny = Quantity::parse("1234567890123456789012345678901234567890e-2000000000").unwrap();
    assert_eq!(tiny, Quantity::parse("1n").unwrap());
    assert!(Quantity::parse(&"7".repeat(1_000)).is_ok());
    assert!(Quantity::parse(&"7".repeat(1_001)).is_err());
    assert_eq!(Quantity::parse(&format!("1{}", "0".repeat(5_000))).unwrap().signum(), 1);
}

#[test]
fn errors_that_show_a_whole_list_at_each_item_end_somewhere() {
    let mut errors = ErrorList::new();
    let long = "x".repeat(100_000);
    for _ in 0..1_000 {
        errors.push(FieldError::invalid(&Path::new("a"), long.as_str(), "no"));
    }
    assert!(errors.is_full() && errors.len() < 20, "{} errors", errors.len());
}

thread_local! {
    static COMPARED: Cell<usize> = const { Cell::new(0) };
}

/// A label or value that counts how often it is looked at.
struct Counted(String);

impl AsRef<str> for Counted {
    fn as_ref(&self) -> &str {
        COMPARED.set(COMPARED.get() + 1);
        &self.0
    }
}

#[test]
fn an_object_is_compared_by_its_labels_and_not_by_the_length_of_a_selector() {
    let labels: Vec<(Counted, Counted)> =
        (0..10).map(|n| (Counted(format!("k{n}")), Counted("v".to_owned()))).collect();
    let many = |one: &dyn Fn(usize) -> String| (0..20_000).map(one).collect::<Vec<_>>().join(",");
    let cases = [
        (many(&|n| format!("!x{n}")), true),
        (many(&|n| format!("x{n}!=v")), true),
        (many(&|n| format!("k1!=w{n}")), true),
        (many(&|_| "k1=v".to_owned()), true),
        (many(&|_| "k1".to_owned()), true),
        (many(&|n| format!("x{n}")), false),
        (many(&|n| format!("k1>{n}")), false),
        (format!("k1 in (v,{})", many(&|n| format!("w{n}"))), true),
    ];
    for (text, selected) in cases {
        let matcher = LabelMatcher::from(LabelSelector::parse(&text).unwrap());
        COMPARED.set(0);
        assert_eq!(matcher.matches(&labels), selected, "{:.40}", text);
        // Ten labels, each searched for among at most 20,000 keys.
        assert!(COMPARED.get() <= 10 * 20, "{:.40}: {} comparisons", text, COMPARED.get());
    }
    for one in ["!x@", "k@!=v", "k1!=w@", "k1 in (v,w@)", "k1>@"] {
        let make =
            |n| LabelSelector::parse(&(0..n).map(|i| one.replace('@', &i.to_string())).collect::<Vec<_>>().join(","));
        let gather = |selector: &Result<LabelSelector, _>| LabelMatcher::from(selector.clone().unwrap());
        assert_eq!(too_steep(10_000, make, gather), None, "{one}");
    }
}
