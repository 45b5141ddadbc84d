//! Commands that need only the API server.

use oarlock_testkit::{Cluster, Kubectl};
use serde_json::json;

const CONFIG: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red, size: \"1\"}
";

#[test]
fn discovery_and_documentation_name_what_is_served() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    kubectl.run("version").says(["Server Version: v1.35.", "+oarlock."]);
    kubectl.run("cluster-info").says(["control plane is running at https://127.0.0.1:"]);
    kubectl.run("get --raw /readyz").is("ok");
    kubectl.run("get --raw /livez?verbose").says(["[+]ping ok", "livez check passed"]);
    let versions = kubectl.ok("api-versions");
    // Upstream's versions and Oarlock's own.
    assert_eq!(versions.lines().count(), 22 + 1, "{versions}");
    for version in ["v1", "apps/v1", "autoscaling/v2", "resource.k8s.io/v1", "oarlock.dev/v1"] {
        assert!(versions.lines().any(|line| line == version), "{version}");
    }
    let resources = kubectl.ok("api-resources --no-headers");
    // Upstream's 66 resources and Oarlock's own; HorizontalPodAutoscaler appears in its preferred version only.
    assert_eq!(resources.lines().count(), 65 + 2, "{resources}");
    kubectl
        .run("api-resources --namespaced=false --api-group=rbac.authorization.k8s.io -o name")
        .is("clusterrolebindings.rbac.authorization.k8s.io\nclusterroles.rbac.authorization.k8s.io");
    kubectl.run("api-resources --categories=all --verbs=list -o name").says(["pods", "deployments.apps", "jobs.batch"]);
    kubectl.run("explain deployment.spec.replicas").says(["GROUP:      apps", "FIELD: replicas <integer>"]);
    kubectl.run("explain pods.spec.containers --recursive").says([
        "FIELD: containers <[]Container>",
        "livenessProbe",
        "httpGet",
    ]);
    kubectl.run("explain pods.spec.nothing").fails("field \"nothing\" does not exist");
    kubectl
        .run("get namespaces -o name")
        .is("namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system");
    kubectl.run("get service kubernetes -o jsonpath={.spec.clusterIP}:{.spec.ports[0].port}").is("10.96.0.1:443");
}

#[test]
fn objects_are_written_in_every_way_kubectl_knows() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    let file = cluster.file("settings.yaml", CONFIG);
    let file = file.display();
    let diff = kubectl.run(&format!("diff -f {file}"));
    assert!(diff.code == 1 && diff.out.contains("+kind: ConfigMap"), "{diff}");
    kubectl.run(&format!("apply -f {file} --dry-run=server")).is("configmap/settings created (server dry run)");
    kubectl.run("get configmap settings").fails("Error from server (NotFound): configmaps \"settings\" not found");
    kubectl.run(&format!("apply -f {file}")).is("configmap/settings created");
    kubectl.run(&format!("apply -f {file}")).is("configmap/settings unchanged");
    let before = kubectl.ok("get cm settings -o jsonpath={.metadata.resourceVersion}");
    cluster.file("settings.yaml", &CONFIG.replace("red", "blue"));
    let diff = kubectl.run(&format!("diff -f {file}"));
    assert!(diff.code == 1 && diff.out.contains("-  colour: red\n+  colour: blue"), "{diff}");
    kubectl.run(&format!("apply -f {file}")).is("configmap/settings configured");
    kubectl.run(&format!("replace -f {file}")).is("configmap/settings replaced");
    kubectl
        .run("patch cm settings --type=merge -p '{\"data\":{\"size\":null,\"shape\":\"round\"}}'")
        .is("configmap/settings patched");
    kubectl.run("patch cm settings --type=json -p '[{\"op\":\"test\",\"path\":\"/data/shape\",\"value\":\"round\"},{\"op\":\"move\",\"from\":\"/data/shape\",\"path\":\"/data/form\"}]'")
        .is("configmap/settings patched");
    kubectl.run("patch cm settings -p '{\"data\":{\"size\":\"2\"}}'").is("configmap/settings patched");
    kubectl.run("patch cm settings -p '{\"data\":{\"size\":\"2\"}}'").is("configmap/settings patched (no change)");
    kubectl.run("get cm settings -o jsonpath={.data}").is(r#"{"colour":"blue","form":"round","size":"2"}"#);
    kubectl.run("label cm settings tier=gold owner=me").is("configmap/settings labeled");
    kubectl.run("label cm settings tier=silver").fails("'tier' already has a value (gold), and --overwrite is false");
    kubectl.run("label cm settings tier=silver owner- --overwrite").is("configmap/settings labeled");
    kubectl.run("annotate cm settings note='two words'").is("configmap/settings annotated");
    kubectl.run("get cm -l tier=silver,owner!=me -o name").is("configmap/settings");
    kubectl.run("get cm -l 'tier in (gold)' -o name").is("");
    kubectl
        .run("get cm --field-selector metadata.name=settings -L tier --no-headers")
        .says(["settings   3 ", " silver"]);
    kubectl
        .run("get cm settings -o custom-columns=NAME:.metadata.name,TIER:.metadata.labels.tier")
        .is("NAME       TIER\nsettings   silver");
    kubectl.run("get cm settings -o json").says(["\"apiVersion\": \"v1\"", "\"note\": \"two words\""]);
    kubectl.run("get cm settings -o yaml").says(["colour: blue", "name: settings"]);
    kubectl.run("get cm settings -o go-template={{.data.colour}}").is("blue");
    kubectl.run("describe cm settings").says(["Name:         settings", "tier=silver", "colour:\n----\nblue"]);
    let after = kubectl.ok("get cm settings -o jsonpath={.metadata.resourceVersion}");
    assert!(after.parse::<u64>().unwrap() > before.parse::<u64>().unwrap());
    kubectl.run("delete cm settings --dry-run=server").is("configmap \"settings\" deleted (server dry run)");
    kubectl.run("delete cm settings").is("configmap \"settings\" deleted");
    kubectl.run("delete cm settings --ignore-not-found").is("");
}

