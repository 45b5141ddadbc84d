//! Expands `$(NAME)` in values, commands and arguments (`third_party/forked/golang/expansion`).

/// Replaces `$(NAME)` by the result of `value`; an unknown name stays as written, and `$$` becomes a dollar.
pub(crate) fn expand(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
        } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match value(name) {
                Some(value) => out.push_str(&value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = behind;
        } else {
            // No reference, so the dollar is literal. The next character is no dollar (handled above), so the scan may continue there.
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn references_are_replaced_and_everything_else_stays() {
        let value = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "REF" => Some("$(A)".to_owned()),
            _ => None,
        };
        for (text, want) in [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$(EMPTY)|", "|"),
            ("$(REF)", "$(A)"),
            ("$A", "$A"),
            ("$", "$"),
            ("end$", "end$"),
            ("$(A", "$(A"),
            ("$(A$(A)", "$(A$(A)"),
            ("$()", "$()"),
            ("é$(A)日$é", "é1日$é"),
            ("$)$(A)", "$)1"),
        ] {
            assert_eq!(expand(text, value), want, "{text}");
        }
    }
}
