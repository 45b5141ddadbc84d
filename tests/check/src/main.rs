//! `oarlock-check HISTORY…`: judges histories. Exit code 0: no rule is violated; 1: a rule is violated; 2: the histories cannot be judged.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use oarlock_check::placement::{self, Log, Rules};
use oarlock_check::{History, Malformed, check};

/// Checks recorded histories against the log (`docs/operations/histories.md`).
#[derive(clap::Parser)]
struct Args {
    /// Files of JSON lines; together they are one history.
    #[arg(required = true, value_name = "FILE")]
    histories: Vec<PathBuf>,
    /// Number of violations of each rule that are shown.
    #[arg(long, default_value_t = 10, value_name = "N")]
    most: usize,
    /// Reads the files as a log of nodes, pods and namespaces, and judges the placement of pods.
    #[arg(long)]
    placement: bool,
    /// Values of `spec.schedulerName` whose bindings are judged.
    #[arg(long, value_name = "NAME", requires = "placement", default_value = "default-scheduler")]
    scheduler: Vec<String>,
    /// Number of revisions by which the scheduler's knowledge of other writers may lag.
    #[arg(long, value_name = "REVISIONS", requires = "placement", default_value_t = Rules::default().lag)]
    lag: u64,
    /// Number of revisions after the end of a nomination within which the mark of a victim may arrive.
    #[arg(long, value_name = "REVISIONS", requires = "placement", default_value_t = Rules::default().late)]
    late: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let judged = if args.placement { placements(&args) } else { histories(&args) };
    match judged {
        Ok((text, sound)) => {
            let said = write!(std::io::stdout(), "{text}");
            if sound && said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            // The exit code reports the error even when stderr is closed.
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::from(2)
        }
    }
}

/// The text of a report, and whether no rule is violated.
type Judged = Result<(String, bool), Malformed>;

fn histories(args: &Args) -> Judged {
    let history = History::read(&args.histories)?;
    let report = check(&history);
    Ok((report.show(&history, args.most).to_string(), report.violations.is_empty()))
}

fn placements(args: &Args) -> Judged {
    let rules = Rules { schedulers: args.scheduler.clone(), lag: args.lag, late: args.late };
    let findings = placement::judge(&Log::read(&args.histories)?, &rules);
    Ok((findings.show(args.most), findings.broken.is_empty()))
}
