//! Flags of these HTTPS servers: invalid values, and flags that change which clients are authenticated.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
use oarlock_runtime::clock;

use super::*;

/// Returns the error of a scheduler that does not start with these flags.
fn refused(cluster: &Cluster, flags: &[&str]) -> String {
    let kubeconfig = cluster.data_dir().component_kubeconfig("scheduler");
    let mut command = Command::new(oarlock());
    let Output { status, stderr, .. } =
        command.arg("scheduler").arg("--kubeconfig").arg(kubeconfig).args(flags).output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success(), "{said}");
    said
}

#[test]
fn what_cannot_be_served_is_refused_by_the_flag_that_asks_for_it() {
    let cluster = Cluster::up(&API_ONLY);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let held = TcpListener::bind(("127.0.0.1", taken)).unwrap();
    let said = refused(&cluster, &["--bind-address", "127.0.0.1", "--secure-port", &taken.to_string()]);
    assert!(
        said.contains(&format!("--bind-address 127.0.0.1 --secure-port {taken}: Address already in use")),
        "{said}"
    );
    drop(held);

    let pki = cluster.data_dir().pki();
    let path = |name: &str| pki.join(name).display().to_string();
    let at = port::own().to_string();
    let with = |certificate: &str, key: &str| {
        refused(&cluster, &["--secure-port", &at, "--tls-cert-file", certificate, "--tls-private-key-file", key])
    };
    for (certificate, key, why) in [
        ("apiserver.crt", "ca.key", "does not belong to the key"),
        ("apiserver.crt", "apiserver.crt", "apiserver.crt: "),
        ("apiserver.key", "apiserver.key", "apiserver.key: no certificate"),
        ("nothing.crt", "apiserver.key", "nothing.crt: No such file"),
    ] {
        let said = with(&path(certificate), &path(key));
        assert!(said.contains("--tls-cert-file, --tls-private-key-file: ") && said.contains(why), "{said}");
    }
    let said = refused(&cluster, &["--tls-cert-file", &path("apiserver.crt")]);
    assert!(said.contains("--tls-private-key-file"), "{said}");
    let said = refused(&cluster, &["--secure-port", &at, "--client-ca-file", &path("apiserver.key")]);
    assert!(said.contains("--client-ca-file: "), "{said}");
}

/// A certificate of the cluster's authority and its key, as files.
fn signed(cluster: &Cluster) -> [PathBuf; 2] {
    let read = |name: &str| std::fs::read_to_string(cluster.data_dir().pki().join(name)).unwrap();
    let authority = Authority::from_pem(&read("ca.crt"), &read("ca.key")).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(clock::wall().as_second()).unwrap()));
    let leaf = Leaf::server(Subject::named("scheduler"), vec![San::Ip([127, 0, 0, 1].into())]);
    let issued = authority.issue(&leaf, now).unwrap();
    [cluster.file("own.crt", &issued.certificate_pem()), cluster.file("own.key", &issued.key.to_pem())]
}

#[test]
fn a_part_shows_the_certificate_it_is_given_and_opens_the_paths_it_is_told() {
    let cluster = Cluster::up(&API_ONLY);
    let [certificate, key] = signed(&cluster).map(|path| path.display().to_string());
    let kubeconfig = cluster.data_dir().component_kubeconfig("scheduler").display().to_string();
    let flags = ["--kubeconfig", &kubeconfig, "--tls-cert-file", &certificate, "--tls-private-key-file", &key];
    let open = ["--authorization-always-allow-paths", "/livez,/metrics,/readyz*"];
    let part = Part::start("scheduler", &[&flags[..], &open].concat(), |_| ());
    eventually("it is ready", || part.probe("/readyz/informer-sync"));
    let believing = |trusted: PathBuf| {
        let server = format!("https://127.0.0.1:{}", part.port);
        let mut command = Command::new(oarlock());
        command.args(["probe", "--server", &server, "--path", "/metrics", "--certificate-authority"]).arg(trusted);
        command.status().unwrap().success()
    };
    assert!(believing(cluster.data_dir().pki().join("ca.crt")));
    assert!(!believing(cluster.data_dir().pki().join("front-proxy-ca.crt")));
    let nobody = part.http(&cluster.kubeconfig(), Who::Anonymous);
    assert_eq!(nobody.get("/debug/actors").code, 403, "only what is named is open");
    assert_eq!(nobody.get("/healthz").code, 200, "upstream's role system:public-info-viewer");
    assert_eq!(nobody.get("/readyz/nothing").code, 404);
}
