//! Draws rows as a waterfall of a given width.

use std::fmt::Write as _;

use super::rows::Row;
use super::words::time;

/// The least number of characters for bars; a narrower terminal wraps lines.
const MIN_BAR: usize = 10;
/// Widths of the columns START and TIME.
const START: usize = 9;
const TIME: usize = 9;

/// Draws sections, each with a title, on one axis of time. Rows that have not ended last until `now`.
pub(super) fn draw(sections: &[(String, Vec<Row>)], width: usize, now: u64) -> String {
    let all = || sections.iter().flat_map(|(_, rows)| rows);
    let from = all().map(|row| row.began).min().unwrap_or(now);
    let to = all().map(|row| row.ended.unwrap_or(now)).max().unwrap_or(now).max(from.saturating_add(1));
    let label_width = all().map(|row| label(row).chars().count()).max().unwrap_or(0).min(width / 2);
    let bar_width = width.saturating_sub(label_width + START + TIME + 4).max(MIN_BAR);
    let mut text = String::new();
    for (title, rows) in sections {
        // A string's formatting does not fail.
        let _ = writeln!(text, "{title}");
        for row in rows {
            let label: String = label(row).chars().take(label_width).collect();
            let (start, took) = (row.began.saturating_sub(from), row.ended.unwrap_or(now).saturating_sub(row.began));
            let (start, took) = (format!("+{}", time(start)), time(took));
            let bar = bar(row, (from, to), now, bar_width);
            let _ = writeln!(text, "{label:label_width$} {start:>START$} {took:>TIME$}  {bar}");
            if let Some(error) = &row.error {
                let _ = writeln!(text, "{:indent$}error: {error}", "", indent = 2 * row.depth + 2);
            }
        }
    }
    text
}

fn label(row: &Row) -> String {
    let container = row.container.as_ref().map_or_else(String::new, |container| format!(" {container}"));
    format!("{:indent$}{}{container}", "", row.name, indent = 2 * row.depth + 2)
}

/// Draws one bar: `━` for time that has passed, `✗` at the end of a failed step, `…` at the end of what goes on.
fn bar(row: &Row, (from, to): (u64, u64), now: u64, width: usize) -> String {
    let column = |at: u64| {
        let share = u128::from(at.clamp(from, to) - from) * width as u128 / u128::from((to - from).max(1));
        usize::try_from(share).unwrap_or(width).min(width)
    };
    let begin = column(row.began).min(width - 1);
    let end = column(row.ended.unwrap_or(now)).max(begin + 1);
    let last = match row {
        Row { error: Some(_), .. } => "✗",
        Row { ended: None, .. } => "…",
        _ => "━",
    };
    format!("{}{}{last}", " ".repeat(begin), "━".repeat(end - begin - 1))
}
