//! The controllers against a real API server, each as its own ServiceAccount under RBAC.

use std::time::Duration;

use clap::Parser;
use oarlock_client::{DeleteOptions, ListOptions, Propagation};
use oarlock_runtime::{Rng, clock};
use oarlock_service_controller_manager::ControllerOptions;
use serde_json::{Value, json};

use crate::cluster::{Cluster, deployment, find};

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|one| one["type"] == kind)).unwrap_or(&Value::Null)
}

fn rolled_out(deployment: &Value, replicas: i64) -> bool {
    let status = &deployment["status"];
    ["replicas", "updatedReplicas", "availableReplicas", "readyReplicas"].iter().all(|count| status[*count] == replicas)
        && status["observedGeneration"] == deployment["metadata"]["generation"]
        && condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
}

async fn settled(cluster: &Cluster, name: &str, replicas: i64) -> Value {
    cluster
        .eventually(&format!("{name} rolled out to {replicas}"), || async {
            cluster.get("deployments", "default", name).await.filter(|object| rolled_out(object, replicas))
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_namespace_has_its_account_and_the_clusters_ca() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.create("namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})).await;
    for namespace in ["default", "kube-system", "team"] {
        cluster
            .eventually("account and CA", || async {
                let map = cluster.get("configmaps", namespace, "kube-root-ca.crt").await?;
                assert!(map["data"]["ca.crt"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
                cluster.get("serviceaccounts", namespace, "default").await
            })
            .await;
    }
    cluster.delete("serviceaccounts", "team", "default").await;
    cluster.merge("configmaps", ("team", "kube-root-ca.crt"), json!({"data": {"ca.crt": "forged"}})).await;
    cluster
        .eventually("repair", || async {
            let map = cluster.get("configmaps", "team", "kube-root-ca.crt").await?;
            cluster.get("serviceaccounts", "team", "default").await?;
            (map["data"]["ca.crt"] != "forged").then_some(())
        })
        .await;
    for account in ["deployment-controller", "replicaset-controller", "generic-garbage-collector"] {
        cluster.eventually(account, || cluster.get("serviceaccounts", "kube-system", account)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_rolls_out_scales_updates_and_rolls_back() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.run_pods().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster.create("deployments", deployment("web", 3, "a:1")).await;
    let first = settled(&cluster, "web", 3).await;
    assert_eq!(first["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(condition(&first, "Available")["reason"], "MinimumReplicasAvailable");
    let sets = cluster.list("replicasets", "default").await;
    assert_eq!(sets.len(), 1);
    let hash = sets[0]["metadata"]["labels"]["pod-template-hash"].as_str().unwrap().to_owned();
    assert_eq!(sets[0]["metadata"]["name"], format!("web-{hash}"));
    for pod in cluster.list("pods", "default").await {
        assert_eq!(pod["metadata"]["labels"]["pod-template-hash"], hash.as_str());
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], sets[0]["metadata"]["uid"]);
        assert!(pod["metadata"]["name"].as_str().unwrap().starts_with(&format!("web-{hash}-")));
    }
    cluster.merge("deployments", ("default", "web"), json!({"spec": {"replicas": 10}})).await;
    settled(&cluster, "web", 10).await;
    let image =
        |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    cluster.merge("deployments", ("default", "web"), image("a:2")).await;
    let second = settled(&cluster, "web", 10).await;
    assert_eq!(second["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let images: Vec<Value> = cluster
        .list("pods", "default")
        .await
        .into_iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].clone())
        .collect();
    assert!(images.len() == 10 && images.iter().all(|image| image == "a:2"), "{images:?}");
    // The patch of `kubectl rollout undo`: the template of the old ReplicaSet without its hash.
    let sets = cluster.list("replicasets", "default").await;
    let old = sets.iter().find(|set| set["metadata"]["labels"]["pod-template-hash"] == hash.as_str()).unwrap();
    let mut template = old["spec"]["template"].clone();
    template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
    cluster.merge("deployments", ("default", "web"), json!({"spec": {"template": template}})).await;
    let third = settled(&cluster, "web", 10).await;
    assert_eq!(third["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let sets = cluster.list("replicasets", "default").await;
    assert_eq!(sets.len(), 2, "the old set was used again");
    let events = cluster.list("events", "default").await;
    let scaled = format!("Scaled up replica set web-{hash} from 0 to 3");
    assert!(events.iter().any(|event| event["reason"] == "ScalingReplicaSet" && event["message"] == scaled.as_str()));
    assert!(events.iter().any(|event| event["reason"] == "SuccessfulCreate"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_pod_is_replaced_and_an_orphan_is_adopted() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.run_pods().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster.create("deployments", deployment("web", 2, "a:1")).await;
    settled(&cluster, "web", 2).await;
    let pods = cluster.list("pods", "default").await;
    let victim = pods[0]["metadata"]["name"].as_str().unwrap();
    cluster.delete("pods", "default", victim).await;
    cluster
        .eventually("a replacement", || async {
            let pods = cluster.list("pods", "default").await;
            (pods.len() == 2 && pods.iter().all(|pod| pod["metadata"]["name"] != victim)).then_some(())
        })
        .await;
    // A pod that loses its label is released and replaced. When the pod gets its label back, there is one pod too many, and one is deleted.
    let pods = cluster.list("pods", "default").await;
    let stray = pods[0]["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.merge("pods", ("default", &stray), json!({"metadata": {"labels": {"app": "other"}}})).await;
    cluster
        .eventually("a release", || async {
            let pods = cluster.list("pods", "default").await;
            let stray = pods.iter().find(|pod| pod["metadata"]["name"] == stray.as_str())?;
            (pods.len() == 3 && stray["metadata"]["ownerReferences"].is_null()).then_some(())
        })
        .await;
    cluster.merge("pods", ("default", &stray), json!({"metadata": {"labels": {"app": "web"}}})).await;
    cluster
        .eventually("an adoption", || async {
            let pods = cluster.list("pods", "default").await;
            (pods.len() == 2 && pods.iter().all(|pod| !pod["metadata"]["ownerReferences"].is_null())).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pods_are_created_once_each() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster.create("deployments", deployment("many", 1000, "a:1")).await;
    cluster
        .gradually("1000 pods", || async {
            let sets = cluster.list("replicasets", "default").await;
            let made = sets.first().map(|set| set["status"]["replicas"].clone()).unwrap_or_default();
            if made == 1000 { Ok(()) } else { Err(made) }
        })
        .await;
    assert_eq!(cluster.list("pods", "default").await.len(), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_binding_exactly_one_loop_fails_and_says_so() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.run_pods().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster.create("deployments", deployment("before", 1, "a:1")).await;
    settled(&cluster, "before", 1).await;
    cluster.delete("clusterrolebindings", "", "system:controller:replicaset-controller").await;
    // The authorizer reads the store with a delay.
    let controller = cluster.as_controller("replicaset-controller");
    cluster
        .eventually("the right is gone", || async {
            let pods = controller.list(find("pods"), "default", ListOptions::default()).await;
            pods.is_err_and(|status| status.is_forbidden()).then_some(())
        })
        .await;
    cluster.create("deployments", deployment("after", 1, "a:1")).await;
    let failing = |name: &str| {
        let all = cluster.system.snapshot();
        let actor =
            all.iter().find(|actor| actor.kind == "informer.controller" && *actor.key == *name).expect("it runs");
        let state = serde_json::to_value(&actor.state).unwrap();
        (state["failed"].as_u64().unwrap_or(0), state["lastError"].as_str().unwrap_or("").to_owned())
    };
    let error = cluster
        .eventually("the loop fails", || async {
            let (_, error) = failing("replicaset-controller");
            error.contains("forbidden").then_some(error)
        })
        .await;
    assert!(error.contains("system:serviceaccount:kube-system:replicaset-controller"), "{error}");
    // The other controllers still work: the Deployment got its ReplicaSet, and the new namespace its ServiceAccount.
    cluster.create("namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "next"}})).await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "next", "default")).await;
    cluster
        .eventually("a replica set", || async {
            let sets = cluster.list("replicasets", "default").await;
            sets.iter().any(|set| set["metadata"]["labels"]["app"] == "after").then_some(())
        })
        .await;
    assert!(!failing("deployment-controller").1.contains("forbidden"));
    assert!(cluster.list("pods", "default").await.iter().all(|pod| pod["metadata"]["labels"]["app"] == "before"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_gets_slices_and_endpoints_that_follow_its_pods() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.run_pods().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    });
    cluster.create("services", service).await;
    cluster.create("deployments", deployment("web", 2, "a:1")).await;
    let of_web = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
    cluster
        .eventually("two ready endpoints", || async {
            let slices = cluster.list("endpointslices", "default").await;
            let slice = slices.iter().find(of_web)?;
            let endpoints = slice["endpoints"].as_array()?;
            let ready = endpoints.iter().filter(|one| one["conditions"]["ready"] == true).count();
            (ready == 2 && slice["ports"][0]["port"] == 8080).then_some(())
        })
        .await;
    cluster
        .eventually("addresses", || async {
            let endpoints = cluster.get("endpoints", "default", "web").await?;
            let subset = &endpoints["subsets"][0];
            (subset["addresses"].as_array()?.len() == 2 && subset["ports"][0]["port"] == 8080).then_some(())
        })
        .await;
    cluster.merge("deployments", ("default", "web"), json!({"spec": {"replicas": 0}})).await;
    cluster
        .eventually("an empty slice", || async {
            let slices = cluster.list("endpointslices", "default").await;
            let slice = slices.iter().find(of_web)?;
            slice["endpoints"].as_array().is_none_or(Vec::is_empty).then_some(())
        })
        .await;
    cluster.delete("services", "default", "web").await;
    cluster
        .eventually("nothing left of the service", || async {
            let slices = cluster.list("endpointslices", "default").await;
            let endpoints = cluster.get("endpoints", "default", "web").await;
            (slices.iter().find(of_web).is_none() && endpoints.is_none()).then_some(())
        })
        .await;
    assert!(cluster.get("endpoints", "default", "kubernetes").await.is_some(), "the API server's own stay");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_go_before_after_or_not_at_all_as_the_deletion_says() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.run_pods().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    for name in ["back", "front", "orphaning"] {
        cluster.create("deployments", deployment(name, 2, "a:1")).await;
    }
    for name in ["back", "front", "orphaning"] {
        settled(&cluster, name, 2).await;
    }
    let left = |plural: &'static str, app: &'static str| {
        let cluster = &cluster;
        async move {
            let all = cluster.list(plural, "default").await;
            all.into_iter().filter(|one| one["metadata"]["labels"]["app"] == app).collect::<Vec<_>>()
        }
    };
    cluster.delete("deployments", "default", "back").await;
    cluster.delete_by("deployments", "default", "front", Propagation::Foreground).await;
    cluster.delete_by("deployments", "default", "orphaning", Propagation::Orphan).await;
    for name in ["back", "front"] {
        cluster
            .eventually(name, || async {
                let there = cluster.get("deployments", "default", name).await.is_some();
                let rest = left("replicasets", name).await.len() + left("pods", name).await.len();
                // With foreground deletion the owner exists until its last dependent is deleted.
                assert!(name != "front" || there || rest == 0, "{rest} left of a deployment that is gone");
                (!there && rest == 0).then_some(())
            })
            .await;
    }
    cluster
        .eventually("orphans", || async {
            let gone = cluster.get("deployments", "default", "orphaning").await.is_none();
            let sets = left("replicasets", "orphaning").await;
            (gone && sets.len() == 1 && sets[0]["metadata"]["ownerReferences"].is_null()).then_some(())
        })
        .await;
    assert_eq!(left("pods", "orphaning").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_namespace_is_emptied_and_goes() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.run_pods().await;
    cluster.create("namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})).await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "team", "default")).await;
    let mut web = deployment("web", 3, "a:1");
    web["metadata"]["namespace"] = json!("team");
    cluster.create("deployments", web).await;
    cluster
        .create(
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "held", "namespace": "team", "finalizers": ["example.com/hold"]}}),
        )
        .await;
    cluster.eventually("pods", || async { (cluster.list("pods", "team").await.len() == 3).then_some(()) }).await;
    cluster.delete("namespaces", "", "team").await;
    let message = "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances";
    cluster
        .eventually("a finalizer holds it", || async {
            let namespace = cluster.get("namespaces", "", "team").await?;
            assert_eq!(namespace["status"]["phase"], "Terminating");
            (condition(&namespace, "NamespaceFinalizersRemaining")["message"] == message).then_some(())
        })
        .await;
    assert!(cluster.list("deployments", "team").await.is_empty() && cluster.list("pods", "team").await.is_empty());
    cluster.merge("configmaps", ("team", "held"), json!({"metadata": {"finalizers": null}})).await;
    cluster
        .eventually("it is gone", || async { cluster.get("namespaces", "", "team").await.is_none().then_some(()) })
        .await;
}

async fn bound(cluster: &Cluster, name: &str, node: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "a:1"}],
            "tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]}});
    cluster.create("pods", object).await;
}

fn taints(node: &Value) -> Vec<String> {
    let all = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap());
    let mut all: Vec<String> = all.iter().map(text).collect();
    all.sort();
    all
}

/// In virtual time: whenever nothing can run, the clock jumps to the next timer.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_sign_of_life_is_tainted_and_emptied_and_its_pods_are_collected() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster.node("alive").await;
    cluster.node("dead").await;
    cluster
        .eventually("both nodes usable", || async {
            let nodes = cluster.list("nodes", "").await;
            nodes.iter().all(|node| taints(node).is_empty()).then_some(())
        })
        .await;
    bound(&cluster, "stays", "alive").await;
    bound(&cluster, "leaves", "dead").await;
    let start = clock::now();
    let mut beats = 0;
    loop {
        // One of the two nodes renews its Lease, with a clock that controllers must not rely on.
        beats += 1;
        let renewed = format!("2026-01-01T00:00:{beats:02}.000000Z");
        cluster.merge("leases", ("kube-node-lease", "alive"), json!({"spec": {"renewTime": renewed}})).await;
        clock::sleep(Duration::from_secs(5)).await;
        let dead = cluster.get("nodes", "", "dead").await.unwrap();
        if condition(&dead, "Ready")["status"] == "Unknown" {
            assert!(start.elapsed() >= Duration::from_secs(49), "{:?}", start.elapsed());
            assert_eq!(condition(&dead, "Ready")["reason"], "NodeStatusUnknown");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(70), "{}", cluster.seen());
    }
    let expected = ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"];
    cluster
        .eventually("taints", || async {
            let dead = cluster.get("nodes", "", "dead").await?;
            (taints(&dead) == expected).then_some(())
        })
        .await;
    cluster
        .eventually("an eviction", || async { cluster.get("pods", "default", "leaves").await.is_none().then_some(()) })
        .await;
    let alive = cluster.get("nodes", "", "alive").await.unwrap();
    assert!(taints(&alive).is_empty() && condition(&alive, "Ready")["status"] == "True");
    cluster.delete("nodes", "", "alive").await;
    let gone = clock::now();
    clock::sleep(Duration::from_secs(30)).await;
    assert!(cluster.get("pods", "default", "stays").await.is_some(), "a node may come back");
    clock::sleep(Duration::from_secs(15)).await;
    cluster
        .eventually("a lost pod is collected", || async {
            cluster.get("pods", "default", "stays").await.is_none().then_some(())
        })
        .await;
    assert!(gone.elapsed() >= Duration::from_secs(40));
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: ControllerOptions,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_flag_for_concurrent_syncs_sets_the_workers_of_its_controller() {
    let rows = oarlock_controllers::rows();
    let flagged: Vec<_> = rows.iter().filter_map(|row| Some((row.name, row.workers.flag?))).zip(21..).collect();
    assert!(flagged.len() >= 8, "{flagged:?}");
    let line = flagged.iter().map(|((_, flag), workers)| format!("--{flag}={workers}"));
    let options = Line::parse_from(std::iter::once("oarlock".to_owned()).chain(line)).options;
    let cluster = Cluster::start().await;
    cluster.controllers_with(options.settings()).await;
    let expected = |row: &oarlock_controllers::Row| {
        flagged.iter().find(|((name, _), _)| *name == row.name).map_or(row.workers.default, |(_, workers)| *workers)
    };
    cluster
        .eventually("the workers of every controller", || async {
            let actors = cluster.system.observe(clock::after(Duration::from_secs(5))).await;
            let workers = |row: &oarlock_controllers::Row| {
                let actor = actors.iter().find(|actor| actor.kind == "informer.controller" && actor.key == row.name)?;
                actor.state["workers"].as_u64()
            };
            rows.iter().all(|row| workers(row) == u64::try_from(expected(row)).ok()).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_role_takes_the_rules_of_the_roles_it_selects() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    let extra = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]});
    cluster.create("clusterroles", extra).await;
    let has = |role: &Value| {
        role["rules"].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["apiGroups"][0] == "example.com"))
    };
    cluster.eventually("view has it", || async { cluster.get("clusterroles", "", "view").await.filter(has) }).await;
    cluster.delete("clusterroles", "", "widgets").await;
    cluster
        .eventually("view has it no more", || async {
            let view = cluster.get("clusterroles", "", "view").await?;
            (!has(&view) && view["rules"].as_array().is_some_and(|rules| rules.len() > 5)).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_process_of_their_own_they_work_over_https_with_tokens_of_their_accounts() {
    let cluster = Cluster::start().await;
    let args = oarlock_service_controller_manager::Args {
        api: oarlock_config::ApiOptions {
            kubeconfig: cluster.api.kubeconfig.with_file_name("controller-manager.kubeconfig"),
            server: Vec::new(),
        },
        controllers: oarlock_service_controller_manager::ControllerOptions::default(),
        feature_gates: Default::default(),
        disable: vec!["node-lifecycle-controller".to_owned()],
        root_ca_file: None,
        secure_port: 0,
        serving: oarlock_config::SecureServingOptions::default(),
        nats: Default::default(),
        tracing: Default::default(),
        log: "warn".to_owned(),
    };
    let started = oarlock_service_controller_manager::start(&cluster.system, &args).await.unwrap();
    assert!(!started.controllers.contains(&"node-lifecycle-controller"));
    cluster.run_pods().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster.create("deployments", deployment("web", 3, "a:1")).await;
    settled(&cluster, "web", 3).await;
    let pods = cluster.list("pods", "default").await;
    let writers = pods[0]["metadata"]["managedFields"].as_array().unwrap();
    assert!(writers.iter().any(|one| one["manager"] == "replicaset-controller"), "{writers:?}");
}

/// Six users at once scale, change, break and delete six deployments, their sets and their pods; when they are done everything settles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_users_do_meanwhile_every_deployment_settles() {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.run_pods().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    let names = ["d0", "d1", "d2", "d3", "d4", "d5"];
    for name in names {
        cluster.create("deployments", deployment(name, 2, "a:0")).await;
    }
    let user = |seed: u64| {
        let cluster = &cluster;
        async move {
            let mut rng = Rng::seeded(seed);
            for _ in 0..25 {
                let name = names[usize::try_from(rng.below(6)).unwrap()];
                let patch = match rng.below(4) {
                    0 => json!({"spec": {"replicas": rng.below(9)}}),
                    1 => {
                        let image = format!("a:{}", rng.below(4));
                        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
                    }
                    2 => json!({"metadata": {"annotations": {"note": rng.below(99).to_string()}}}),
                    _ => {
                        let plural = if rng.below(3) == 0 { "replicasets" } else { "pods" };
                        let all = cluster.list(plural, "default").await;
                        if let Some(victim) = rng.pick(&all) {
                            let victim = victim["metadata"]["name"].as_str().unwrap();
                            // Another user may have deleted the object first.
                            let options = DeleteOptions::default().propagate(Propagation::Background);
                            let _ =
                                cluster.admin.delete(crate::cluster::find(plural), "default", victim, options).await;
                        }
                        continue;
                    }
                };
                cluster.merge("deployments", ("default", name), patch).await;
            }
        }
    };
    tokio::join!(user(1), user(2), user(3), user(4), user(5), user(6));
    for name in names {
        let wanted = cluster.get("deployments", "default", name).await.unwrap()["spec"]["replicas"].as_i64().unwrap();
        cluster
            .eventually(&format!("{name} settles at {wanted}"), || async {
                let deployment = cluster.get("deployments", "default", name).await?;
                let count = |field: &str| deployment["status"][field].as_i64().unwrap_or(0);
                let there =
                    ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| count(field) == wanted);
                let template = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
                let pods = cluster.list("pods", "default").await;
                let own: Vec<&Value> = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == name).collect();
                let right = own.iter().all(|pod| pod["spec"]["containers"][0]["image"] == *template);
                (there && right && own.len() == usize::try_from(wanted).unwrap()).then_some(())
            })
            .await;
    }
    let sets = cluster.list("replicasets", "default").await;
    for pod in cluster.list("pods", "default").await {
        let owner = &pod["metadata"]["ownerReferences"][0]["uid"];
        assert!(sets.iter().any(|set| set["metadata"]["uid"] == *owner), "a pod of nobody: {pod}");
    }
}
