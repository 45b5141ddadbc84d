//! The steps of a long run, and the time of each.

use std::fs;
use std::process::Command;

use anyhow::Context;

use crate::tool::{now, output, processors, root, say};

/// The cost of each step so far.
#[derive(Default)]
pub(crate) struct Steps {
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    /// Seconds on the clock.
    wall: f64,
    /// Seconds of all processors together.
    busy: f64,
}

impl Steps {
    /// Runs a step.
    ///
    /// # Errors
    /// Those of the step; the table is printed first.
    pub(crate) fn step<T>(
        &mut self,
        name: &'static str,
        action: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let before: f64 = self.rows.iter().map(|row| row.wall).sum();
        say(&format!("== {name} (after {:.1} min, {} free on the disk)", before / 60.0, free()?));
        let (start, cpu) = (now(), busy_seconds()?);
        let outcome = action();
        self.rows.push(Row { name, wall: start.elapsed().as_secs_f64(), busy: busy_seconds()? - cpu });
        outcome.inspect_err(|_| say(&self.table()))
    }

    /// The steps as a table of docs/operations/tests.md.
    pub(crate) fn table(&self) -> String {
        let total = |what: fn(&Row) -> f64| self.rows.iter().map(what).sum();
        let total = Row { name: "**all**", wall: total(|row| row.wall), busy: total(|row| row.busy) };
        let row = |row: &Row| format!("| {} | {:.1} | {:.1} |\n", row.name, row.wall / 60.0, row.busy / 60.0);
        let rows: String = self.rows.iter().chain([&total]).map(row).collect();
        format!("\n| step ({} cores) | minutes | CPU minutes |\n|---|---:|---:|\n{rows}", processors())
    }
}

/// Seconds that the machine's processors have worked since it was started: of all processes, since what tests leave behind counts too.
pub(crate) fn busy_seconds() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    busy(line).with_context(|| format!("/proc/stat: {line}"))
}

/// Parses the line `cpu user nice system idle iowait irq softirq …` (proc_stat(5), in hundredths of a second); returns seconds.
fn busy(line: &str) -> Option<f64> {
    let ticks: Vec<f64> = line.strip_prefix("cpu ")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = ticks.as_slice() else { return None };
    Some((user + nice + system + irq + softirq) / 100.0)
}

/// Seconds of processors that processes have used which this one has started and waited for, with those that they waited for.
pub(crate) fn children_seconds() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    children(&text).with_context(|| format!("/proc/self/stat: {text}"))
}

/// Parses the line `pid (name) state …` (proc_pid_stat(5), in hundredths of a second); returns seconds.
fn children(line: &str) -> Option<f64> {
    // The name may hold blanks and parentheses. Behind it the first field is the third, `cutime` the sixteenth.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(16)? + ticks(17)?) / 100.0)
}

/// Returns the free space of the disk, so that a run that fails for lack of space can report it.
fn free() -> anyhow::Result<String> {
    let text = output(Command::new("df").args(["--human-readable", "--output=avail"]).arg(root()))?;
    Ok(text.lines().last().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{busy, children};

    #[test]
    fn work_is_all_but_idling_and_waiting() {
        assert_eq!(busy("cpu  100 200 300 9999 9999 40 60 7 0 0"), Some(7.0));
        assert_eq!(busy("cpu0 1 2 3 4 5 6 7"), None);
    }

    #[test]
    fn work_of_children_is_theirs_alone() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194304 10 20 0 0 111 222 300 50 20 0 1 0 1000 0 0";
        assert_eq!(children(line), Some(3.5));
        assert_eq!(children("7 (a) S 1 7"), None);
    }
}
