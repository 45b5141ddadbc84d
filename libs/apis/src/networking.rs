//! Rules of the networking group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod address;
pub mod ingress;
pub mod network_policy;

/// The rules of the networking group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("networking/v1.IPAddressSpec").immutable(&["parentRef"]).validate(address::validate),
    TypeRules::of("networking/v1.ServiceCIDRSpec")
        .validate(address::validate_ranges)
        .validate_update(address::keep_ranges),
    TypeRules::of("networking/v1.NetworkPolicySpec")
        .default(network_policy::default)
        .validate(network_policy::validate),
    TypeRules::of("networking/v1.NetworkPolicyPort").validate(network_policy::validate_port),
    TypeRules::of("networking/v1.NetworkPolicyPeer")
        .validate(network_policy::validate_peer)
        .warnings(network_policy::warnings),
    TypeRules::of("networking/v1.IPBlock").validate(network_policy::validate_block),
    TypeRules::of("networking/v1.Ingress")
        .warnings(ingress::warnings)
        .status(crate::core::load_balancer::validate_ingress),
    TypeRules::of("networking/v1.IngressSpec").validate(ingress::validate),
    TypeRules::of("networking/v1.HTTPIngressRuleValue").required(&["paths"]),
    TypeRules::of("networking/v1.HTTPIngressPath").validate(ingress::validate_path),
    TypeRules::of("networking/v1.IngressBackend").validate(ingress::validate_backend),
    TypeRules::of("networking/v1.IngressClassSpec").immutable(&["controller"]).validate(ingress::validate_class),
];
