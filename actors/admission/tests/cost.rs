//! The cost of all stages for a small pod in a namespace without quotas and limit ranges. The aim is 4 µs in a release build.

use crate::common::{Ask, World, decode, resource};
use oarlock_admission::Operation;
use oarlock_runtime::clock;
use serde_json::json;

const ROUNDS: u32 = 20_000;

#[tokio::test]
#[ignore = "measures; run with --release"]
async fn all_stages_for_a_small_pod() {
    let world = World::with_namespace("n");
    for name in ["system-node-critical", "system-cluster-critical"] {
        world.put("priorityclasses", &json!({"metadata": {"name": name}, "value": 2_000_000_000}));
    }
    let pods = resource("pods");
    let pod =
        decode(&json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}), pods.ty);
    let ask = Ask {
        operation: Operation::Create,
        resource: pods,
        subresource: "",
        namespace: "n",
        name: "",
        user: "admin",
        groups: &[],
    };
    let mut spent = std::time::Duration::ZERO;
    for _ in 0..ROUNDS {
        let pod = pod.clone();
        let begin = clock::now();
        let admitted = world.ask(&ask, Some(pod), None).await;
        spent += begin.elapsed();
        assert!(admitted.is_ok());
    }
    let each = spent / ROUNDS;
    eprintln!("all stages: {each:?} a pod");
    assert!(each < std::time::Duration::from_micros(4), "{each:?}");
}
