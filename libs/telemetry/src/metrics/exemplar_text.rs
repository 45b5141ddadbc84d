//! The text of exemplars, which is added to the lines of buckets.
//!
//! `prometheus-client` writes exemplars of its own histograms alone, because no other crate can make an exemplar of its type. An encoder shows a metric no way to its text either, so
//! the exemplars of the histogram that is being encoded lie in a variable of the thread until the lines of the histogram are complete.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use super::exemplar::ExemplarLabels;

/// The trace of one observation.
#[derive(Clone, Debug)]
pub(super) struct Exemplar {
    pub(super) labels: ExemplarLabels,
    /// The observed value.
    pub(super) value: f64,
    /// The time of the observation.
    pub(super) time: Option<SystemTime>,
}

thread_local! {
    /// The exemplars of the histogram that this thread is encoding, by index of the bucket.
    static ENCODED: RefCell<BTreeMap<usize, String>> = const { RefCell::new(BTreeMap::new()) };
}

/// Encodes a histogram, whose buckets get these exemplars.
pub(super) fn beside<T>(exemplars: &BTreeMap<usize, Exemplar>, encode: impl FnOnce() -> T) -> T {
    let texts = exemplars.iter().map(|(bucket, exemplar)| (*bucket, exemplar.to_string())).collect();
    ENCODED.set(texts);
    let encoded = encode();
    ENCODED.take();
    encoded
}

/// Appends the exemplar of a bucket of the histogram that is being encoded.
pub(super) fn append(line: &mut String, bucket: usize) {
    ENCODED.with_borrow(|exemplars| line.extend(exemplars.get(&bucket).map(String::as_str)));
}

impl fmt::Display for Exemplar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(name, id)] = &self.labels;
        // An identifier in hexadecimal digits needs no escaping.
        write!(f, " # {{{name}=\"{id}\"}} {:?}", self.value)?;
        match self.time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) {
            Some(since) => write!(f, " {:?}", since.as_secs_f64()),
            None => Ok(()),
        }
    }
}
