//! `oarlock keys`: makes the keys that several API servers share, before the first of them starts, and a folder for each part of the control plane with only
//! the keys that the part needs.

mod copies;
mod etcd;
mod konnectivity;
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
#[command(group(clap::ArgGroup::new("place").args(["parts", "to_secret"])))]
pub struct KeysArgs {
    /// Directory for keys and kubeconfigs. Existing keys are kept and used; certificates that are about to expire, or were issued for other names, are renewed.
    #[arg(long, default_value = DataDir::DEFAULT, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// URL under which the parts of the control plane reach the API servers; the host may be a name with several addresses.
    #[arg(long, default_value = "https://127.0.0.1:6443", value_name = "URL")]
    pub server: String,
    /// URL under which users reach the API servers, for the administrator's kubeconfig. Without this flag that of --server.
    #[arg(long, value_name = "URL")]
    pub user_server: Option<String>,
    /// URL under which nodes reach the API servers, for the kubeconfigs of --part-nodes. Without this flag that of --server.
    #[arg(long, value_name = "URL", requires = "part_nodes")]
    pub node_server: Option<String>,
    /// Flags about the API servers' certificates.
    #[command(flatten)]
    pub serving: ServingOptions,
    /// Nodes that get NATS credentials, besides the parts of the control plane; nodes with existing credentials keep them.
    #[arg(long, value_delimiter = ',', value_name = "NODE,…")]
    pub nats_node: Vec<String>,
    /// DNS names and addresses of the NATS servers, for their certificate. With this flag the servers use TLS, with a certificate of an authority that serves
    /// NATS only (`nats/ca.crt`).
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub nats_tls_san: Vec<String>,
    /// Addresses (all servers') at which the NATS servers of one cluster reach one another. Routes between servers then need a certificate of `nats/ca.crt` and
    /// a password.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,…", requires = "nats_tls_san")]
    pub nats_routes: Vec<String>,
    /// DNS names and addresses of the etcd members. With this flag certificates are made for the members and for their clients (`pki/etcd`).
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub etcd_san: Vec<String>,
    /// DNS names and addresses under which agents reach the tunnel's servers, for the servers' certificate, besides `konnectivity-server` and those of their own host.
    /// Without this flag those of --tls-san. Servers and agents have an authority of their own (`pki/konnectivity`).
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub konnectivity_san: Vec<String>,
    /// Folder in which to make one folder for each part of the control plane, with only the keys that the part needs. The authorities' keys stay in the data
    /// directory.
    #[arg(long, value_name = "DIR")]
    pub parts: Option<PathBuf>,
    /// A part that hosts these nodes; may be given several times. The part's folder (or Secret) gets a kubeconfig for each node, and a certificate in the part's
    /// name for the kubelet's server.
    #[arg(long, value_name = "PART=NODE,…", requires = "place")]
    pub part_nodes: Vec<PartNodes>,
    /// Flags about keys that are kept in Secrets of another cluster.
    #[command(flatten)]
    pub secrets: SecretOptions,
}

/// Flags about keys that are kept in Secrets of the cluster that hosts the control plane.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SecretOptions {
    /// Keep the keys in Secrets of the cluster that hosts the control plane, and nowhere else: `PREFIX-all` has everything, the authorities' keys included, and only
    /// this command needs it; `PREFIX-<part>` has what the part needs. In a key of a Secret `_` stands for `/` of --parts. Valid keys and certificates are kept.
    #[arg(long, value_name = "PREFIX", requires = "namespace", conflicts_with = "data_dir")]
    pub to_secret: Option<String>,
    /// Namespace of the Secrets.
    #[arg(long, value_name = "NAME", requires = "to_secret")]
    pub namespace: Option<String>,
    /// Kubeconfig of the hosting cluster. Without this flag the pod's service account is used.
    #[arg(long, value_name = "FILE", requires = "to_secret")]
    pub kubeconfig: Option<PathBuf>,
}

impl KeysArgs {
    /// Whether a run with these flags writes the folder of this part, where the part has files at all.
    #[must_use]
    pub fn makes_part(&self, part: &str) -> bool {
        parts::is_part(part) || self.part_nodes.iter().any(|hosts| hosts.part == part)
    }
}

/// Makes certificate authorities, the token key, a serving certificate, kubeconfigs, and credentials for NATS, etcd and the tunnel to nodes.
///
/// # Errors
/// When a directory cannot be written, or contains a file that is no key or certificate.
pub fn keys(args: KeysArgs) -> anyhow::Result<u8> {
    let directory = DataDir::new(&args.data_dir);
    let names = ServingNames { more: args.serving.tls_san.clone(), ..ServingNames::default() };
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
    let server_config = nats::write(&directory, &wanted, now)?;
    if !args.etcd_san.is_empty() {
        etcd::write(&directory, &args.etcd_san, now)?;
    }
    let tunnel = if args.konnectivity_san.is_empty() { &args.serving.tls_san } else { &args.konnectivity_san };
    konnectivity::write(&directory, tunnel, now)?;
    if let Some(folder) = &args.parts {
        parts::write(folder, &directory, &pki, &server_config, now)?;
        let server = args.node_server.as_ref().unwrap_or(&servers.components);
        for part in &args.part_nodes {
            nodes::write(folder, &directory, &pki, part, server, now)?;
        }
    }
    Ok(0)
}
