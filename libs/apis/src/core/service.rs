//! Defaults and validation of Service.

use oarlock_meta::field::Raw;
use oarlock_meta::quote::quote;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{
    LoadBalancerIngressMut, Service, ServiceMut, ServicePort, ServicePortMut, ServiceSpec,
};
use oarlock_schema::{IntOrStr, Struct};

use crate::rules::{self, Seen, formats, labels, one_of, port, port_or_name, qualified, show, subdomain};

/// Whether a Service is reachable from outside the cluster (upstream `service.ExternallyAccessible`).
fn external(spec: ServiceSpec<'_>) -> bool {
    matches!(spec.type_(), "LoadBalancer" | "NodePort")
        || (spec.type_() == "ClusterIP" && !spec.external_ips().is_empty())
}

/// Sets defaults like upstream's `SetDefaults_Service`. Runs before the constants of the spec are applied, so an empty type is still empty here.
pub fn default(node: &mut Struct) {
    let mut service = ServiceMut::new(node);
    let mut spec = service.spec_mut();
    if spec.read().type_().is_empty() {
        spec.set_type("ClusterIP");
    }
    let affinity = spec.read().session_affinity_config().and_then(|c| c.client_ip()).and_then(|c| c.timeout_seconds());
    match spec.read().session_affinity() {
        "" | "None" => drop(spec.clear_session_affinity_config()),
        "ClientIP" if affinity.is_none() => {
            spec.session_affinity_config_mut().client_ip_mut().set_timeout_seconds(10_800);
        }
        _ => {}
    }
    if !spec.read().ports().is_empty() {
        for mut port in spec.ports_mut().iter_mut().filter_map(ServicePortMut::from_value) {
            if matches!(port.read().target_port(), IntOrStr::Int(0) | IntOrStr::Str("")) {
                let same = port.read().port();
                port.set_target_port(same);
            }
        }
    }
    if external(spec.read()) && spec.read().external_traffic_policy().is_empty() {
        spec.set_external_traffic_policy("Cluster");
    }
    let kind = spec.read().type_().to_owned();
    if spec.read().internal_traffic_policy().is_none()
        && matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP")
    {
        spec.set_internal_traffic_policy("Cluster");
    }
    if kind == "LoadBalancer" {
        if spec.read().allocate_load_balancer_node_ports().is_none() {
            spec.set_allocate_load_balancer_node_ports(true);
        }
        if !service.read().status().load_balancer().ingress().is_empty() {
            let mut status = service.status_mut();
            let mut balancer = status.load_balancer_mut();
            for mut ingress in balancer.ingress_mut().iter_mut().filter_map(LoadBalancerIngressMut::from_value) {
                if !ingress.read().ip().is_empty() && ingress.read().ip_mode().is_none() {
                    ingress.set_ip_mode("VIP");
                }
            }
        }
    }
}

/// Validates like upstream's `validateService`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = ServiceSpec::new(node);
    let headless = spec.cluster_ips().get(0) == Some("None") || spec.cluster_ip() == "None";
    ports(spec, headless, path, errors);
    match spec.type_() {
        "LoadBalancer" | "NodePort" if headless => {
            let text = format!("may not be set to 'None' for {} services", spec.type_());
            errors.push(FieldError::invalid(&path.child("clusterIPs").index(0), "None", text));
        }
        "ExternalName" => external_name(spec, path, errors),
        _ => {}
    }
    labels(spec.selector(), &path.child("selector"), errors);
    if let Some(timeout) = spec.session_affinity_config().and_then(|c| c.client_ip()).and_then(|c| c.timeout_seconds())
        && spec.session_affinity() == "ClientIP"
        && !(1..=86_400).contains(&timeout)
    {
        let at = path.child("sessionAffinityConfig");
        let at = at.child("clientIP");
        errors.push(FieldError::invalid(
            &at.child("timeoutSeconds"),
            timeout,
            "must be greater than 0 and less than 86400",
        ));
    }
    if spec.type_() != "ExternalName" {
        addresses(spec, path, errors);
    }
    for (i, address) in spec.external_ips().iter().enumerate() {
        let at = path.child("externalIPs");
        let at = at.index(i);
        if formats::is_ip(address) {
            rules::address::endpoint(address, &at, errors);
        } else {
            rules::ip(address, &at, errors);
        }
    }
    balancer(spec, path, errors);
    traffic(spec, path, errors);
}

