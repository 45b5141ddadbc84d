//! Accepts an empty value for optional flags that name a file or a folder: `--etcd-cafile ''`.
//!
//! Scripts and manifests often list every flag and leave some empty, which upstream's programs take as not given; clap refuses an empty path. So an empty value
//! of any optional path flag, of every service, counts as not given, except where the flag gives an empty value a meaning ([`EMPTY_HAS_MEANING`]). A flag that has a
//! default or is required needs a path: an empty value is refused.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Arg, ArgMatches, Command, ValueHint};

/// Flags for which an empty path has a meaning.
const EMPTY_HAS_MEANING: [&str; 1] = ["kubelet_certificate_authority"];

/// Changes the command so that optional path flags accept an empty value.
pub(crate) fn lenient(command: Command) -> Command {
    command.mut_args(|arg| if is_optional_path(&arg) { arg.value_parser(path()) } else { arg }).mut_subcommands(lenient)
}

/// Returns a parser that accepts any path, including the empty one.
fn path() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn is_optional_path(arg: &Arg) -> bool {
    let path = arg.get_value_hint() == ValueHint::AnyPath;
    path && !arg.is_positional() && !arg.is_required_set() && arg.get_default_values().is_empty()
}

/// Removes flags with an empty path from a command line. A command line with errors is returned unchanged, so that the next parser reports them.
pub(crate) fn without_empty(command: &Command, line: Vec<OsString>) -> Vec<OsString> {
    let Ok(matches) = lenient(command.clone()).try_get_matches_from(&line) else { return line };
    let mut empty = Vec::new();
    find_empty(command, &matches, &mut empty);
    let mut kept = Vec::with_capacity(line.len());
    let mut words = line.into_iter().peekable();
    while let Some(word) = words.next() {
        let flag = word.to_str().and_then(|word| word.strip_prefix("--"));
        match flag {
            Some(flag)
                if empty.iter().any(|name| *name == flag) && words.peek().is_some_and(|next| next.is_empty()) =>
            {
                words.next();
            }
            Some(flag) if empty.iter().any(|name| flag.strip_suffix('=') == Some(name)) => {}
            _ => kept.push(word),
        }
    }
    kept
}

fn find_empty(command: &Command, matches: &ArgMatches, into: &mut Vec<String>) {
    for arg in command.get_arguments().filter(|arg| !EMPTY_HAS_MEANING.contains(&arg.get_id().as_str())) {
        // Flags whose values are not paths are skipped.
        let path = matches.try_get_one::<PathBuf>(arg.get_id().as_str()).ok().flatten();
        if path.is_some_and(|path| path.as_os_str().is_empty()) {
            into.extend(arg.get_long().map(str::to_owned));
        }
    }
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        find_empty(command, matches, into);
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::args::{self, Args};

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let line = without_empty(&Args::command(), words.iter().map(OsString::from).collect());
        Args::from_arg_matches(&lenient(Args::command()).try_get_matches_from(line)?)
    }

    /// Collects every command with its words, and every flag of each that may have an empty path.
    fn flags(command: &Command, words: &[String], into: &mut Vec<(Vec<String>, String)>) {
        let optional = command.get_arguments().filter(|arg| is_optional_path(arg)).filter_map(Arg::get_long);
        into.extend(optional.map(|flag| (words.to_vec(), flag.to_owned())));
        for sub in command.get_subcommands() {
            flags(sub, &[words, &[sub.get_name().to_owned()]].concat(), into);
        }
    }

    #[test]
    fn an_empty_path_is_taken_by_every_optional_flag_of_every_command() {
        let mut all = Vec::new();
        flags(&Args::command(), &["oarlock".to_owned()], &mut all);
        assert!(all.len() > 20, "{all:?}");
        for (words, flag) in all {
            let line: Vec<String> = words.into_iter().chain([format!("--{flag}"), String::new()]).collect();
            let refusal = lenient(Args::command()).try_get_matches_from(&line).err();
            // Other required flags may be missing; the error must not be about this one.
            let kind = refusal.map(|error| error.kind());
            let missing = kind == Some(clap::error::ErrorKind::MissingRequiredArgument);
            assert!(kind.is_none() || missing, "{line:?}: {kind:?}");
        }
    }

    #[test]
    fn an_empty_path_is_none_unless_it_says_something() {
        let args::Command::Up(up) = parse(&[
            "oarlock",
            "up",
            "--pod-manifest-path",
            "",
            "--etcd-cafile=",
            "--kubelet-certificate-authority",
            "",
            "--kubelet-client-certificate",
            "/c",
            "--kubelet-client-key",
            "/k",
        ])
        .unwrap()
        .command
        else {
            panic!("another command")
        };
        assert_eq!((up.pod_manifest_path, up.etcd.etcd_cafile), (None, None));
        assert_eq!(up.kubelets.kubelet_certificate_authority, Some(PathBuf::new()), "every kubelet is believed");
        assert_eq!(up.kubelets.kubelet_client_key, Some(PathBuf::from("/k")));
        assert!(parse(&["oarlock", "up", "--data-dir", ""]).is_err(), "the state has to be somewhere");
    }
}
