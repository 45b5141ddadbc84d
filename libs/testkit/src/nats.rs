//! A real nats-server on the loopback address.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Process, port, programs, wait};

/// What it says when it takes connections.
const READY: &str = "Server is ready";

/// One server; it ends with this value.
#[derive(Debug)]
pub struct Nats {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    authority: Option<String>,
    process: Option<Process>,
}

impl Nats {
    /// Starts one with this configuration, besides where it listens, and waits until it serves.
    ///
    /// # Errors
    /// Why it cannot be built here.
    ///
    /// # Panics
    /// When it does not serve.
    pub fn start(configuration: &str) -> Result<Self, String> {
        let nats = Self::new()?;
        Ok(nats.begin(configuration))
    }

    /// As [`Nats::start`], with TLS.
    ///
    /// # Errors
    /// Why it cannot be built here.
    ///
    /// # Panics
    /// When it does not serve.
    pub fn secured(configuration: &str) -> Result<Self, String> {
        let mut nats = Self::new()?;
        nats.authority = Some(certificates(&nats.folder));
        let path = |name| nats.folder.path().join(name).display().to_string();
        let tls = format!("tls {{ cert_file: {:?}, key_file: {:?} }}\n", path("server.crt"), path("server.key"));
        let configuration = format!("{tls}{configuration}");
        Ok(nats.begin(&configuration))
    }

    fn new() -> Result<Self, String> {
        let program = programs(&["nats-server"])?.join("nats-server");
        let folder = tempfile::Builder::new().prefix("oarlock-nats-").tempdir().expect("a temporary directory");
        Ok(Self { program, folder, port: port::own(), authority: None, process: None })
    }

    fn begin(mut self, configuration: &str) -> Self {
        self.configure(configuration);
        self.restart();
        self
    }

    /// Writes another configuration, for the next start.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn configure(&self, configuration: &str) {
        let text = format!("listen: \"127.0.0.1:{}\"\n{configuration}", self.port);
        std::fs::write(self.folder.path().join("nats.conf"), text).expect("its configuration");
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Who signed its certificate, PEM.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Starts it again, at the same address, and waits until it serves.
    ///
    /// # Panics
    /// When it does not.
    pub fn restart(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(self.folder.path().join("nats.conf"));
        let process = Process::start(command, "nats-server");
        wait::eventually("nats-server serves", || {
            let said = process.said();
            if said.contains(READY) { Ok(()) } else { Err(crate::process::tail(&said)) }
        });
        self.process = Some(process);
    }

    /// Ends it with SIGKILL.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        drop(self.process.take());
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// What it has said.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn said(&self) -> String {
        self.process.as_ref().expect("it runs").said()
    }
}

/// A server's certificate, in the folder; its authority.
fn certificates(folder: &TempDir) -> String {
    let now = UnixTime::since_unix_epoch(SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO));
    let authority = Authority::create("nats-ca", now).expect("an authority");
    let local = vec![San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))];
    let server = authority.issue(&Leaf::server(Subject::named("nats"), local), now).expect("a certificate");
    for (name, text) in [("server.crt", server.certificate_pem()), ("server.key", server.key.to_pem())] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    authority.certificate_pem()
}
