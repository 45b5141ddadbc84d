//! The current time in the form in which objects state it.

use std::cell::RefCell;

use oarlock_meta::Time;
use oarlock_runtime::clock;

thread_local! {
    /// The second that was asked for last, and its text.
    static LATEST: RefCell<(i64, String)> = const { RefCell::new((0, String::new())) };
}

/// Returns the current time as RFC 3339, in whole seconds. The text is made once a second.
#[must_use]
pub(crate) fn text() -> String {
    text_of(clock::wall().as_second())
}

fn text_of(second: i64) -> String {
    LATEST.with_borrow_mut(|(latest, text)| {
        if *latest != second || text.is_empty() {
            *latest = second;
            *text = Time::from_unix(second).to_string();
        }
        text.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_text() {
        for second in [0, 0, 1, 1_700_000_000, 1_700_000_000, 1] {
            assert_eq!(text_of(second), Time::from_unix(second).to_string());
        }
    }
}
