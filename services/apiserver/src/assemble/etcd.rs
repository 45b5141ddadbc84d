//! Opens the store's log in an etcd cluster, as the flags describe.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use oarlock_apiserver::Egress;
use oarlock_apiserver::egress::{Destination, Purpose};
use oarlock_config::in_the_clear;
use oarlock_runtime::clock;
use oarlock_storage::Log;
use oarlock_storage::etcd::{Connection, Dial, EtcdLog, Options};

use crate::args::EtcdOptions;

/// The longest time for a connection to a member. The log gives up earlier.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the etcd cluster that the flags name, as `egress` says.
///
/// # Errors
/// When a file cannot be read, or the cluster cannot be used.
pub(super) async fn open(flags: &EtcdOptions, egress: &Egress) -> anyhow::Result<Arc<dyn Log>> {
    for server in flags.etcd_servers.iter().filter(|server| in_the_clear(server, "https")) {
        tracing::warn!(
            server,
            "etcd is reached without TLS over a network: whoever is on the way reads and writes everything; use https://, --etcd-cafile, --etcd-certfile and --etcd-keyfile"
        );
    }
    let password = flags.etcd_password_file.as_deref().map(text).transpose()?;
    let options = Options {
        endpoints: flags.etcd_servers.clone(),
        prefix: flags.etcd_prefix.clone(),
        resources: oarlock_registry::key::prefixes().map(str::to_owned).collect(),
        authorities: flags.etcd_cafile.as_deref().map(file).transpose()?,
        identity: match (&flags.etcd_certfile, &flags.etcd_keyfile) {
            (Some(certificate), Some(key)) => Some((file(certificate)?, file(key)?)),
            _ => None,
        },
        credentials: flags.etcd_user.clone().zip(password),
        dial: Some(dial(egress.clone())),
    };
    let log =
        EtcdLog::open(&options).await.with_context(|| format!("--etcd-servers {}", flags.etcd_servers.join(",")))?;
    Ok(Arc::new(log))
}

/// Opens connections to etcd's members on the account of the control plane.
fn dial(egress: Egress) -> Dial {
    Dial::new(move |host, port| {
        let egress = egress.clone();
        Box::pin(async move {
            let to = Destination::new(&host, port, None);
            let deadline = clock::after(CONNECT_TIMEOUT);
            let io = egress.for_control_plane(Purpose::Etcd, &to, deadline).await.map_err(std::io::Error::other)?;
            Ok(Box::new(io) as Box<dyn Connection>)
        })
    })
}

fn file(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
