//! A value that tasks wait on.
//!
//! Whoever waits is woken in the order in which it came. tokio's `watch` draws that order from a generator that nobody can seed, so that
//! equal seeds would not give equal runs.

use parking_lot::RwLock;
use tokio::sync::Notify;

/// See the module text.
#[derive(Debug, Default)]
pub struct Watched<T> {
    value: RwLock<T>,
    changed: Notify,
}

impl<T: Clone> Watched<T> {
    /// Begins with a value.
    pub fn new(value: T) -> Self {
        Self { value: RwLock::new(value), changed: Notify::new() }
    }

    /// The value now.
    pub fn get(&self) -> T {
        self.value.read().clone()
    }

    /// Changes the value; `change` tells whether it did, and then everybody who waits looks again.
    pub fn modify(&self, change: impl FnOnce(&mut T) -> bool) {
        if change(&mut self.value.write()) {
            self.changed.notify_waiters();
        }
    }

    /// Another value.
    pub fn set(&self, value: T) {
        self.modify(|now| {
            *now = value;
            true
        });
    }

    /// Waits for a value that is `wanted`, and returns it. Cancel safe.
    pub async fn wait_for(&self, wanted: impl Fn(&T) -> bool) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // before the look, so that no change behind it is missed
            changed.as_mut().enable();
            let value = self.get();
            if wanted(&value) {
                return value;
            }
            changed.await;
        }
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
}
