//! Reads histories, and refuses malformed ones.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::history::{At, Call, EventType, History, Line, Op, Open, Outcome, Page, Place, Reason, Source, Step, Watch};

/// The reason why a history cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct Malformed {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The defect of the line.
    pub why: String,
}

impl History {
    /// Reads files, which together are one history.
    ///
    /// # Errors
    /// A file that cannot be read, and the first malformed line.
    pub fn read(files: &[impl AsRef<Path>]) -> Result<Self, Malformed> {
        let sources: Result<Vec<_>, _> = files
            .iter()
            .map(|file| {
                let name = file.as_ref().display().to_string();
                let text = std::fs::read_to_string(file).map_err(|error| Malformed {
                    file: name.clone(),
                    line: 0,
                    why: error.to_string(),
                })?;
                Ok(Source { name, lines: text.lines().map(str::to_owned).collect() })
            })
            .collect();
        Self::of(sources?)
    }

    /// Makes a history of lines that were never in a file.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn from_lines(lines: &[Line]) -> Result<Self, Malformed> {
        let text = |line| serde_json::to_string(line).unwrap_or_default();
        Self::of(vec![Source { name: "history".to_owned(), lines: lines.iter().map(text).collect() }])
    }

    fn of(sources: Vec<Source>) -> Result<Self, Malformed> {
        let mut reading = Reading::default();
        match reading.all(&sources) {
            Ok(()) => Ok(Self { sources, ..reading.history }),
            Err((place, why)) => {
                let file = sources.get(place.file).map_or("no file", |source| &source.name);
                Err(Malformed { file: file.to_owned(), line: place.line + 1, why })
            }
        }
    }
}

/// The place of a malformed line, and the defect.
type Wrong = (Place, String);

#[derive(Default)]
struct Reading {
    history: History,
    truth: Option<Place>,
    watches: HashMap<String, Progress>,
    tags: HashSet<String>,
}

/// The progress of a watch while its lines are read.
struct Progress {
    /// The watch's index in the history.
    index: usize,
    /// The last delivered revision.
    told: u64,
    over: bool,
    /// The time of the last line.
    last: u64,
}

impl Reading {
    fn all(&mut self, sources: &[Source]) -> Result<(), Wrong> {
        for (file, source) in sources.iter().enumerate() {
            for (line, text) in source.lines.iter().enumerate() {
                let place = Place { file, line };
                let parsed = serde_json::from_str(text).map_err(|error| (place, error.to_string()))?;
                self.line(place, parsed).map_err(|why| (place, why))?;
            }
        }
        if self.truth.is_none() {
            return Err((Place::default(), "no line says what the truth covers".to_owned()));
        }
        self.covered()?;
        self.paged()
    }

    fn line(&mut self, place: Place, line: Line) -> Result<(), String> {
        let history = &mut self.history;
        match line {
            Line::Truth(truth) => {
                if self.truth.replace(place).is_some() || truth.through < truth.after {
                    return Err("a second truth, or one that ends before it begins".to_owned());
                }
                history.truth = truth;
            }
            Line::Record(record) => history.records.push(At { is: record, place }),
            Line::Floor(floor) => history.floors.push(At { is: floor, place }),
            Line::Call(call) => {
                sound(&call)?;
                if let Some(tag) = &call.tag
                    && !self.tags.insert(tag.clone())
                {
                    return Err(format!("tag {tag} was used before"));
                }
                history.calls.push(At { is: call, place });
            }
            Line::Watch(open) => self.open(place, open)?,
            Line::Event(event) => {
                let (name, at) = (event.watch.clone(), event.at);
                let told = match (event.told, event.revision, &event.body) {
                    (EventType::Gone, None, None) => None,
                    (EventType::Bookmark, Some(revision), None) => Some(revision),
                    (EventType::Added | EventType::Modified | EventType::Deleted, Some(revision), Some(_)) => {
                        Some(revision)
                    }
                    _ => return Err("an event without its revision or body, or with too much".to_owned()),
                };
                self.step(&name, at, told, At { is: Step::Event(event), place })?;
            }
            Line::End(end) => {
                let (name, at) = (end.watch.clone(), end.at);
                self.step(&name, at, None, At { is: Step::End(end), place })?;
            }
            Line::Claim(claim) => history.claims.push(At { is: claim, place }),
        }
        Ok(())
    }

