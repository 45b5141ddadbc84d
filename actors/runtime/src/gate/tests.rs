use std::sync::atomic::AtomicBool;

use super::*;

const S: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn closing_waits_for_those_inside_and_lets_nobody_in() {
    let gate = Gate::new("g");
    let task = gate.spawn("work", clock::sleep(3 * S)).unwrap();
    let closer = gate.clone();
    let (closed, refused) = futures::join!(closer.close(10 * S), async {
        clock::sleep(S).await;
        gate.enter("late comer").err()
    });
    assert_eq!(closed, Ok(3 * S));
    assert_eq!(refused, Some(Closed));
    assert_eq!(task.await, Ok(()));
    assert_eq!(gate.spawn("x", async {}).err(), Some(Closed));
}

#[tokio::test(start_paused = true)]
async fn closing_names_and_aborts_who_is_late() {
    let gate = Gate::new("g");
    let quick = gate.spawn("quick", clock::sleep(S)).unwrap();
    let slow = gate.spawn("slow", clock::sleep(60 * S)).unwrap();
    let deaf = gate.spawn("deaf", std::future::pending::<()>()).unwrap();
    let late = gate.close(5 * S).await.unwrap_err();
    assert_eq!(late, Late { gate: "g".into(), holders: vec!["slow".into(), "deaf".into()], stuck: false });
    assert_eq!(late.to_string(), "gate g: 2 late: slow, deaf");
    assert_eq!(quick.await, Ok(()));
    assert_eq!((slow.await, deaf.await), (Err(TaskError::Aborted), Err(TaskError::Aborted)));
    assert_eq!(gate.inside(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_is_no_task_is_named_as_stuck() {
    let gate = Gate::new("g");
    let pass = gate.enter("holder").unwrap();
    let late = gate.close(S).await.unwrap_err();
    assert_eq!((late.holders, late.stuck), (vec!["holder".to_owned()], true));
    drop(pass);
    assert_eq!(gate.close(S).await, Ok(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn closing_tells_those_inside_to_finish() {
    let gate = Gate::new("g");
    let inside = gate.clone();
    let task = gate.spawn("polite", async move { inside.cancelled().await }).unwrap();
    assert_eq!(gate.close(S).await, Ok(Duration::ZERO));
    assert_eq!(task.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_becomes_an_error_and_is_counted() {
    let gate = Gate::new("g");
    let good = |good: bool| assert!(good, "no good");
    let task = gate.spawn("bad", async move { good(false) }).unwrap();
    assert_eq!(task.await, Err(TaskError::Panicked("no good".into())));
    assert_eq!((gate.panics(), gate.inside()), (1, 0));
    assert_eq!(gate.spawn("good", async { 7 }).unwrap().await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_drops_the_task_where_it_stands() {
    let dropped = Arc::new(AtomicBool::new(false));
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let gate = Gate::new("g");
    let flag = Flag(dropped.clone());
    let task = gate
        .spawn_until("slow", clock::after(2 * S), async move {
            let _flag = flag;
            clock::sleep(60 * S).await;
        })
        .unwrap();
    let began = clock::now();
    assert_eq!(task.await, Err(TaskError::Deadline));
    assert_eq!(began.elapsed(), 2 * S);
    assert!(dropped.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn an_attached_task_ends_with_its_gate_and_never_begins_after_it() {
    let gate = Gate::new("g");
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    gate.attach("deaf", std::future::pending());
    gate.attach("quick", async move { seen.store(true, Ordering::Relaxed) });
    clock::sleep(S).await;
    assert_eq!((gate.inside(), ended.load(Ordering::Relaxed)), (1, true));
    assert_eq!(gate.close(S).await, Ok(Duration::ZERO));
    gate.attach("late comer", std::future::pending());
    assert_eq!(gate.inside(), 0);
}
