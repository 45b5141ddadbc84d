//! What the chart renders: rules about every object, in each mode.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::helm::{EVERYTHING, Helm, MODES, repository};
use super::rules::{faults, items, name, pods};

/// Secrets that the values of the tests name.
const OUTSIDE: [&str; 3] = ["etcd", "provider", "host"];

#[track_caller]
fn sound(objects: &[Value]) {
    assert_eq!(faults(objects, &OUTSIDE), Vec::<String>::new());
}

fn names(objects: &[Value], kind: &str) -> Vec<String> {
    let of_kind = objects.iter().filter(|object| object["kind"] == kind);
    of_kind.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn helm_finds_no_fault_in_the_chart() {
    let Some(helm) = Helm::new() else { return };
    let chart = repository("helm/oarlock");
    let ran = helm.run(&["lint", "--strict", chart.to_str().unwrap()]);
    assert!(ran.code == 0 && ran.out.contains("1 chart(s) linted, 0 chart(s) failed"), "{}{}", ran.out, ran.err);
}

#[test]
fn every_object_of_every_mode_keeps_the_rules() {
    let Some(helm) = Helm::new() else { return };
    for (mode, _) in MODES {
        sound(&helm.mode(mode, &[]));
    }
    sound(&helm.mode("full", &EVERYTHING));
    sound(&helm.mode(
        "full",
        &["etcd.replicas=1", "nats.enabled=false", "networkPolicies.enabled=false", "snapshots.enabled=false"],
    ));
    sound(&helm.mode("scheduler-only", &["existing.kubeconfigSecret=host"]));
    let monitored = helm.template("rel", &EVERYTHING, &["--api-versions", "monitoring.coreos.com/v1"]);
    assert_eq!(names(&monitored, "ServiceMonitor").len(), 6);
    assert_eq!(names(&monitored, "PrometheusRule"), ["rel-rules"]);
    sound(&monitored);
}

#[test]
fn a_mode_has_its_parts_and_no_others() {
    let Some(helm) = Helm::new() else { return };
    let workloads = |mode: &str| {
        let objects = helm.mode(mode, &[]);
        [names(&objects, "Deployment"), names(&objects, "StatefulSet")].concat().into_iter().collect::<BTreeSet<_>>()
    };
    let set = |parts: &[&str]| parts.iter().map(|part| format!("rel-{part}")).collect::<BTreeSet<_>>();
    assert_eq!(workloads("full"), set(&["admission", "apiserver", "controller-manager", "etcd", "nats", "scheduler"]));
    assert_eq!(workloads("scheduler-only"), set(&["scheduler"]));
    assert_eq!(workloads("controllers-only"), set(&["controller-manager"]));
    assert_eq!(workloads("apiserver-over-existing-etcd"), set(&["admission", "apiserver", "nats"]));
    let objects = helm.mode("full", &[]);
    assert!(names(&objects, "ServiceMonitor").is_empty(), "the cluster knows no such kind");
    let maps: BTreeSet<String> = names(&objects, "ConfigMap").into_iter().collect();
    let dashboards = ["api", "cluster-life", "crew", "nodes", "scheduler"].map(|name| format!("rel-dashboard-{name}"));
    assert_eq!(maps, dashboards.into_iter().chain(["rel-egress".to_owned()]).collect());
    let api = objects.iter().find(|object| name(object) == "Service/rel-apiserver").unwrap();
    assert_eq!(api["spec"]["ports"][0]["port"], 443);
}

#[test]
fn a_part_beside_an_existing_control_plane_is_never_there_twice() {
    let Some(helm) = Helm::new() else { return };
    for mode in ["scheduler-only", "controllers-only"] {
        let objects = helm.mode(mode, &[]);
        let part = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        assert_eq!((&part["spec"]["replicas"], &part["spec"]["strategy"]["type"]), (&json!(1), &json!("Recreate")));
    }
}

#[test]
fn a_long_name_of_a_release_is_cut_and_releases_stay_apart() {
    let Some(helm) = Helm::new() else { return };
    let long = "a".repeat(53);
    let longest = helm.template(&long, &EVERYTHING, &[]);
    sound(&longest);
    let owned = |objects: &[Value]| objects.iter().map(name).collect::<BTreeSet<_>>();
    let other = helm.template(&format!("{}b", "a".repeat(52)), &EVERYTHING, &[]);
    assert!(owned(&longest).is_disjoint(&owned(&other)));
    // Two objects of a kind have one name only if the part in one name ends with the part in the other.
    let all = helm.template("rel", &EVERYTHING, &[]);
    let role = all.iter().find(|object| name(object) == "Role/rel-keys").unwrap();
    let secrets =
        items(&role["rules"][0]["resourceNames"]).filter_map(Value::as_str).map(|name| format!("Secret/{name}"));
    let parts: Vec<(String, String)> = all
        .iter()
        .map(name)
        .chain(secrets)
        .filter_map(|name| name.split_once("/rel-").map(|(kind, part)| (kind.to_owned(), part.to_owned())))
        .collect();
    assert!(parts.len() > 50, "{parts:?}");
    for ((kind, part), (_, other)) in
        parts.iter().flat_map(|one| parts.iter().filter(|other| other.0 == one.0).map(move |other| (one, other)))
    {
        assert!(!part.ends_with(&format!("-{other}")), "releases x and x-… may both have {kind} x-{part}");
    }
}

#[test]
fn names_that_yaml_takes_for_something_else_stay_names() {
    let Some(helm) = Helm::new() else { return };
    for release in ["no", "1e5", "12"] {
        let objects = helm.template(release, &EVERYTHING, &["--namespace", "0x10"]);
        sound(&objects);
        let bindings: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "RoleBinding").collect();
        assert!(bindings.iter().all(|binding| binding["subjects"][0]["namespace"] == "0x10"), "{bindings:?}");
    }
}

