use oarlock_client::decode;
use oarlock_schema::{Obj, type_of_kind};
use serde_json::{Value, json};

use super::*;
use crate::downward;

fn made(whole: &Value, own: &Value, image: &ImageUser) -> Result<SecurityContext, PodError> {
    let object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"securityContext": whole, "containers": [{"name": "main", "securityContext": own}]}});
    let object: Obj = decode(type_of_kind("", "v1", "Pod").unwrap(), object.to_string().as_bytes()).unwrap();
    let pod = downward::pod(&object);
    security_context(pod, pod.spec().containers().get(0).unwrap(), image, Path::new("/seccomp"))
}

fn user(uid: Option<i64>, name: &str) -> ImageUser {
    ImageUser { uid, name: name.to_owned() }
}

#[test]
fn a_container_says_more_than_its_pod_and_the_pod_more_than_the_image() {
    let whole = json!({"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4, 5]});
    let got = made(&whole, &json!({"runAsUser": 1001}), &user(Some(7), "")).unwrap();
    assert_eq!((got.run_as_user, got.run_as_group), (Some(1001), Some(3000)));
    assert_eq!(got.supplemental_groups, [2000, 4, 5]);
    let got = made(&json!({}), &json!({}), &user(Some(7), "")).unwrap();
    assert_eq!((got.run_as_user, got.run_as_username.as_str()), (Some(7), ""));
    let got = made(&json!({}), &json!({}), &user(None, "nginx")).unwrap();
    assert_eq!((got.run_as_user, got.run_as_username.as_str()), (None, "nginx"));
}

#[test]
fn nothing_said_means_the_usual_confinement() {
    let got = made(&json!({}), &Value::Null, &ImageUser::default()).unwrap();
    assert!(!got.privileged && !got.no_new_privs && !got.readonly_rootfs && !got.strict_groups);
    assert_eq!(got.seccomp, Seccomp::Unconfined);
    assert!(got.masked_paths.contains(&"/proc/kcore".to_owned()));
    assert_eq!(got.readonly_paths, READ_ONLY);
}

#[test]
fn each_right_is_passed_on() {
    let own = json!({
        "privileged": true, "allowPrivilegeEscalation": true, "readOnlyRootFilesystem": true, "procMount": "Unmasked",
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"},
        "seLinuxOptions": {"level": "s0"},
    });
    let whole = json!({"supplementalGroupsPolicy": "Strict", "seccompProfile": {"type": "RuntimeDefault"}});
    let got = made(&whole, &own, &ImageUser::default()).unwrap();
    let want = SecurityContext {
        privileged: true,
        readonly_rootfs: true,
        strict_groups: true,
        add_capabilities: vec!["NET_ADMIN".to_owned()],
        drop_capabilities: vec!["ALL".to_owned()],
        seccomp: Seccomp::Localhost("/seccomp/a/b.json".into()),
        selinux: Some(["", "", "", "s0"].map(str::to_owned)),
        ..SecurityContext::default()
    };
    assert_eq!(got, want);
    let got = made(&whole, &json!({"allowPrivilegeEscalation": false}), &ImageUser::default()).unwrap();
    assert!(got.no_new_privs);
    assert_eq!(got.seccomp, Seccomp::RuntimeDefault);
    let refused = made(&json!({"seccompProfile": {"type": "Localhost"}}), &json!({}), &ImageUser::default());
    assert_eq!(
        refused,
        Err(PodError::Invalid("localhostProfile must be set if seccompProfile type is Localhost.".to_owned()))
    );
}

#[test]
fn who_must_not_be_root_is_not_started_as_root() {
    let must = json!({"runAsNonRoot": true});
    let of = "(pod: \"web_shop(u1)\", container: main)";
    let cases = [
        (json!({"runAsUser": 0}), user(None, ""), format!("container's runAsUser breaks non-root policy {of}")),
        (json!({}), user(Some(0), ""), format!("container has runAsNonRoot and image will run as root {of}")),
        (
            json!({}),
            user(None, "nginx"),
            format!(
                "container has runAsNonRoot and image has non-numeric user (nginx), cannot verify user is non-root {of}"
            ),
        ),
        (
            json!({}),
            user(Some(1 << 31), ""),
            format!(
                "container has runAsNonRoot and image has an invalid user id (2147483648). (Must be 1-(2147483647)): \
                 must be between 0 and 2147483647, inclusive {of}"
            ),
        ),
    ];
    for (own, image, why) in cases {
        assert_eq!(made(&must, &own, &image), Err(PodError::Invalid(why)));
    }
    for (own, image) in [
        (json!({"runAsUser": 5}), user(Some(0), "")),
        (json!({}), user(Some(5), "")),
        (json!({"runAsNonRoot": false}), user(Some(0), "")),
        (json!({}), user(None, "")),
    ] {
        assert!(made(&must, &own, &image).is_ok());
    }
}
