//! The contract suite: every promise of [`Log`] as one case. A backend runs all cases; none can be skipped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_meta::Revision;

use super::driver::Driver;
use crate::{Append, Cause, Error, Expect, Fence, GroupOutcome, Key, Log, MAX_VALUE_BYTES, Outcome, Record, Sharing};

/// A factory of logs of one backend.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Returns an empty log.
    async fn fresh(&self) -> Arc<dyn Log>;

    /// Reopens a log as after a restart of its process; a backend without durable storage returns the same log.
    async fn reopen(&self, log: Arc<dyn Log>) -> Arc<dyn Log>;
}

/// One promise of the contract.
pub struct Case {
    /// Name of the rule.
    pub name: &'static str,
    run: fn(Arc<dyn Backend>) -> Verdict,
}

type Verdict = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

impl Case {
    /// Checks the promise on a fresh log.
    ///
    /// # Errors
    /// The first violation found.
    pub async fn check(&self, backend: Arc<dyn Backend>) -> Result<(), String> {
        (self.run)(backend).await
    }
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// All promises.
        pub static CASES: &[Case] = &[$(Case { name: stringify!($name), run: |backend| Box::pin($name(backend)) }),*];
    };
}

cases!(
    revisions_rise_with_every_write,
    create_refuses_a_key_that_exists,
    update_needs_the_exact_revision,
    delete_has_a_revision_of_its_own,
    any_writes_over_everything_but_deletes_only_what_is_there,
    a_batch_answers_each_group_on_its_own,
    later_groups_of_a_batch_see_earlier_ones,
    a_fence_must_be_current,
    a_fence_is_compared_in_the_same_commit,
    a_group_is_written_whole_or_not_at_all,
    a_group_never_holds_two_keys_of_a_resource,
    values_above_the_limit_are_refused,
    a_tail_says_everything_once_and_in_order,
    a_tail_wakes_for_a_later_write,
    a_tail_from_the_future_is_silent_until_then,
    a_trim_forgets_superseded_versions_only,
    a_trim_above_the_current_revision_is_refused,
    a_tail_below_the_floor_is_compacted,
    a_tail_overtaken_by_a_trim_fails_or_skips_nothing,
    a_load_gives_the_state_and_the_history_above_the_floor,
    a_body_is_that_of_its_exact_revision,
    a_barrier_covers_what_was_acknowledged,
    a_reopened_log_is_as_it_was,
    revisions_do_not_fall_when_all_history_is_gone,
    after_a_raise_everything_before_it_is_forgotten,
);

macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}

fn said(error: &Error) -> String {
    format!("the log failed: {error}")
}

async fn fresh(backend: &Arc<dyn Backend>) -> Driver {
    Driver::new(backend.fresh().await)
}

fn pod(name: &str) -> Key {
    Key::namespaced("/registry/pods/", "default", name)
}

fn service(name: &str) -> Key {
    Key::namespaced("/registry/services/specs/", "default", name)
}

