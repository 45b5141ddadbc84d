//! Flags of `oarlock apiserver`; names follow upstream where it has them.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use oarlock_store::DEFAULT_WINDOW_BYTES;

/// Flags of the API server.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where the state is kept: `embedded:DIR`, or `memory`.
    #[arg(long, default_value = "embedded:./.oarlock/store", value_name = "STORE")]
    pub store: String,
    /// Where keys and kubeconfigs are kept.
    #[arg(long, default_value = "./.oarlock", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub bind_address: IpAddr,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// Address under which others reach this server, never a loopback address.
    #[arg(long, value_name = "IP")]
    pub advertise_address: Option<IpAddr>,
    /// How much of the state's history is kept at hand.
    #[command(flatten)]
    pub store_options: StoreOptions,
    /// How kubelets are reached.
    #[command(flatten)]
    pub kubelets: KubeletOptions,
    /// Log filter, such as `info` or `oarlock_store=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}

/// The least a watch window may be: far below it every other event would be too large to be watched at all.
const LEAST_WINDOW: u64 = 1 << 20;

/// Flags of the store, for every command that has an API server in it.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreOptions {
    /// Bytes of history kept in memory for watches and lists of old revisions, all resources together; at least 1 MiB.
    /// Who asks for anything older gets 410 Expired and lists anew.
    #[arg(long, default_value_t = DEFAULT_WINDOW_BYTES, value_name = "BYTES", value_parser = window_bytes())]
    pub watch_window_bytes: usize,
}

/// As kubeadm has it: names of nodes are rarely known to the machine of the API server.
const ADDRESS_TYPES: &str = "InternalIP,ExternalIP,Hostname";

/// Flags about the way to kubelets, for every command that has an API server in it; names are upstream's.
#[derive(Clone, Debug, clap::Args)]
pub struct KubeletOptions {
    /// Client certificate that is shown to kubelets. Without it the data directory's, `kube-apiserver-kubelet-client`.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    pub kubelet_client_key: Option<PathBuf>,
    /// Authorities that must have signed kubelets' certificates. Without it the data directory's; an empty name believes every kubelet.
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Which of a node's addresses is called, best first.
    #[arg(long, value_delimiter = ',', default_value = ADDRESS_TYPES, value_name = "TYPE,…")]
    pub kubelet_preferred_address_types: Vec<String>,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        let types = ADDRESS_TYPES.split(',').map(str::to_owned).collect();
        Self {
            kubelet_client_certificate: None,
            kubelet_client_key: None,
            kubelet_certificate_authority: None,
            kubelet_preferred_address_types: types,
        }
    }
}

fn window_bytes() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(LEAST_WINDOW..)
}

impl From<StoreOptions> for oarlock_store::Options {
    fn from(flags: StoreOptions) -> Self {
        Self { window_bytes: flags.watch_window_bytes, ..Self::default() }
    }
}
