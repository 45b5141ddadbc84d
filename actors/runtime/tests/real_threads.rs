//! Tests on real threads of what virtual time cannot show: code that never yields, blocked threads, an aborted process.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use oarlock_runtime::{Actor, ActorKind, Ctx, Failure, Instant, Life, OnSpin, Options, Reply, System, Watchdog, clock};

static SPINNER: ActorKind =
    ActorKind { name: "real.spinner", progress: Duration::from_millis(100), ..ActorKind::DEFAULT };
static REPLACEABLE: ActorKind = ActorKind {
    name: "real.replaceable",
    progress: Duration::from_millis(100),
    on_spin: OnSpin::Abort,
    ..ActorKind::DEFAULT
};
static BLOCKER: ActorKind =
    ActorKind { name: "real.blocker", progress: Duration::from_millis(100), ..ActorKind::DEFAULT };
static COUNTER: ActorKind = ActorKind { name: "real.counter", mailbox: 4096, ..ActorKind::DEFAULT };

fn soon() -> Instant {
    clock::after(Duration::from_secs(30))
}

/// Spins until it is released.
struct Spinner(Arc<AtomicBool>);

impl Actor for Spinner {
    type Message = ();
    type State = ();

    async fn start(&self, _: &Ctx<()>) -> Result<(), Failure> {
        Ok(())
    }

