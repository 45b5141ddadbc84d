//! The rights of the components: their own work, and never everything.

use oarlock_testkit::{Cluster, Kubectl};

/// Components that log in with a certificate, by the kubeconfig written for them.
const COMPONENTS: [&str; 3] = ["controller-manager", "scheduler", "kubelet"];

fn may_do_everything(kubectl: &Kubectl, who: &str) -> bool {
    let ran = kubectl.run(&format!("auth can-i * * --all-namespaces {who}"));
    match ran.out.trim_end() {
        "yes" => true,
        "no" => false,
        _ => panic!("{ran}"),
    }
}

#[test]
fn no_component_holds_cluster_admin() {
    let cluster = Cluster::api_only();
    let admin = cluster.kubectl();
    // The check itself works: an administrator may do everything.
    assert!(may_do_everything(&admin, ""));
    for stem in COMPONENTS {
        let component = Kubectl::new(&cluster.data_dir().component_kubeconfig(stem));
        assert!(!may_do_everything(&component, ""), "{stem}");
    }
    let bound = r#"get clusterrolebindings -o jsonpath={.items[*].subjects[?(@.kind=="ServiceAccount")].name}"#;
    let accounts = admin.ok(bound);
    let accounts: Vec<&str> = accounts.split_whitespace().collect();
    assert!(accounts.len() > 20 && accounts.contains(&"deployment-controller"), "{accounts:?}");
    for account in accounts {
        let who = format!("--as=system:serviceaccount:kube-system:{account}");
        assert!(!may_do_everything(&admin, &who), "{account}");
    }
    admin
        .run(r#"get clusterrolebindings -o jsonpath={.items[?(@.roleRef.name=="cluster-admin")].subjects[*].name}"#)
        .is("system:masters");
}
