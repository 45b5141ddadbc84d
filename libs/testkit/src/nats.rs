//! [`Nats`]: a real nats-server on the loopback address.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Process, port, programs, wait};

/// Log message of a server that accepts connections.
const READY_MESSAGE: &str = "Server is ready";

/// A running nats-server; dropping the value ends it.
#[derive(Debug)]
pub struct Nats {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    authority: Option<String>,
    process: Option<Process>,
}

impl Nats {
    /// Starts a server with this configuration, to which the listen address is added, and waits until the server is ready.
    ///
    /// # Errors
    /// Why nats-server cannot be built here.
    ///
    /// # Panics
    /// When the server does not become ready.
    pub fn start(configuration: &str) -> Result<Self, String> {
        let nats = Self::new()?;
        Ok(nats.begin(configuration))
    }

    /// As [`Nats::start`], with TLS.
    ///
    /// # Errors
    /// Why nats-server cannot be built here.
    ///
    /// # Panics
    /// When the server does not become ready.
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

    /// Replaces the configuration for the next start.
    ///
    /// # Panics
    /// When the configuration cannot be written.
    pub fn configure(&self, configuration: &str) {
        let text = format!("listen: \"127.0.0.1:{}\"\n{configuration}", self.port);
        std::fs::write(self.folder.path().join("nats.conf"), text).expect("its configuration");
    }

    /// Returns the server's address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the server's process while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Returns the certificate authority of the server, PEM.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Restarts the server at the same address and waits until the server is ready.
    ///
    /// # Panics
    /// When the server does not become ready.
    pub fn restart(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(self.folder.path().join("nats.conf"));
        let process = Process::start(command, "nats-server");
        wait::eventually("nats-server serves", || {
            let said = process.said();
            if said.contains(READY_MESSAGE) { Ok(()) } else { Err(crate::process::tail(&said)) }
        });
        self.process = Some(process);
    }

    /// Ends the server with SIGKILL.
    ///
    /// # Panics
    /// When the server is not running.
    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// Shuts the server down with SIGTERM.
    pub fn stop(&mut self) {
        drop(self.process.take());
    }

    /// Sends the server a signal.
    ///
    /// # Panics
    /// When the server is not running.
    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// Returns the server's log.
    ///
    /// # Panics
    /// When the server is not running.
    #[must_use]
    pub fn said(&self) -> String {
        self.process.as_ref().expect("it runs").said()
    }
}

/// Writes a server certificate to the folder; returns its authority.
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
