//! Missing permissions in upstream's format: the atoms of one resource joined by verb, one rule per line, lines sorted.

use std::collections::HashMap;

use compact_str::CompactString;
use oarlock_meta::quote::quote;

use super::covers::Missing;
use super::rule::PolicyRule;

/// The last line of a list that is cut.
const CUT_LIST_LINE: &str = "... and more";

/// Formats missing permissions, one line per rule, as upstream's escalation error lists them.
#[must_use]
pub fn describe_missing(missing: Missing) -> String {
    let mut joined: Vec<PolicyRule> = Vec::new();
    let mut known: HashMap<[Vec<CompactString>; 3], usize> = HashMap::new();
    for rule in missing.atoms {
        if !rule.non_resource_urls.is_empty() {
            joined.push(rule);
            continue;
        }
        let key = [rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone()];
        let at = *known.entry(key).or_insert(joined.len());
        match joined.get_mut(at) {
            Some(known) => known.verbs.extend(rule.verbs),
            None => joined.push(rule),
        }
    }
    let mut lines: Vec<String> = joined.iter().map(line).collect();
    lines.sort_unstable();
    lines.dedup();
    if missing.cut {
        lines.push(CUT_LIST_LINE.to_owned());
    }
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
