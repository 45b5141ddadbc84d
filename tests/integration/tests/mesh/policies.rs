//! Processes that evaluate policies are killed, stopped and cut off under load: all writes are answered, and no write is admitted that a policy
//! forbids.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use oarlock_config::Kubeconfig;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::{eventually, gradually};
use oarlock_testkit::{Kubectl, Process, Signal};
use serde_json::json;

use super::Ground;

pub(super) const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-bad-names}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "!object.metadata.name.startsWith('bad')", message: that is a bad name}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: no-bad-names, validationActions: [Deny]}
"#;
const PATH: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 4;
/// Writes under each disturbance.
const WRITES: usize = 100;

/// Writers that try allowed and forbidden names in turn, until they are stopped.
struct Load {
    http: Http,
    done: AtomicUsize,
    enough: AtomicBool,
}

impl Load {
    fn write(&self, writer: usize) {
        for number in 0.. {
            if self.enough.load(Ordering::Relaxed) {
                return;
            }
            for (name, code) in [("good", 201), ("bad", 422)] {
                let made =
                    self.http.json("POST", PATH, &json!({"metadata": {"name": format!("{name}-{writer}-{number}")}}));
                assert_eq!(made.code, code, "{name}: {made}");
                assert!(code == 201 || made.to_string().contains("that is a bad name"), "{made}");
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn two_judges(ground: &Ground) -> [Process; 2] {
    [(); 2].map(|()| Process::start(ground.command(&["admission"], "nats/admission.seed"), "admission"))
}

/// Returns how many questions the admission processes have counted.
fn heard(ground: &Ground) -> u64 {
    let text = String::from_utf8(ground.inspect("nats/inspector.seed").stdout).unwrap();
    let of_role = text.lines().filter(|line| line.starts_with("admission"));
    let services = of_role
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|cells| cells.get(2) == Some(&"service"));
    services.filter_map(|cells| cells[5].parse::<u64>().ok()).sum()
}

#[test]
fn nothing_slips_through_while_those_who_judge_come_and_go() {
    let Some(mut ground) = Ground::start() else { return };
    let server = ground.api_server();
    let config = ground.folder.path().join("kubeconfig");
    let kubectl = Kubectl::new(&config);
    let mut judges = two_judges(&ground);
    kubectl.run_with("apply -f -", POLICY).says(["no-bad-names created", "everywhere created"]);
    let endpoint = Kubeconfig::read(&config).unwrap().resolve(None).unwrap();
    let load =
        Load { http: Http::new(&endpoint, Who::Admin), done: AtomicUsize::new(0), enough: AtomicBool::new(false) };
    eventually("the policy is in force", || {
        let made = load.http.json("POST", PATH, &json!({"metadata": {"name": "bad"}}));
        if made.code == 422 {
            Ok(())
        } else {
            Err(load.http.send("DELETE", &format!("{PATH}/bad"), &[], b"").to_string())
        }
    });
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let load = &load;
                    move || load.write(writer)
                })
            })
            .collect();
        let all_write = || assert!(!writers.iter().any(|writer| writer.is_finished()), "a writer has failed");
        // Each fault begins while the admission processes evaluate policies, and has had its effect when the server evaluates them itself.
        let judged = |place: &str| {
            eventually(&format!("policies are judged {place}"), || {
                all_write();
                let said = server.said();
                let last = said.rsplit_once("policies are judged ").map(|(_, last)| last.starts_with(place));
                if last == Some(true) { Ok(()) } else { Err(said) }
            });
        };
        let more = |what: &str| {
            let until = load.done.load(Ordering::Relaxed) + WRITES;
            gradually(what, || {
                all_write();
                let done = load.done.load(Ordering::Relaxed);
                if done >= until { Ok(()) } else { Err(format!("{done} of {until} writes")) }
            });
        };
        judged("elsewhere");
        more("writes that others judge");
        let before = heard(&ground);
        assert!(before > 0, "others were asked");
        // One process ends and the other does all the work; then both have ended; then one runs again.
        judges[0].kill();
        more("writes while one is left");
        judged("elsewhere");
        judges[1].kill();
        judged("here");
        more("writes while nobody is left");
        judges = two_judges(&ground);
        judged("elsewhere");
        // The processes are stopped: asks get no answer.
        judges.iter().for_each(|judge| judge.signal(Signal::STOP));
        judged("here");
        more("writes while they stand still");
        judges.iter().for_each(|judge| judge.signal(Signal::CONT));
        judged("elsewhere");
        more("writes that others judge again");
        ground.nats.stop();
        judged("here");
        more("writes without a bus");
        load.enough.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    let names = kubectl.ok("get configmaps -n default -o name");
    let (bad, good) = (names.matches("configmap/bad").count(), names.matches("configmap/good").count());
    assert_eq!(
        (bad, good),
        (0, load.done.load(Ordering::Relaxed) / 2),
        "what was refused is not there, what was not is"
    );
}
