//! `oarlock-check HISTORY…`: judges histories. Exit code 0: nothing is broken; 1: something is; 2: they cannot be judged.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use oarlock_check::{History, check};

/// Checks recorded histories against the log (`docs/operations/histories.md`).
#[derive(clap::Parser)]
struct Args {
    /// Files of JSON lines; together they are one history.
    #[arg(required = true, value_name = "FILE")]
    histories: Vec<PathBuf>,
    /// Violations that are shown of each rule.
    #[arg(long, default_value_t = 10, value_name = "N")]
    most: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let history = match History::read(&args.histories) {
        Ok(history) => history,
        Err(error) => {
            // When nobody reads, the exit code still says it.
            let _ = writeln!(std::io::stderr(), "{error}");
            return ExitCode::from(2);
        }
    };
    let report = check(&history);
    let said = write!(std::io::stdout(), "{}", report.show(&history, args.most));
    if report.violations.is_empty() && said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