#[test]
fn field_selectors_read_what_an_object_lacks_as_upstream_does() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    kubectl.ok("create serviceaccount default");
    let pod = |name: &str, node: &str| {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).to_string()
    };
    kubectl.run_with("create -f -", &pod("bound", "n1")).is("pod/bound created");
    kubectl.run_with("create -f -", &pod("waiting", "")).is("pod/waiting created");
    kubectl.ok("create job counted --image=i");
    let node = |name: &str, off: bool| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": off}})
            .to_string()
    };
    kubectl.run_with("create -f -", &node("on", false)).is("node/on created");
    kubectl.run_with("create -f -", &node("off", true)).is("node/off created");
    for (kind, selector, found) in [
        ("pods", "spec.host=n1", "pod/bound"),
        ("pods", "spec.nodeName=", "pod/waiting"),
        ("pods", "spec.hostNetwork=false,spec.nodeName=n1", "pod/bound"),
        ("pods", "spec.hostNetwork=", ""),
        ("pods", "status.podIPs=,spec.host!=n1", "pod/waiting"),
        ("nodes", "spec.unschedulable=false", "node/on"),
        ("nodes", "spec.unschedulable=true", "node/off"),
        ("jobs", "status.successful=0", "job.batch/counted"),
        ("jobs", "status.successful=", ""),
    ] {
        kubectl.run(&format!("get {kind} -o name --field-selector {selector}")).is(found);
    }
    kubectl.ok("patch job counted --subresource status -p '{\"status\":{\"succeeded\":1}}'");
    kubectl.run("get jobs -o name --field-selector status.successful=1").is("job.batch/counted");
}

