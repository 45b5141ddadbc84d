//! A shared value that tasks can wait on, like tokio's `watch` with a deterministic wake order.
//!
//! Waiting tasks are woken in the order in which they began to wait. tokio's `watch` draws that order from a generator that cannot be seeded, so
//! equal seeds would not give equal test runs.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

/// A shared value that tasks can wait on; waiting tasks are woken first come, first served.
#[derive(Debug, Default)]
pub struct Watched<T> {
    value: RwLock<Versioned<T>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Versioned<T> {
    value: T,
    /// How many changes were reported.
    version: u64,
}

impl<T: Clone> Watched<T> {
    /// Creates a watched value.
    pub fn new(value: T) -> Self {
        Self { value: RwLock::new(Versioned { value, version: 0 }), changed: Notify::new() }
    }

    /// Returns a copy of the current value.
    pub fn get(&self) -> T {
        self.value.read().value.clone()
    }

    /// Calls `look` with a reference to the value, under its read lock.
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.value.read().value)
    }

    /// Calls `change` with a mutable reference to the value. If `change` returns true, all waiting tasks check the value again.
    pub fn modify(&self, change: impl FnOnce(&mut T) -> bool) {
        let mut value = self.value.write();
        if change(&mut value.value) {
            value.version += 1;
            drop(value);
            self.changed.notify_waiters();
        }
    }

    /// Replaces the value and wakes the waiting tasks.
    pub fn set(&self, value: T) {
        self.modify(|now| {
            *now = value;
            true
        });
    }

    /// Waits until the value satisfies `wanted`, and returns it. Cancel safe.
    pub async fn wait_for(&self, wanted: impl Fn(&T) -> bool) -> T {
        self.until(|now| wanted(&now.value).then(|| now.value.clone())).await
    }

    /// Returns a follower that reports changes from now on.
    #[must_use]
    pub fn follow(self: &Arc<Self>) -> Follower<T> {
        Follower { watched: Arc::clone(self), seen: self.value.read().version }
    }

    async fn until<R>(&self, look: impl Fn(&Versioned<T>) -> Option<R>) -> R {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // enabled before the check, so that no change after the check is missed
            changed.as_mut().enable();
            let found = look(&self.value.read());
            if let Some(found) = found {
                return found;
            }
            changed.await;
        }
    }
}

/// A reader of a [`Watched`] value that remembers which change it has seen.
#[derive(Debug)]
pub struct Follower<T> {
    watched: Arc<Watched<T>>,
    seen: u64,
}

impl<T: Clone> Follower<T> {
    /// Waits for a change since the last call, or since the follower was created. Cancel safe.
    pub async fn changed(&mut self) {
        let seen = self.seen;
        self.seen = self.watched.until(|now| (now.version != seen).then_some(now.version)).await;
    }

    /// Waits for a value, as [`Watched::wait_for`].
    pub async fn wait_for(&self, wanted: impl Fn(&T) -> bool) -> T {
        self.watched.wait_for(wanted).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use parking_lot::Mutex;

    use super::Watched;
    use crate::Gate;

    #[tokio::test]
    async fn who_came_first_is_woken_first_and_only_a_wanted_value_is_returned() {
        let (level, order) = (Arc::new(Watched::new(0)), Arc::new(Mutex::new(Vec::new())));
        let gate = Gate::new("waiters");
        let mut tasks = Vec::new();
        for waiter in 0..40 {
            let (level, order) = (Arc::clone(&level), Arc::clone(&order));
            let wait = async move {
                assert_eq!(level.wait_for(|value| *value >= 2).await, 2);
                order.lock().push(waiter);
            };
            tasks.push(gate.spawn("waiter", wait).unwrap());
        }
        tokio::task::yield_now().await;
        level.set(1);
        tokio::task::yield_now().await;
        assert!(order.lock().is_empty());
        level.modify(|value| {
            *value = 2;
            false
        });
        tokio::task::yield_now().await;
        assert!(order.lock().is_empty(), "nobody said that it changed");
        level.set(2);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), (0..40).collect::<Vec<i32>>());
        assert_eq!(level.wait_for(|value| *value == 2).now_or_never(), Some(2));
    }

    #[tokio::test]
    async fn who_follows_is_told_of_every_change_once_and_of_none_before_it_began() {
        let level = Arc::new(Watched::new(1));
        level.set(2);
        let mut follower = level.follow();
        assert_eq!(follower.changed().now_or_never(), None);
        // An equal value is a change too, if it was reported as one.
        level.set(2);
        level.set(2);
        assert_eq!(follower.changed().now_or_never(), Some(()));
        assert_eq!(follower.changed().now_or_never(), None);
    }
}
