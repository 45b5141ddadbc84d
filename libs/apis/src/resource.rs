//! Rules of the resource group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod claim_status;
pub mod device_request;
pub mod slice;

/// The rules of the resource group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("resource/v1.ResourceClaim").immutable(&["spec"]).status(claim_status::validate_change),
    TypeRules::of("resource/v1.ResourceClaimTemplate").immutable(&["spec"]),
    TypeRules::of("resource/v1.ResourceSliceSpec").validate(slice::validate).validate_update(slice::validate_update),
    TypeRules::of("resource/v1.ExactDeviceRequest").enums(&["allocationMode"]).default(device_request::default),
    TypeRules::of("resource/v1.DeviceSubRequest").enums(&["allocationMode"]).default(device_request::default),
];
