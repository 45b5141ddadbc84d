//! Two cloud controller managers on a bus, judged by X1.

use std::time::{Duration, Instant};

use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::{eventually, gradually};
use oarlock_testkit::{Cluster, Process, Signal};

use super::provider::FakeCloud;
use super::{get, holder, left, make_node, manager, wanted};

/// A Lease is valid for 15 s and renewed every 4 s, so at least this much is left of a lost process's Lease.
const LEFT: Duration = Duration::from_secs(10);

struct Scene {
    cluster: Cluster,
    cloud: FakeCloud,
    nats: Nats,
    members: Vec<Process>,
}

impl Scene {
    fn join(&mut self) {
        self.members.push(manager(&self.cluster, &self.cloud, &["--nats-servers", &self.nats.url()]));
    }

    /// The index of the unit's holder among the members, whose logs hold their identities.
    fn holder(&self) -> usize {
        let (name, _) = holder(&self.cluster);
        let said = format!("member=\"{name}\"");
        self.members.iter().position(|member| member.said().contains(&said)).expect("a member holds the unit")
    }

    /// Waits until a call for a Service has looked and not yet acted.
    fn under_way(&self, call: &str, service: &str) -> u64 {
        eventually("the call is under way", || {
            let open = self.cloud.with(|cloud| cloud.open.clone());
            let found = open.iter().find(|(method, name, _)| *method == call && name == service);
            found.map(|(_, _, epoch)| *epoch).ok_or_else(|| format!("{open:?}"))
        })
    }

    /// Waits until the unit has a newer epoch than `epoch`.
    fn moved(&self, epoch: u64) -> u64 {
        eventually("the unit has moved", || {
            let (_, now) = holder(&self.cluster);
            if now > epoch { Ok(now) } else { Err(now) }
        })
    }

    /// Waits until the cloud has what the Services want.
    fn settled(&self, what: &str) {
        eventually(what, || {
            let services = get(&self.cluster, "services");
            let left = left(&self.cloud, &wanted(services["items"].as_array().unwrap(), "n1,n2"));
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        });
        let kubectl = self.cluster.kubectl();
        kubectl.until("get services", |said| !said.contains("<pending>"));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long a move takes is what is asked")]
fn everything_is_done_once_whoever_is_killed_stopped_or_ended() {
    let nats = match Nats::start("") {
        Ok(nats) => nats,
        Err(why) => return oarlock_testkit::skipped!("{why}: no suspicion, so nothing to withstand"),
    };
    let mut scene = Scene { cluster: Cluster::api_only(), cloud: FakeCloud::start(), nats, members: Vec::new() };
    let kubectl = scene.cluster.kubectl();
    ["n1", "n2"].into_iter().for_each(|name| make_node(&scene.cluster, name));
    scene.join();
    scene.join();
    for member in &scene.members {
        eventually("they hear each other", || {
            let said = member.said();
            if said.contains("hears the others") { Ok(()) } else { Err(said) }
        });
    }
    for name in ["a", "b"] {
        kubectl.ok(&format!("create service loadbalancer {name} --tcp=80:8080"));
    }
    scene.settled("two Services have one each");

    // The holder is killed during a call, which the cloud finishes. The other member sees the silence on the bus at once and still waits for the
    // Lease to expire.
    scene.cloud.with(|cloud| cloud.pace = Duration::from_secs(3));
    kubectl.ok("create service loadbalancer c --tcp=80:8080");
    let epoch = scene.under_way("ensure", "c");
    let at = scene.holder();
    scene.members.remove(at).kill();
    let killed = Instant::now();
    kubectl.ok("delete service a --wait=false");
    kubectl.ok(r#"patch service b --type=json -p [{"op":"replace","path":"/spec/ports/0/port","value":81}]"#);
    kubectl.ok("create service loadbalancer d --tcp=82:8080");
    let next = scene.moved(epoch);
    assert!(killed.elapsed() >= LEFT, "it was taken over after {:?}", killed.elapsed());
    eprintln!("killed: taken over after {:?}", killed.elapsed());
    scene.settled("after the kill");

    // The holder is stopped during a call, with queued work, for longer than its Lease lasts, and then continues.
    scene.join();
    kubectl.ok("create service loadbalancer e --tcp=80:8080");
    let epoch = scene.under_way("ensure", "e");
    assert_eq!(epoch, next);
    let at = scene.holder();
    for name in ["f", "g"] {
        kubectl.ok(&format!("create service loadbalancer {name} --tcp=80:8080"));
        // The holder is not stopped between its check of the clock and the send; only chance protects a process stopped there
        // (docs/operations/cloud.md).
        scene.under_way("ensure", name);
    }
    scene.members[at].signal(Signal::STOP);
    let stopped = Instant::now();
    kubectl.ok("delete service d --wait=false");
    let next = scene.moved(epoch);
    assert!(stopped.elapsed() >= LEFT, "it was taken over after {:?}", stopped.elapsed());
    eprintln!("stopped: taken over after {:?}", stopped.elapsed());
    scene.members[at].signal(Signal::CONT);
    scene.settled("after the stop");
    let late = scene.cloud.with(|cloud| {
        let first = cloud.epochs.iter().position(|epoch| *epoch == next).unwrap();
        cloud.epochs[first..].iter().filter(|epoch| **epoch < next).count()
    });
    assert_eq!(late, 0, "calls of who slept came after it woke");

    // The holder is shut down in order during a call: the call ends first, then the other member takes over at once.
    kubectl.ok("create service loadbalancer k --tcp=80:8080");
    let epoch = scene.under_way("ensure", "k");
    let at = scene.holder();
    scene.members[at].signal(Signal::TERM);
    let ended = Instant::now();
    kubectl.ok("delete service e --wait=false");
    scene.moved(epoch);
    assert!(ended.elapsed() < LEFT, "it was handed over after {:?}", ended.elapsed());
    eprintln!("ended: handed over after {:?}", ended.elapsed());
    let open = scene.cloud.with(|cloud| cloud.open.iter().filter(|(_, _, of)| *of == epoch).count());
    assert_eq!(open, 0, "a call of who left was still under way");
    scene.settled("after the end");

    kubectl.ok("delete service b c f g k --wait=false");
    gradually("Services go", || {
        let services = get(&scene.cluster, "services");
        match wanted(services["items"].as_array().unwrap(), "").len() {
            0 => Ok(()),
            left => Err(left),
        }
    });
    scene.settled("all are gone");
    let effects = scene.cloud.with(|cloud| cloud.effects.len());
    assert!(effects >= 17, "{effects}");
    for member in &scene.members {
        assert!(!member.said().contains(" ERROR "), "{}", member.said());
    }
}
