//! Starts the scheduler, controllers and kubelets of `oarlock up`, each with its own identity over the in-process transport.

use std::sync::Arc;

use oarlock_apiserver::kubelets::LocalKubelets;
use oarlock_apiserver::{InProcess, Server};
use oarlock_auth::UserInfo;
use oarlock_client::Client;
use oarlock_kubelet::server as kubelet;
use oarlock_kubelet::{Fleet, NodeConfig};
use oarlock_runtime::System;
use oarlock_service_apiserver::assemble::Api;
use oarlock_streams::BoxIo;

use crate::args::Up;

/// Names that `--disable` accepts besides those of controllers.
const PARTS: &[&str] = &["scheduler", "controller-manager", "kubelet"];

/// Starts the parts that are not disabled; returns a line about each part.
///
/// # Errors
/// When a part cannot be started, or `--disable` names an unknown part.
pub(crate) async fn start(system: &System, api: &Api, fleet: &Fleet, args: &Up) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    if runs(args, "controller-manager") {
        lines.push(controllers(system, api, args).await?);
    }
    if runs(args, "scheduler") {
        let user = UserInfo::new("system:kube-scheduler", NO_GROUPS);
        let client = client(&api.server, user, "kube-scheduler");
        oarlock_scheduler::Scheduler::spawn(system, client, oarlock_scheduler::Config::default()).await?;
        lines.push("scheduler           1 shard".to_owned());
    }
    if runs(args, "kubelet") {
        if let Some(path) = &args.pod_manifest_path {
            fleet.follow_manifests(path.clone()).await?;
        }
        if args.runtime == "containerd" {
            let name = oarlock_config::host_name()?;
            let client = client(&api.server, UserInfo::node(&name), "kubelet");
            fleet.add(client, args.machine.node(&name).await?).await?;
            lines.push(format!("kubelet             {name} ({})", args.runtime));
        } else {
            for index in 0..args.nodes {
                let name = format!("node-{index}");
                let client = client(&api.server, UserInfo::node(&name), "kubelet");
                fleet.add(client, NodeConfig::simulated(name, u16::try_from(index)?)).await?;
            }
            lines.push(format!("kubelets            {} ({})", args.nodes, args.runtime));
        }
    }
    Ok(lines)
}

/// User as which the API server calls kubelets: the same as over HTTPS.
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// In-process transport from the API server to the kubelets of this process.
#[derive(Clone, Debug)]
pub(crate) struct ToFleet(pub(crate) kubelet::Server);

impl LocalKubelets for ToFleet {
    fn connect(&self, node: &str) -> Option<BoxIo> {
        let groups = vec!["system:authenticated".to_owned()];
        self.0.connect(node, kubelet::User { name: KUBELET_CLIENT.to_owned(), groups })
    }
}

const NO_GROUPS: [&str; 0] = [];

fn runs(args: &Up, part: &str) -> bool {
    !args.disable.iter().any(|d| d == part)
}

/// Returns a client that acts as `user`: requests skip authentication and pass every stage from authorization on.
fn client(server: &Server, user: UserInfo, agent: &str) -> Client {
    Client::new(Arc::new(InProcess::new(server.clone(), user, format!("{agent}/{}", env!("CARGO_PKG_VERSION")))))
}

async fn controllers(system: &System, api: &Api, args: &Up) -> anyhow::Result<String> {
    let manager =
        client(&api.server, UserInfo::new("system:kube-controller-manager", NO_GROUPS), "kube-controller-manager");
    let server = api.server.clone();
    let clients = Arc::new(move |account: &str| {
        // Upstream's controllers authenticate with tokens of their ServiceAccounts; here the identity is set directly, with the same permissions.
        let user = UserInfo::service_account("kube-system", account, "");
        client(&server, user, account)
    });
    let disable: Vec<String> = args.disable.iter().filter(|name| !PARTS.contains(&name.as_str())).cloned().collect();
    let options = oarlock_controllers::Options {
        selection: args.controllers.selection(&disable),
        features: args.features.feature_gates.clone(),
        settings: args.controllers.settings(),
        root_ca: api.server.config().ca_pem.clone(),
        placement: oarlock_mesh::Placement::default(),
    };
    let started = oarlock_controllers::start(system, manager, clients, options).await?;
    Ok(format!("controllers         {}", started.controllers.len()))
}
