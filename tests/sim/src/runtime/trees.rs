//! Parent and child actors.

use std::sync::Arc;

use oarlock_runtime::{Actor, Ctx, Failure, Handle, Life, Universe, clock};
use parking_lot::Mutex;

use super::cast::{Do, ESCALATES, PARENT, Player};
use super::{S, assert_incarnations_never_overlap, soon, status, system};

/// An actor whose incarnations each spawn one child; the child's failures are escalated to the parent.
#[derive(Clone, Default)]
struct Parent {
    player: Player,
    child: Arc<Mutex<Option<Handle<Do>>>>,
}

impl Actor for Parent {
    type Message = ();
    type State = Handle<Do>;

    async fn start(&self, ctx: &Ctx<()>) -> Result<Handle<Do>, Failure> {
        let child = ctx.child(&ESCALATES, "child", self.player.clone()).await?;
        *self.child.lock() = Some(child.clone());
        Ok(child)
    }

    async fn handle(&self, _: &mut Handle<Do>, (): (), _: &Ctx<()>) -> Result<(), Failure> {
        Err("told to".into())
    }
}

impl Parent {
    fn child(&self) -> Handle<Do> {
        self.child.lock().clone().unwrap()
    }
}

#[test]
fn a_child_s_failure_fails_its_parent_which_its_own_row_restarts() {
    let outcome = Universe::run(1, || async {
        let (system, parent) = (system().await, Parent::default());
        let handle = system.spawn(&PARENT, "p", parent.clone()).await.unwrap();
        handle.running(soon()).await.unwrap();
        let first = parent.child();
        first.try_send(Do::Fail).unwrap();
        assert!(first.ended(soon()).await.unwrap().is_some());
        clock::sleep(2 * S).await;
        assert_eq!(parent.child().ask(Do::Who, soon()).await, Ok(1), "a new child");
        let seen = status(&system, "sim.parent/p");
        assert_eq!((seen.incarnation, seen.life), (2, Life::Running));
        let error = "sim.escalates/child: broken: an error occurred when formatting an argument";
        assert_eq!(seen.last_error.as_deref(), Some(error));
        assert_eq!(system.fatal(), None);
    });
    assert_incarnations_never_overlap(&outcome.events);
}

#[test]
fn children_end_with_their_parent_s_incarnation_before_the_next_one_starts() {
    let outcome = Universe::run(2, || async {
        let (system, parent) = (system().await, Parent::default());
        let handle = system.spawn(&PARENT, "p", parent.clone()).await.unwrap();
        handle.running(soon()).await.unwrap();
        let first = parent.child();
        first.try_send(Do::Wait(3 * S)).unwrap();
        let began = clock::now();
        handle.try_send(()).unwrap();
        assert_eq!(first.ended(soon()).await, Ok(None));
        assert_eq!(began.elapsed(), 3 * S, "it finished what it had in hand");
        clock::sleep(2 * S).await;
        assert_eq!(parent.child().ask(Do::Who, soon()).await, Ok(1));
        assert_eq!(parent.player.overlaps(), 0);
    });
    assert_incarnations_never_overlap(&outcome.events);
}

#[test]
fn stopping_a_parent_stops_its_children() {
    Universe::run(3, || async {
        let (system, parent) = (system().await, Parent::default());
        let handle = system.spawn(&PARENT, "p", parent.clone()).await.unwrap();
        handle.running(soon()).await.unwrap();
        handle.stop();
        assert_eq!(handle.ended(soon()).await, Ok(None));
        assert_eq!(parent.child().life(), Life::Ended);
        assert_eq!(parent.player.live(), 0);
        assert!(system.snapshot().is_empty());
    });
}