#[test]
fn our_program_takes_every_command_that_the_chart_gives_it() {
    let Some(helm) = Helm::new() else { return };
    let mut seen = BTreeSet::new();
    for objects in [
        helm.mode("full", &EVERYTHING),
        helm.mode("scheduler-only", &[]),
        helm.mode("apiserver-over-existing-etcd", &[]),
        helm.mode("controllers-only", &[]),
    ] {
        for pod in pods(&objects) {
            for container in pod.containers().filter(|container| container["command"].is_null()) {
                let words = items(&container["args"]).filter_map(Value::as_str);
                // The kubelet puts the pod's address and name there.
                let filled = |word: &str| word.replace("$(POD_IP)", "10.0.0.1").replace("$(POD_NAME)", "a");
                let words: Vec<String> = words.map(filled).collect();
                let mut command = std::process::Command::new(oarlock_testkit::oarlock());
                let ran = command.args(&words).arg("--help").output().unwrap();
                assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
                seen.insert(words[0].clone());
            }
        }
    }
    let all = [
        "admission",
        "apiserver",
        "cloud-controller-manager",
        "controller-manager",
        "keys",
        "konnectivity-server",
        "probe",
        "scheduler",
    ];
    assert_eq!(seen, all.map(str::to_owned).into());
}

/// Changes one object of a rendered release, and expects that the rules find a fault of it.
#[track_caller]
fn found(objects: &[Value], broken: &str, text: &str, change: impl FnOnce(&mut Value)) {
    let mut objects = objects.to_vec();
    change(objects.iter_mut().find(|object| name(object) == broken).unwrap());
    let faults = faults(&objects, &OUTSIDE);
    assert!(
        faults.iter().any(|fault| fault.starts_with(broken) && fault.contains(text)),
        "{broken}, {text}: {faults:?}"
    );
}

