//! Kubernetes' library of named formats.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oarlock_meta::names;

use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::{List, NamedFormat, Opaque, Url, Value};

pub(super) const ROWS: &[Row] = &[
    row("format.named(string): optional_type(kubernetes.NamedFormat)", Cost::One, |_, args| match args {
        [Value::String(name)] => {
            let found = FORMATS.iter().find(|format| format.name == &**name);
            Ok(found.map_or(Value::Optional(None), |format| Value::some(Value::Opaque(Opaque::Format(format)))))
        }
        _ => unfit(),
    }),
    row("kubernetes.NamedFormat.validate(string): optional_type(list(string))", Cost::Scan, |_, args| {
        let [Value::Opaque(Opaque::Format(format)), Value::String(text)] = args else { return unfit() };
        let errors = (format.errors)(text);
        if errors.is_empty() {
            return Ok(Value::Optional(None));
        }
        Ok(Value::some(Value::List(List::new(errors.into_iter().map(Value::from).collect())?)))
    }),
    row("format.dns1123Label(): kubernetes.NamedFormat", Cost::One, |_, _| format("dns1123Label")),
    row("format.dns1123Subdomain(): kubernetes.NamedFormat", Cost::One, |_, _| format("dns1123Subdomain")),
    row("format.dns1035Label(): kubernetes.NamedFormat", Cost::One, |_, _| format("dns1035Label")),
    row("format.dns1123LabelPrefix(): kubernetes.NamedFormat", Cost::One, |_, _| format("dns1123LabelPrefix")),
    row("format.dns1123SubdomainPrefix(): kubernetes.NamedFormat", Cost::One, |_, _| format("dns1123SubdomainPrefix")),
    row("format.dns1035LabelPrefix(): kubernetes.NamedFormat", Cost::One, |_, _| format("dns1035LabelPrefix")),
    row("format.qualifiedName(): kubernetes.NamedFormat", Cost::One, |_, _| format("qualifiedName")),
    row("format.labelValue(): kubernetes.NamedFormat", Cost::One, |_, _| format("labelValue")),
    row("format.uri(): kubernetes.NamedFormat", Cost::One, |_, _| format("uri")),
    row("format.uuid(): kubernetes.NamedFormat", Cost::One, |_, _| format("uuid")),
    row("format.byte(): kubernetes.NamedFormat", Cost::One, |_, _| format("byte")),
    row("format.date(): kubernetes.NamedFormat", Cost::One, |_, _| format("date")),
    row("format.datetime(): kubernetes.NamedFormat", Cost::One, |_, _| format("datetime")),
];

static FORMATS: &[NamedFormat] = &[
    NamedFormat { name: "dns1123Label", errors: names::label_errors },
    NamedFormat { name: "dns1123Subdomain", errors: names::subdomain_errors },
    NamedFormat { name: "dns1035Label", errors: names::label_1035_errors },
    NamedFormat { name: "dns1123LabelPrefix", errors: |text| names::label_errors(&prefix(text)) },
    NamedFormat { name: "dns1123SubdomainPrefix", errors: |text| names::subdomain_errors(&prefix(text)) },
    NamedFormat { name: "dns1035LabelPrefix", errors: |text| names::label_1035_errors(&prefix(text)) },
    NamedFormat { name: "qualifiedName", errors: names::label_key_errors },
    NamedFormat { name: "labelValue", errors: names::label_value_errors },
    NamedFormat { name: "uri", errors: |text| Url::parse(text).err().into_iter().collect() },
    NamedFormat { name: "uuid", errors: |text| unless(is_uuid(text), "does not match the UUID format") },
    NamedFormat { name: "byte", errors: |text| unless(STANDARD.decode(text).is_ok(), "invalid base64") },
    NamedFormat { name: "date", errors: |text| unless(is_date(text), "invalid date") },
    NamedFormat { name: "datetime", errors: |text| unless(super::timestamp(text).is_some(), "invalid datetime") },
];

fn format<'a>(name: &str) -> Result<Value<'a>, EvalError> {
    let found = FORMATS.iter().find(|format| format.name == name);
    found.map_or_else(unfit, |format| Ok(Value::Opaque(Opaque::Format(format))))
}

/// Makes a valid name of a prefix that ends in a hyphen, since more text follows the prefix.
fn prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(head) => format!("{head}a"),
        None => text.to_owned(),
    }
}

fn unless(good: bool, why: &str) -> Vec<String> {
    if good { Vec::new() } else { vec![why.to_owned()] }
}

/// Whether a text is a UUID; the hyphens are optional.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let shape: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let hex = groups.iter().all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()));
    hex && (shape == [8, 4, 4, 4, 12] || shape == [32])
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}