#[test]
fn server_side_apply_tells_who_owns_a_field() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    let file = cluster.file("settings.yaml", CONFIG);
    let file = file.display();
    kubectl.run(&format!("apply --server-side -f {file}")).is("configmap/settings serverside-applied");
    kubectl
        .run(&format!("apply --server-side --field-manager=second -f {file}"))
        .is("configmap/settings serverside-applied");
    cluster.file("settings.yaml", &CONFIG.replace("red", "green"));
    kubectl
        .run(&format!("apply --server-side --field-manager=second -f {file}"))
        .fails("Apply failed with 1 conflict: conflict with \"kubectl\": .data.colour");
    kubectl
        .run(&format!("apply --server-side --field-manager=second --force-conflicts -f {file}"))
        .is("configmap/settings serverside-applied");
    let owners = "'jsonpath={range .metadata.managedFields[*]}{.manager}/{.operation}:{.fieldsV1.f:data} {end}'";
    let owned = kubectl.ok(&format!("get cm settings --show-managed-fields -o {owners}"));
    assert!(owned.contains(r#"kubectl/Apply:{"f:size":{}}"#), "{owned}");
    assert!(owned.contains(r#"second/Apply:{"f:colour":{},"f:size":{}}"#), "{owned}");
    // A field that a manager no longer applies is removed, unless another manager owns it too.
    cluster.file("settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n");
    kubectl
        .run(&format!("apply --server-side --field-manager=second -f {file}"))
        .is("configmap/settings serverside-applied");
    kubectl.run("get cm settings -o jsonpath={.data}").is(r#"{"size":"1"}"#);
}

#[test]
fn objects_of_many_kinds_are_created_by_generators() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    let created: &[(&str, &str)] = &[
        ("create namespace team", "namespace/team created"),
        ("create serviceaccount robot -n team", "serviceaccount/robot created"),
        ("create secret generic keys --from-literal=user=me --from-literal=pass=123 -n team", "secret/keys created"),
        ("create secret docker-registry pull --docker-username=u --docker-password=p -n team", "secret/pull created"),
        ("create configmap flags --from-literal=debug=on -n team", "configmap/flags created"),
        ("create quota small --hard=pods=2,services=1 -n team", "resourcequota/small created"),
        (
            "create role reader --verb=get,list --resource=pods,deployments.apps -n team",
            "role.rbac.authorization.k8s.io/reader created",
        ),
        (
            "create rolebinding read --role=reader --serviceaccount=team:robot -n team",
            "rolebinding.rbac.authorization.k8s.io/read created",
        ),
        (
            "create clusterrole watcher --verb=watch --resource=nodes",
            "clusterrole.rbac.authorization.k8s.io/watcher created",
        ),
        (
            "create clusterrolebinding watch --clusterrole=watcher --user=ann",
            "clusterrolebinding.rbac.authorization.k8s.io/watch created",
        ),
        ("create priorityclass high --value=1000", "priorityclass.scheduling.k8s.io/high created"),
        (
            "create deployment web --image=registry.k8s.io/pause:3.10 --replicas=3 --port=80 -n team",
            "deployment.apps/web created",
        ),
        ("create job once --image=busybox -n team", "job.batch/once created"),
        ("create cronjob often --image=busybox --schedule='*/5 * * * *' -n team", "cronjob.batch/often created"),
        ("create service clusterip web --tcp=80:8080 -n team", "service/web created"),
        ("create ingress web --rule=example.org/*=web:80 -n team", "ingress.networking.k8s.io/web created"),
        (
            "create poddisruptionbudget web --selector=app=web --min-available=1 -n team",
            "poddisruptionbudget.policy/web created",
        ),
    ];
    for (line, answer) in created {
        kubectl.run(line).is(answer);
    }
    kubectl.run("scale deployment web --replicas=5 -n team").is("deployment.apps/web scaled");
    kubectl
        .run("scale deployment web --replicas=1 --current-replicas=3 -n team")
        .fails("Expected replicas to be 3, was 5");
    kubectl
        .run("set image deployment/web pause=registry.k8s.io/pause:3.9 -n team")
        .is("deployment.apps/web image updated");
    kubectl.run("set env deployment/web MODE=test -n team").is("deployment.apps/web env updated");
    kubectl
        .run("set resources deployment/web --limits=cpu=200m,memory=64Mi -n team")
        .is("deployment.apps/web resource requirements updated");
    kubectl.run("set serviceaccount deployment/web robot -n team").is("deployment.apps/web serviceaccount updated");
    kubectl.run("get deployment web -n team -o jsonpath={.spec.template.spec.containers[0].resources.limits.cpu}:{.metadata.generation}").is("200m:6");
    kubectl.run("get secret keys -n team -o jsonpath={.data.pass}").is("MTIz");
    kubectl.run("get priorityclass high --no-headers").says(["high   1000   false"]);
    kubectl
        .run("get secret,configmap,role,rolebinding,pdb,ingress,cronjob -n team -o name")
        .says(["secret/keys", "ingress.networking.k8s.io/web"]);
}

#[test]
fn accounts_and_users_may_do_what_their_roles_say() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    for line in [
        "create namespace team",
        "create serviceaccount robot -n team",
        "create role reader --verb=get,list --resource=pods -n team",
        "create rolebinding read --role=reader --serviceaccount=team:robot -n team",
    ] {
        kubectl.ok(line);
    }
    kubectl.run("auth can-i create pods").is("yes");
    // The authorizer reads the store with a delay.
    kubectl.until_says("auth can-i list pods -n team --as=system:serviceaccount:team:robot", ["yes"]);
    let refused = kubectl.run("auth can-i delete pods -n team --as=system:serviceaccount:team:robot");
    assert!(refused.code == 1 && refused.out.trim_end() == "no", "{refused}");
    kubectl.run("auth can-i --list -n team --as=system:serviceaccount:team:robot").says(["pods", "[get list]"]);
    kubectl.run("auth whoami -o jsonpath={.status.userInfo.groups}").says(["system:masters", "system:authenticated"]);
    kubectl.ok("get pods -n team --as=system:serviceaccount:team:robot");
    kubectl.run("get secrets -n team --as=system:serviceaccount:team:robot")
        .fails("secrets is forbidden: User \"system:serviceaccount:team:robot\" cannot list resource \"secrets\" in API group \"\" in the namespace \"team\"");
    let token = kubectl.ok("create token robot -n team --duration=1h");
    let as_robot = format!("--token={} auth whoami -o jsonpath={{.status.userInfo.username}}", token.trim());
    without_certificate(&cluster).run(&as_robot).is("system:serviceaccount:team:robot");
    kubectl.run("create token nobody -n team").fails("serviceaccounts \"nobody\" not found");
    // A role binding may not grant permissions that its writer lacks.
    kubectl
        .run("create rolebinding more --clusterrole=admin --user=eve -n team --as=system:serviceaccount:team:robot")
        .fails("forbidden");
}

/// kubectl without the administrator's certificate, which would win over a token.
fn without_certificate(cluster: &Cluster) -> Kubectl {
    let text = oarlock_testkit::read(&cluster.kubeconfig());
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("client-")).collect();
    let bare = kept.join("\n").replace("  user:\n", "  user: {}\n");
    Kubectl::new(&cluster.file("bare.kubeconfig", &bare))
}