fn value(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn any(key: Key, value: Option<Bytes>) -> Append {
    Append { key, expect: Expect::Any, value, fence: None }
}

async fn committed(driver: &Driver, append: Append) -> Result<Revision, String> {
    match driver.one(append).await {
        Ok(Outcome::Committed(revision)) => Ok(revision),
        other => Err(format!("expected a commit, got {other:?}")),
    }
}

fn refused(outcome: &Result<Outcome, Error>, current: Option<Revision>, cause: Cause) -> Result<(), String> {
    let wanted = Outcome::Rejected { current, cause };
    ensure!(matches!(outcome, Ok(got) if *got == wanted), "expected {wanted:?}, got {outcome:?}");
    Ok(())
}

/// The state that results from applying records in order.
fn state(records: &[Record]) -> Vec<(Key, Revision, Bytes)> {
    let mut state = std::collections::BTreeMap::new();
    for record in records {
        match &record.value {
            Some(value) => state.insert(record.key.clone(), (record.revision, value.clone())),
            None => state.remove(&record.key),
        };
    }
    state.into_iter().map(|(key, (revision, value))| (key, revision, value)).collect()
}

async fn revisions_rise_with_every_write(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let mut last = Revision::ZERO;
    for index in 0..20 {
        let revision = committed(&log, Append::create(pod(&index.to_string()), value("{}"))).await?;
        ensure!(revision > last, "{revision} after {last}");
        last = revision;
    }
    ensure!(log.log.health().revision >= last, "health is behind at {}", log.log.health().revision);
    Ok(())
}

async fn create_refuses_a_key_that_exists(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    refused(&log.one(Append::create(pod("a"), value("2"))).await, Some(first), Cause::Head)?;
    committed(&log, Append::delete(pod("a"), first)).await?;
    committed(&log, Append::create(pod("a"), value("3"))).await?;
    Ok(())
}

async fn update_needs_the_exact_revision(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    refused(&log.one(Append::update(pod("a"), Revision(1), value("0"))).await, None, Cause::Head)?;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let second = committed(&log, Append::update(pod("a"), first, value("2"))).await?;
    refused(&log.one(Append::update(pod("a"), first, value("3"))).await, Some(second), Cause::Head)?;
    refused(&log.one(Append::update(pod("a"), second.next(), value("3"))).await, Some(second), Cause::Head)?;
    Ok(())
}

async fn delete_has_a_revision_of_its_own(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    refused(&log.one(Append::delete(pod("a"), Revision(1))).await, None, Cause::Head)?;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let gone = committed(&log, Append::delete(pod("a"), first)).await?;
    ensure!(gone > first, "the delete got {gone} after {first}");
    refused(&log.one(Append::delete(pod("a"), first)).await, None, Cause::Head)?;
    let (records, _) = log.load().await.map_err(|error| said(&error))?;
    ensure!(state(&records).is_empty(), "something is left: {records:?}");
    Ok(())
}

async fn any_writes_over_everything_but_deletes_only_what_is_there(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    refused(&log.one(any(pod("a"), None)).await, None, Cause::Head)?;
    committed(&log, any(pod("a"), Some(value("1")))).await?;
    committed(&log, any(pod("a"), Some(value("2")))).await?;
    committed(&log, any(pod("a"), None)).await?;
    refused(&log.one(any(pod("a"), None)).await, None, Cause::Head)
}

async fn a_batch_answers_each_group_on_its_own(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let groups = vec![
        vec![Append::create(pod("b"), value("b"))],
        vec![Append::create(pod("a"), value("x"))],
        vec![],
        vec![Append::update(pod("a"), first, value("2"))],
        vec![Append::delete(pod("c"), first)],
    ];
    let answers = log.batch(groups).await;
    let (b, a) = match answers.as_slice() {
        [
            Ok(GroupOutcome::Committed(b)),
            Ok(clash),
            Err(Error::EmptyGroup),
            Ok(GroupOutcome::Committed(a)),
            Ok(gone),
        ] => {
            // Over a faulty log the driver repeats a refused group, which may then meet a later state.
            ensure!(matches!(clash, GroupOutcome::Rejected { current: Some(_), cause: Cause::Head, .. }), "{clash:?}");
            refused(&Ok(gone.single()), None, Cause::Head)?;
            (b.clone(), a.clone())
        }
        other => return Err(format!("unexpected answers {other:?}")),
    };
    // In a shared log, writes of different keys may overtake one another.
    let ordered = if log.log.sharing() == Sharing::Exclusive { a > b } else { a != b };
    ensure!(b.len() == 1 && a.len() == 1 && ordered, "revisions {b:?} and {a:?} are not in the order of the batch");
    Ok(())
}

async fn later_groups_of_a_batch_see_earlier_ones(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let groups = vec![
        vec![Append::create(pod("a"), value("1"))],
        vec![Append::create(pod("a"), value("2"))],
        vec![any(pod("a"), None)],
        vec![Append::create(pod("a"), value("3"))],
    ];
    let answers = log.batch(groups).await;
    let [
        Ok(GroupOutcome::Committed(first)),
        Ok(clash),
        Ok(GroupOutcome::Committed(_)),
        Ok(GroupOutcome::Committed(last)),
    ] = answers.as_slice()
    else {
        return Err(format!("unexpected answers {answers:?}"));
    };
    ensure!(matches!(clash, GroupOutcome::Rejected { current: Some(_), cause: Cause::Head, .. }), "{clash:?}");
    let (records, _) = log.load().await.map_err(|error| said(&error))?;
    let left = state(&records);
    ensure!(
        left.len() == 1 && left.first().is_some_and(|(_, at, value)| last.contains(at) && value == "3"),
        "{left:?}"
    );
    ensure!(last > first, "{last:?} after {first:?}");
    Ok(())
}

async fn a_fence_must_be_current(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let claim = Key::cluster("/registry/oarlock.dev/assignments/", "controllers-3");
    let stale = Fence { key: claim.clone(), at: Revision(1) };
    refused(&log.one(Append::create(pod("a"), value("1")).fenced(stale)).await, None, Cause::Fence)?;
    let epoch = committed(&log, Append::create(claim.clone(), value("me"))).await?;
    let fence = Fence { key: claim.clone(), at: epoch };
    committed(&log, Append::create(pod("a"), value("1")).fenced(fence.clone())).await?;
    let next = committed(&log, Append::update(claim, epoch, value("you"))).await?;
    refused(&log.one(Append::create(pod("b"), value("1")).fenced(fence)).await, Some(next), Cause::Fence)
}

async fn a_fence_is_compared_in_the_same_commit(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let claim = Key::cluster("/registry/oarlock.dev/assignments/", "controllers-3");
    let epoch = committed(&log, Append::create(claim.clone(), value("me"))).await?;
    let fence = Fence { key: claim.clone(), at: epoch };
    let groups = vec![
        vec![Append::create(pod("before"), value("1")).fenced(fence.clone())],
        vec![Append::update(claim, epoch, value("you"))],
        vec![Append::create(pod("after"), value("1")).fenced(fence)],
    ];
    let answers = log.batch(groups).await;
    let [Ok(GroupOutcome::Committed(_)), Ok(GroupOutcome::Committed(next)), Ok(last)] = answers.as_slice() else {
        return Err(format!("unexpected answers {answers:?}"));
    };
    refused(&Ok(last.single()), next.first().copied(), Cause::Fence)
}

async fn a_group_is_written_whole_or_not_at_all(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let taken = committed(&log, Append::create(service("taken"), value("1"))).await?;
    let clash = vec![Append::create(pod("a"), value("1")), Append::create(service("taken"), value("2"))];
    let outcome = log.group(clash).await.map_err(|error| said(&error))?;
    let wanted = GroupOutcome::Rejected { index: 1, current: Some(taken), cause: Cause::Head };
    ensure!(outcome == wanted, "expected {wanted:?}, got {outcome:?}");
    let both = vec![Append::create(pod("a"), value("1")), Append::create(service("free"), value("2"))];
    let outcome = log.group(both).await.map_err(|error| said(&error))?;
    let GroupOutcome::Committed(revisions) = outcome else { return Err(format!("not committed: {outcome:?}")) };
    ensure!(revisions.len() == 2 && revisions.is_sorted(), "revisions {revisions:?}");
    let (records, _) = log.load().await.map_err(|error| said(&error))?;
    ensure!(records.len() == 3, "records {records:?}");
    Ok(())
}

async fn a_group_never_holds_two_keys_of_a_resource(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let twins = vec![Append::create(pod("a"), value("1")), Append::create(pod("b"), value("1"))];
    let outcome = log.log.append_atomic(twins).await;
    let refused =
        matches!(&outcome, Err(Error::SameResource { .. } | Error::Unavailable(_)) | Ok(GroupOutcome::Unknown));
    ensure!(refused, "expected a refusal, got {outcome:?}");
    log.barrier().await.map_err(|error| said(&error))?;
    let (records, _) = log.load().await.map_err(|error| said(&error))?;
    ensure!(records.is_empty(), "something was written: {records:?}");
    Ok(())
}

async fn values_above_the_limit_are_refused(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let outcome = log.log.append(Append::create(pod("a"), Bytes::from(vec![b' '; MAX_VALUE_BYTES + 1]))).await;
    let refused = matches!(&outcome, Err(Error::TooLarge { .. } | Error::Unavailable(_)) | Ok(Outcome::Unknown));
    ensure!(refused, "expected a refusal, got {outcome:?}");
    committed(&log, Append::create(pod("a"), Bytes::from(vec![b' '; 1 << 20]))).await?;
    Ok(())
}

async fn a_tail_says_everything_once_and_in_order(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let mut wanted = Vec::new();
    let mut prev = None;
    for index in 0..30 {
        let text = index.to_string();
        let revision = committed(&log, any(pod("a"), Some(value(&text)))).await?;
        wanted.push(Record { revision, key: pod("a"), prev, value: Some(value(&text)) });
        prev = Some(revision);
    }
    let gone = committed(&log, any(pod("a"), None)).await?;
    wanted.push(Record { revision: gone, key: pod("a"), prev, value: None });
    for skip in [0, 1, 17, 30] {
        let after = wanted.get(..skip).and_then(|said| said.last()).map_or(Revision::ZERO, |record| record.revision);
        let got = log.follow(after, gone).await.map_err(|error| said(&error))?;
        ensure!(Some(got.as_slice()) == wanted.get(skip..), "from {after}: {got:?}");
    }
    Ok(())
}

async fn a_tail_wakes_for_a_later_write(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let follower = log.clone();
    let follow = async move { follower.follow(first, first.next()).await };
    let write = async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        committed(&log, Append::create(pod("b"), value("2"))).await
    };
    let (got, second) = tokio::join!(follow, write);
    let (got, second) = (got.map_err(|error| said(&error))?, second?);
    ensure!(got.len() == 1 && got.first().is_some_and(|record| record.revision == second), "{got:?}");
    Ok(())
}