fn ports(spec: ServiceSpec<'_>, headless: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("ports");
    if spec.ports().is_empty() && !headless && spec.type_() != "ExternalName" {
        errors.push(FieldError::required(&at, ""));
    }
    let several = spec.ports().len() > 1;
    let mut names: Seen<&str> = Seen::new();
    let mut seen: Seen<(&str, i64)> = Seen::new();
    let mut unused = Vec::new();
    for (i, one) in spec.ports().iter().enumerate() {
        let here = at.index(i);
        one_port(one, several, headless, &here, errors);
        if !one.name().is_empty() {
            if names.contains(&one.name()) {
                errors.push(FieldError::duplicate(&here.child("name"), one.name()));
            }
            names.push(one.name());
        }
        if seen.contains(&(one.protocol(), one.port())) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                quote(one.protocol()),
                one.port()
            );
            errors.push(FieldError::duplicate(&here, Raw(shown)));
        }
        seen.push((one.protocol(), one.port()));
        if one.node_port() == 0 {
            continue;
        }
        if matches!(spec.type_(), "ClusterIP" | "ExternalName") {
            let text = format!("may not be used when `type` is '{}'", spec.type_());
            errors.push(FieldError::forbidden(&here.child("nodePort"), text));
            unused.push((i, one));
        }
    }
    // Where node ports are used, their allocation refuses duplicates.
    let mut node_ports: Seen<(&str, i64)> = Seen::new();
    for (i, one) in unused {
        if node_ports.contains(&(one.protocol(), one.node_port())) {
            errors.push(FieldError::duplicate(&at.index(i).child("nodePort"), one.node_port()));
        }
        node_ports.push((one.protocol(), one.node_port()));
    }
}

fn one_port(one: ServicePort<'_>, named: bool, headless: bool, path: &Path<'_>, errors: &mut ErrorList) {
    if one.name().is_empty() {
        if named {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
    } else {
        rules::label(one.name(), &path.child("name"), errors);
    }
    port(one.port(), &path.child("port"), errors);
    let target = one.target_port();
    // Headless Services forward no port, so any well-formed target is accepted.
    let _ = headless;
    port_or_name(target, &path.child("targetPort"), errors);
    if let Some(protocol) = one.app_protocol() {
        qualified(protocol, &path.child("appProtocol"), errors);
    }
}

fn external_name(spec: ServiceSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let text = "may not be set for ExternalName services";
    let set = [
        ("clusterIPs", !spec.cluster_ips().is_empty() || !spec.cluster_ip().is_empty()),
        ("ipFamilies", !spec.ip_families().is_empty()),
        ("ipFamilyPolicy", spec.ip_family_policy().is_some()),
    ];
    for (field, _) in set.iter().filter(|(_, set)| *set) {
        errors.push(FieldError::forbidden(&path.child(field), text));
    }
    let at = path.child("externalName");
    let name = spec.external_name().strip_suffix('.').unwrap_or(spec.external_name());
    if name.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        subdomain(name, &at, errors);
    }
}

/// Validates cluster addresses and their families (upstream `ValidateServiceClusterIPsRelatedFields`).
fn addresses(spec: ServiceSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("clusterIPs");
    let list = spec.cluster_ips();
    let mut families = Seen::new();
    for (i, family) in spec.ip_families().iter().enumerate() {
        let here = path.child("ipFamilies");
        one_of(family, &["IPv4", "IPv6"], &here.index(i), errors);
        if families.is_repeat(family) {
            errors.push(FieldError::duplicate(&here.index(i), family));
        }
    }
    let shown = || Raw(show::items(list.values()));
    match (spec.cluster_ip(), list.get(0)) {
        ("", Some(_)) => {
            errors.push(FieldError::invalid(&at, shown(), "must be empty when `clusterIP` is not specified"))
        }
        (one, Some(first)) if one != first => {
            errors.push(FieldError::invalid(&at, shown(), "first value must match `clusterIP`"))
        }
        _ => {}
    }
    let first = (list.is_empty() && !spec.cluster_ip().is_empty()).then(|| spec.cluster_ip());
    let given: Vec<&str> = first.into_iter().chain(list.iter()).collect();
    let count = errors.len();
    for (i, address) in given.iter().enumerate() {
        match *address {
            "None" if i == 0 && list.len() <= 1 => {}
            "None" if i == 0 => {
                let text = "'None' must be the first and only value";
                errors.push(FieldError::invalid(&at, shown(), text));
            }
            "" => {}
            address => rules::ip(address, &at.index(i), errors),
        }
    }
    let malformed = errors.len() != count;
    if list.len() > 2 {
        errors.push(FieldError::invalid(&at, shown(), "may only hold up to 2 values"));
    }
    if !malformed {
        super::cluster_ips::agreement(spec, &given, &at, errors);
    }
}

fn balancer(spec: ServiceSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let load_balancer = spec.type_() == "LoadBalancer";
    let only = "may only be used when `type` is 'LoadBalancer'";
    // Upstream's path is capitalized.
    let ranges = path.child("LoadBalancerSourceRanges");
    if !load_balancer && !spec.load_balancer_source_ranges().is_empty() {
        errors.push(FieldError::forbidden(&ranges, only));
    }
    for (i, range) in spec.load_balancer_source_ranges().iter().enumerate() {
        if !formats::is_cidr(range.trim()) {
            let text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(FieldError::invalid(&ranges.index(i), range, text));
        }
    }
    if !load_balancer && spec.allocate_load_balancer_node_ports().is_some() {
        errors.push(FieldError::forbidden(&path.child("allocateLoadBalancerNodePorts"), only));
    }
    if let Some(class) = spec.load_balancer_class() {
        let at = path.child("loadBalancerClass");
        if !load_balancer {
            errors.push(FieldError::forbidden(&at, only));
        }
        qualified(class, &at, errors);
    }
}

