//! Throughput: `cargo test --release -p oarlock-scheduler throughput -- --ignored --nocapture`.
//!
//! The benchmark prints one machine-readable line per case. A decision is measured as a whole: pop, propose, recheck by the
//! arbiter, assume. Times are CPU times of the one deciding thread; nothing is asserted about them.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Decision;
use crate::testing::World;

const NODES: usize = 5_000;

/// Returns the CPU time of this thread, which does not grow while other work occupies the machine.
fn on_core() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = on_core();
    work();
    on_core() - start
}

fn cluster() -> World {
    let mut world = World::new(&[]);
    for number in 0..NODES {
        let (zone, rack) = (number % 10, number % 200);
        let text = format!(
            "cpu={} memory={}Gi pods=110 label:topology.kubernetes.io/zone=z{zone} label:rack=r{rack} label:disk=d{}",
            16 + number % 3 * 16,
            64 + number % 5 * 32,
            number % 2
        );
        world.node(&format!("node-{number}"), &text);
    }
    world
}

/// Only cases whose name contains `THROUGHPUT_CASE` run.
fn wanted(case: &str) -> bool {
    std::env::var("THROUGHPUT_CASE").map_or(true, |only| case.contains(&only))
}

fn run(world: &mut World, case: &str, pods: usize, text: impl Fn(usize) -> String) {
    if !wanted(case) {
        return;
    }
    for number in 0..pods {
        world.pod(&format!("{case}-{number}"), &text(number));
    }
    let mut placed = 0;
    let time = timed(|| {
        while let Some(decision) = world.step() {
            if let Decision::Bind { popped, .. } = decision {
                world.engine.bound(&popped.pod);
                placed += 1;
            }
        }
    });
    let micros = time.as_secs_f64() * 1e6 / pods as f64;
    println!(
        "scheduler_throughput case={case} nodes={NODES} pods={pods} placed={placed} core_us_per_decision={micros:.3} per_core_second={:.0}",
        1e6 / micros
    );
}

#[test]
#[ignore = "a measurement, run by hand in release mode"]
fn throughput() {
    const PLAIN: &str = "cpu=100m memory=128Mi label:app=plain";
    let mut world = cluster();
    run(&mut world, "plain", 100_000, |_| PLAIN.to_owned());
    run(&mut world, "plain_100_classes", 50_000, |number| format!("cpu=100m memory=64Mi label:app=c{}", number % 100));

    let mut world = cluster();
    run(&mut world, "every_pod_its_own_class", 10_000, |number| format!("cpu=100m memory=64Mi label:name=p{number}"));

    let mut world = cluster();
    run(&mut world, "selector_and_toleration", 20_000, |_| "cpu=100m memory=64Mi select:disk=d1 tolerate:x".to_owned());

    let mut world = cluster();
    run(&mut world, "anti_affinity_host", 5_000, |_| "cpu=100m label:app=a apart:host/app=a".to_owned());
    let mut world = cluster();
    run(&mut world, "affinity_zone", 10_000, |_| "cpu=10m label:app=a near:az/app=a".to_owned());
    let mut world = cluster();
    run(&mut world, "preferred_affinity", 10_000, |_| {
        "cpu=10m label:app=a like:10:rack/app=a like:-5:host/app=a".to_owned()
    });
    let mut world = cluster();
    run(&mut world, "spread_hard", 20_000, |_| "cpu=10m label:app=a spread:az/1/app=a spread:host/5/app=a".to_owned());
    let mut world = cluster();
    run(&mut world, "spread_soft", 20_000, |_| {
        "cpu=10m label:app=a softspread:az/1/app=a softspread:host/5/app=a".to_owned()
    });
    let mut world = cluster();
    let names = &mut world.cluster().names;
    let (namespace, service) = (names.intern("default"), names.intern("svc"));
    let labels = crate::labels::Labels::new(vec![(names.intern("app"), names.intern("plain"))]);
    world.cluster().owners.set_service(namespace, service, Some(labels));
    run(&mut world, "service_default_spread", 20_000, |_| PLAIN.to_owned());

    let mut world = cluster();
    run(&mut world, "unschedulable", 20_000, |_| "cpu=900".to_owned());

    if !wanted("first_of_class") {
        return;
    }
    // The first pod of a class: filters and scores of all nodes.
    let mut world = cluster();
    let pods: Vec<Arc<_>> = (0..2_000)
        .map(|number| {
            let text = format!("cpu=100m memory=64Mi label:name=p{number}");
            Arc::new(crate::testing::pod(&mut world.cluster().names, &format!("first-{number}"), &text))
        })
        .collect();
    let mut shard = crate::shard::Shard::new(crate::table::PLUGINS);
    let time = timed(|| {
        for pod in &pods {
            shard.propose(world.cluster(), pod, &mut |_| 0);
        }
    });
    let micros = time.as_secs_f64() * 1e6 / pods.len() as f64;
    println!("scheduler_throughput case=first_of_class nodes={NODES} core_us_per_decision={micros:.3}");
}
