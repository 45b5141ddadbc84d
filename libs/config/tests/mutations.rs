//! A damaged kubeconfig is refused with its name, or read soundly; never a panic.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use oarlock_config::Kubeconfig;
use oarlock_testkit::damaged_text;

const FOREIGN: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: \"https://h:1/p\", certificate-authority: nowhere/ca.crt, tls-server-name: n}\n- name: d\n  cluster: {server: \"https://[::1]:6443\", insecure-skip-tls-verify: true}\nusers:\n- name: u\n  user: {tokenFile: nowhere/token, as: other}\n- name: t\n  user: {token: abc, exec: null}\ncontexts:\n- name: x\n  context: {cluster: c, user: u, namespace: n}\n- name: y\n  context: {cluster: d, user: t}\ncurrent-context: y\npreferences: {}\nextensions: [{name: e, extension: [1, {a: b}]}]\n";

#[test]
fn damaged_kubeconfigs_are_refused_or_read_soundly() {
    let file = Path::new("/nowhere/config");
    let own = Kubeconfig::embedded("c", "https://127.0.0.1:6443", "CA\n", "u", "CERT\n", "KEY\n").to_yaml().unwrap();
    let (mut read, mut resolved) = (0, 0);
    for text in [own.as_str(), FOREIGN].into_iter().flat_map(|whole| damaged_text(1, whole, 3000)) {
        match Kubeconfig::parse(&text, file) {
            Ok(config) => {
                read += 1;
                let written = config.to_yaml().unwrap();
                let again = Kubeconfig::parse(&written, file).unwrap();
                assert_eq!(again.to_yaml().unwrap(), written, "{text}");
                for context in [None, Some("x")] {
                    match config.resolve(context) {
                        Ok(endpoint) => {
                            resolved += 1;
                            assert!(!endpoint.server.is_empty() && !endpoint.server.ends_with('/'), "{text}");
                        }
                        Err(error) => assert!(error.to_string().contains("/nowhere/"), "{error}"),
                    }
                }
            }
            Err(error) => assert!(error.to_string().starts_with("/nowhere/config"), "{error}"),
        }
    }
    assert!(read > 1000 && resolved > 500, "only {read} were still readable, {resolved} of use");
}
