//! Upstream's own programs, built from their Go modules and started for a comparison. Nothing built here is ever committed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::tool::{capture, run as exec, say};

const KUBERNETES: &str = "1.35.0";
const ETCD: &str = "3.6.6";
/// How long etcd and kube-apiserver may take until they are ready.
const START: Duration = Duration::from_secs(60);

/// A running etcd and kube-apiserver; they end with this value.
pub(crate) struct Peer {
    children: Vec<Child>,
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Builds kube-apiserver and etcd into `folder`/bin unless they are there. Needs Go and its module proxy; about six minutes at first.
pub(crate) fn build(folder: &Path) -> anyhow::Result<PathBuf> {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin)?;
    if !bin.join("kube-apiserver").exists() {
        let module = folder.join("kubernetes");
        module_file(&module, &kubernetes_module()?)?;
        let version = "k8s.io/component-base/version";
        let flags = format!(
            "-s -w -X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor=1 -X {version}.gitMinor=35 -X {version}.gitTreeState=clean"
        );
        go(
            &module,
            &["build", "-ldflags", &flags, "-o"],
            &bin.join("kube-apiserver"),
            "k8s.io/kubernetes/cmd/kube-apiserver",
        )?;
    }
    if !bin.join("etcd").exists() {
        let module = folder.join("etcd");
        module_file(&module, &format!("module peer.local/etcd\ngo 1.24\nrequire go.etcd.io/etcd/server/v3 v{ETCD}\n"))?;
        go(&module, &["build", "-ldflags", "-s -w", "-o"], &bin.join("etcd"), "go.etcd.io/etcd/server/v3")?;
    }
    Ok(bin)
}

fn module_file(folder: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("go.mod"), text)?;
    Ok(())
}

/// The module that builds Kubernetes: its staging modules are replaced by directories there, by published versions here.
fn kubernetes_module() -> anyhow::Result<String> {
    let wanted = format!("k8s.io/kubernetes@v{KUBERNETES}");
    let (ok, text) =
        capture(Command::new("go").args(["mod", "download", "-json", &wanted]).env("GOFLAGS", "-mod=mod"))?;
    let file = text.lines().find_map(|line| line.trim().strip_prefix("\"GoMod\": \"")?.strip_suffix("\","));
    let Some(file) = file.filter(|_| ok) else { bail!("go mod download {wanted}: {text}") };
    let mut module =
        format!("module peer.local/kubernetes\ngo 1.25.0\nrequire k8s.io/kubernetes v{KUBERNETES}\nreplace (\n");
    let staging = KUBERNETES.trim_start_matches("1.");
    for line in std::fs::read_to_string(file)?.lines().filter(|line| line.contains("=> ./staging")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        writeln!(module, "{name} => {name} v0.{staging}")?;
    }
    Ok(module + ")\n")
}

fn go(module: &Path, words: &[&str], output: &Path, package: &str) -> anyhow::Result<()> {
    let command = |words: &[&str]| {
        let mut command = Command::new("go");
        command.arg("-C").arg(module).args(words).env("GOFLAGS", "-mod=mod -buildvcs=false").env("CGO_ENABLED", "0");
        command
    };
    exec(&mut command(&["get", package]))?;
    exec(command(words).arg(output).arg(package))
}

/// Starts both in `folder`, which is emptied, and waits for readyz.
pub(crate) fn start(bin: &Path, folder: &Path) -> anyhow::Result<Peer> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let pki = folder.join("pki");
    std::fs::create_dir_all(&pki)?;
    certificates(&pki)?;
    let [api, client, raft] = free_ports()?;
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(api, &pki))?;
    let etcd = format!("http://127.0.0.1:{client}");
    let member = format!("http://127.0.0.1:{raft}");
    let file = |name: &str| pki.join(name).display().to_string();
    let mut peer = Peer { children: Vec::new(), kubeconfig };
    let data = folder.join("etcd").display().to_string();
    peer.children.push(spawn(
        folder,
        &bin.join("etcd"),
        &[
            ("data-dir", &data),
            ("listen-client-urls", &etcd),
            ("advertise-client-urls", &etcd),
            ("listen-peer-urls", &member),
            ("initial-advertise-peer-urls", &member),
            ("initial-cluster", &format!("default={member}")),
            ("log-level", "error"),
        ],
    )?);
    peer.children.push(spawn(
        folder,
        &bin.join("kube-apiserver"),
        &[
            ("etcd-servers", &etcd),
            ("secure-port", &api.to_string()),
            ("bind-address", "127.0.0.1"),
            ("advertise-address", "127.0.0.1"),
            ("endpoint-reconciler-type", "none"),
            ("tls-cert-file", &file("server.crt")),
            ("tls-private-key-file", &file("server.key")),
            ("client-ca-file", &file("ca.crt")),
            ("cert-dir", &pki.display().to_string()),
            ("authorization-mode", "Node,RBAC"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-account-key-file", &file("account.pub")),
            ("service-account-signing-key-file", &file("account.key")),
            ("service-cluster-ip-range", "10.96.0.0/16"),
            ("requestheader-client-ca-file", &file("ca.crt")),
            ("requestheader-allowed-names", "front-proxy"),
            ("requestheader-username-headers", "X-Remote-User"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ("proxy-client-cert-file", &file("admin.crt")),
            ("proxy-client-key-file", &file("admin.key")),
            ("allow-privileged", "true"),
        ],
    )?);
    wait_ready(&mut peer, api, &pki)?;
    say(&format!("upstream {KUBERNETES} answers at https://127.0.0.1:{api}, KUBECONFIG={}", peer.kubeconfig.display()));
    Ok(peer)
}

fn spawn(folder: &Path, program: &Path, flags: &[(&str, &str)]) -> anyhow::Result<Child> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let log = std::fs::File::create(folder.join(format!("{name}.log")))?;
    Command::new(program)
        .args(flags.iter().map(|(flag, value)| format!("--{flag}={value}")))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("{}: not started", program.display()))
}

