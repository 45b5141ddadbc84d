//! Flags of `oarlock apiserver`; names follow upstream where it has them.

use std::net::IpAddr;
use std::path::PathBuf;

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
    /// Log filter, such as `info` or `oarlock_store=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}