async fn a_tail_from_the_future_is_silent_until_then(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let future = Revision(first.get() + 2);
    let mut tail = log.log.tail(future).await.map_err(|error| said(&error))?;
    let mut last = first;
    while last <= future {
        last = committed(&log, any(pod("a"), Some(value(&last.to_string())))).await?;
    }
    let mut got = Vec::new();
    while got.is_empty() {
        got = tail.next(8).await.map_err(|error| said(&error))?.records;
    }
    ensure!(got.iter().all(|record| record.revision > future), "{got:?}");
    Ok(())
}

async fn a_trim_forgets_superseded_versions_only(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let old = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let kept = committed(&log, Append::create(pod("quiet"), value("q"))).await?;
    let mid = committed(&log, Append::update(pod("a"), old, value("2"))).await?;
    let new = committed(&log, Append::update(pod("a"), mid, value("3"))).await?;
    let before = log.log.health().history_bytes;
    log.log.trim(mid).await.map_err(|error| said(&error))?;
    ensure!(log.log.health().floor == mid, "floor {}", log.log.health().floor);
    ensure!(log.log.health().history_bytes < before, "history is not smaller than {before}");
    for (key, at, wanted) in
        [(pod("a"), old, None), (pod("quiet"), kept, Some("q")), (pod("a"), mid, Some("2")), (pod("a"), new, Some("3"))]
    {
        let got = log.log.body(&key, at).await.map_err(|error| said(&error))?;
        ensure!(got == wanted.map(value), "{key} at {at}: {got:?}");
    }
    log.log.trim(old).await.map_err(|error| said(&error))?;
    ensure!(log.log.health().floor == mid, "a lower trim moved the floor to {}", log.log.health().floor);
    let got = log.follow(mid, new).await.map_err(|error| said(&error))?;
    ensure!(got.len() == 1, "above the floor: {got:?}");
    Ok(())
}

