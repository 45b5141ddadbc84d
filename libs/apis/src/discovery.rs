//! Rules of the discovery group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod endpoint_slice;

/// The rules of the discovery group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("discovery/v1.EndpointSlice")
        .required(&["addressType"])
        .enums(&["addressType"])
        .immutable(&["addressType"])
        .unchanged_passes(&["endpoints"])
        .validate(endpoint_slice::validate)
        .warnings(endpoint_slice::warnings),
    TypeRules::of("discovery/v1.EndpointPort").enums(&["protocol"]),
];
