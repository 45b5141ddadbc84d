//! Properties that hold for any input.

use oarlock_meta::quantity::Quantity;
use oarlock_meta::selector::{By, FieldMatcher, FieldSelector, LabelMatcher, LabelSelector};
use oarlock_meta::time::{GoDuration, MicroTime, Time};
use oarlock_meta::{GroupVersion, Revision, Status, names};
use proptest::prelude::*;

fn quantity() -> impl Strategy<Value = String> {
    ("-?[0-9]{1,25}(\\.[0-9]{0,12})?", "|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]|E-?1[0-9]")
        .prop_map(|(number, suffix)| number + &suffix)
}

proptest! {
    #[test]
    fn canonical_quantities_keep_value_and_form(text in quantity()) {
        let parsed = Quantity::parse(&text).unwrap();
        let canonical = parsed.canonical();
        let again = Quantity::parse(&canonical).unwrap();
        prop_assert_eq!(again.canonical(), canonical);
        // Binary quantities print whole: upstream rounds their fraction away from zero when it prints.
        let error = again.minus(&parsed);
        prop_assert!(error < Quantity::parse("1").unwrap() && error > Quantity::parse("-1").unwrap());
    }

    #[test]
    fn quantity_sums_are_exact(a in quantity(), b in quantity()) {
        let (a, b) = (Quantity::parse(&a).unwrap(), Quantity::parse(&b).unwrap());
        prop_assert_eq!(a.plus(&b), b.plus(&a));
        prop_assert_eq!(a.plus(&b).minus(&b), a.clone());
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.minus(&b).signum(), a.cmp(&b) as i32);
    }

    #[test]
    fn a_label_matcher_decides_as_its_selector(
        requirements in prop::collection::vec(
            ("[abc]", "=1|=2|!=1|!=2| in \\(1,2\\)| in \\(2,3\\)| notin \\(1,3\\)|>1|<3|>2|@"), 0..8
        ),
        labels in prop::collection::btree_map("[abcd]", "[0-4x]?", 0..5),
    ) {
        let text: Vec<String> = requirements.iter().map(|(key, rest)| match rest.as_str() {
            "@" => format!("!{key}"),
            rest => format!("{key}{rest}"),
        }).collect();
        let selector = LabelSelector::parse(&text.join(",")).unwrap();
        let sorted: Vec<(&String, &String)> = labels.iter().collect();
        let matcher = LabelMatcher::from(selector.clone());
        prop_assert_eq!(matcher.matches(&sorted), selector.matches(&labels), "{} {:?}", selector, labels);
    }

    #[test]
    fn a_field_matcher_decides_as_its_selector(
        requirements in prop::collection::vec(("[abc]", "=|==|!=", "[01]?"), 0..6),
        fields in prop::collection::btree_map("[abcd]", "[012]?", 0..5),
    ) {
        let text: Vec<String> = requirements.iter().map(|(field, is, value)| format!("{field}{is}{value}")).collect();
        let selector = FieldSelector::parse(&text.join(",")).unwrap();
        let matcher = FieldMatcher::from(selector.clone());
        prop_assert_eq!(matcher.matches(&fields), selector.matches(&fields), "{} {:?}", selector, fields);
        for (field, value) in matcher.exact() {
            prop_assert!(selector.requirements().iter().any(|one| one.equal && one.field == field && one.value == value));
        }
    }

    #[test]
    fn parsers_never_panic(text in "\\PC{0,40}") {
        let _ = Quantity::parse(&text);
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
        let _ = Time::parse(&text);
        let _ = MicroTime::parse(&text);
        let _ = GoDuration::parse(&text);
        let _ = GroupVersion::parse(&text);
        let _ = text.parse::<Revision>();
        let _ = serde_json::from_str::<Status>(&text);
    }

    #[test]
    fn times_survive_printing(seconds in -62_167_219_200_i64..253_402_300_800, micros in 0_i64..1_000_000) {
        let time = Time::from_unix(seconds);
        prop_assert_eq!(Time::parse(&time.to_string()).unwrap(), time);
        let time = MicroTime::from_unix_micros(seconds * 1_000_000 + micros);
        prop_assert_eq!(MicroTime::parse(&time.to_string()).unwrap(), time);
    }

    #[test]
    fn durations_survive_printing(nanos: i64) {
        let span = GoDuration::from_nanos(nanos);
        prop_assert_eq!(GoDuration::parse(&span.to_string()).unwrap(), span);
    }

    #[test]
    fn selectors_survive_printing(text in "[a-c](=|==|!=| in | notin |>|<)?\\(?[a-c1-9,]{0,5}\\)?(,!?[d-f])?") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }

    #[test]
    fn field_values_survive_escaping(value in "[a=,\\\\]{0,8}") {
        let selector = FieldSelector::equal("f", value.as_str());
        let again = FieldSelector::parse(&selector.to_string()).unwrap();
        prop_assert!(again.matches(&[("f", value.as_str())]));
        prop_assert_eq!(again, selector);
    }

    #[test]
    fn generated_names_fit(base in "[a-zé]{0,80}", seed: u64) {
        let mut state = seed;
        let mut random = || { state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1); state };
        let name = names::generate_name(&base, &mut random);
        prop_assert!(name.len() <= 63);
        let suffix = &name[name.len() - 5..];
        prop_assert!(suffix.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)));
        prop_assert!(base.starts_with(&name[..name.len() - 5]));
    }
}

#[test]
fn label_selectors_match_by_operator() {
    let labels = [("app", "web"), ("n", "5"), ("empty", "")];
    for (selector, want) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("app=web", true),
        ("app==db", false),
        ("app!=db", true),
        ("missing!=db", true),
        ("app in (web,db)", true),
        ("app notin (web)", false),
        ("missing notin (web)", true),
        ("missing in (web)", false),
        ("missing=", false),
        ("empty=", true),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("app>1", false),
        ("missing<1", false),
        ("app=web,n=6", false),
    ] {
        let parsed = LabelSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches(&labels), want, "{selector}");
        let find = By::new(|name: &str| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value));
        assert_eq!(parsed.matches(&find), want, "{selector}");
    }
}
