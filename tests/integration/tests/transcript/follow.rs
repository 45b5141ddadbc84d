//! Commands that watch: they receive changes, and end when their condition is met.

use oarlock_testkit::Cluster;

#[test]
fn changes_are_shown_as_they_come() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    kubectl.ok("create configmap first");
    let all = kubectl.follow("get configmaps --watch --output-watch-events --no-headers");
    let one = kubectl.follow("get configmap first -w -o jsonpath={.data.n}{\"\\n\"}");
    let gold = kubectl.follow("get configmaps --watch-only -l tier=gold -o name");
    all.until("first", |out| out.contains("first"));
    one.until("an empty line", |out| !out.is_empty());
    kubectl.ok("create configmap second --from-literal=a=1");
    // This watch begins with later events: its first output shows that the watch is open.
    gold.until("a golden one", |out| {
        kubectl.ok("label configmap second tier=gold --overwrite");
        kubectl.ok("label configmap second tier-");
        out.contains("configmap/second")
    });
    kubectl.ok("patch configmap first -p '{\"data\":{\"n\":\"1\"}}'");
    kubectl.ok("delete configmap second");
    let told = all.until("the end of second", |out| out.contains("DELETED"));
    let events: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(events[..2], [["ADDED", "first"], ["ADDED", "second"]]);
    assert!(events.iter().any(|event| event[..] == ["MODIFIED", "first"]), "{told}");
    assert_eq!(events.last().unwrap()[..], ["DELETED", "second"]);
    one.until("its new content", |out| out.ends_with("1\n"));
}

#[test]
fn commands_wait_for_what_they_are_told_to() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    let created = kubectl.follow("wait --for=create configmap/job --timeout=90s");
    kubectl.ok("create configmap job --from-literal=state=new");
    created.ends().is("configmap/job condition met");
    kubectl
        .run("wait --for=jsonpath={.data.state}=done configmap/job --timeout=1s")
        .fails("timed out waiting for the condition on configmaps/job");
    let done = kubectl.follow("wait --for=jsonpath={.data.state}=done configmap/job --timeout=90s");
    kubectl.ok("patch configmap job -p '{\"data\":{\"state\":\"done\"}}'");
    done.ends().is("configmap/job condition met");
    // A finalizer keeps the object: `kubectl delete` waits until the finalizer is removed.
    kubectl.ok("patch configmap job -p '{\"metadata\":{\"finalizers\":[\"example.org/hold\"]}}'");
    let mut deleting = kubectl.follow("delete configmap job --timeout=90s");
    deleting.until("its word", |out| out.contains("configmap \"job\" deleted"));
    let mut gone = kubectl.follow("wait --for=delete configmap/job --timeout=90s -v=6");
    gone.until_error("its watch", |err| err.contains("watch=true"));
    assert!(deleting.runs() && gone.runs());
    kubectl.run("get configmap job -o jsonpath={.metadata.finalizers}").is("[\"example.org/hold\"]");
    kubectl.ok("patch configmap job --type=merge -p '{\"metadata\":{\"finalizers\":null}}'");
    deleting.ends().says(["configmap \"job\" deleted"]);
    gone.ends().is("configmap/job condition met");
}

#[test]
fn raw_paths_answer_what_the_server_says() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    let object = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"raw\"}}";
    let path = "/api/v1/namespaces/default/configmaps";
    kubectl.run_with(&format!("create --raw {path} -f -"), object).says(["\"name\":\"raw\"", "\"resourceVersion\""]);
    kubectl.ok("create configmap second");
    kubectl.run(&format!("get --raw {path}?limit=1")).says(["\"remainingItemCount\":1", "\"continue\":\""]);
    let told = kubectl.ok(&format!("get --raw {path}?watch=1&timeoutSeconds=1"));
    assert_eq!(told.lines().filter(|line| line.starts_with("{\"type\":\"ADDED\"")).count(), 2, "{told}");
    kubectl.run(&format!("get --raw {path}?resourceVersion=x")).fails("Invalid value: \"x\"");
    kubectl.run_with(&format!("replace --raw {path}/raw -f -"), object).says(["\"name\":\"raw\""]);
    kubectl.run(&format!("delete --raw {path}/raw")).says(["\"status\":\"Success\""]);
    kubectl.run("get --raw /version").says(["\"gitVersion\":", "v1.35."]);
    kubectl.run("get --raw /openapi/v3").says(["\"apis/apps/v1\""]);
    kubectl.run("get --raw /metrics").says(["# TYPE "]);
}
