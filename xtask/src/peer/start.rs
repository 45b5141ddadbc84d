//! Upstream's programs running beside one another on 127.0.0.1.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use super::pki;
use crate::tool::{capture, say};

/// How long the servers may take from their start until they are ready.
const START: Duration = Duration::from_secs(60);

/// The components that may run beside the servers.
const COMPONENTS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// Limits of upstream's own clients, lifted so that they do not measure themselves: requests a second.
const CLIENT_LIMIT: u32 = 5_000;

/// The number of servers and members, and the address by which others reach them.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) servers: usize,
    pub(crate) members: usize,
    /// Address of the servers to other hosts; they listen on 127.0.0.1 without one.
    pub(crate) advertise: Option<IpAddr>,
}

impl Size {
    /// One server and one member, reachable from this host only.
    pub(crate) const ONE: Self = Self { servers: 1, members: 1, advertise: None };
}

/// Upstream's programs while they run; dropping the value ends them.
pub(crate) struct Peer {
    children: Vec<(String, Child)>,
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: PathBuf,
    /// The URL of each API server; `kubeconfig` is for the first.
    pub(crate) servers: Vec<String>,
    /// The URL of each member of etcd.
    pub(crate) etcd: Vec<String>,
    /// How those that were asked for are started, any number of each.
    pub(crate) commands: BTreeMap<String, Vec<String>>,
    /// From the first exec to the answer that all are ready.
    pub(crate) ready: Duration,
}

impl Drop for Peer {
    fn drop(&mut self) {
        for (_, child) in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Peer {
    /// Name and pid of each.
    pub(crate) fn pids(&self) -> impl Iterator<Item = (&str, u32)> {
        self.children.iter().map(|(name, child)| (name.as_str(), child.id()))
    }

    /// Starts members of etcd and kube-apiservers over them, and the further programs that are named `with` them, in `folder`, which is emptied,
    /// and waits until they are ready. Those `without` are not started. The API servers get the further flags `more`, `NAME=VALUE` each.
    ///
    /// # Errors
    /// When one does not start, or is not ready in time.
    pub(crate) fn start(
        bin: &Path,
        folder: &Path,
        with: &[String],
        without: &[String],
        size: Size,
        more: &[String],
    ) -> anyhow::Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder.join("pki"))?;
        // The servers run in other working directories.
        let folder = folder.canonicalize()?;
        let pki = folder.join("pki");
        pki::certificates(&pki)?;
        let ports = Ports::free(size)?;
        let first = *ports.api.first().context("no API server")?;
        let kubeconfig = pki::kubeconfig(&folder, "admin", first)?;
        // A component of Oarlock that replaces one of upstream's has the same identity.
        for component in COMPONENTS {
            pki::kubeconfig(&folder, component, first)?;
        }
        #[expect(clippy::disallowed_methods, reason = "a chore measures real time")]
        let begun = std::time::Instant::now();
        let etcd = ports.members.iter().map(|(client, _)| url(*client)).collect();
        let servers = ports.api.iter().map(|port| format!("https://127.0.0.1:{port}")).collect();
        let start = Start { bin, folder: &folder, pki: &pki, ports: &ports, advertise: size.advertise, more };
        let commands = without.iter().map(|name| Ok((name.clone(), start.command(name)?)));
        let commands = commands.collect::<anyhow::Result<_>>()?;
        let mut peer = Self { children: Vec::new(), kubeconfig, servers, etcd, commands, ready: Duration::ZERO };
        for (number, member) in ports.members.iter().enumerate() {
            let name = numbered("etcd", number);
            peer.add(&name, start.etcd(&name, *member)?);
        }
        for (number, port) in ports.api.iter().enumerate() {
            let name = numbered("kube-apiserver", number);
            peer.add(&name, start.api_server(&name, *port)?);
        }
        for port in &ports.api {
            peer.wait(&pki, *port, "/readyz")?;
        }
        for name in with {
            peer.add(name, start.component(name)?);
        }
        if with.iter().any(|name| name == "kube-controller-manager") {
            peer.wait(&pki, first, "/api/v1/namespaces/default/serviceaccounts/default")?;
        }
        peer.ready = begun.elapsed();
        say(&format!("upstream {} answers at https://127.0.0.1:{}", super::KUBERNETES, first));
        Ok(peer)
    }

    fn add(&mut self, name: &str, child: Child) {
        self.children.push((name.to_owned(), child));
    }

