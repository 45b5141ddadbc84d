//! Attacks on the bus: a foreign server tries to join, clients come without a credential or with another part's, and a server that has joined answers
//! every policy question with "no objection".

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oarlock_bus::proto::admission::v1::policy_answer::Said;
use oarlock_bus::proto::admission::v1::{PolicyAnswer, PolicyQuestion};
use oarlock_bus::{Bus, Identity, Options, Pattern, Role, TokioSpawn};
use oarlock_config::Kubeconfig;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::nats::Nats;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Kubectl, Process, oarlock, port};
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Runtime;

use super::Ground;
use super::policies::POLICY;

/// Secrets with a bad name are refused, too.
const OF_SECRETS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-bad-secrets}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
  validations: [{expression: "!object.metadata.name.startsWith('bad')", message: that is a bad name}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: secrets}
spec: {policyName: no-bad-secrets, validationActions: [Deny]}
"#;
/// The content of a Secret, in base64.
const CONTENT: &str = "dG9wLXNlY3JldC1jb250ZW50";

/// An attacker that answers every policy question with "no objection", and records the questions.
struct Liar {
    heard: Arc<Mutex<Vec<String>>>,
    /// Whether the servers know that the attacker subscribes to questions.
    listens: Arc<AtomicBool>,
    _bus: Bus,
    _runtime: Runtime,
}

impl Liar {
    /// Calls itself a judge, with whosever credentials; the servers at `url` may think otherwise.
    fn join(url: String, authorities: Option<String>, credentials: Option<String>) -> Self {
        let runtime = Runtime::new().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let bus = {
            let _inside = runtime.enter();
            let spawn = Arc::new(TokioSpawn);
            let options = Options { servers: vec![url], credentials, authorities, role_keys: None, spawn };
            Bus::connect(options, Identity::new(Role::Admission, "liar").unwrap()).unwrap()
        };
        let policies = Pattern::service(Role::Admission, "policies").unwrap();
        let (listens, remembered, liar) = (Arc::new(AtomicBool::new(false)), Arc::clone(&heard), bus.clone());
        let listening = Arc::clone(&listens);
        runtime.spawn(async move {
            liar.wait_for(|state| state.connected).await;
            let mut asks = liar.serve(&policies, 64).await.unwrap();
            listening.store(true, Ordering::SeqCst);
            while let Some(ask) = asks.next().await {
                let question: PolicyQuestion = ask.body().unwrap();
                remembered.lock().push(String::from_utf8_lossy(&question.review).into_owned());
                let outcome = json!({"denials": [], "warnings": [], "annotations": []}).to_string();
                let answer = PolicyAnswer { said: Some(Said::Outcome(outcome.into_bytes().into())) };
                let _ = ask.answer(&answer).await;
            }
        });
        Self { heard, listens, _bus: bus, _runtime: runtime }
    }

    /// Waits until the joined servers would send questions to the attacker.
    fn listens(self) -> Self {
        eventually("the liar listens", || if self.listens.load(Ordering::SeqCst) { Ok(()) } else { Err("not yet") });
        self
    }

    fn heard(&self, what: &str) -> usize {
        self.heard.lock().iter().filter(|question| question.contains(what)).count()
    }
}

/// A cluster with policies in force.
struct Judged {
    http: Http,
    tried: usize,
    _server: Process,
}

impl Judged {
    fn start(ground: &Ground, server: Process) -> Self {
        let config = ground.folder.path().join("kubeconfig");
        let kubectl = Kubectl::new(&config);
        kubectl.run_with("apply -f -", POLICY).says(["no-bad-names created", "everywhere created"]);
        kubectl.run_with("apply -f -", OF_SECRETS).says(["no-bad-secrets created", "secrets created"]);
        let endpoint = Kubeconfig::read(&config).unwrap().resolve(None).unwrap();
        let http = Http::new(&endpoint, Who::Admin);
        for plural in ["configmaps", "secrets"] {
            let path = format!("/api/v1/namespaces/default/{plural}");
            eventually("the policies are in force", || {
                let made = http.json("POST", &format!("{path}?dryRun=All"), &json!({"metadata": {"name": "bad"}}));
                if made.code == 422 { Ok(()) } else { Err(made.to_string()) }
            });
        }
        Self { http, tried: 0, _server: server }
    }

    /// Makes what the policies forbid.
    fn refuses(&mut self) {
        self.tried += 1;
        let name = format!("bad-{}", self.tried);
        for (plural, object) in [
            ("configmaps", json!({"metadata": {"name": name}})),
            ("secrets", json!({"metadata": {"name": name}, "data": {"content": CONTENT}})),
        ] {
            let made = self.http.json("POST", &format!("/api/v1/namespaces/default/{plural}"), &object);
            assert_eq!(made.code, 422, "{plural}: {made}");
        }
    }
}

