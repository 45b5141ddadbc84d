//! kubectl's output for errors: upstream's texts.

use oarlock_testkit::Cluster;
use serde_json::{Value, json};

#[test]
fn wrong_commands_get_upstreams_answers() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    kubectl.run("get unicorns").fails("error: the server doesn't have a resource type \"unicorns\"");
    kubectl.run("get pods.v9.example.com").fails("the server doesn't have a resource type \"pods\"");
    kubectl.run("get pod nobody").fails("Error from server (NotFound): pods \"nobody\" not found");
    kubectl
        .run("get --raw /apis/nothing/v1")
        .fails("Error from server (NotFound): the server could not find the requested resource");
    kubectl.run("get pods --field-selector spec.foo=x").fails("field label not supported: spec.foo");
    kubectl
        .run("get cm --field-selector data.x=1")
        .fails("\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    kubectl.run("create configmap Bad_Name").fails("ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of");
    kubectl.run("create configmap x -n nowhere").fails("namespaces \"nowhere\" not found");
    kubectl
        .run("create namespace default")
        .fails("Error from server (AlreadyExists): namespaces \"default\" already exists");
    kubectl
        .run("delete namespace kube-system")
        .fails("namespaces \"kube-system\" is forbidden: this namespace may not be deleted");
    kubectl.run("label namespace default -- -bad=x").fails("-bad");
    kubectl
        .run("patch service kubernetes -p '{\"spec\":{\"clusterIP\":\"10.96.0.9\",\"clusterIPs\":[\"10.96.0.9\"]}}'")
        .fails("spec.clusterIPs[0]: Invalid value: [\"10.96.0.9\"]: may not change once set");
    kubectl
        .run("patch service kubernetes --type=json -p '[{\"op\":\"remove\",\"path\":\"/nothing\"}]'")
        .fails("the server rejected our request due to an error in our request");
    let config = |more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object.to_string()
    };
    let deployment = |spec: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}).to_string()
    };
    kubectl
        .run_with("create -f -", &deployment(json!({"replicas": "many"})))
        .fails("json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32");
    kubectl.run_with("create -f -", &config(json!({"dat": {}}))).fails("strict decoding error: unknown field \"dat\"");
    kubectl.run_with("create -f - --validate=warn", &config(json!({"dat": {}}))).is("configmap/d created");
    kubectl
        .run_with("create -f -", &config(json!({"kind": "Nothing"})))
        .fails("no matches for kind \"Nothing\" in version \"v1\"");
    let template = json!({"metadata": {"labels": {"a": "c"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    kubectl
        .run_with("create -f -", &deployment(json!({"selector": {"matchLabels": {"a": "b"}}, "template": template})))
        .fails(
            "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`",
        );
    kubectl
        .run_with("create -f -", &config(json!({"kind": "Pod", "spec": {"containers": []}})))
        .fails("error looking up service account default/default: serviceaccount \"default\" not found");
    kubectl.ok("create serviceaccount default");
    kubectl
        .run_with("create -f -", &config(json!({"kind": "Pod", "spec": {"containers": []}})))
        .fails("spec.containers: Required value");
}

#[test]
fn an_old_copy_does_not_overwrite_a_newer_object() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    kubectl.ok("create configmap shared --from-literal=n=1");
    let old = kubectl.ok("get configmap shared -o json");
    let version = kubectl.ok("get configmap shared -o jsonpath={.metadata.resourceVersion}");
    kubectl.ok("patch configmap shared -p '{\"data\":{\"n\":\"2\"}}'");
    let modified = "Operation cannot be fulfilled on configmaps \"shared\": the object has been modified; please apply your changes to the latest version and try again";
    kubectl.run_with("replace -f -", &old).fails(modified);
    // A patch that names a revision behaves in the same way.
    let patch = json!({"metadata": {"resourceVersion": version}, "data": {"n": "3"}});
    for kind in ["strategic", "merge"] {
        kubectl.run(&format!("patch configmap shared --type={kind} -p '{patch}'")).fails(modified);
    }
    kubectl.run("get configmap shared -o jsonpath={.data.n}").is("2");
    let foreign = old.replace("\"uid\": \"", "\"uid\": \"00000000-").replace("\"resourceVersion\"", "\"generateName\"");
    kubectl.run_with("replace -f -", &foreign).fails("shared");
}
