//! Parses sets of indexes such as `1,3-5`, as strictly as the server does (upstream `validateIndexesFormat`).

/// Returns the ranges of a text, in order.
///
/// # Errors
/// The message about an invalid text, in upstream's words.
pub(super) fn parse(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let range = range(part, completions)?;
        if let Some((_, last)) = ranges.last().filter(|(_, last)| *last >= range.0) {
            return Err(format!("non-increasing order, previous: {last}, current: {}", range.0));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

fn range(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let (first, last) = match text.split_once('-') {
        None => (text, None),
        Some((_, rest)) if rest.contains('-') => {
            let rule = "violates the requirement that an index interval can have at most two parts separated by '-'";
            return Err(format!("the fragment {text:?} {rule}"));
        }
        Some((first, last)) => (first, Some(last)),
    };
    let first = index(first, completions)?;
    let Some(last) = last else { return Ok((first, first)) };
    let last = index(last, completions)?;
    if first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok((first, last))
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let index = text.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
    if index >= completions {
        return Err(format!("too large index: {text:?}"));
    }
    Ok(index)
}

/// Returns the number of indexes in the ranges.
#[must_use]
pub(super) fn total(ranges: &[(i64, i64)]) -> i64 {
    ranges.iter().map(|(first, last)| last - first + 1).sum()
}

/// Returns the first index in both of two sorted sets. The search ends with the set that ends first.
#[must_use]
pub(super) fn overlap(left: &[(i64, i64)], right: &[(i64, i64)]) -> Option<i64> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let ((a, b), (c, d)) = (**left.peek()?, **right.peek()?);
        if a <= d && c <= b {
            return Some(a.max(c));
        }
        if b < c {
            left.next();
        } else {
            right.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rising_ranges_below_the_completions() {
        assert_eq!(parse("", 3), Ok(vec![]));
        assert_eq!(parse("0,2-4,6", 7).map(|ranges| total(&ranges)), Ok(5));
        for (text, why) in [
            ("7", "too large index: \"7\""),
            ("0-7", "too large index: \"7\""),
            ("x", "cannot convert string to integer for index: \"x\""),
            ("1-", "cannot convert string to integer for index: \"\""),
            ("3-3", "non-increasing order, previous: 3, current: 3"),
            ("1-3,3", "non-increasing order, previous: 3, current: 3"),
        ] {
            assert_eq!(parse(text, 7), Err(why.to_owned()), "{text}");
        }
        assert!(parse("1-2-3", 7).is_err_and(|why| why.contains("at most two parts")));
    }

    #[test]
    fn finds_what_is_in_both() {
        assert_eq!(overlap(&[(0, 2), (5, 9)], &[(3, 4), (7, 7)]), Some(7));
        assert_eq!(overlap(&[(0, 2)], &[(3, 4)]), None);
    }
}