/// Keys for a cluster of NATS with one server, and that server; where it listens for others.
fn routed() -> Option<(Ground, u16)> {
    let folder = tempfile::Builder::new().prefix("oarlock-attack-").tempdir().unwrap();
    let listen = port::own();
    let mut keys = Command::new(oarlock());
    keys.arg("keys").arg("--data-dir").arg(folder.path());
    keys.args(["--nats-tls-san", "127.0.0.1", "--nats-routes", &format!("127.0.0.1:{listen}")]);
    assert!(keys.status().unwrap().success());
    let configuration = std::fs::read_to_string(folder.path().join("nats/nats.conf")).unwrap();
    let configuration = configuration.replace("0.0.0.0:6222", &format!("127.0.0.1:{listen}"));
    match Nats::start(&configuration) {
        Ok(nats) => Some((Ground { folder, nats }, listen)),
        Err(why) => {
            oarlock_testkit::skipped!("{why}: the bus was not attacked");
            None
        }
    }
}

#[test]
fn a_foreign_server_and_a_foreign_client_hear_nothing_and_are_not_believed() {
    let Some((ground, listen)) = routed() else { return };
    let server = ground.api_server();
    let mut cluster = Judged::start(&ground, server);
    let read = |name: &str| std::fs::read_to_string(ground.path(name)).unwrap();

    // Attacks by clients: without a credential the server refuses the client; with the credential of another part the client receives no ask.
    let mut nobody = oarlock_testkit::part("inspect");
    nobody.args(["mesh", "--nats-servers", &ground.nats.url(), "--nats-ca", &ground.path("nats/ca.crt")]);
    let output = nobody.output().unwrap();
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let client = Liar::join(ground.nats.url(), Some(read("nats/ca.crt")), Some(read("nats/scheduler.seed")));
    eventually("the client is turned away", || {
        let said = ground.nats.said();
        if said.lines().any(|line| line.contains("admission/liar") && line.contains("Violation")) {
            Ok(())
        } else {
            Err(said)
        }
    });
    cluster.refuses();
    assert_eq!(client.heard(""), 0);

    // Attacks by servers: without TLS, and with a certificate of the cluster's authority, which is not the authority of the bus.
    let route = format!("routes: [\"nats://route:guess@127.0.0.1:{listen}\"]");
    let own = |name: &str| format!("{:?}", ground.path(name));
    let tls = format!(
        "tls {{ cert_file: {}, key_file: {}, ca_file: {}, insecure: true }}",
        own("pki/apiserver-kubelet-client.crt"),
        own("pki/apiserver-kubelet-client.key"),
        own("pki/ca.crt")
    );
    for tls in [String::new(), tls] {
        let block =
            format!("cluster {{\n name: oarlock\n listen: \"127.0.0.1:{}\"\n {route}\n {tls}\n}}\n", port::own());
        let before = ground.nats.said().len();
        let rogue = Nats::start(&block).unwrap();
        let spy = Liar::join(rogue.url(), None, None).listens();
        eventually("it was turned away twice", || {
            let said = ground.nats.said()[before..].to_owned();
            if said.lines().filter(|line| line.contains("[ERR]")).count() >= 2 { Ok(()) } else { Err(said) }
        });
        cluster.refuses();
        assert_eq!(spy.heard(""), 0, "{tls}");
    }
}

#[test]
fn who_has_got_in_all_the_same_sees_no_secret_and_is_not_believed() {
    let Some((ground, _)) = routed() else { return };
    // A server that accepts every client is a stronger attack than a route to the real server.
    let open = Nats::start("").unwrap();
    let (data, store, at) = (ground.path(""), format!("embedded:{}", ground.path("store")), port::own().to_string());
    let mut command = oarlock_testkit::part("apiserver");
    command.args(["--store", &store, "--data-dir", &data, "--secure-port", &at]);
    command.args(["--nats-servers", &open.url(), "--nats-credentials", &ground.path("nats/api-server.seed")]);
    let server = Process::start(command, "apiserver");
    eventually("the API server is ready", || {
        let output = ground.probe();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    });
    let mut cluster = Judged::start(&ground, server);
    let scheduler = std::fs::read_to_string(ground.path("nats/scheduler.seed")).unwrap();
    // An answer without a key has no proof, and an answer signed by another part has a wrong proof.
    for credentials in [None, Some(scheduler)] {
        let liar = Liar::join(open.url(), None, credentials).listens();
        eventually("the liar is asked about what it would let in", || {
            cluster.refuses();
            if liar.heard("bad-") >= 3 { Ok(()) } else { Err(format!("{} times", liar.heard("bad-"))) }
        });
        assert_eq!(liar.heard(CONTENT), 0, "a Secret was sent");
    }
}