async fn a_trim_above_the_current_revision_is_refused(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let last = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let outcome = log.log.trim(Revision(last.get() + 1_000)).await;
    ensure!(matches!(outcome, Err(Error::Future { .. })), "{outcome:?}");
    Ok(())
}

async fn a_tail_below_the_floor_is_compacted(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let second = committed(&log, Append::update(pod("a"), first, value("2"))).await?;
    log.log.trim(second).await.map_err(|error| said(&error))?;
    let outcome = log.follow(first, second).await;
    ensure!(matches!(outcome, Err(Error::Compacted { floor }) if floor == second), "{outcome:?}");
    ensure!(log.log.tail(second).await.is_ok(), "a tail from the floor itself must work");
    Ok(())
}

async fn a_tail_overtaken_by_a_trim_fails_or_skips_nothing(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let mut wanted = vec![committed(&log, Append::create(pod("a"), value("0"))).await?];
    let mut last = Revision::ZERO;
    let mut tail = log.log.tail(Revision::ZERO).await.map_err(|error| said(&error))?;
    for index in 0..20 {
        last = wanted.last().copied().unwrap_or_default();
        wanted.push(committed(&log, Append::update(pod("a"), last, value(&index.to_string()))).await?);
    }
    log.log.trim(last).await.map_err(|error| said(&error))?;
    let mut got = Vec::new();
    while got.last() != wanted.last() {
        match tail.next(4).await {
            Ok(batch) => got.extend(batch.records.iter().map(|record| record.revision)),
            // A tail detects the compaction only when it reads; records already buffered may arrive first.
            Err(Error::Compacted { .. }) => break,
            Err(error) => return Err(format!("expected compacted, got {error:?}")),
        }
    }
    got.dedup();
    ensure!(wanted.starts_with(&got), "{got:?} of {wanted:?}");
    let pulled = log.log.sharing() == Sharing::Shared || got.is_empty();
    ensure!(pulled, "the tail said {got:?} of what is trimmed");
    Ok(())
}

