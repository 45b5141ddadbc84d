//! Tests with typical kubeconfig files and typical mistakes in them.

use std::path::Path;

use super::*;

const FILE: &str = "/home/me/.kube/config";

fn parse(text: &str) -> Kubeconfig {
    Kubeconfig::parse(text, Path::new(FILE)).unwrap()
}

fn refusal(text: &str) -> String {
    let error = match Kubeconfig::parse(text, Path::new(FILE)) {
        Ok(config) => config.resolve(None).unwrap_err(),
        Err(error) => error,
    };
    let text = error.to_string();
    assert!(text.starts_with(FILE), "names the file: {text}");
    text
}

fn with(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

const SERVER: &str = "{server: 'https://127.0.0.1:6443'}";

#[test]
fn what_is_written_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/kubeconfig");
    let written =
        Kubeconfig::embedded("oarlock", "https://127.0.0.1:6443", "CA\n", "kubernetes-super-admin", "CERT\n", "KEY\n");
    written.write(&path).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let read = Kubeconfig::read(&path).unwrap();
    assert_eq!(read.current_context, "kubernetes-super-admin@oarlock");
    let endpoint = read.resolve(None).unwrap();
    assert_eq!(endpoint.server, "https://127.0.0.1:6443");
    assert_eq!(endpoint.authority(), "127.0.0.1:6443");
    assert_eq!(endpoint.trust, ServerTrust::Authorities("CA\n".to_owned()));
    let key = ClientKey { certificate: "CERT\n".to_owned(), key: "KEY\n".to_owned() };
    assert!(endpoint.credential == Credential::Certificate(key));
}

#[test]
fn other_servers_take_the_place_of_the_one_that_is_named() {
    let config = Kubeconfig::parse(&with(SERVER, "{}"), Path::new("/config")).unwrap();
    let endpoint = config.resolve(None).unwrap();
    let at = |servers: &[&str]| endpoint.clone().at(&servers.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
    let servers = |servers: &[&str]| at(servers).unwrap().servers().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(servers(&[]), ["https://127.0.0.1:6443"]);
    assert_eq!(servers(&["https://a:1/", "https://b"]), ["https://a:1", "https://b"]);
    for wrong in ["http://a", "https://", "a:6443", ""] {
        let error = at(&["https://a", wrong]).unwrap_err().to_string();
        assert!(error.starts_with("server: ") && error.contains(wrong), "{error}");
    }
}

#[test]
fn file_references_are_relative_to_the_kubeconfig() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.crt"), "CA").unwrap();
    let text = with("{server: 'https://h:1', certificate-authority: ca.crt}", "{tokenFile: token}");
    let path = dir.path().join("config");
    std::fs::write(&path, text).unwrap();
    let endpoint = Kubeconfig::read(&path).unwrap().resolve(None).unwrap();
    assert_eq!(endpoint.trust, ServerTrust::Authorities("CA".to_owned()));
    assert!(endpoint.credential == Credential::TokenFile(dir.path().join("token")));
}

#[test]
fn json_nulls_and_unknown_fields_are_taken() {
    let text = r#"{"apiVersion":"v1","kind":"Config","preferences":{},"users":null,"extensions":[{"name":"x"}],
        "clusters":[{"name":"c","cluster":{"server":"https://h:1/","disable-compression":true}}],
        "contexts":[{"name":"x","context":{"cluster":"c","user":"","namespace":"n"}}],"current-context":"x"}"#;
    let endpoint = parse(text).resolve(None).unwrap();
    assert_eq!(endpoint.server, "https://h:1");
    assert_eq!(endpoint.namespace.as_deref(), Some("n"));
    assert!(endpoint.credential == Credential::None);
    assert_eq!(endpoint.trust, ServerTrust::System);
}

#[test]
fn another_context_can_be_asked_for() {
    let mut config = parse(&with(SERVER, "{token: t}"));
    let mut second = config.contexts[0].clone();
    second.name = "y".to_owned();
    second.context.namespace = "other".to_owned();
    config.contexts.push(second);
    assert_eq!(config.resolve(Some("y")).unwrap().namespace.as_deref(), Some("other"));
    assert!(config.resolve(Some("z")).unwrap_err().to_string().contains("\"z\""));
}

#[test]
fn credential_plugins_are_refused_by_name() {
    let text = refusal(&with(SERVER, "{exec: {command: aws, apiVersion: client.authentication.k8s.io/v1}}"));
    assert!(text.contains("users[u].user.exec: credential plugins are not supported"), "{text}");
    assert!(refusal(&with(SERVER, "{auth-provider: {name: gcp}}")).contains("users[u].user.auth-provider"));
    assert!(refusal(&with(SERVER, "{username: a, password: b}")).contains("users[u].user.username"));
}

#[test]
fn every_refusal_names_the_field() {
    for (text, field) in [
        (with("{server: 'http://h'}", "{}"), "clusters[c].cluster.server"),
        (with("{server: ''}", "{}"), "clusters[c].cluster.server"),
        (with("{server: 'https://'}", "{}"), "clusters[c].cluster.server"),
        (
            with("{server: 'https://h', certificate-authority: /no/such}", "{}"),
            "clusters[c].cluster.certificate-authority: read /no/such",
        ),
        (
            with("{server: 'https://h', certificate-authority-data: '%%'}", "{}"),
            "clusters[c].cluster.certificate-authority-data",
        ),
        (with("{server: 'https://h', proxy-url: 'http://p'}", "{}"), "clusters[c].cluster.proxy-url"),
        (
            with("{server: 'https://h', insecure-skip-tls-verify: true, certificate-authority-data: QQ==}", "{}"),
            "insecure-skip-tls-verify",
        ),
        (with(SERVER, "{client-certificate-data: QQ==}"), "users[u].user.client-key"),
        (with(SERVER, "{client-key-data: QQ==}"), "users[u].user.client-certificate"),
        ("apiVersion: v2".to_owned(), "apiVersion"),
        ("kind: Pod".to_owned(), "kind"),
        ("{}".to_owned(), "current-context"),
        ("current-context: x".to_owned(), "contexts"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c}}]}".to_owned(),
            "contexts[x].context.cluster",
        ),
        ("clusters: 7".to_owned(), "clusters"),
        ("a: [".to_owned(), "line"),
    ] {
        let refusal = refusal(&text);
        assert!(refusal.contains(field), "{refusal} should name {field}");
    }
}

#[test]
fn debug_shows_no_secret() {
    let config = parse(&with(SERVER, "{token: hunter2, client-key-data: aHVudGVyMw==}"));
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMw"), "{shown}");
}
