//! One message of each kind of subject, sent under load: `oarlock inspect mesh` shows that all kinds arrive.

use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Kubectl, Process};
use serde_json::Value;

use super::Ground;
use super::policies::POLICY;

/// For a role and a kind of message, the least number of sent and received messages, and their purpose.
const TRAVELS: [(&str, &str, u64, u64, &str); 16] = [
    ("api-server", "presence", 1, 1, "it lives, and hears who does"),
    ("scheduler", "presence", 1, 1, "it lives, and hears who does"),
    ("controllers", "presence", 1, 1, "it lives, and hears who does"),
    ("admission", "presence", 1, 1, "it lives, and hears who does"),
    ("node", "presence", 1, 0, "it lives; nodes hear nobody"),
    ("scheduler", "unit", 1, 1, "proposals to the arbiter"),
    ("scheduler", "feed", 1, 1, "what the arbiter's process reads of pods"),
    ("api-server", "service", 1, 0, "reviews by an admission stage elsewhere"),
    ("admission", "service", 0, 1, "reviews by an admission stage elsewhere"),
    ("api-server", "node", 1, 0, "how a node is"),
    ("node", "node", 0, 1, "how a node is"),
    ("api-server", "member", 1, 1, "how a member is"),
    ("scheduler", "member", 0, 1, "how a member is"),
    ("controllers", "member", 0, 1, "how a member is"),
    ("admission", "member", 0, 1, "how a member is"),
    ("controllers", "member", 1, 0, "placement: whether a member that is late is there"),
];

/// The messages of a kind that all members of a role have sent and received.
fn carried(table: &str, role: &str, kind: &str) -> (u64, u64) {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_kind = rows.filter(|cells| cells.first() == Some(&role) && cells.get(2) == Some(&kind));
    // A dash means no bytes, as for messages without content; large counts are printed in Ki and Mi.
    let number = |cell: &str| cell.trim_end_matches(char::is_alphabetic).parse::<u64>().unwrap_or(0);
    let count = |cells: &[&str]| if number(cells[1]) > 0 { number(cells[0]) } else { 0 };
    of_kind.fold((0, 0), |(sent, heard), cells| (sent + count(&cells[3..5]), heard + count(&cells[5..7])))
}

/// Returns the published states of all actors of a kind.
fn states(kubectl: &Kubectl, kind: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(&kubectl.ok("get actors -o json")).unwrap();
    let actors = list["items"].as_array().unwrap().iter().map(|actor| &actor["status"]);
    let of_kind = actors.filter(|status| status["actorKind"] == kind);
    of_kind.map(|status| serde_json::from_str(status["state"].as_str().unwrap()).unwrap()).collect()
}

/// Proposals that were sent by shards to an arbiter elsewhere, as their processes tell.
fn proposals(kubectl: &Kubectl) -> u64 {
    states(kubectl, "scheduler.shard").iter().filter_map(|state| state["proposals"]["sent"].as_u64()).sum()
}

/// Returns the number of caches that are fed by another process.
fn told(kubectl: &Kubectl) -> usize {
    let states = states(kubectl, "informer.reflector");
    states.iter().filter(|state| state["doing"] == "told by another process").count()
}

#[test]
fn every_kind_of_message_travels_under_load() {
    let Some(ground) = Ground::start() else { return };
    let _server = ground.api_server();
    let kubectl = Kubectl::new(&ground.folder.path().join("kubeconfig"));
    let part = |name: &str, more: &[&str], credentials: &str| {
        let config = ground.path(&format!("{name}.kubeconfig"));
        Process::start(ground.command(&[&[name, "--kubeconfig", &config], more].concat(), credentials), name)
    };
    let _schedulers = [(); 2].map(|()| part("scheduler", &[], "nats/scheduler.seed"));
    let mut managers = [(); 2].map(|()| part("controller-manager", &[], "nats/controllers.seed"));
    let _admission = Process::start(ground.command(&["admission"], "nats/admission.seed"), "admission");
    let data = ground.path("");
    let _node = part("kubelet", &["--runtime", "sim", "--node-name", "n1", "--data-dir", &data], "nats");
    kubectl.run_with("apply -f -", POLICY).says(["no-bad-names created", "everywhere created"]);
    kubectl.ok("create deployment web --image=registry.k8s.io/pause:3.10 --replicas=1");
    eventually("both controller managers hear one another", || {
        let silent = managers.iter().find(|manager| !manager.said().contains("hears the others"));
        silent.map_or(Ok(()), |manager| Err(manager.said()))
    });
    // Placement asks for the late member. Its earlier counts stay in the sum: only one member reports from here on.
    managers[1].kill();
    let mut round = 0;
    eventually("everything travels", || {
        round += 1;
        kubectl.ok(&format!("scale deployment web --replicas={}", 2 + round % 2 * 20));
        kubectl.ok(&format!("create configmap good-{round}"));
        let (proposals, told) = (proposals(&kubectl), told(&kubectl));
        let output = ground.inspect("nats/inspector.seed");
        let table = String::from_utf8(output.stdout).unwrap();
        let missing: Vec<String> = TRAVELS
            .iter()
            .filter(|(role, kind, sent, heard, _)| {
                let carried = carried(&table, role, kind);
                carried.0 < *sent || carried.1 < *heard
            })
            .map(|(role, kind, _, _, what)| format!("{role} {kind}: {what}"))
            .collect();
        let done = missing.is_empty() && proposals > 0 && told == 1;
        if done { Ok(()) } else { Err(format!("{missing:?}, {proposals} proposed, {told} told\n{table}")) }
    });
}
