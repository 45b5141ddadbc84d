//! Admission policies, written and met by a user of kubectl.

use oarlock_testkit::Cluster;
use serde_json::{Value, json};

fn deployment(name: &str, replicas: u32) -> String {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}).to_string()
}

fn policy(name: &str, kind: &str, spec: Value) -> String {
    let metadata = json!({"name": name});
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
        .to_string()
}

#[test]
fn a_policy_limits_replicas_by_a_config_map() {
    let cluster = Cluster::api_only();
    let kubectl = cluster.kubectl();
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]);
    let limits = |expression: &str| {
        let validation = json!({
            "expression": expression,
            "messageExpression": "'at most ' + string(variables.most) + ' replicas, not ' + string(object.spec.replicas)",
            "reason": "Forbidden",
        });
        json!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": rules},
            "variables": [{"name": "most", "expression": "int(params.data.most)"}],
            "validations": [validation],
        })
    };
    let kind = "ValidatingAdmissionPolicy";
    kubectl
        .run_with("create -f -", &policy("replicas", kind, limits("object.spec.replicas <= variables.least")))
        .fails("spec.validations[0].expression: Invalid value: \"object.spec.replicas <= variables.least\": compilation failed: ERROR: <input>:1:34: undefined field 'least'");
    let good = limits("object.spec.replicas <= variables.most");
    kubectl
        .run_with("create -f -", &policy("replicas", kind, good))
        .is("validatingadmissionpolicy.admissionregistration.k8s.io/replicas created");
    kubectl.run_with("create -f -", &deployment("before", 9)).is("deployment.apps/before created");
    let binding = |action: &str| {
        let params = json!({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"});
        let spec = json!({"policyName": "replicas", "validationActions": [action], "paramRef": params});
        policy("replicas-everywhere", "ValidatingAdmissionPolicyBinding", spec)
    };
    let bound = "validatingadmissionpolicybinding.admissionregistration.k8s.io/replicas-everywhere";
    kubectl.run_with("apply -f -", &binding("Deny")).is(&format!("{bound} created"));
    let refused = "ValidatingAdmissionPolicy 'replicas' with binding 'replicas-everywhere' denied request: ";
    let forbidden = format!("deployments.apps \"web\" is forbidden: {refused}");
    kubectl.run_with("create -f -", &deployment("web", 2)).fails(&format!(
        "The deployments \"web\" is invalid: : {refused}failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    ));
    kubectl.ok("create configmap limits --from-literal=most=2");
    kubectl.run_with("create -f -", &deployment("web", 3)).fails(&format!(
        "Error from server (Forbidden): error when creating \"STDIN\": {forbidden}at most 2 replicas, not 3"
    ));
    kubectl.run_with("create -f -", &deployment("web", 2)).is("deployment.apps/web created");
    kubectl.run("patch deployment web -p '{\"spec\":{\"replicas\":5}}'").fails("at most 2 replicas, not 5");
    kubectl.ok("patch configmap limits -p '{\"data\":{\"most\":\"5\"}}'");
    kubectl.ok("patch deployment web -p '{\"spec\":{\"replicas\":5}}'");
    kubectl.run_with("apply -f -", &binding("Warn")).is(&format!("{bound} configured"));
    let warned = kubectl.run("patch deployment web -p '{\"spec\":{\"replicas\":7}}'").ok();
    let warning = "Validation failed for ValidatingAdmissionPolicy 'replicas' with binding 'replicas-everywhere': at most 5 replicas, not 7";
    assert!(warned.err.contains(&format!("Warning: {warning}")), "{warned}");
    kubectl.run_with("apply -f -", &binding("Deny")).is(&format!("{bound} configured"));
    kubectl.run("patch deployment web -p '{\"spec\":{\"replicas\":8}}'").fails("at most 5 replicas, not 8");
    kubectl.ok("delete validatingadmissionpolicy replicas");
    kubectl.ok("patch deployment web -p '{\"spec\":{\"replicas\":50}}'");
}
