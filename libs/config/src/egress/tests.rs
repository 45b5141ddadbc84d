//! Files that are read, and files that are refused.

use std::path::Path;

use super::*;

const HEAD: &str = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n";

fn read(content: &str) -> Result<Vec<EgressSelection>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("egress.yaml");
    std::fs::write(&path, content).unwrap();
    EgressOptions { egress_selector_config_file: Some(path) }.read()
}

/// A file with one selection, whose connection is in flow style.
fn one(name: &str, connection: &str) -> String {
    format!("{HEAD}egressSelections:\n- name: {name}\n  connection: {connection}\n")
}

fn connection(written: &str) -> EgressConnection {
    read(&one("cluster", written)).unwrap().remove(0).connection
}

#[test]
fn without_the_flag_or_selections_every_connection_is_direct() {
    assert_eq!(EgressOptions::default().read().unwrap(), []);
    assert_eq!(read(HEAD).unwrap(), []);
    assert_eq!(read(&format!("{HEAD}egressSelections: []\n")).unwrap(), []);
}

#[test]
fn each_way_of_upstream_is_read() {
    assert_eq!(connection("{proxyProtocol: Direct}"), EgressConnection::Direct);
    let socket = "transport: {uds: {udsName: /run/konnectivity.sock}}";
    let path = PathBuf::from("/run/konnectivity.sock");
    assert_eq!(connection(&format!("{{proxyProtocol: GRPC, {socket}}}")), EgressConnection::Grpc(path.clone()));
    assert_eq!(
        connection(&format!("{{proxyProtocol: HTTPConnect, {socket}}}")),
        EgressConnection::HttpConnect(EgressProxy::Unix(path))
    );
    for (url, address) in [("http://tunnel:8131", "tunnel:8131"), ("http://[::1]:8131/", "[::1]:8131")] {
        let plain = connection(&format!("{{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: \"{url}\"}}}}}}"));
        assert_eq!(plain, EgressConnection::HttpConnect(EgressProxy::Plain(address.to_owned())));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let there = file.path().display();
    for (ca, expected) in [(format!("caBundle: {there}, "), Some(file.path().to_owned())), (String::new(), None)] {
        let tls = connection(&format!(
            "{{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: \"https://tunnel:8131\", tlsConfig: {{{ca}clientCert: {there}, clientKey: {there}}}}}}}}}"
        ));
        let files = EgressTls {
            ca_bundle: expected,
            client_certificate: file.path().to_owned(),
            client_key: file.path().to_owned(),
        };
        assert_eq!(tls, EgressConnection::HttpConnect(EgressProxy::Tls("tunnel:8131".to_owned(), files)));
    }
}

#[test]
fn names_are_upstreams_in_every_version() {
    for (name, expected) in [
        ("cluster", EgressName::Cluster),
        ("Cluster", EgressName::Cluster),
        ("controlplane", EgressName::ControlPlane),
        ("master", EgressName::ControlPlane),
        ("etcd", EgressName::Etcd),
    ] {
        for version in ["v1alpha1", "v1beta1"] {
            let content = one(name, "{proxyProtocol: Direct}").replace("v1beta1", version);
            assert_eq!(read(&content).unwrap().remove(0).name, expected, "{name}");
        }
    }
}

#[test]
fn an_error_names_file_field_and_value() {
    let http = |inside: &str| one("cluster", &format!("{{proxyProtocol: HTTPConnect, transport: {{{inside}}}}}"));
    let grpc = |inside: &str| one("cluster", &format!("{{proxyProtocol: GRPC, transport: {{{inside}}}}}"));
    let of = |field: &str, text: &str| format!("egressSelections[0].connection.{field}: {text}");
    let twice = format!("{}- name: Cluster\n  connection: {{proxyProtocol: Direct}}\n", one("cluster", "{}"));
    for (content, expected) in [
        (one("cluster", "{}"), of("proxyProtocol", "Unsupported value: \"\": supported values: \"Direct\", \"HTTPConnect\", \"GRPC\"")),
        (one("cluster", "{proxyProtocol: direct}"), of("proxyProtocol", "Unsupported value: \"direct\"")),
        (one("node", "{proxyProtocol: Direct}"), "egressSelections[0].name: Unsupported value: \"node\": supported values: \"cluster\", \"controlplane\", \"etcd\"".to_owned()),
        (one("Master", "{proxyProtocol: Direct}"), "egressSelections[0].name: Unsupported value: \"master\"".to_owned()),
        (twice, "egressSelections[1].name: Duplicate value: \"cluster\"".to_owned()),
        (one("cluster", "{proxyProtocol: Direct, transport: {}}"), of("transport", "Invalid value: \"direct\": config must be absent for direct connect")),
        (one("cluster", "{proxyProtocol: GRPC}"), of("transport", "Required value: transport must be set for GRPC")),
        (one("cluster", "{proxyProtocol: HTTPConnect}"), of("transport", "Required value: transport must be set for HTTPConnect")),
        (grpc(""), of("transport.uds", "Required value: UDS must be set with GRPC")),
        (grpc("tcp: {url: \"http://t:1\"}"), of("transport.tcp", "Forbidden: GRPC is supported over UDS only")),
        (grpc("uds: {}"), of("transport.uds.udsName", "Invalid value: \"\": must be present for UDS connections")),
        (http(""), of("transport.tcp", "Required value: One of TCP or UDS must be set")),
        (http("uds: {udsName: /s}, tcp: {url: \"https://t:1\", tlsConfig: {}}"), of("transport.tcp", "Invalid value: \"https://t:1\": TCP and UDS cannot both be set")),
        (http("uds: {udsName: \"\"}"), of("transport.uds.udsName", "Invalid value: \"\"")),
        (http("tcp: {url: \"t:1\"}"), of("transport.tcp.url", "Invalid value: \"t:1\": supported connection protocols are http:// and https://")),
        (http("tcp: {url: \"http://t\"}"), of("transport.tcp.url", "Invalid value: \"http://t\": must have a host and a port")),
        (http("tcp: {url: \"http://t:70000\"}"), of("transport.tcp.url", "Invalid value: \"http://t:70000\"")),
        (http("tcp: {url: \"http://t:1\", tlsConfig: {}}"), of("transport.tcp.tlsConfig", "Invalid value: \"http://t:1\": config must not be present when using HTTP")),
        (http("tcp: {url: \"https://t:1\"}"), of("transport.tcp.tlsConfig", "Required value: TLSConfig must be present when using HTTPS")),
        (http("tcp: {url: \"https://t:1\", tlsConfig: {}}"), of("transport.tcp.tlsConfig.clientCert", "Invalid value: \"\": Using TLS requires clientCert")),
        (http("tcp: {url: \"https://t:1\", tlsConfig: {}}"), of("transport.tcp.tlsConfig.clientKey", "Invalid value: \"\": Using TLS requires clientKey")),
        (http("tcp: {url: \"https://t:1\", tlsConfig: {caBundle: /no/ca}}"), of("transport.tcp.tlsConfig.caBundle", "Invalid value: \"/no/ca\": TLS config ca bundle does not exist")),
        (http("tcp: {url: \"https://t:1\", tlsConfig: {clientCert: /no/c}}"), of("transport.tcp.tlsConfig.clientCert", "Invalid value: \"/no/c\": TLS client cert does not exist")),
        (http("tcp: {url: \"https://t:1\", tlsConfig: {clientKey: /no/k}}"), of("transport.tcp.tlsConfig.clientKey", "Invalid value: \"/no/k\": TLS client key does not exist")),
        (http("udp: {}"), "unknown field `udp`".to_owned()),
        (format!("{HEAD}selections: []\n"), "unknown field `selections`".to_owned()),
        (one("cluster", "{proxyProtocol: Direct}\n  connection: {}"), "duplicate field `connection`".to_owned()),
        (HEAD.replace("v1beta1", "v1"), "apiVersion: \"apiserver.k8s.io/v1\" is not one of apiserver.k8s.io/v1beta1, apiserver.k8s.io/v1alpha1".to_owned()),
        (HEAD.replace("Egress", "Ingress"), "kind: \"IngressSelectorConfiguration\"".to_owned()),
        (String::new(), "missing field `apiVersion`".to_owned()),
    ] {
        let error = read(&content).unwrap_err().to_string();
        assert!(error.contains(&expected) && error.contains("egress.yaml: "), "{expected}\n{error}");
    }
    let absent = EgressOptions { egress_selector_config_file: Some(Path::new("/no/egress.yaml").to_owned()) };
    assert!(absent.read().unwrap_err().to_string().contains("/no/egress.yaml: No such file"));
}

#[test]
fn all_errors_of_a_file_are_shown_at_once() {
    let error = read(&one("node", "{proxyProtocol: GRPC}")).unwrap_err().to_string();
    assert!(error.contains("[0].name: ") && error.contains("[0].connection.transport: "), "{error}");
}
