//! Documents: every chore that they tell a reader to run exists.

use clap::Parser as _;
use oarlock_testkit::documents::commands;

use super::Args;

/// Returns why there is no such chore. `words` begin with `xtask`.
fn refusal<T: AsRef<str>>(words: &[T]) -> Option<String> {
    let words = words.iter().map(|word| word.as_ref().to_owned());
    Args::try_parse_from(words).err().map(|error| error.to_string())
}

#[test]
fn every_chore_in_documents_exists_and_takes_its_flags() {
    for shown in commands(&["cargo", "xtask"]) {
        if let Some(why) = refusal(&shown.words[1..]) {
            panic!("{}: {why}", shown.place);
        }
    }
}

#[test]
fn a_chore_that_does_not_exist_is_found() {
    for words in [&["xtask", "no-such-chore"][..], &["xtask", "images", "--no-such-flag"], &["xtask"]] {
        assert!(refusal(words).is_some(), "{words:?}");
    }
}