    async fn handle(&self, (): &mut (), (): (), _: &Ctx<()>) -> Result<(), Failure> {
        while !self.0.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

/// A watchdog that sends the names it reports.
fn watched(seen: &mpsc::Sender<(String, OnSpin)>) -> Options {
    let seen = seen.clone();
    // the test may have ended
    let on_stuck = Arc::new(move |name: &str, on_spin: OnSpin| drop(seen.send((name.to_owned(), on_spin))));
    let limit = Duration::from_millis(200);
    Options { watchdog: Some(Watchdog { limit, on_stuck }), tick: Duration::from_millis(20), ..Options::default() }
}

/// Waits until `wanted` is reported, and returns the permitted reaction. On a busy machine other tasks may seem stuck, too.
async fn named(seen: mpsc::Receiver<(String, OnSpin)>, wanted: &'static str) -> Option<OnSpin> {
    let deadline = soon();
    let look = move || {
        let mut named = std::iter::from_fn(|| seen.recv_timeout(deadline.remaining()).ok());
        named.find(|(name, _)| name == wanted).map(|(_, on_spin)| on_spin)
    };
    tokio::task::spawn_blocking(look).await.ok().flatten()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_never_yields_is_named() {
    let (names, seen) = mpsc::channel();
    let system = System::start(watched(&names)).await.unwrap();
    let release = Arc::new(AtomicBool::new(false));
    let spinner = system.spawn(&SPINNER, "s", Spinner(release.clone())).await.unwrap();
    spinner.try_send(()).unwrap();
    let named = named(seen, "real.spinner/s").await;
    let spins = || system.spinning().iter().any(|name| name == "real.spinner/s");
    let shown = spins();
    release.store(true, Ordering::Relaxed);
    assert_eq!((named, shown), (Some(OnSpin::Report), true));
    let deadline = soon();
    while spins() {
        assert!(!deadline.passed(), "it is named no more when it has yielded");
        clock::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gated_task_that_never_yields_is_named_and_ends_nothing() {
    let (names, seen) = mpsc::channel();
    let system = System::start(watched(&names)).await.unwrap();
    let gate = system.gate("requests", oarlock_runtime::Phase::Ingress);
    let release = Arc::new(AtomicBool::new(false));
    let released = release.clone();
    let spin = async move {
        while !released.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    gate.spawn("spin", spin).unwrap();
    let named = named(seen, "requests/spin").await;
    let shown = system.spinning();
    release.store(true, Ordering::Relaxed);
    assert_eq!(named, Some(OnSpin::Report), "a request ends no process");
    assert!(!shown.iter().any(|name| name == "requests/spin"), "no check fails for a request: {shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_may_end_its_process_does_not_end_one_that_serves_an_api() {
    for (serves, verdict) in [(false, OnSpin::Abort), (true, OnSpin::Report)] {
        let (names, seen) = mpsc::channel();
        let system = System::start(watched(&names)).await.unwrap();
        if serves {
            system.serves();
        }
        let release = Arc::new(AtomicBool::new(false));
        let spinner = system.spawn(&REPLACEABLE, "s", Spinner(release.clone())).await.unwrap();
        spinner.try_send(()).unwrap();
        let named = named(seen, "real.replaceable/s").await;
        release.store(true, Ordering::Relaxed);
        assert_eq!(named, Some(verdict), "serves an API: {serves}");
    }
}

/// The part of the next test that runs in a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "aborts its process"]
async fn spin_for_ever() {
    // Long enough that nothing else seems stuck on a busy machine: the first reported name ends the process.
    let watchdog = Watchdog { limit: Duration::from_secs(1), ..Watchdog::default() };
    let system = System::start(Options { watchdog: Some(watchdog), ..Options::default() }).await.unwrap();
    let spinner = system.spawn(&REPLACEABLE, "s", Spinner(Arc::default())).await.unwrap();
    spinner.try_send(()).unwrap();
    clock::sleep(Duration::from_secs(60)).await;
}

#[test]
fn where_its_row_allows_it_the_watchdog_names_the_actor_and_aborts_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let me = std::env::current_exe().unwrap();
    let output = Command::new(me).args(["--exact", "spin_for_ever", "--ignored", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("real.replaceable/s never yields"), "{said}");
    assert_eq!(output.status.signal(), Some(6), "SIGABRT: {:?}", output.status);
}

/// Blocks its thread in its first incarnation, and counts how many incarnations live at a time.
struct Blocker {
    live: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    blocked: parking_lot::Mutex<Option<mpsc::Receiver<()>>>,
}

struct Alive(Arc<AtomicU32>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Actor for Blocker {
    type Message = Option<Reply<u32>>;
    type State = Alive;

    async fn start(&self, _: &Ctx<Self::Message>) -> Result<Alive, Failure> {
        self.most.fetch_max(self.live.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Ok(Alive(self.live.clone()))
    }

    async fn handle(&self, _: &mut Alive, message: Self::Message, ctx: &Ctx<Self::Message>) -> Result<(), Failure> {
        match message {
            Some(reply) => reply.send(ctx.incarnation()),
            None => {
                let blocked = self.blocked.lock().take();
                blocked.ok_or("blocked already")?.recv()?;
                // a kill takes effect at an await; without this one the message would just be handled, late
                std::future::pending::<()>().await;
            }
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_successor_starts_while_the_killed_one_still_holds_its_thread() {
    let (release, blocked) = mpsc::channel();
    let (live, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let options = Options { watchdog: None, tick: Duration::from_millis(20), ..Options::default() };
    let system = System::start(options).await.unwrap();
    let blocker = Blocker { live: live.clone(), most: most.clone(), blocked: parking_lot::Mutex::new(Some(blocked)) };
    let actor = system.spawn(&BLOCKER, "b", blocker).await.unwrap();
    actor.try_send(None).unwrap();
    // long past its progress limit the incarnation is marked as killed but still runs, so no successor starts
    let early = actor.ask(Some, clock::after(Duration::from_secs(1))).await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(most.load(Ordering::SeqCst), 1, "two incarnations at the same time");
    release.send(()).unwrap();
    let successor = loop {
        if let Ok(number) = actor.ask(Some, soon()).await {
            break number;
        }
    };
    // A busy machine may have starved the successor past its short limit, too.
    assert!(successor >= 2);
    assert_eq!(most.load(Ordering::SeqCst), 1, "two incarnations at the same time");
}

struct Counter;

impl Actor for Counter {
    type Message = Option<Reply<u64>>;
    type State = u64;

    async fn start(&self, _: &Ctx<Self::Message>) -> Result<u64, Failure> {
        Ok(0)
    }

    async fn handle(&self, sum: &mut u64, message: Self::Message, _: &Ctx<Self::Message>) -> Result<(), Failure> {
        match message {
            Some(reply) => reply.send(*sum),
            None => *sum += 1,
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_accepted_is_lost_under_load_from_many_threads() {
    let system = System::start(Options::default()).await.unwrap();
    let counter = system.spawn(&COUNTER, "c", Counter).await.unwrap();
    let gate = system.gate("senders", oarlock_runtime::Phase::Crew);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let counter = counter.clone();
            let send = async move {
                for _ in 0..5_000 {
                    counter.send(None, soon()).await.unwrap();
                }
            };
            gate.spawn("sender", send).unwrap()
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.ask(Some, soon()).await, Ok(40_000));
    assert_eq!(counter.queued(), 0);
}

/// Races real threads: one that ends the actor against one that observes the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_saw_an_actor_end_may_spawn_it_anew() {
    let system = System::start(Options::default()).await.unwrap();
    for _ in 0..2000 {
        let actor = system.spawn(&COUNTER, "again", Counter).await.unwrap();
        actor.stop();
        while actor.life() != Life::Ended {
            std::hint::spin_loop();
        }
    }
}

/// `cargo test -p oarlock-runtime --release --test real_threads -- --ignored --nocapture what_actors_cost`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, asserts nothing about time"]
async fn what_actors_cost() {
    let rss = || -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let system = System::start(Options::default()).await.unwrap();
    let (before, began) = (rss(), clock::now());
    let mut actors = Vec::new();
    for n in 0..15_000 {
        actors.push(system.spawn(&COUNTER, n.to_string(), Counter).await.unwrap());
    }
    let spawned = began.elapsed() / 15_000;
    println!("an actor: {} B, spawned in {spawned:?}", (rss() - before) / 15_000);
    let actor = actors.first().unwrap();
    let (mut sent, mut busy) = (0_u32, Duration::ZERO);
    while sent < 1_000_000 {
        let began = clock::now();
        for _ in 0..4_000 {
            sent += u32::from(actor.try_send(None).is_ok());
        }
        busy += began.elapsed();
        actor.ask(Some, soon()).await.unwrap();
    }
    println!("a try_send: {:?}", busy / sent);
    let began = clock::now();
    for _ in 0..100_000 {
        actor.ask(Some, soon()).await.unwrap();
    }
    println!("an ask and its answer: {:?}", began.elapsed() / 100_000);
    let began = clock::now();
    let statuses = system.snapshot();
    println!("a snapshot of {} actors: {:?}", statuses.len(), began.elapsed());
}