async fn a_load_gives_the_state_and_the_history_above_the_floor(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let (records, loaded) = log.load().await.map_err(|error| said(&error))?;
    ensure!(records.is_empty(), "a fresh log has {records:?} at {loaded:?}");
    let a = committed(&log, Append::create(pod("a"), value("a1"))).await?;
    let b = committed(&log, Append::create(pod("b"), value("b1"))).await?;
    let gone = committed(&log, Append::delete(pod("b"), b)).await?;
    let late = committed(&log, Append::update(pod("a"), a, value("a2"))).await?;
    log.log.trim(gone).await.map_err(|error| said(&error))?;
    let (records, loaded) = log.load().await.map_err(|error| said(&error))?;
    ensure!(loaded.revision >= late && loaded.floor == gone, "{loaded:?}");
    ensure!(records.is_sorted_by_key(|record| record.revision), "not in order: {records:?}");
    ensure!(state(&records) == [(pod("a"), late, value("a2"))], "{records:?}");
    let history: Vec<&Record> = records.iter().filter(|record| record.revision > loaded.floor).collect();
    let wanted = Record { revision: late, key: pod("a"), prev: Some(a), value: Some(value("a2")) };
    ensure!(history == [&wanted], "{history:?}");
    Ok(())
}

async fn a_body_is_that_of_its_exact_revision(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let second = committed(&log, Append::update(pod("a"), first, value("2"))).await?;
    let gone = committed(&log, Append::delete(pod("a"), second)).await?;
    for (key, at, wanted) in [
        (pod("a"), first, Some("1")),
        (pod("a"), second, Some("2")),
        (pod("a"), gone, None),
        (pod("b"), first, None),
        (pod("a"), gone.next(), None),
    ] {
        let got = log.log.body(&key, at).await.map_err(|error| said(&error))?;
        ensure!(got == wanted.map(value), "{key} at {at}: {got:?}");
    }
    Ok(())
}

