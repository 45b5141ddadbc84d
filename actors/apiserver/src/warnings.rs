//! The warnings of one answer, bounded as upstream bounds them (`WithWarningRecorder`).
//!
//! An object of the size limit can give rise to tens of thousands of warnings. In one answer they would be megabytes of headers, for which clients and
//! proxies close the whole connection, with the requests of others on it.

use std::collections::HashSet;

use oarlock_seeded_bug::seeded_bug;

/// Number of characters of all warnings of an answer up to which none is shortened, and beyond which no further one is added.
const MAX_CHARS: usize = 4 << 10;
/// Number of characters to which each warning is shortened once all together exceed [`MAX_CHARS`].
const MAX_SHORTENED_CHARS: usize = 256;

/// Warning texts in order of arrival, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    seen: HashSet<String>,
    /// Number of characters of `texts`.
    chars: usize,
    /// Whether the texts are shortened.
    shortens: bool,
}

impl Warnings {
    /// Adds a text, unless it is empty, was added before, or there is no more room.
    pub(crate) fn add(&mut self, text: String) {
        let bounded = !seeded_bug!("warnings_without_end");
        if text.is_empty() || self.seen.contains(&text) || bounded && self.shortens && self.chars >= MAX_CHARS {
            return;
        }
        self.chars += text.chars().count();
        self.seen.insert(text.clone());
        self.texts.push(text);
        if bounded && self.chars > MAX_CHARS {
            self.shorten();
        }
    }

    /// Returns the texts.
    pub(crate) fn into_texts(self) -> Vec<String> {
        self.texts
    }

    /// Shortens the texts. Those that were added while there was room all stay, as upstream has it.
    fn shorten(&mut self) {
        self.shortens = true;
        for text in &mut self.texts {
            if let Some((end, _)) = text.char_indices().nth(MAX_SHORTENED_CHARS) {
                text.truncate(end);
            }
        }
        self.chars = self.texts.iter().map(|text| text.chars().count()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut warnings = Warnings::default();
        texts.into_iter().for_each(|text| warnings.add(text));
        warnings.into_texts()
    }

    #[test]
    fn few_warnings_stay_whole_and_each_is_there_once() {
        let long = "x".repeat(MAX_CHARS - 1);
        let texts = ["", "y", &long, "y", &long].map(str::to_owned);
        assert_eq!(of(texts), ["y".to_owned(), long]);
    }

    #[test]
    fn many_warnings_are_shortened_and_the_last_left_out() {
        let shown = of((0..60_000).map(|n| format!("{n:05}{}", "ö".repeat(1_000))));
        assert_eq!(shown.len(), MAX_CHARS / MAX_SHORTENED_CHARS);
        assert!(shown.iter().all(|text| text.chars().count() == MAX_SHORTENED_CHARS));
        assert_eq!(shown[0].get(..5), Some("00000"));
        let shown = of((0..60_000).map(|n| format!("{n:09}")));
        assert_eq!(shown.len(), MAX_CHARS / 9 + 1);
    }
}