fn traffic(spec: ServiceSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("externalTrafficPolicy");
    match spec.external_traffic_policy() {
        "" if external(spec) => errors.push(FieldError::required(&at, "")),
        "" => {}
        policy if !external(spec) => {
            errors.push(FieldError::invalid(&at, policy, "may only be set for externally-accessible services"));
        }
        policy => one_of(policy, &["Cluster", "Local"], &at, errors),
    }
    let check = spec.health_check_node_port();
    if check < 0 {
        rules::range(check, 0, 65_535, &path.child("healthCheckNodePort"), errors);
    } else if check > 0 && !(spec.type_() == "LoadBalancer" && spec.external_traffic_policy() == "Local") {
        let text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(&path.child("healthCheckNodePort"), check, text));
    }
    if let Some(policy) = spec.internal_traffic_policy() {
        one_of(policy, &["Cluster", "Local"], &path.child("internalTrafficPolicy"), errors);
    }
    if let Some(distribution) = spec.traffic_distribution() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        one_of(distribution, &known, &path.child("trafficDistribution"), errors);
    }
}

/// Validates that cluster addresses do not change once set (upstream `ValidateServiceUpdate`).
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (ServiceSpec::new(new), ServiceSpec::new(old));
    if now.type_() == "ExternalName" || before.type_() == "ExternalName" {
        return;
    }
    if let (Some(old), Some(new)) = (before.cluster_ips().get(0), now.cluster_ips().get(0))
        && old != new
    {
        let at = path.child("clusterIPs");
        let shown = Raw(show::items(now.cluster_ips().values()));
        errors.push(FieldError::invalid(&at.index(0), shown, "may not change once set"));
    }
    let checked = |spec: ServiceSpec<'_>| spec.type_() == "LoadBalancer" && spec.external_traffic_policy() == "Local";
    if checked(now) && checked(before) && now.health_check_node_port() != before.health_check_node_port() {
        errors.push(FieldError::forbidden(&path.child("healthCheckNodePort"), "field is immutable"));
    }
    let both = now.type_() == "LoadBalancer" && before.type_() == "LoadBalancer";
    if both && now.load_balancer_class() != before.load_balancer_class() {
        let shown = show::value(new.get("loadBalancerClass"));
        errors.push(FieldError::invalid(&path.child("loadBalancerClass"), shown, "may not change once set"));
    }
}

/// Warns of settings without effect (upstream `pkg/api/service/warnings.go`).
pub fn warnings(node: &Struct, _: &Path<'_>, texts: &mut Vec<String>) {
    let service = Service::new(node);
    let spec = service.spec();
    if service.metadata().annotations().get("service.kubernetes.io/topology-aware-hints").is_some() {
        texts.push(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead"
                .to_owned(),
        );
    }
    legacy_addresses(spec, texts);
    if spec.type_() == "ExternalName" && !spec.external_ips().is_empty() {
        texts.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if spec.type_() != "ExternalName" && !spec.external_name().is_empty() {
        texts.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.traffic_distribution() == Some("PreferClose") {
        texts.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
}

/// Warns of addresses in deprecated forms, and of settings that have no effect in a headless Service.
fn legacy_addresses(spec: ServiceSpec<'_>, texts: &mut Vec<String>) {
    let path = Path::new("spec");
    let headless = spec.cluster_ip() == "None" && spec.type_() == "ClusterIP";
    if !matches!(spec.cluster_ip(), "" | "None") {
        for (i, address) in spec.cluster_ips().iter().enumerate() {
            rules::address::warn(address, &path.child("clusterIPs").index(i), texts);
        }
    }
    for (field, set) in [
        ("loadBalancerIP", !spec.load_balancer_ip().is_empty()),
        ("externalIPs", !spec.external_ips().is_empty()),
        // Capitalized in upstream's warning.
        ("SessionAffinity", spec.session_affinity() != "None"),
    ] {
        if headless && set {
            texts.push(format!("spec.{field} is ignored for headless services"));
        }
    }
    for (i, address) in spec.external_ips().iter().enumerate() {
        rules::address::warn(address, &path.child("externalIPs").index(i), texts);
    }
    rules::address::warn(spec.load_balancer_ip(), &path.child("loadBalancerIP"), texts);
    for (i, range) in spec.load_balancer_source_ranges().iter().enumerate() {
        rules::address::warn_range(range, &path.child("loadBalancerSourceRanges").index(i), texts);
    }
}