    fn open(&mut self, place: Place, open: Open) -> Result<(), String> {
        let Some(Progress { index, told, .. }) = self.watches.get(&open.watch) else {
            let progress = Progress { index: self.history.watches.len(), told: open.from, over: false, last: open.at };
            self.watches.insert(open.watch.clone(), progress);
            self.history.watches.push(Watch { open: At { is: open, place }, steps: Vec::new() });
            return Ok(());
        };
        let first = self.history.watches.get(*index).map(|watch| &watch.open.is);
        if first.is_none_or(|first| (&first.key, &first.selector) != (&open.key, &open.selector)) {
            return Err("a watch goes on with another prefix or selector".to_owned());
        }
        if open.from != *told {
            return Err(format!("a watch that was told {told} last goes on from {}", open.from));
        }
        let (name, at, told) = (open.watch.clone(), open.at, *told);
        self.step(&name, at, Some(told), At { is: Step::Resume(open), place })
    }

    fn step(&mut self, name: &str, at: u64, told: Option<u64>, step: At<Step>) -> Result<(), String> {
        let progress = self.watches.get_mut(name).ok_or("of a watch that never began")?;
        if progress.over || at < progress.last {
            return Err("after the watch's end, or back in time".to_owned());
        }
        (progress.told, progress.over, progress.last) = (told.unwrap_or(progress.told), told.is_none(), at);
        self.history.watches.get_mut(progress.index).ok_or("of a watch that never began")?.steps.push(step);
        Ok(())
    }

    /// Checks that no line refers to revisions before the records.
    fn covered(&self) -> Result<(), Wrong> {
        let after = self.history.truth.after;
        let early =
            |place: Place, what: &str| Err((place, format!("{what} before revision {after}, where the truth begins")));
        for call in &self.history.calls {
            let write = matches!(call.is.op, Op::Create | Op::Update | Op::Delete);
            match call.is.revision {
                Some(revision) if write && revision <= after => return early(call.place, "a write"),
                Some(revision) if call.is.op == Op::List && revision < after => return early(call.place, "a list"),
                _ => {}
            }
        }
        match self.history.watches.iter().find(|watch| watch.open.is.from < after) {
            Some(watch) => early(watch.open.place, "a watch"),
            None => Ok(()),
        }
    }

    /// Checks that the answered pages of each list are consecutive.
    fn paged(&self) -> Result<(), Wrong> {
        let mut lists: HashMap<&str, Vec<(&Page, Place)>> = HashMap::new();
        for call in self.history.calls.iter().filter(|call| call.is.outcome == Outcome::Ok) {
            if let Some(page) = &call.is.list {
                lists.entry(&page.id).or_default().push((page, call.place));
            }
        }
        for pages in lists.values_mut() {
            pages.sort_by_key(|(page, place)| (page.page, *place));
            let (last, selector) = (pages.len() - 1, pages.first().map(|(page, _)| &page.selector));
            for (index, (page, place)) in pages.iter().enumerate() {
                let follows = page.page == index as u64 && (page.more || index == last);
                if !follows || Some(&page.selector) != selector {
                    let why = "pages of a list are missing, twice, after the last, or of another selector";
                    return Err((*place, why.to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// Checks that a call has the fields that its operation and outcome need, and no contradictory ones.
fn sound(call: &Call) -> Result<(), &'static str> {
    let tagged = matches!(call.op, Op::Create | Op::Update);
    let refused = match call.reason {
        None | Some(Reason::Other) => true,
        Some(Reason::Exists) => call.op == Op::Create,
        Some(Reason::Absent) => matches!(call.op, Op::Update | Op::Delete | Op::Get),
        Some(Reason::Conflict) => matches!(call.op, Op::Update | Op::Delete) && call.expect.is_some(),
        Some(Reason::Expired) => matches!(call.op, Op::Get | Op::List),
    };
    let answered = match call.op {
        Op::Create | Op::Update | Op::Get => call.revision.is_some() && call.body.is_some(),
        Op::Delete => call.revision.is_some() || call.expect.is_some(),
        Op::List => call.revision.is_some(),
    };
    let rules = [
        (tagged == call.tag.is_some(), "creates and updates have a tag, and only they"),
        ((call.op == Op::List) == call.list.is_some(), "lists have a page, and only they"),
        (
            matches!(call.op, Op::Update | Op::Delete) || call.expect.is_none(),
            "only updates and deletes expect a revision",
        ),
        (
            call.outcome == Outcome::Unknown || call.returned.is_some_and(|end| end >= call.invoke),
            "it ends before it begins, or never",
        ),
        ((call.outcome == Outcome::Rejected) == call.reason.is_some(), "rejected calls have a reason, and only they"),
        (refused, "such a call is not refused for this reason"),
        (call.outcome != Outcome::Ok || answered, "the answer's revision or body is missing"),
    ];
    rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(why))
}
