//! The HTTPS servers of schedulers and controller managers: health for all clients, metrics for users whom the API server allows to read them.

mod bus;
mod flags;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use oarlock_config::{Kubeconfig, ServerTrust};
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process, Signal, oarlock, port};

const API_ONLY: [&str; 2] = ["--disable", "scheduler,controller-manager,kubelet"];

/// A part at a port of its own.
struct Part {
    /// The process, which ends with this value.
    _process: Process,
    port: u16,
}

impl Part {
    fn start(name: &str, words: &[&str], join: impl FnOnce(&mut Command)) -> Self {
        let port = port::own();
        let mut command = Command::new(oarlock());
        command.arg(name).args(["--bind-address", "127.0.0.1", "--secure-port", &port.to_string()]).args(words);
        join(&mut command);
        Self { _process: Process::start(command, name), port }
    }

    /// A client of it, which believes the certificate that it makes for itself. `kubeconfig` is the administrator's.
    fn http(&self, kubeconfig: &Path, who: Who) -> Http {
        let mut endpoint = Kubeconfig::read(kubeconfig).and_then(|file| file.resolve(None)).unwrap();
        endpoint.trust = ServerTrust::Anybody;
        Http::new(&endpoint, who).at(SocketAddr::from(([127, 0, 0, 1], self.port)))
    }

    /// Returns the result of a container's health check.
    fn probe(&self, path: &str) -> Result<(), String> {
        let mut command = Command::new(oarlock());
        let server = format!("https://127.0.0.1:{}", self.port);
        command.args(["probe", "--server", &server, "--insecure-skip-tls-verify", "--path", path]);
        let output = command.output().unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

/// A metric's value; its name with its labels.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Waits until the text holds at least this value.
fn until(http: &Http, name: &str, least: f64) -> String {
    eventually(name, || {
        let text = http.get("/metrics").text();
        if value(&text, name).is_some_and(|value| value >= least) { Ok(text) } else { Err(text) }
    })
}

#[test]
fn a_part_is_ready_when_it_has_read_and_as_long_as_it_is_a_member() {
    let mut cluster = Cluster::up(&API_ONLY);
    // The stopped API server answers no request.
    cluster.signal(Signal::STOP);
    let parts = ["scheduler", "controller-manager"].map(|name| {
        let kubeconfig = cluster.data_dir().component_kubeconfig(name).display().to_string();
        Part::start(name, &["--kubeconfig", &kubeconfig], |_| ())
    });
    let kubeconfig = cluster.kubeconfig();
    let nobody = |part: &Part| part.http(&kubeconfig, Who::Anonymous);
    for part in &parts {
        let told = eventually("it listens", || nobody(part).try_get("/readyz"));
        assert_eq!(told.code, 500, "{told}");
        for line in [
            "[+]ping ok",
            "[-]informer-sync failed: reason withheld",
            "[+]shutdown ok",
            "[-]membership failed: reason withheld",
            "readyz check failed",
        ] {
            assert!(told.text().lines().any(|own| own == line), "{told}");
        }
        assert!(!told.text().contains("bus"), "{told}");
        assert!(part.probe("/readyz").unwrap_err().contains("informer-sync failed"));
        assert_eq!(part.probe("/livez"), Ok(()));
    }
    cluster.signal(Signal::CONT);
    for part in &parts {
        eventually("it is ready", || part.probe("/readyz"));
        let told = nobody(part).get("/readyz?verbose").text();
        assert_eq!(told, "[+]ping ok\n[+]informer-sync ok\n[+]shutdown ok\n[+]membership ok\nreadyz check passed\n");
        let told = nobody(part).get("/livez?verbose").text();
        assert_eq!(told, "[+]ping ok\n[+]actors ok\n[+]watchdog ok\nlivez check passed\n");
    }
    cluster.kill();
    for part in &parts {
        let told = eventually("it is no member any more", || {
            let told = nobody(part).get("/readyz");
            if told.code == 500 { Ok(told) } else { Err(told) }
        });
        assert!(
            told.text().contains("[+]informer-sync ok\n") && told.text().contains("[-]membership failed"),
            "{told}"
        );
        assert_eq!(part.probe("/healthz"), Ok(()), "nobody has to start it again");
    }
}

#[test]
fn metrics_are_shown_to_whom_the_api_server_lets_see_them() {
    let cluster = Cluster::up(&["--disable", "scheduler,controller-manager", "--nodes", "1"]);
    let [scheduler, manager] = ["scheduler", "controller-manager"].map(|name| {
        let kubeconfig = cluster.data_dir().component_kubeconfig(name).display().to_string();
        Part::start(name, &["--kubeconfig", &kubeconfig], |_| ())
    });
    let kubectl = cluster.kubectl();
    kubectl.ok("create serviceaccount prometheus");
    let token = kubectl.ok("create token prometheus").trim().to_owned();
    let stranger = kubectl.ok("create token default").trim().to_owned();
    kubectl.ok("create clusterrole scraper --verb=get --non-resource-url=/metrics");
    kubectl.ok("create clusterrolebinding scraper --clusterrole=scraper --serviceaccount=default:prometheus");
    for part in [&scheduler, &manager] {
        eventually("it is ready", || part.probe("/readyz"));
        let code = |who, path: &str| part.http(&cluster.kubeconfig(), who).get(path).code;
        for path in ["/metrics", "/debug/actors"] {
            assert_eq!(code(Who::Anonymous, path), 403, "{path}");
            assert_eq!(code(Who::Token("of.no.body".to_owned()), path), 401, "{path}");
            assert_eq!(code(Who::Token(stranger.clone()), path), 403, "{path}");
            assert_eq!(code(Who::Admin, path), 200, "{path}");
        }
        assert_eq!(code(Who::Token(token.clone()), "/metrics"), 200);
        assert_eq!(code(Who::Token(token.clone()), "/debug/actors"), 403);
        assert_eq!(code(Who::Admin, "/secret"), 404);
    }
    let scraper = |part: &Part| part.http(&cluster.kubeconfig(), Who::Token(token.clone()));
    kubectl.ok("create deployment web --image=registry.k8s.io/pause:3.10 --replicas=2");
    let bound = "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"}";
    let text = until(&scraper(&scheduler), bound, 2.0);
    assert_eq!(value(&text, "oarlock_unit_held{role=\"scheduler\",unit=\"arbiter\"}"), Some(1.0), "{text}");
    assert_eq!(value(&text, "scheduler_pending_pods{queue=\"unschedulable\"}"), Some(0.0), "{text}");
    assert!(value(&text, "process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6), "{text}");
    assert_eq!(value(&text, "oarlock_actors{kind=\"scheduler.shard\",life=\"Running\"}"), Some(1.0), "{text}");
    // The last event is shown, although no further event follows.
    kubectl.ok("create deployment wide --image=registry.k8s.io/pause:3.10");
    kubectl.ok("set resources deployment wide --requests=cpu=1000");
    until(&scraper(&scheduler), "scheduler_pending_pods{queue=\"unschedulable\"}", 1.0);
    until(&scraper(&scheduler), "scheduler_preemption_attempts_total", 1.0);
    let text = until(&scraper(&manager), "workqueue_adds_total{name=\"deployment-controller\"}", 1.0);
    assert_eq!(value(&text, "oarlock_unit_held{role=\"controllers\",unit=\"controllers-0\"}"), Some(1.0), "{text}");
    let own = cluster.http(Who::Admin).get("/metrics").text();
    assert!(value(&own, "process_resident_memory_bytes").is_some() && own.contains("oarlock_actors{"), "{own}");
}