/// Asks for readyz with curl until it answers 200.
fn wait_ready(peer: &mut Peer, port: u16, pki: &Path) -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a chore measures real time")]
    let deadline = std::time::Instant::now() + START;
    loop {
        for child in &mut peer.children {
            if let Some(status) = child.try_wait()? {
                bail!(
                    "upstream ended before it was ready: {status}; see the logs beside {}",
                    peer.kubeconfig.display()
                );
            }
        }
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--output", "/dev/null", "--fail", "--cacert"]).arg(pki.join("ca.crt"));
        curl.arg("--cert").arg(pki.join("admin.crt")).arg("--key").arg(pki.join("admin.key"));
        if curl.arg(format!("https://127.0.0.1:{port}/readyz")).status().context("curl")?.success() {
            return Ok(());
        }
        #[expect(clippy::disallowed_methods, reason = "a chore measures real time")]
        if std::time::Instant::now() > deadline {
            bail!("upstream is not ready after {START:?}; see the logs beside {}", peer.kubeconfig.display());
        }
        #[expect(clippy::disallowed_methods, reason = "a chore that polls another program's readiness")]
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Three ports nobody listens on now.
fn free_ports() -> anyhow::Result<[u16; 3]> {
    let listen = || std::net::TcpListener::bind("127.0.0.1:0");
    let (a, b, c) = (listen()?, listen()?, listen()?);
    Ok([a.local_addr()?.port(), b.local_addr()?.port(), c.local_addr()?.port()])
}

/// An authority, the server's certificate, the administrator's (with the name that Oarlock gives its own), the accounts' key.
fn certificates(pki: &Path) -> anyhow::Result<()> {
    let openssl = |words: &str| -> anyhow::Result<()> {
        let (ok, text) = capture(
            Command::new("openssl")
                .args(words.split(' ').map(|word| word.replace('@', &format!("{}/", pki.display())))),
        )?;
        if ok { Ok(()) } else { bail!("openssl {words}: {text}") }
    };
    for key in ["ca", "server", "admin", "account"] {
        openssl(&format!("ecparam -genkey -noout -name prime256v1 -out @{key}.key"))?;
    }
    openssl("ec -in @account.key -pubout -out @account.pub")?;
    openssl("req -x509 -new -key @ca.key -subj /CN=ca -days 30 -out @ca.crt")?;
    std::fs::write(
        pki.join("names"),
        "subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
    )?;
    for (name, subject) in [("server", "/CN=kube-apiserver"), ("admin", "/O=system:masters/CN=kubernetes-super-admin")]
    {
        openssl(&format!("req -new -key @{name}.key -subj {subject} -out @{name}.csr"))?;
        openssl(&format!(
            "x509 -req -in @{name}.csr -CA @ca.crt -CAkey @ca.key -CAcreateserial -days 30 -out @{name}.crt -extfile @names"
        ))?;
    }
    Ok(())
}

fn kubeconfig_text(port: u16, pki: &Path) -> String {
    let pki = pki.display();
    format!(
        "apiVersion: v1\nkind: Config\n\
         clusters: [{{name: peer, cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: {pki}/ca.crt}}}}]\n\
         users: [{{name: admin, user: {{client-certificate: {pki}/admin.crt, client-key: {pki}/admin.key}}}}]\n\
         contexts: [{{name: peer, context: {{cluster: peer, user: admin}}}}]\n\
         current-context: peer\n"
    )
}
