//! Tests of pods that wait for claims of volumes and devices.

use super::*;

/// Returns a pod with `spec` merged into its spec.
fn with(name: &str, spec: &Value) -> Value {
    let mut pod = pod(name, "1");
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// Returns a pod with a volume of a PersistentVolumeClaim.
fn using(name: &str, claim: &str) -> Value {
    with(name, &json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}))
}

fn volume_claim(name: &str, change: &Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"storageClassName": "slow"}, "status": {"phase": "Pending"},
    });
    for (part, fields) in change.as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            claim[part][field] = value.clone();
        }
    }
    claim
}

fn bound(name: &str, volume: &str) -> Value {
    let completed = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let change = json!({
        "metadata": {"annotations": completed}, "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
    });
    volume_claim(name, &change)
}

fn volume(name: &str, node: Option<&str>) -> Value {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {}});
    if let Some(node) = node {
        let here = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]);
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}});
    }
    volume
}

/// Waits until a pod's condition has this message.
async fn told(fake: &Fake, name: &str, message: &str) {
    let said = |fake: &Fake| condition(fake, name)["message"].as_str().unwrap_or_default().to_owned();
    fake.until(message, |fake| said(fake) == message || !on(fake, name).is_empty()).await;
    assert_eq!(said(fake), message);
    let told = condition(fake, name);
    assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("Unschedulable")));
    assert_eq!(on(fake, name), "");
}

/// Returns the message when preemption helps on neither of two nodes.
fn unhelpful(why: &str) -> String {
    format!("{why}, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
}

fn two_nodes(fake: &Fake) {
    fake.put("nodes", node("n1"));
    fake.put("nodes", node("n2"));
}

#[test]
fn a_pod_waits_for_its_claims() {
    play(31, |fake| async move {
        two_nodes(&fake);
        fake.put("pods", using("a", "data"));
        told(&fake, "a", "0/2 nodes are available: persistentvolumeclaim \"data\" not found. not found").await;
        fake.put("persistentvolumeclaims", volume_claim("data", &json!({})));
        let unbound = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
        told(&fake, "a", unbound).await;
        // Another claim, or one of another namespace, has no effect.
        fake.put("persistentvolumes", volume("pv", Some("n2")));
        fake.put("persistentvolumeclaims", bound("data", "pv"));
        fake.until("a is bound", |fake| on(fake, "a") == "n2").await;
    });
}

#[test]
fn a_pod_whose_first_condition_has_no_time_is_told_of() {
    play(32, |fake| async move {
        fake.put("nodes", node("n1"));
        let mut gated = pod("big", "3");
        gated["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastTransitionTime": null,
        }]);
        fake.put("pods", gated);
        fake.until("another reason", |fake| condition(fake, "big")["reason"] == "Unschedulable").await;
        assert_ne!(condition(&fake, "big")["lastTransitionTime"], "", "the API takes no empty time");
    });
}

#[test]
fn claims_that_will_never_do_are_told_apart() {
    play(33, |fake| async move {
        two_nodes(&fake);
        let going = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}});
        fake.put("persistentvolumeclaims", volume_claim("going", &going));
        let lost = json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Lost"}});
        fake.put("persistentvolumeclaims", volume_claim("lost", &lost));
        fake.put("persistentvolumeclaims", bound("widow", "none"));
        let waits = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
            "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer",
        });
        fake.put("storageclasses", waits);
        fake.put("persistentvolumeclaims", volume_claim("late", &json!({"spec": {"storageClassName": "late"}})));
        for claim in ["going", "lost", "widow", "late"] {
            fake.put("pods", using(claim, claim));
        }
        let prefix = "0/2 nodes are available:";
        told(&fake, "going", &format!("{prefix} persistentvolumeclaim \"going\" is being deleted. not found")).await;
        let text = "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"pv\". not found";
        told(&fake, "lost", &format!("{prefix} {text}")).await;
        let text =
            "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s). no new claims to deallocate";
        told(&fake, "widow", &unhelpful(&format!("{prefix} {text}"))).await;
        let text = "2 node(s) didn't find available persistent volumes to bind. no new claims to deallocate";
        told(&fake, "late", &unhelpful(&format!("{prefix} {text}"))).await;
        fake.put("persistentvolumes", volume("none", None));
        fake.until("widow is bound", |fake| !on(fake, "widow").is_empty()).await;
    });
}

