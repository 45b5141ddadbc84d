//! Commands about several objects: what is pruned, what is left, what a namespace may hold, what scales what.

use oarlock_testkit::Cluster;

fn config(name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: demo}}}}\ndata: {{value: \"{value}\"}}\n"
    )
}

#[test]
fn what_a_set_no_longer_names_is_pruned() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    kubectl.ok("create configmap other");
    kubectl.ok("label configmap other set=demo");
    let file = cluster.file("set.yaml", &(config("a", "1") + &config("b", "1")));
    let file = file.display();
    let apply = format!("apply --prune -l set=demo --prune-allowlist=core/v1/ConfigMap -f {file}");
    kubectl.run(&apply).is("configmap/a created\nconfigmap/b created");
    cluster.file("set.yaml", &(config("a", "2") + &config("c", "1")));
    let diff = kubectl.run(&format!("diff -l set=demo --prune --prune-allowlist=core/v1/ConfigMap -f {file}"));
    let shown = ["-  value: \"1\"\n+  value: \"2\"", "+  name: c", "-  name: b"];
    assert!(diff.code == 1 && shown.iter().all(|text| diff.out.contains(text)), "{diff}");
    kubectl.run(&format!("{apply} --dry-run=server")).is(
        "configmap/a configured (server dry run)\nconfigmap/c created (server dry run)\nconfigmap/b pruned (server dry run)",
    );
    kubectl.run(&apply).is("configmap/a configured\nconfigmap/c created\nconfigmap/b pruned");
    // `other` was not created by apply, so `--prune` keeps it.
    kubectl.run("get configmaps -l set=demo -o name").is("configmap/a\nconfigmap/c\nconfigmap/other");
    let diff = kubectl.run(&format!("diff -f {file}"));
    assert!(diff.code == 0 && diff.out.is_empty(), "{diff}");
    kubectl.run(&format!("delete -f {file}")).is("configmap \"a\" deleted\nconfigmap \"c\" deleted");
}

#[test]
fn a_namespace_holds_no_more_than_its_quota() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    kubectl.ok("create namespace team");
    kubectl.run("create quota small --hard=configmaps=1 -n team").is("resourcequota/small created");
    // A quota applies once its status holds the limits, which a controller writes.
    kubectl
        .run("patch quota small -n team --subresource=status --type=merge -p '{\"status\":{\"hard\":{\"configmaps\":\"1\"},\"used\":{\"configmaps\":\"0\"}}}'")
        .is("resourcequota/small patched");
    kubectl.run("create configmap one -n team --dry-run=server").is("configmap/one created (server dry run)");
    kubectl.run("create configmap one -n team").is("configmap/one created");
    kubectl.run("create configmap two -n team").fails(
        "error: failed to create configmap: configmaps \"two\" is forbidden: exceeded quota: small, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
    );
    kubectl.run("get configmaps -n team -o name").is("configmap/one");
    kubectl.run("get quota small -n team --no-headers").says(["small   configmaps: 1/1"]);
    kubectl.run("describe quota small -n team").says(["configmaps  1     1"]);
    kubectl.run("create quota wrong --hard=configmaps=-1 -n team").fails("must be greater than or equal to 0");
}

#[test]
fn an_autoscaler_names_what_it_scales() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    kubectl.ok("create deployment web --image=nginx --replicas=2");
    kubectl
        .run("autoscale deployment web --min=1 --max=5 --cpu-percent=80")
        .is("horizontalpodautoscaler.autoscaling/web autoscaled");
    kubectl.run("get hpa web --no-headers").says(["web   Deployment/web   cpu: <unknown>/80%   1 "]);
    kubectl
        .run("get hpa.v2.autoscaling web -o jsonpath={.spec.metrics[0].resource.target.averageUtilization}")
        .is("80");
    kubectl.run("describe hpa web").says(["Reference:", "Deployment/web", "Max replicas:", "5"]);
    kubectl
        .run("autoscale deployment web --max=5")
        .fails("horizontalpodautoscalers.autoscaling \"web\" already exists");
    kubectl
        .run("patch hpa web --type=merge -p '{\"spec\":{\"minReplicas\":9}}'")
        .fails("spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`");
    kubectl.run("autoscale deployment nothing --max=5").fails("deployments.apps \"nothing\" not found");
}
