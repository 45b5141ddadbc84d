//! `oarlock keys`: what several API servers must have in common, made before the first of them starts.

mod nats;

use std::path::PathBuf;

use oarlock_config::DataDir;
use oarlock_pki::{Pki, ServingNames};

use crate::args::ServingOptions;
use crate::assemble::kubeconfigs::{self, Servers};
use crate::assemble::now;

/// Flags of `oarlock keys`.
#[derive(Clone, Debug, clap::Args)]
pub struct KeysArgs {
    /// Where keys and kubeconfigs are put. What is there stays and is used; kubeconfigs are written anew.
    #[arg(long, default_value = DataDir::DEFAULT, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Where the parts of the control plane reach the API servers; a name may stand for several addresses.
    #[arg(long, default_value = "https://127.0.0.1:6443", value_name = "URL")]
    pub server: String,
    /// Where users do, for the user's kubeconfig; the same without this flag.
    #[arg(long, value_name = "URL")]
    pub user_server: Option<String>,
    /// As what the API servers show themselves.
    #[command(flatten)]
    pub serving: ServingOptions,
    /// Nodes that get credentials for the bus, besides the parts of the control plane; those that have some keep them.
    #[arg(long, value_delimiter = ',', value_name = "NODE,…")]
    pub nats_node: Vec<String>,
    /// Names and addresses by which NATS servers are called: with this flag they speak TLS, with a certificate of the cluster's authority (`pki/ca.crt`).
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub nats_tls_san: Vec<String>,
}

/// Makes authorities, the token key, a serving certificate, kubeconfigs, and credentials for the bus. Copy `pki` into the data directory of each API server.
///
/// # Errors
/// When the directory cannot be written, or holds something that is no key or certificate.
pub fn keys(args: KeysArgs) -> anyhow::Result<u8> {
    let directory = DataDir::new(&args.data_dir);
    let names = ServingNames { more: args.serving.tls_san, ..ServingNames::default() };
    let now = now();
    let pki = Pki::open(&directory.pki(), &names, now)?;
    let user = args.user_server.unwrap_or_else(|| args.server.clone());
    kubeconfigs::write(&directory, &pki, &Servers { user, components: args.server }, now)?;
    nats::write(&directory, &pki, &nats::Wanted { nodes: args.nats_node, tls: args.nats_tls_san }, now)?;
    Ok(0)
}