    /// Asks for a path with curl until it answers 200.
    fn wait(&mut self, pki: &Path, port: u16, path: &str) -> anyhow::Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a chore measures real time")]
        let deadline = std::time::Instant::now() + START;
        loop {
            for (name, child) in &mut self.children {
                if let Some(status) = child.try_wait()? {
                    bail!(
                        "{name} ended before it was ready: {status}; see its log beside {}",
                        self.kubeconfig.display()
                    );
                }
            }
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--output", "/dev/null", "--fail", "--cacert"]).arg(pki.join("ca.crt"));
            curl.arg("--cert").arg(pki.join("admin.crt")).arg("--key").arg(pki.join("admin.key"));
            if capture(curl.arg(format!("https://127.0.0.1:{port}{path}"))).context("curl")?.0 {
                return Ok(());
            }
            #[expect(clippy::disallowed_methods, reason = "a chore measures real time")]
            if std::time::Instant::now() > deadline {
                bail!("{path} does not answer after {START:?}; see the logs beside {}", self.kubeconfig.display());
            }
            #[expect(clippy::disallowed_methods, reason = "a chore that polls another program's readiness")]
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ports that were free when they were chosen.
struct Ports {
    api: Vec<u16>,
    /// The ports of each member for clients and for other members.
    members: Vec<(u16, u16)>,
    component: [u16; 2],
}

/// Returns the name of one of several servers: the first one is called as the only one would be, the others have a number.
fn numbered(name: &str, number: usize) -> String {
    if number == 0 { name.to_owned() } else { format!("{name}-{number}") }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

impl Ports {
    fn free(size: Size) -> anyhow::Result<Self> {
        // All are held until all are known, so that they differ.
        let mut held = Vec::new();
        let mut free = || -> anyhow::Result<u16> {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            let port = listener.local_addr()?.port();
            held.push(listener);
            Ok(port)
        };
        let component = [free()?, free()?];
        let api = (0..size.servers).map(|_| free()).collect::<anyhow::Result<_>>()?;
        let members = (0..size.members).map(|_| Ok((free()?, free()?))).collect::<anyhow::Result<_>>()?;
        Ok(Self { api, members, component })
    }
}

/// The parameters of every start.
struct Start<'a> {
    bin: &'a Path,
    folder: &'a Path,
    pki: &'a Path,
    ports: &'a Ports,
    advertise: Option<IpAddr>,
    /// Further flags of the API servers, `NAME=VALUE` each.
    more: &'a [String],
}

impl Start<'_> {
    fn file(&self, name: &str) -> String {
        self.pki.join(name).display().to_string()
    }

    fn etcd(&self, name: &str, (client, raft): (u16, u16)) -> anyhow::Result<Child> {
        let (client, member) = (url(client), url(raft));
        let all = self.ports.members.iter().enumerate();
        let all: Vec<String> = all.map(|(n, (_, raft))| format!("{}={}", numbered("etcd", n), url(*raft))).collect();
        self.spawn(
            "etcd",
            name,
            &[
                ("name", name),
                ("data-dir", &self.folder.join(name).display().to_string()),
                ("listen-client-urls", &client),
                ("advertise-client-urls", &client),
                ("listen-peer-urls", &member),
                ("initial-advertise-peer-urls", &member),
                ("initial-cluster", &all.join(",")),
                ("quota-backend-bytes", "8589934592"),
                ("log-level", "error"),
            ],
        )
    }

    fn api_server(&self, name: &str, port: u16) -> anyhow::Result<Child> {
        // With nodes on other hosts, the Service `kubernetes` has an endpoint, and Services are reached through their pods.
        let advertised = self.advertise.map(|address| address.to_string());
        let (bind, advertise, reconciler) = match &advertised {
            Some(address) => ("0.0.0.0", address.as_str(), "lease"),
            None => ("127.0.0.1", "127.0.0.1", "none"),
        };
        let more: &[_] = match advertised {
            Some(_) => &[
                ("enable-aggregator-routing", "true"),
                ("service-account-jwks-uri", "https://kubernetes.default.svc/openid/v1/jwks"),
            ],
            None => &[],
        };
        let etcd: Vec<String> = self.ports.members.iter().map(|(client, _)| url(*client)).collect();
        let flags: &[(&str, &str)] = &[
            ("etcd-servers", &etcd.join(",")),
            ("secure-port", &port.to_string()),
            ("bind-address", bind),
            ("advertise-address", advertise),
            ("endpoint-reconciler-type", reconciler),
            ("tls-cert-file", &self.file("server.crt")),
            ("tls-private-key-file", &self.file("server.key")),
            ("client-ca-file", &self.file("ca.crt")),
            ("cert-dir", &self.pki.display().to_string()),
            ("authorization-mode", "Node,RBAC"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-account-key-file", &self.file("account.pub")),
            ("service-account-signing-key-file", &self.file("account.key")),
            ("service-cluster-ip-range", "10.96.0.0/16"),
            ("requestheader-client-ca-file", &self.file("ca.crt")),
            ("requestheader-allowed-names", "front-proxy"),
            ("requestheader-username-headers", "X-Remote-User"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ("proxy-client-cert-file", &self.file("front-proxy.crt")),
            ("proxy-client-key-file", &self.file("front-proxy.key")),
            ("allow-privileged", "true"),
            ("enable-admission-plugins", "NodeRestriction"),
            ("kubelet-client-certificate", &self.file("admin.crt")),
            ("kubelet-client-key", &self.file("admin.key")),
            ("kubelet-preferred-address-types", "InternalIP,Hostname"),
        ];
        let given: Vec<_> = self.more.iter().filter_map(|flag| flag.split_once('=')).collect();
        self.spawn("kube-apiserver", name, &[flags, more, &given].concat())
    }

    /// kube-controller-manager or kube-scheduler.
    fn component(&self, name: &str) -> anyhow::Result<Child> {
        let [manager, scheduler] = self.ports.component;
        let flags = self.flags(name, if name == "kube-scheduler" { scheduler } else { manager })?;
        self.spawn(name, name, &flags.iter().map(|(flag, value)| (*flag, value.as_str())).collect::<Vec<_>>())
    }

    /// How kube-controller-manager or kube-scheduler is started, as itself, with its client's limits lifted. Port 0: it serves nothing.
    fn flags(&self, name: &str, port: u16) -> anyhow::Result<Vec<(&'static str, String)>> {
        let kubeconfig = self.folder.join(format!("{name}.kubeconfig")).display().to_string();
        let certificates = self.file(name);
        let limit = CLIENT_LIMIT.to_string();
        let mut flags = vec![
            ("authentication-kubeconfig", kubeconfig.clone()),
            ("authorization-kubeconfig", kubeconfig.clone()),
            ("cert-dir", certificates),
            ("secure-port", port.to_string()),
        ];
        match name {
            "kube-controller-manager" => flags.extend([
                ("kubeconfig", kubeconfig),
                ("service-account-private-key-file", self.file("account.key")),
                ("root-ca-file", self.file("ca.crt")),
                ("use-service-account-credentials", "true".to_owned()),
                ("cluster-signing-cert-file", self.file("ca.crt")),
                ("cluster-signing-key-file", self.file("ca.key")),
                ("kube-api-qps", limit.clone()),
                ("kube-api-burst", limit),
                ("concurrent-deployment-syncs", "20".to_owned()),
                ("concurrent-replicaset-syncs", "50".to_owned()),
            ]),
            "kube-scheduler" => {
                let path = self.folder.join("kube-scheduler.yaml");
                std::fs::write(
                    &path,
                    format!(
                        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                         clientConnection: {{kubeconfig: {kubeconfig}, qps: {limit}, burst: {limit}}}\n"
                    ),
                )?;
                flags.push(("config", path.display().to_string()));
            }
            _ => bail!("{name}: neither kube-controller-manager nor kube-scheduler"),
        }
        Ok(flags)
    }

    /// Program and arguments of one that any number may be started of: it serves nothing.
    fn command(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let flags = self.flags(name, 0)?.into_iter().map(|(flag, value)| format!("--{flag}={value}"));
        Ok(std::iter::once(self.bin.join(name).display().to_string()).chain(flags).collect())
    }

    /// Starts a program under a name of its own.
    fn spawn(&self, program: &str, name: &str, flags: &[(&str, &str)]) -> anyhow::Result<Child> {
        let program = self.bin.join(program);
        let log = std::fs::File::create(self.folder.join(format!("{name}.log")))?;
        Command::new(&program)
            .args(flags.iter().map(|(flag, value)| format!("--{flag}={value}")))
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{}: not started", program.display()))
    }
}