async fn a_barrier_covers_what_was_acknowledged(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    for index in 0..10 {
        let revision = committed(&log, Append::create(pod(&index.to_string()), value("1"))).await?;
        let barrier = log.barrier().await.map_err(|error| said(&error))?;
        ensure!(barrier >= revision, "barrier {barrier} after {revision}");
    }
    Ok(())
}

async fn a_reopened_log_is_as_it_was(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let a = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let b = committed(&log, Append::create(pod("b"), value("2"))).await?;
    log.log.trim(b).await.map_err(|error| said(&error))?;
    let c = committed(&log, Append::update(pod("a"), a, value("3"))).await?;
    let before = log.load().await.map_err(|error| said(&error))?;
    let log = Driver::new(backend.reopen(log.log).await);
    let after = log.load().await.map_err(|error| said(&error))?;
    ensure!(before == after, "before {before:?}, after {after:?}");
    ensure!(log.log.health().floor == b, "floor {}", log.log.health().floor);
    refused(&log.one(Append::create(pod("a"), value("x"))).await, Some(c), Cause::Head)?;
    let next = committed(&log, Append::create(pod("c"), value("4"))).await?;
    ensure!(next > c, "{next} after {c}");
    Ok(())
}

async fn revisions_do_not_fall_when_all_history_is_gone(backend: Arc<dyn Backend>) -> Result<(), String> {
    let log = fresh(&backend).await;
    let first = committed(&log, Append::create(pod("a"), value("1"))).await?;
    let gone = committed(&log, Append::delete(pod("a"), first)).await?;
    log.log.trim(gone).await.map_err(|error| said(&error))?;
    let (records, loaded) = log.load().await.map_err(|error| said(&error))?;
    // Above that revision where the backend has keys of its own.
    ensure!(records.is_empty() && loaded.revision >= gone, "{records:?} at {loaded:?}");
    let log = Driver::new(backend.reopen(log.log).await);
    ensure!(log.log.health().revision >= gone, "reopened at {}", log.log.health().revision);
    let next = committed(&log, Append::create(pod("a"), value("1"))).await?;
    ensure!(next > gone, "{next} after {gone}");
    Ok(())
}

async fn after_a_raise_everything_before_it_is_forgotten(backend: Arc<dyn Backend>) -> Result<(), String> {
    let mut log = fresh(&backend).await;
    let mut before = committed(&log, Append::create(pod("a"), value("0"))).await?;
    for turn in 1..4_u64 {
        // The last turn names a revision that is already passed: it only compacts.
        let to = Revision(if turn < 3 { before.get() + 1_000_000 } else { 1 });
        log.log.raise(to).await.map_err(|error| said(&error))?;
        let outcome = log.follow(Revision(before.get() - 1), before).await;
        ensure!(matches!(outcome, Err(Error::Compacted { floor }) if floor >= to), "{outcome:?}");
        let (records, loaded) = log.load().await.map_err(|error| said(&error))?;
        ensure!(loaded.floor >= to && loaded.revision >= loaded.floor, "{loaded:?} after a raise to {to}");
        let [Record { revision, key, value: Some(was), .. }] = records.as_slice() else {
            return Err(format!("{records:?}"));
        };
        ensure!(*key == pod("a") && *was == value(&(turn - 1).to_string()), "{records:?}");
        let next = committed(&log, Append::update(pod("a"), *revision, value(&turn.to_string()))).await?;
        ensure!(next > to && next > before, "{next} after a raise to {to}");
        let seen = log.follow(loaded.revision, next).await.map_err(|error| said(&error))?;
        ensure!(seen.len() == 1 && seen.iter().all(|record| record.revision == next), "{seen:?}");
        let body = log.log.body(&pod("a"), next).await.map_err(|error| said(&error))?;
        ensure!(body == Some(value(&turn.to_string())), "{body:?}");
        before = next;
        log = Driver::new(backend.reopen(log.log).await);
        ensure!(log.log.health().revision >= next, "reopened at {}", log.log.health().revision);
    }
    Ok(())
}
