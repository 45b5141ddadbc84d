//! Three API servers over one etcd, restarted in turn under load: clients fail over and miss nothing.
//!
//! Every restart must have left its mark, at those who were refused and at the watches that went on elsewhere, or it has shown nothing.

mod ending;
mod load;
mod parts;

use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Etcd, port};

use self::load::Load;

/// Watchers, where their number does not matter.
const WATCHERS: usize = 6;

/// Starts this many servers over one etcd, each at a fixed port. `None`, with a printed skip, where etcd cannot be built; listed in
/// docs/operations/tests.md.
fn servers(count: usize, flags: &[&str]) -> Option<(Vec<Cluster>, Etcd)> {
    let etcd = Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: no server was restarted")).ok()?;
    let endpoints = etcd.endpoints().join(",");
    let start = |first: Option<&Cluster>| {
        let port = port::own().to_string();
        let own = ["--etcd-servers", &endpoints, "--port", &port, "--log", "info"];
        let flags = [own.as_slice(), flags].concat();
        match first {
            Some(first) => first.replica(&flags),
            None => Cluster::up(&[flags.as_slice(), &["--disable", "scheduler,controller-manager,kubelet"]].concat()),
        }
    };
    let mut servers = vec![start(None)];
    while servers.len() < count {
        servers.push(start(servers.first()));
    }
    Some((servers, etcd))
}

/// The numbers of a field in the lines of a log that begin so.
fn logged(log: &str, line: &str, field: &str) -> Vec<u64> {
    let lines = log.lines().filter(|own| own.contains(line));
    let fields = lines.filter_map(|own| own.split_once(&format!(" {field}="))?.1.split(' ').next()?.parse().ok());
    fields.collect()
}

#[test]
fn a_rolling_restart_under_load_is_noticed_by_nobody() {
    restart_in_turn(&[]);
}

#[test]
fn nor_is_one_that_tells_late_comers_to_come_back() {
    restart_in_turn(&["--shutdown-send-retry-after", "--shutdown-watch-termination-grace-period", "1s"]);
}

#[track_caller]
fn restart_in_turn(flags: &[&str]) {
    let Some((mut servers, _etcd)) = servers(3, flags) else { return };
    let load = Load::start(&servers, WATCHERS);
    load.goes_on();
    for _ in 0..2 {
        for server in &mut servers {
            let before = load.marks();
            assert_eq!(server.stop(), Some(0), "{}", server.log_tail());
            eventually("clients are refused and go on elsewhere", || {
                let now = load.marks();
                if now.refused > before.refused && now.passed_over > before.passed_over { Ok(()) } else { Err(now) }
            });
            load.goes_on();
            server.start();
            load.goes_on();
        }
    }
    let marks = load.finish(&servers);
    for server in &servers {
        let log = server.said_in_log();
        let told = |line: &&str| ["phase stopped", "refused: ", " closed "].iter().any(|word| line.contains(word));
        log.lines().filter(told).for_each(|line| eprintln!("{line}"));
        // Each shutdown logs one line per phase, with its duration.
        let phases = log.lines().filter(|line| line.contains("phase stopped") && line.contains("took=")).count();
        assert_eq!((phases, logged(&log, "closed", "late")), (14, vec![0, 0]), "{log}");
        let ended: u64 = logged(&log, "closed", "watches").iter().sum();
        assert!(ended > 0, "no watch was on a server that ended: {log}");
    }
    assert_eq!((marks.unknown, marks.broken), (0, 0), "{marks}");
    assert!(marks.resumed >= 6, "{marks}");
    assert_eq!(marks.told_to_wait > 0, flags.contains(&"--shutdown-send-retry-after"), "{marks}");
}

#[test]
fn servers_that_are_killed_in_turn_lose_nothing_and_leave_no_gap() {
    let Some((mut servers, _etcd)) = servers(3, &[]) else { return };
    let load = Load::start(&servers, WATCHERS);
    load.goes_on();
    for server in &mut servers {
        let before = load.marks();
        server.kill();
        eventually("clients miss the server", || {
            let now = load.marks();
            if now.refused > before.refused && now.passed_over > before.passed_over { Ok(()) } else { Err(now) }
        });
        load.goes_on();
        server.start();
        load.goes_on();
    }
    let marks = load.finish(&servers);
    assert!(marks.broken > 0, "no watch was broken: {marks}");
}

#[test]
fn a_thousand_watches_survive_the_server_that_has_most_of_them() {
    let Some((mut servers, _etcd)) = servers(2, &[]) else { return };
    // All clients begin at the first server; the second server returns under load.
    servers[1].kill();
    let load = Load::start(&servers, 1000);
    load.all_watch();
    load.goes_on();
    servers[1].start();
    load.goes_on();
    servers[0].kill();
    load.goes_on();
    servers[0].start();
    load.goes_on();
    // The load fails when a watch must list again, misses an event or receives an event twice.
    let marks = load.finish(&servers);
    assert!(marks.broken >= 1000, "{marks}");
}