#[test]
fn an_ephemeral_volume_waits_for_a_claim_of_its_own() {
    play(34, |fake| async move {
        two_nodes(&fake);
        let spec = json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]});
        fake.put("pods", with("a", &spec));
        let prefix = "0/2 nodes are available:";
        let text = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"a-v\". not found";
        told(&fake, "a", &format!("{prefix} {text}")).await;
        fake.put("persistentvolumes", volume("pv", None));
        fake.put("persistentvolumeclaims", bound("a-v", "pv"));
        let text = "PVC default/a-v was not created for pod default/a (pod is not owner). not found";
        told(&fake, "a", &format!("{prefix} {text}")).await;
        let mut own = bound("a-v", "pv");
        own["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a", "controller": true}]);
        fake.put("persistentvolumeclaims", own);
        fake.until("a is bound", |fake| !on(fake, "a").is_empty()).await;
    });
}

#[test]
fn a_pod_waits_for_its_devices() {
    play(35, |fake| async move {
        two_nodes(&fake);
        fake.put("pods", with("a", &json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]})));
        let template = json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]});
        fake.put("pods", with("b", &template));
        let prefix = "0/2 nodes are available:";
        let none = "no new claims to deallocate";
        let missing = format!("{prefix} could not find ResourceClaim \"default/gpu\". {none}");
        told(&fake, "a", &unhelpful(&missing)).await;
        let to_come = format!("{prefix} pod \"default/b\": ResourceClaim not created yet. {none}");
        told(&fake, "b", &unhelpful(&to_come)).await;
        let mut claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        });
        fake.put("resourceclaims", claim.clone());
        let class = format!("{prefix} request r: device class c does not exist. {none}");
        told(&fake, "a", &unhelpful(&class)).await;
        let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}});
        fake.put("deviceclasses", class);
        let free = format!("{prefix} 2 cannot allocate all claims. still not schedulable");
        told(&fake, "a", &unhelpful(&free)).await;
        let here = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]);
        claim["status"] = json!({"allocation": {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": here}]}}});
        fake.put("resourceclaims", claim);
        fake.until("a is bound", |fake| on(fake, "a") == "n2").await;
        // The controller has recorded that the other pod needs no claim.
        let mut other = fake.get("pods", "default", "b");
        other["status"]["resourceClaimStatuses"] = json!([{"name": "gpu"}]);
        fake.put("pods", other);
        fake.until("b is bound", |fake| !on(fake, "b").is_empty()).await;
    });
}

#[test]
fn who_decides_knows_of_claims_whatever_is_proposed() {
    let (mut engine, names) =
        (crate::engine::Engine::for_process(crate::table::PLUGINS), crate::intern::Interner::process());
    let read = |value: &Value, plural: &str| {
        let row = oarlock_schema::resource("", "v1", plural).unwrap();
        oarlock_client::decode(row.ty, value.to_string().as_bytes()).unwrap()
    };
    let now = crate::queue::Stamp(0);
    let here = <crate::project::NodeView as oarlock_informer::Project>::project(&read(&node("n1"), "nodes"));
    engine.on_node(here.0, now);
    let waiting = <crate::project::PodView as oarlock_informer::Project>::project(&read(&using("a", "data"), "pods"));
    let refused = engine.judge(&waiting.info, "n1", now);
    assert!(
        matches!(refused, Err(crate::engine::ProposalError::Refused(refusal)) if refusal.constraint.label() == "claims")
    );
    let claim = read(&bound("data", "pv"), "persistentvolumeclaims");
    let claim = <crate::project::VolumeClaimView as oarlock_informer::Project>::project(&claim);
    let at = (names.intern("default"), names.intern("data"));
    engine.on_claim(at, |claims| claims.set_volume_claim(at, Some(claim.0)), now);
    engine.on_claim_source(|claims| claims.set_volume(names.intern("pv"), Some(None)), now);
    assert!(engine.judge(&waiting.info, "n1", now).is_ok());
}
