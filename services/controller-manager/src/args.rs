//! Flags of `oarlock controller-manager`.

use std::path::PathBuf;

use oarlock_controllers::{
    ConcurrencyFlags, EndpointSliceSettings, ManagerTable, NodeLifecycleSettings, PodGarbageCollectorSettings, Row,
    Selection, Settings,
};
use oarlock_schema::FeatureGates;

/// Flags of the controller manager.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How to reach the API.
    #[command(flatten)]
    pub api: oarlock_config::ApiOptions,
    /// Which controllers run, and their settings.
    #[command(flatten)]
    pub controllers: ControllerOptions,
    /// Controllers to leave out, by name.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub disable: Vec<String>,
    /// Feature gates to change from the defaults of Kubernetes. A controller whose gate is off does not run. An unknown or locked gate is refused.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "GATE=BOOL,…")]
    pub feature_gates: FeatureGates,
    /// File (PEM) with the authorities for ConfigMap `kube-root-ca.crt`. Without this flag those of the kubeconfig.
    #[arg(long, value_name = "FILE")]
    pub root_ca_file: Option<PathBuf>,
    /// How to reach NATS, which connects this process to the other processes besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Port of this process's own server, for health and metrics; 0 starts no server. Two processes of one host need different ports.
    #[arg(long, default_value_t = 10257, value_name = "PORT")]
    pub secure_port: u16,
    /// Flags of the process's own server.
    #[command(flatten)]
    pub serving: oarlock_config::SecureServingOptions,
    /// Where spans go.
    #[command(flatten)]
    pub tracing: oarlock_config::TracingOptions,
    /// Log filter, such as `info` or `oarlock_controllers=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}

/// Flags that select controllers and configure them, for every command that has controllers in it; names are upstream's.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct ControllerOptions {
    /// Controllers to run: `*` is all that are on by default, `foo` this one, `-foo` not this one; of several entries for a controller the first counts.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true, value_name = "NAME,…", long_help = help())]
    pub controllers: Vec<String>,
    /// Settings of node-lifecycle-controller.
    #[command(flatten)]
    pub node_lifecycle: NodeLifecycleSettings,
    /// Settings of pod-garbage-collector-controller.
    #[command(flatten)]
    pub pod_garbage_collector: PodGarbageCollectorSettings,
    /// Settings of endpointslice-controller.
    #[command(flatten)]
    pub endpointslice: EndpointSliceSettings,
    /// Numbers of keys that controllers reconcile at once.
    #[command(flatten)]
    pub concurrency: ConcurrencyFlags<ManagerTable>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            controllers: vec!["*".to_owned()],
            node_lifecycle: NodeLifecycleSettings::default(),
            pod_garbage_collector: PodGarbageCollectorSettings::default(),
            endpointslice: EndpointSliceSettings::default(),
            concurrency: ConcurrencyFlags::default(),
        }
    }
}

impl ControllerOptions {
    /// Returns the controllers to run, without those that `--disable` names.
    #[must_use]
    pub fn selection(&self, disable: &[String]) -> Selection {
        Selection::new(&self.controllers, disable)
    }

    /// Returns the settings of all controllers.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let Self { controllers: _, node_lifecycle, pod_garbage_collector, endpointslice, concurrency } = self.clone();
        let settings = Settings::default().with(node_lifecycle).with(pod_garbage_collector).with(endpointslice);
        settings.with(concurrency.counts())
    }
}

/// Returns the long help of `--controllers`, with the names the flag accepts.
fn help() -> String {
    let names = |wanted: fn(&Row) -> bool| {
        let rows = oarlock_controllers::rows().iter().filter(|row| wanted(row));
        let names: Vec<&str> = rows.map(|row| row.name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    format!(
        "Controllers to run: `*` is all that are on by default, `foo` this one, `-foo` not this one; of several entries for a controller the first \
         counts. Names of earlier releases (`deployment`, `podgc`) are accepted too.\nAll controllers: {}.\nOff by default: {}.",
        names(|_| true),
        names(|row| !row.on_by_default)
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ControllerOptions,
    }

    fn parse(line: &[&str]) -> Result<ControllerOptions, String> {
        let line = ["oarlock"].iter().chain(line);
        Line::try_parse_from(line).map(|line| line.options).map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_every_setting_has_its_default() {
        assert_eq!(parse(&[]), Ok(ControllerOptions::default()));
    }

    #[test]
    fn every_setting_has_upstreams_flag() {
        let options = parse(&[
            "--controllers=*,-podgc",
            "--node-monitor-grace-period=1m30s",
            "--node-startup-grace-period=2m",
            "--node-eviction-rate=0.5",
            "--secondary-node-eviction-rate=0",
            "--large-cluster-size-threshold=10",
            "--unhealthy-zone-threshold=0.7",
            "--terminated-pod-gc-threshold=-1",
            "--max-endpoints-per-slice=1000",
            "--concurrent-deployment-syncs=1",
        ])
        .unwrap();
        assert_eq!(options.controllers, ["*", "-podgc"]);
        let seconds = |duration: std::time::Duration| duration.as_secs();
        let node = options.node_lifecycle;
        assert_eq!((seconds(node.node_monitor_grace_period), seconds(node.node_startup_grace_period)), (90, 120));
        assert_eq!((node.node_eviction_rate, node.secondary_node_eviction_rate), (0.5, 0.0));
        assert_eq!((node.large_cluster_size_threshold, node.unhealthy_zone_threshold), (10, 0.7));
        assert_eq!(options.pod_garbage_collector.terminated_pod_gc_threshold, -1);
        assert_eq!(options.endpointslice.max_endpoints_per_slice, 1000);
        let workers: Vec<usize> = oarlock_controllers::rows()
            .iter()
            .filter(|row| ["deployment-controller", "job-controller"].contains(&row.name))
            .map(|row| options.concurrency.workers(row))
            .collect();
        assert_eq!(workers, [1, 16]);
        let error = parse(&["--max-endpoints-per-slice=0"]).unwrap_err();
        assert!(error.contains("max-endpoints-per-slice can't be less than 1, but got 0"), "{error}");
    }

    #[test]
    fn the_help_names_every_controller() {
        let help = help();
        assert!(oarlock_controllers::rows().iter().all(|row| help.contains(row.name)), "{help}");
    }
}
