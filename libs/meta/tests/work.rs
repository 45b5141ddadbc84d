//! Parsing takes time linear in the length of the text.

use oarlock_meta::selector::{FieldSelector, LabelSelector};
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