#[test]
fn the_rules_find_a_broken_copy_of_what_is_rendered() {
    let Some(helm) = Helm::new() else { return };
    let all = helm.mode("full", &EVERYTHING);
    let spec =
        |object: &mut Value, change: &dyn Fn(&mut Value)| change(object.pointer_mut("/spec/template/spec").unwrap());
    // A key of another role in a container, in each way to get it there.
    found(&all, "Deployment/rel-scheduler", "mounts the Secret rel-keys-apiserver", |part| {
        spec(part, &|spec| spec["volumes"][0]["secret"]["secretName"] = "rel-keys-apiserver".into());
    });
    found(&all, "Deployment/rel-apiserver", "mounts the Secret rel-keys-all", |part| {
        let volume = json!({"name": "more", "secret": {"secretName": "rel-keys-all"}});
        spec(part, &|spec| spec["volumes"].as_array_mut().unwrap().push(volume.clone()));
    });
    // A container beside another has a role of its own.
    for (field, volume, text) in [
        ("containers", "tunnel-keys", ": apiserver mounts the Secret rel-keys-konnectivity-server"),
        ("initContainers", "keys", ": konnectivity-server mounts the Secret rel-keys-apiserver"),
    ] {
        found(&all, "Deployment/rel-apiserver", text, |part| {
            let mount = json!({"name": volume, "mountPath": "/other", "readOnly": true});
            spec(part, &|spec| spec[field][0]["volumeMounts"].as_array_mut().unwrap().push(mount.clone()));
        });
    }
    found(&all, "Deployment/rel-apiserver", ": konnectivity-server mounts the Secret etcd", |part| {
        spec(part, &|spec| {
            let volume =
                spec["volumes"].as_array_mut().unwrap().iter_mut().find(|known| known["name"] == "tunnel-keys");
            volume.unwrap()["secret"]["secretName"] = "etcd".into();
        });
    });
    found(&all, "StatefulSet/rel-etcd", "a key in a variable", |part| {
        let variable =
            json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "rel-keys-all", "key": "pki_ca.key"}}});
        spec(part, &|spec| spec["containers"][0]["env"].as_array_mut().unwrap().push(variable.clone()));
    });
    found(&all, "Deployment/rel-scheduler", "has a token", |part| {
        spec(part, &|spec| spec["automountServiceAccountToken"] = true.into());
    });
    found(&all, "Role/rel-keys", "may do too much", |role| {
        role["rules"][0].as_object_mut().unwrap().remove("resourceNames");
    });
    for (at, value, text) in [
        ("/securityContext/runAsNonRoot", json!(false), "may be root"),
        ("/securityContext/seccompProfile/type", json!("Unconfined"), "seccomp"),
        ("/containers/0/securityContext/readOnlyRootFilesystem", json!(false), "may write to its image"),
        ("/containers/0/securityContext/capabilities/drop", json!([]), "capabilities"),
        ("/containers/0/volumeMounts/0/readOnly", json!(false), "may be written"),
        ("/containers/0/volumeMounts/0/name", json!("other"), "are unknown"),
        ("/serviceAccountName", json!("other"), "nobody makes"),
    ] {
        found(&all, "Deployment/rel-scheduler", text, |part| {
            spec(part, &|spec| *spec.pointer_mut(at).unwrap() = value.clone());
        });
    }
    for (object, at, value, text) in [
        ("Service/rel-apiserver", "/spec/ports/0/targetPort", json!("http"), "is no port"),
        ("Service/rel-apiserver", "/spec/selector/app.kubernetes.io~1component", json!("x"), "does not select"),
        (
            "PodDisruptionBudget/rel-etcd",
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            json!("x"),
            "does not select",
        ),
        (
            "Deployment/rel-scheduler",
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            json!("x"),
            "its own pods",
        ),
        (
            "NetworkPolicy/rel-etcd",
            "/spec/podSelector/matchLabels/app.kubernetes.io~1component",
            json!("x"),
            "selects no pod",
        ),
        (
            "NetworkPolicy/rel-etcd",
            "/spec/ingress/0/from/0/podSelector/matchLabels/app.kubernetes.io~1component",
            json!("x"),
            "no pod",
        ),
        ("HorizontalPodAutoscaler/rel-apiserver", "/spec/scaleTargetRef/name", json!("x"), "scales nothing"),
    ] {
        found(&all, object, text, |object| *object.pointer_mut(at).unwrap() = value);
    }
    let long = format!("Service/{}", "x".repeat(64));
    let mut renamed = all.clone();
    renamed.iter_mut().find(|object| name(object) == "Service/rel-apiserver").unwrap()["metadata"]["name"] =
        "x".repeat(64).into();
    assert!(faults(&renamed, &OUTSIDE).iter().any(|fault| fault.starts_with(&long) && fault.contains("64 letters")));
}
