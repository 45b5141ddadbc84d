//! `oarlock keys`: makes the keys that several API servers must share, before the first of them starts, and a folder for each part of the control plane that
//! has what the part needs and nothing else.

mod etcd;
mod nats;
mod nodes;
mod parts;

use std::path::PathBuf;

use oarlock_config::DataDir;
use oarlock_pki::{Pki, ServingNames};

use crate::args::ServingOptions;
use crate::assemble::kubeconfigs::{self, Servers};
use crate::assemble::now;

pub use nodes::PartNodes;

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
    /// Names and addresses by which NATS servers are called. With this flag the servers speak TLS, with a certificate of an authority that is made for the
    /// bus alone (`nats/ca.crt`).
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub nats_tls_san: Vec<String>,
    /// Addresses at which the NATS servers of one cluster reach one another, those of all servers. A route between servers then needs a certificate of
    /// `nats/ca.crt` and a password.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,…", requires = "nats_tls_san")]
    pub nats_routes: Vec<String>,
    /// Names and addresses by which members of etcd are called. With this flag certificates are made for the members and for their clients (`pki/etcd`).
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub etcd_san: Vec<String>,
    /// Folder in which to make a folder for each part of the control plane, with the keys that the part needs and no others. The keys of authorities stay in
    /// the data directory.
    #[arg(long, value_name = "DIR")]
    pub parts: Option<PathBuf>,
    /// A part that hosts these nodes; may be given several times. In --parts the part gets a folder with a kubeconfig for each node, and a certificate in the
    /// part's name for the kubelet's server.
    #[arg(long, value_name = "PART=NODE,…", requires = "parts")]
    pub part_nodes: Vec<PartNodes>,
}

/// Makes authorities, the token key, a serving certificate, kubeconfigs, and credentials for the bus and etcd.
///
/// # Errors
/// When a directory cannot be written, or holds something that is no key or certificate.
pub fn keys(args: KeysArgs) -> anyhow::Result<u8> {
    let directory = DataDir::new(&args.data_dir);
    let names = ServingNames { more: args.serving.tls_san, ..ServingNames::default() };
    let now = now();
    let pki = Pki::open(&directory.pki(), &names, now)?;
    let servers = Servers { user: args.user_server.unwrap_or_else(|| args.server.clone()), components: args.server };
    kubeconfigs::write(&directory, &pki, &servers, now)?;
    let hosted = args.part_nodes.iter().flat_map(|part| part.nodes.iter().cloned());
    let wanted = nats::Wanted {
        nodes: args.nats_node.iter().cloned().chain(hosted).collect(),
        tls: args.nats_tls_san,
        routes: args.nats_routes,
    };
    let carried = nats::write(&directory, &wanted, now)?;
    if !args.etcd_san.is_empty() {
        etcd::write(&directory, &args.etcd_san, now)?;
    }
    if let Some(folder) = &args.parts {
        parts::write(folder, &directory, &carried)?;
        for part in &args.part_nodes {
            nodes::write(folder, &directory, &pki, part, &servers.components, now)?;
        }
    }
    Ok(0)
}
