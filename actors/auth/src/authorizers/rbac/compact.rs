//! Missing permissions in upstream's words: atoms of one resource joined by verb, each rule on a line, lines sorted.

use compact_str::CompactString;
use oarlock_meta::quote::quote;

use super::rule::PolicyRule;

/// What `missing` says, one line per rule, as upstream's escalation error lists it.
#[must_use]
pub fn describe_missing(missing: Vec<PolicyRule>) -> String {
    let mut joined: Vec<PolicyRule> = Vec::new();
    for rule in missing {
        let same = joined.iter_mut().find(|known| {
            rule.non_resource_urls.is_empty()
                && known.non_resource_urls.is_empty()
                && known.api_groups == rule.api_groups
                && known.resources == rule.resources
                && known.resource_names == rule.resource_names
        });
        match same {
            Some(known) => known.verbs.extend(rule.verbs),
            None => joined.push(rule),
        }
    }
    let mut lines: Vec<String> = joined.iter().map(line).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n")
}

fn line(rule: &PolicyRule) -> String {
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let shown =
        parts.iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| format!("{name}:{}", quote_list(list)));
    format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
}

fn quote_list(list: &[CompactString]) -> String {
    format!("[{}]", list.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "))
}
