//! W7, and the part of W3 for lists: the pages of a list equal the state at its revision.

use std::collections::{BTreeMap, HashMap};

use crate::history::{At, Call, History, Outcome, Page, Place, Record, selects};
use crate::log::Log;
use crate::report::{Report, Rule};

/// One list: its answered pages in order.
type Pages<'a> = Vec<(&'a At<Call>, &'a Page)>;

/// Compares every list with the log's state.
pub(crate) fn check(history: &History, log: &Log<'_>, report: &mut Report) {
    let mut lists: HashMap<&str, Pages<'_>> = HashMap::new();
    for call in history.calls.iter().filter(|call| call.is.outcome == Outcome::Ok) {
        if let Some(page) = &call.is.list {
            lists.entry(&page.id).or_default().push((call, page));
        }
    }
    let mut lists: Vec<_> = lists.into_values().collect();
    for pages in &mut lists {
        pages.sort_by_key(|(_, page)| page.page);
    }
    let revision = |pages: &Pages<'_>| pages.first().and_then(|(call, _)| call.is.revision).unwrap_or_default();
    lists.sort_by_key(|pages| (revision(pages), pages.first().map(|(call, _)| call.place)));
    // The log is replayed once; each list is compared when the replay reaches the list's revision.
    let mut state: BTreeMap<&str, &At<Record>> = BTreeMap::new();
    let mut records = log.records().map(|(_, record)| record).peekable();
    for pages in &lists {
        while let Some(record) = records.next_if(|record| record.is.revision <= revision(pages)) {
            if record.is.body.is_some() {
                state.insert(&record.is.key, record);
            } else {
                state.remove(record.is.key.as_str());
            }
        }
        compare(pages, &state, report);
    }
}

fn compare(pages: &Pages<'_>, state: &BTreeMap<&str, &At<Record>>, report: &mut Report) {
    let (Some((first, page)), Some((last, end))) = (pages.first(), pages.last()) else { return };
    // A list of one page counts as a read (W3).
    let rule = if pages.len() > 1 || end.more { Rule::W7 } else { Rule::W3 };
    report.count(rule);
    for (call, _) in pages.iter().filter(|(call, _)| call.is.revision != first.is.revision) {
        let what = format!("pages of revisions {:?} and {:?}", first.is.revision, call.is.revision);
        report.broke(rule, what, [Some(call.place), Some(first.place)]);
    }
    let prefix = first.is.key.as_str();
    let there = state.range(prefix..).take_while(|(key, _)| key.starts_with(prefix)).map(|(_, record)| *record);
    let mut there = there.filter(|record| selects(&page.selector, &record.is.labels));
    let revision = first.is.revision.unwrap_or_default();
    for (call, page) in pages {
        for (key, at, body) in &page.items {
            let due = there.next();
            if due.is_some_and(|due| due.is.key == *key && due.is.revision == *at && due.is.body.as_ref() == Some(body))
            {
                continue;
            }
            let due_here =
                due.map_or("nothing more".to_owned(), |due| format!("{} of {}", due.is.key, due.is.revision));
            let what = format!("at {revision} there is {due_here} where the list has {key} of {at}");
            return report.broke(rule, what, [Some(call.place), due.map(|due| due.place)]);
        }
    }
    if let Some(missing) = there.next().filter(|_| !end.more) {
        let what = format!("at {revision} there is {} too, and the list lacks it", missing.is.key);
        let evidence: [Option<Place>; 2] = [Some(last.place), Some(missing.place)];
        report.broke(rule, what, evidence);
    }
}
