//! Computes a pod's host name, and its `/etc/hosts` (`pkg/kubelet/kubelet_pods.go`).

use std::fmt::Write as _;
use std::net::IpAddr;

use oarlock_schema::views::core_v1::Pod;

use crate::pod_error::PodError;

/// The kernel's limit for the length of a host name.
const MAX_HOST_NAME: usize = 63;

/// Returns a pod's host name and DNS domain; the domain may be empty.
///
/// # Errors
/// When nothing is left of a truncated name; upstream's text.
pub(crate) fn host_name(pod: Pod<'_>, cluster_domain: &str) -> Result<(String, String), PodError> {
    let (spec, meta) = (pod.spec(), pod.metadata());
    if let Some(name) = spec.hostname_override() {
        return Ok((shortened(meta.name(), name)?, String::new()));
    }
    let name = if spec.hostname().is_empty() { meta.name() } else { spec.hostname() };
    let domain = match spec.subdomain() {
        "" => String::new(),
        subdomain => format!("{subdomain}.{}.svc.{cluster_domain}", meta.namespace()),
    };
    Ok((shortened(meta.name(), name)?, domain))
}

fn shortened(pod: &str, name: &str) -> Result<String, PodError> {
    let Some(head) = name.get(..MAX_HOST_NAME) else { return Ok(name.to_owned()) };
    if name.len() == MAX_HOST_NAME {
        return Ok(name.to_owned());
    }
    let head = head.trim_end_matches(['-', '.']);
    if head.is_empty() {
        Err(PodError::Invalid(format!("hostname for pod \"{pod}\" was invalid: \"{name}\"")))
    } else {
        Ok(head.to_owned())
    }
}

/// Returns the text of `/etc/hosts` for a pod with these addresses; `node` is the node's own file, for pods in the node's network.
pub(crate) fn hosts_file(pod: Pod<'_>, name: &str, domain: &str, ips: &[IpAddr], node: Option<&str>) -> String {
    let mut out = match node {
        Some(node) => format!("# Kubernetes-managed hosts file (host network).\n{node}"),
        None => "# Kubernetes-managed hosts file.\n\
            127.0.0.1\tlocalhost\n\
            ::1\tlocalhost ip6-localhost ip6-loopback\n\
            fe00::0\tip6-localnet\n\
            fe00::0\tip6-mcastprefix\n\
            fe00::1\tip6-allnodes\n\
            fe00::2\tip6-allrouters\n"
            .to_owned(),
    };
    // Writing to a String cannot fail.
    if node.is_none() {
        for ip in ips {
            let _ = match domain {
                "" => writeln!(out, "{ip}\t{name}"),
                domain => writeln!(out, "{ip}\t{name}.{domain}\t{name}"),
            };
        }
    }
    let aliases = pod.spec().host_aliases();
    if !aliases.is_empty() {
        out.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases.iter() {
        let names: Vec<&str> = alias.hostnames().iter().collect();
        let _ = writeln!(out, "{}\t{}", alias.ip(), names.join("\t"));
    }
    out
}

#[cfg(test)]
mod tests {
    use oarlock_client::decode;
    use oarlock_schema::{Obj, type_of_kind};
    use serde_json::{Value, json};

    use super::*;
    use crate::downward;

    fn object(spec: &Value) -> Obj {
        let pod = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_pod_is_called_as_its_spec_says_or_as_itself() {
        let name = |spec: Value| host_name(downward::pod(&object(&spec)), "cluster.local").unwrap();
        let both = |name: &str, domain: &str| (name.to_owned(), domain.to_owned());
        assert_eq!(name(json!({})), both("web", ""));
        assert_eq!(name(json!({"hostname": "db", "subdomain": "sql"})), both("db", "sql.shop.svc.cluster.local"));
        assert_eq!(name(json!({"hostnameOverride": "a.b", "subdomain": "sql"})), both("a.b", ""));
        assert_eq!(name(json!({"hostname": "x".repeat(63)})), both(&"x".repeat(63), ""));
        let long = format!("{}-.{}", "x".repeat(61), "y".repeat(9));
        assert_eq!(name(json!({"hostname": long})), both(&"x".repeat(61), ""));
        let nothing = object(&json!({"hostnameOverride": "-".repeat(70)}));
        assert!(host_name(downward::pod(&nothing), "").is_err());
    }

    #[test]
    fn the_hosts_file_names_the_pod_and_its_aliases() {
        let pod = object(&json!({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["foo", "bar"]}]}));
        let pod = downward::pod(&pod);
        let ips = ["10.244.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        let text = hosts_file(pod, "web", "sql.shop.svc.cluster.local", &ips, None);
        let tail = "fe00::2\tip6-allrouters\n\
            10.244.0.7\tweb.sql.shop.svc.cluster.local\tweb\nfd00::7\tweb.sql.shop.svc.cluster.local\tweb\n\
            \n# Entries added by HostAliases.\n1.2.3.4\tfoo\tbar\n";
        assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{text}");
        assert!(text.ends_with(tail), "{text}");
        let node = hosts_file(pod, "web", "", &ips, Some("127.0.0.1 localhost\n"));
        assert_eq!(
            node,
            "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\
             \n# Entries added by HostAliases.\n1.2.3.4\tfoo\tbar\n"
        );
        assert!(hosts_file(pod, "web", "", &ips, None).contains("10.244.0.7\tweb\n"));
    }
}
