//! Flags with invalid values.

use std::process::Command;

use oarlock_testkit::Cluster;
use oarlock_testkit::http::Who;
use oarlock_testkit::wait::eventually;
use serde_json::json;

#[test]
fn a_watch_window_that_holds_nothing_is_refused_by_its_name() {
    for command in ["up", "apiserver"] {
        for value in ["0", "1048575", "-1", "1Mi", ""] {
            let flag = format!("--watch-window-bytes={value}");
            let ran = Command::new(oarlock_testkit::oarlock()).args([command, &flag]).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(2), "{command} {flag}: {said}");
            assert!(said.contains("'--watch-window-bytes <BYTES>'"), "{command} {flag}: {said}");
        }
        let help = Command::new(oarlock_testkit::oarlock()).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8_lossy(&help.stdout);
        assert!(help.contains("--watch-window-bytes <BYTES>") && help.contains("410 Expired"), "{help}");
        assert!(help.contains("[default: 67108864]"), "{help}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named_with_its_flag_and_the_reason() {
    for command in ["up", "apiserver"] {
        let ran = Command::new(oarlock_testkit::oarlock()).args([command, "--data-dir", "/proc/none/data"]).output();
        let ran = ran.unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{command}: {said}");
        let expected = "--data-dir /proc/none/data: the folder cannot be made below /proc: ";
        assert!(said.contains(expected), "{command}: {said}");
    }
}

#[test]
fn a_bad_egress_selection_is_named_with_flag_file_field_and_value() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("egress.yaml"), folder.path().join("key.pem"));
    let head = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n";
    std::fs::write(&key, "no key").unwrap();
    let key = key.display();
    let tls = format!("{{caBundle: {key}, clientCert: {key}, clientKey: {key}}}");
    for (selection, expected) in [
        (
            "{name: cluster, connection: {proxyProtocol: TCP}}".to_owned(),
            "egressSelections[0].connection.proxyProtocol: Unsupported value: \"TCP\"".to_owned(),
        ),
        ("{name: cluster, conection: {}}".to_owned(), "unknown field `conection`".to_owned()),
        (
            format!(
                "{{name: cluster, connection: {{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: \"https://h:1\", tlsConfig: {tls}}}}}}}}}"
            ),
            format!("egressSelections[0]: tlsConfig.caBundle: \"{key}\" holds no certificate"),
        ),
    ] {
        std::fs::write(&file, format!("{head}- {selection}\n")).unwrap();
        for command in ["up", "apiserver"] {
            let mut ran = Command::new(oarlock_testkit::oarlock());
            ran.args([command, "--data-dir"]).arg(folder.path().join("data"));
            let ran = ran.arg("--egress-selector-config-file").arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(1), "{command}: {said}");
            let at = format!("--egress-selector-config-file: {}: ", file.display());
            assert!(said.contains(&at) && said.contains(&expected), "{command}: {expected}\n{said}");
        }
    }
    let help = Command::new(oarlock_testkit::oarlock()).args(["apiserver", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout);
    assert!(help.contains("--egress-selector-config-file <FILE>") && help.contains("--max-streams <N>"), "{help}");
}

#[test]
fn an_empty_path_is_as_good_as_none() {
    // The command parses all flags and then fails because of the folder.
    let flags = ["--data-dir", "/proc/none", "--etcd-cafile=", "--kubelet-certificate-authority", "", "--nats-ca="];
    let ran = Command::new(oarlock_testkit::oarlock()).arg("up").args(flags).args(["--nats-servers", "x"]).output();
    let said = String::from_utf8_lossy(&ran.unwrap().stderr).into_owned();
    assert!(said.contains("the folder cannot be made"), "{said}");
    let refused = Command::new(oarlock_testkit::oarlock()).args(["up", "--data-dir="]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "a folder for the state is needed");
}

#[test]
fn events_are_kept_for_as_long_as_the_flag_says() {
    let cluster = Cluster::up(&["--disable", "scheduler,controller-manager,kubelet", "--event-ttl", "1s"]);
    let server = cluster.http(Who::Admin);
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "R"});
    let made = server.json("POST", "/api/v1/namespaces/default/events", &event);
    assert_eq!(made.code, 201, "{made}");
    eventually("the event is gone", || {
        let answer = server.get("/api/v1/namespaces/default/events/e");
        if answer.code == 404 { Ok(()) } else { Err(answer) }
    });
}
