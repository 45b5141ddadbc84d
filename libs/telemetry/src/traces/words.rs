//! Words of spans by number: names of spans, keys of attributes, and values that are part of the program. A span in the ring holds the number in place of the text.

use std::borrow::Cow;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use parking_lot::RwLock;

use super::bytes::{Reader, put_number, put_text};
use super::{limits, subject};

/// The most words of the table, of at most [`limits::MAX_TEXT`] bytes each. The program has some hundred, the routes of the API some thousand; what comes later is written as text.
const MOST: usize = 4096;

/// The number before a text that is no word of the table. The first word has the number after it.
const TEXT: u64 = 0;

/// The words of the process, of all its spans.
pub(super) static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let words = Words::new(MOST);
    for kind in subject::kinds() {
        words.number(kind, || kind);
    }
    words
});

/// A bounded table of words, in the order of their first use. A word is never removed, so its number stays valid.
#[derive(Debug)]
pub(super) struct Words {
    most: usize,
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    words: Vec<&'static str>,
    /// The place of each word, by the hash of the word.
    places: HashTable<u16>,
}

impl Words {
    /// Creates an empty table for at most so many words.
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.min(usize::from(u16::MAX)), table: RwLock::default() }
    }

    /// Appends a word of the program, which becomes a word of the table.
    pub(super) fn put(&self, word: &'static str, to: &mut Vec<u8>) {
        let word = limits::cut(word);
        self.put_as(self.number(word, || word), word, to);
    }

    /// Appends the name of a span, which becomes a word of the table: names are made of words of the program, so there are few.
    pub(super) fn put_name(&self, name: &str, to: &mut Vec<u8>) {
        let name = limits::cut(name);
        self.put_as(self.number(name, || name.to_owned().leak()), name, to);
    }

    /// Appends a text that may be a word of the table, and does not become one.
    pub(super) fn put_text(&self, text: &str, to: &mut Vec<u8>) {
        let text = limits::cut(text);
        let number = self.table.read().find(text);
        self.put_as(number, text, to);
    }

    fn put_as(&self, number: Option<u16>, text: &str, to: &mut Vec<u8>) {
        match number {
            Some(number) => put_number(to, TEXT + 1 + u64::from(number)),
            None => {
                put_number(to, TEXT);
                put_text(to, text);
            }
        }
    }

    /// Reads a word or a text; `None` for bytes that are cut short and for a number without a word.
    pub(super) fn read(&self, reader: &mut Reader<'_>) -> Option<Cow<'static, str>> {
        match reader.number()?.checked_sub(TEXT + 1) {
            None => Some(Cow::Owned(reader.text()?.to_owned())),
            Some(number) => {
                let place = usize::try_from(number).ok()?;
                self.table.read().words.get(place).map(|word| Cow::Borrowed(*word))
            }
        }
    }

    /// Returns the number of a word, which is added if there is room; `kept` returns the word to keep.
    fn number(&self, word: &str, kept: impl FnOnce() -> &'static str) -> Option<u16> {
        let is_full = {
            let table = self.table.read();
            if let Some(number) = table.find(word) {
                return Some(number);
            }
            table.words.len() >= self.most
        };
        if is_full { None } else { self.table.write().add(word, self.most, kept) }
    }
}

impl Table {
    fn find(&self, word: &str) -> Option<u16> {
        let is_word = |place: &u16| self.words.get(usize::from(*place)) == Some(&word);
        self.places.find(hash(word), is_word).copied()
    }

    /// Adds a word unless another thread has added the word, or filled the table.
    fn add(&mut self, word: &str, most: usize, kept: impl FnOnce() -> &'static str) -> Option<u16> {
        if let Some(number) = self.find(word) {
            return Some(number);
        }
        let number = u16::try_from(self.words.len()).ok().filter(|number| usize::from(*number) < most)?;
        self.words.push(kept());
        let words = &self.words;
        let hash_of = |place: &u16| words.get(usize::from(*place)).map_or(0, |word| hash(word));
        self.places.insert_unique(hash(word), number, hash_of);
        Some(number)
    }
}

/// Words come from the program alone, so the hash needs no secret.
fn hash(word: &str) -> u64 {
    FixedState::default().hash_one(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &Words, bytes: &[u8]) -> Option<(Cow<'static, str>, usize)> {
        let mut reader = Reader(bytes);
        words.read(&mut reader).map(|word| (word, reader.0.len()))
    }

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    }

    #[test]
    fn a_word_is_one_byte_and_read_as_it_was() {
        let words = Words::new(100);
        for _ in 0..2 {
            let bytes = written(|to| {
                words.put("commit", to);
                words.put_name("pod create", to);
                words.put_text("commit", to);
            });
            assert_eq!(bytes, [1, 2, 1]);
            assert_eq!(read(&words, &bytes), Some(("commit".into(), 2)));
            assert_eq!(read(&words, &bytes[1..]), Some(("pod create".into(), 1)));
        }
    }

    #[test]
    fn a_text_becomes_no_word() {
        let words = Words::new(100);
        for text in ["", "default"] {
            let bytes = written(|to| words.put_text(text, to));
            assert_eq!(bytes.len(), text.len() + 2);
            assert_eq!(read(&words, &bytes), Some((Cow::Owned(text.to_owned()), 0)));
        }
        assert!(words.table.read().words.is_empty());
    }

    #[test]
    fn a_full_table_takes_no_more_words_and_loses_none() {
        let words = Words::new(1000);
        let names: Vec<Cow<'static, str>> = (0..1500).map(|number| format!("name {number}").into()).collect();
        for _ in 0..2 {
            for (at, name) in names.iter().enumerate() {
                let bytes = written(|to| words.put_name(name, to));
                let expected = if at < 127 {
                    1
                } else if at < 1000 {
                    2
                } else {
                    2 + name.len()
                };
                assert_eq!((bytes.len(), read(&words, &bytes)), (expected, Some((name.clone(), 0))), "{name}");
            }
            assert_eq!((words.table.read().words.len(), words.table.read().places.len()), (1000, 1000));
        }
        assert_eq!(written(|to| words.put("static", to)).len(), 2 + "static".len());
    }

    #[test]
    fn threads_that_add_the_same_words_get_the_same_numbers() {
        let words = Words::new(100);
        let all = || -> Vec<_> {
            (0..200).map(|number| written(|to| words.put_name(&format!("name {number}"), to))).collect()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(all)).collect();
            threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
        });
        assert_eq!(words.table.read().words.len(), 100);
        for (number, bytes) in all().iter().enumerate() {
            assert_eq!(read(&words, bytes), Some((format!("name {number}").into(), 0)));
        }
    }

    #[test]
    fn damaged_words_are_not_read() {
        let words = Words::new(100);
        words.put("commit", &mut Vec::new());
        for bytes in [&[][..], &[2], &[0xff, 0x7f], &[0x80], &[0], &[0, 3, b'a'], &[0, 1, 0xff], &[0xff; 11]] {
            assert_eq!(read(&words, bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn long_words_are_cut() {
        let (words, long) = (Words::new(100), "ä".repeat(limits::MAX_TEXT));
        let bytes = written(|to| words.put_name(&long, to));
        assert_eq!(read(&words, &bytes), Some(("ä".repeat(limits::MAX_TEXT / 2).into(), 0)));
    }
}
