//! Upstream's flags `--concurrent-…-syncs`, made from a list of controllers.

use std::any::Any;
use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Command, FromArgMatches};

use super::concurrency::WorkerCounts;
use super::row::Row;

/// A list of controllers, for flags that are made from it.
pub trait Table: Any + Send + Sync {
    /// The rows of the list.
    fn rows() -> &'static [Row];
}

/// The flags `--concurrent-…-syncs` of a list of controllers: for each controller whose row names one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConcurrencyFlags<T> {
    counts: WorkerCounts,
    table: PhantomData<T>,
}

impl<T> ConcurrencyFlags<T> {
    /// Returns the number of keys that a controller of the list reconciles at once.
    #[must_use]
    pub fn workers(&self, row: &Row) -> usize {
        self.counts.of(row.name, row.workers)
    }

    /// Returns the numbers as settings of the controllers.
    #[must_use]
    pub fn counts(self) -> WorkerCounts {
        self.counts
    }
}

impl<T: Table> ConcurrencyFlags<T> {
    fn flags() -> impl Iterator<Item = (&'static Row, &'static str)> {
        T::rows().iter().filter_map(|row| Some((row, row.workers.flag?)))
    }
}

impl<T: Table> clap::Args for ConcurrencyFlags<T> {
    fn augment_args(command: Command) -> Command {
        Self::flags().fold(command, |command, (row, flag)| {
            let workers = row.workers;
            let help = format!("Number of keys that {} reconciles at once [default: {}]", row.name, workers.default);
            let parse = move |text: &str| workers.parse(text);
            command.arg(
                Arg::new(flag)
                    .long(flag)
                    .value_name("NUMBER")
                    .help(help)
                    .value_parser(parse)
                    .allow_negative_numbers(true),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Table> FromArgMatches for ConcurrencyFlags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self { counts: WorkerCounts::default(), table: PhantomData };
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let given = Self::flags().filter_map(|(row, flag)| Some((row.name, *matches.get_one::<usize>(flag)?)));
        self.counts.0.extend(given);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Concurrency;

    struct Rows;

    impl Table for Rows {
        fn rows() -> &'static [Row] {
            static ROWS: [Row; 3] = [
                Row { name: "one-controller", workers: Concurrency::flag("concurrent-one-syncs", 5), ..Row::PLAIN },
                Row {
                    name: "two-controller",
                    workers: Concurrency::flag("concurrent-two-syncs", 6).at_most(50),
                    ..Row::PLAIN
                },
                Row { workers: Concurrency::fixed(7), ..Row::PLAIN },
            ];
            &ROWS
        }
    }

    fn parse(line: &[&str]) -> Result<Vec<usize>, String> {
        let command = <ConcurrencyFlags<Rows> as clap::Args>::augment_args(Command::new("test"));
        let matches = command.try_get_matches_from(["test"].iter().chain(line)).map_err(|error| error.to_string())?;
        let flags = ConcurrencyFlags::<Rows>::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        Ok(Rows::rows().iter().map(|row| flags.workers(row)).collect())
    }

    #[test]
    fn a_flag_changes_the_number_of_its_controller_alone() {
        assert_eq!(parse(&[]), Ok(vec![5, 6, 7]));
        assert_eq!(parse(&["--concurrent-two-syncs=50"]), Ok(vec![5, 50, 7]));
        assert_eq!(parse(&["--concurrent-one-syncs", "1", "--concurrent-two-syncs=2"]), Ok(vec![1, 2, 7]));
        assert!(parse(&["--concurrent-plain-syncs=1"]).is_err());
    }

    #[test]
    fn a_number_outside_of_the_bounds_is_refused() {
        for (line, expected) in [
            ("--concurrent-one-syncs=0", "concurrent-one-syncs must be greater than 0, but got 0"),
            ("--concurrent-one-syncs=-5", "concurrent-one-syncs must be greater than 0, but got -5"),
            ("--concurrent-two-syncs=51", "concurrent-two-syncs must not be more than 50, but got 51"),
            ("--concurrent-one-syncs=many", "invalid digit"),
        ] {
            let error = parse(&[line]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
