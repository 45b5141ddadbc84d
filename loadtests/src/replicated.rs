//! Several API servers over several members of etcd, one of which can be killed.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use oarlock_client::https::TokioSpawn;
use oarlock_client::{Client, Endpoint, Https};
use oarlock_config::Kubeconfig;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::cluster::Cluster;
use crate::subject::{Bench, Parts, Subject, upstream};

/// What replicas share.
const KEYS: [&str; 6] = ["ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "sa.pub"];

/// A process, and its address.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    url: String,
    pid: u32,
}

impl Process {
    /// Ends the process with SIGKILL.
    ///
    /// # Errors
    /// When the process does not run.
    pub(crate) fn kill(&self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).context("no pid")?;
        Ok(kill_process(pid, Signal::KILL)?)
    }
}

/// The running servers of one subject.
pub(crate) struct Replicated {
    cluster: Cluster,
    /// Our servers beside the first; they end with this value.
    more: Vec<Child>,
    servers: Vec<Process>,
    members: Vec<Process>,
}

impl Replicated {
    /// Starts so many API servers over as many members of etcd as the scenario's setting says.
    ///
    /// # Errors
    /// As [`Bench::start`].
    pub(crate) async fn start(bench: &Bench, subject: Subject, count: usize) -> anyhow::Result<Self> {
        ensure!(bench.setting.etcd > 0 && count > 0, "replicas need an etcd");
        let mut more = Vec::new();
        let (cluster, servers, members) = match subject {
            Subject::Oarlock => {
                let cluster = bench.start(subject, Parts::Api).await?;
                let etcd = cluster.etcd();
                let mut servers =
                    vec![(url(&cluster.kubeconfig)?, *cluster.pids("oarlock").first().context("no pid")?)];
                for number in 1..count {
                    let folder = cluster.folder().join(format!("replica-{number}"));
                    std::fs::create_dir_all(folder.join("pki"))?;
                    for key in KEYS {
                        std::fs::copy(cluster.folder().join("pki").join(key), folder.join("pki").join(key))?;
                    }
                    let (child, kubeconfig) = bench.process(Parts::Api, &folder, &etcd).await?;
                    servers.push((url(kubeconfig.as_ref())?, child.id().context("the server has ended")?));
                    more.push(child);
                }
                let (urls, pids): (Vec<_>, Vec<_>) = servers.into_iter().unzip();
                (cluster, processes(urls, &pids), etcd)
            }
            Subject::Upstream => {
                let (cluster, said) = upstream(Parts::Api, count, bench.setting.etcd, None).await?;
                let urls = |key: &str| -> anyhow::Result<Vec<String>> {
                    Ok(serde_json::from_value(said.get(key).context("no URLs")?.clone())?)
                };
                let servers = processes(urls("servers")?, &cluster.pids("kube-apiserver"));
                (cluster, servers, urls("members")?)
            }
        };
        let members = processes(members, &cluster.pids("etcd"));
        ensure!(servers.len() == count && members.len() == bench.setting.etcd, "not all have started");
        Ok(Self { cluster, more, servers, members })
    }

    /// Our client over all servers, which begins with any of them, as the administrator.
    ///
    /// # Errors
    /// For an unusable kubeconfig.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let urls: Vec<String> = self.servers.iter().map(|server| server.url.clone()).collect();
        let admin = Kubeconfig::read(&self.cluster.kubeconfig)?.resolve(None)?.at(&urls)?;
        Ok(Client::new(Arc::new(Https::new(Endpoint::new(&admin, "oarlock-loadtests")?, Arc::new(TokioSpawn))?)))
    }

    /// An API server.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn server(&self) -> anyhow::Result<&Process> {
        self.servers.last().context("no server")
    }

    /// The leader of etcd.
    ///
    /// # Errors
    /// When no member reports that it is the leader.
    pub(crate) async fn leader(&self) -> anyhow::Result<&Process> {
        for member in &self.members {
            let status = status(&member.url).await?;
            if status.get("leader").is_some_and(|leader| Some(leader) == status.pointer("/header/member_id")) {
                return Ok(member);
            }
        }
        bail!("etcd has no leader")
    }

    /// Ends all.
    ///
    /// # Errors
    /// When the processes do not end.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        // First: a member of etcd waits for its clients.
        for child in &mut self.more {
            child.kill().await?;
        }
        self.cluster.stop().await
    }
}

fn processes(urls: Vec<String>, pids: &[u32]) -> Vec<Process> {
    urls.into_iter().zip(pids).map(|(url, pid)| Process { url, pid: *pid }).collect()
}

fn url(kubeconfig: &std::path::Path) -> anyhow::Result<String> {
    Ok(format!("https://{}", Kubeconfig::read(kubeconfig)?.resolve(None)?.authority()))
}

/// What a member of etcd says of itself, through its gateway.
async fn status(url: &str) -> anyhow::Result<serde_json::Value> {
    let address = url.strip_prefix("http://").context("not http")?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"POST /v3/maintenance/status HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.split_once("\r\n\r\n").context("no answer")?.1;
    serde_json::from_str(body).with_context(|| answer.clone())
}
