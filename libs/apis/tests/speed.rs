//! Measures the rules' time for a small pod. Run by hand: `cargo test --release -p oarlock-apis --test all -- --ignored --nocapture speed`.

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use crate::common;

#[test]
#[ignore = "measures"]
fn a_small_pod_takes_microseconds() {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}],
            "resources": {"limits": {"cpu": "1"}}, "volumeMounts": [{"name": "v", "mountPath": "/x"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "a", "operator": "Exists"}]}
    });
    let (resource, pod) = common::obj(&pod);
    let mut best = [u128::MAX; 3];
    for _ in 0..20 {
        let rounds = 500;
        let mut copies: Vec<_> = (0..rounds).map(|_| pod.clone()).collect();
        let start = std::time::Instant::now();
        copies.iter_mut().for_each(oarlock_apis::default);
        best[0] = best[0].min(start.elapsed().as_nanos() / rounds);
        let start = std::time::Instant::now();
        assert!(copies.iter().all(|pod| oarlock_apis::validate_create(resource, pod).is_empty()));
        best[1] = best[1].min(start.elapsed().as_nanos() / rounds);
        let start = std::time::Instant::now();
        assert!(copies.iter().all(|pod| oarlock_apis::warnings(pod).is_empty()));
        best[2] = best[2].min(start.elapsed().as_nanos() / rounds);
    }
    println!("default {} ns, validate {} ns, warnings {} ns", best[0], best[1], best[2]);
}
