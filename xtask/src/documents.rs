//! Documents: every chore that they tell a reader to run exists.

use clap::Parser as _;
use oarlock_testkit::documents::commands;

use super::Args;

#[test]
fn every_chore_in_documents_exists_and_takes_its_flags() {
    for shown in commands(&["cargo", "xtask"]) {
        if let Err(error) = Args::try_parse_from(&shown.words[1..]) {
            panic!("{}: {error}", shown.place);
        }
    }
}
