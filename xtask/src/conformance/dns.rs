//! The cluster's DNS: CoreDNS beside the control plane, and the Service by which pods reach it.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context, ensure};

use super::control_plane::ControlPlane;
use super::daemon::Daemon;
use super::network::CONTROL;
use super::place::Place;
use super::programs::Programs;

/// The address of the Service.
pub(crate) const SERVICE: &str = "10.96.0.10";

/// Starts CoreDNS, and makes the Service `kube-dns`.
pub(crate) fn start(place: &Place, programs: &Programs, plane: &ControlPlane) -> anyhow::Result<()> {
    let kubeconfig = plane.kubeconfig.display();
    let config = place.state().join("Corefile");
    let text = format!(
        ".:53 {{\n bind {CONTROL}\n errors\n kubernetes cluster.local in-addr.arpa {{\n  kubeconfig {kubeconfig}\n  pods insecure\n }}\n}}\n"
    );
    std::fs::write(&config, text)?;
    let args = ["-conf".to_owned(), config.display().to_string()];
    drop(Daemon::new(place, "coredns", &place.control()).start(&programs.tool("coredns"), args)?);
    apply(place, programs, plane)
}

fn apply(place: &Place, programs: &Programs, plane: &ControlPlane) -> anyhow::Result<()> {
    let manifest = format!(
        r#"apiVersion: v1
kind: Service
metadata: {{name: kube-dns, namespace: kube-system}}
spec:
  clusterIP: {SERVICE}
  ports: [{{name: dns, port: 53, protocol: UDP}}, {{name: dns-tcp, port: 53, protocol: TCP}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: kube-dns, namespace: kube-system, labels: {{kubernetes.io/service-name: kube-dns}}}}
addressType: IPv4
endpoints: [{{addresses: [{CONTROL}], conditions: {{ready: true}}}}]
ports: [{{name: dns, port: 53, protocol: UDP}}, {{name: dns-tcp, port: 53, protocol: TCP}}]
"#
    );
    let mut apply = place.beside(&programs.tool("kubectl"));
    apply.arg("--kubeconfig").arg(&plane.kubeconfig).args(["apply", "-f", "-"]);
    let mut child = apply.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("kubectl reads")?.write_all(manifest.as_bytes())?;
    let out = child.wait_with_output()?;
    ensure!(out.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&out.stderr));
    Ok(())
}
