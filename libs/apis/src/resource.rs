//! The resource group.

use crate::table::TypeRules;

pub mod device_request;

/// Rows of the resource group.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("resource/v1.ExactDeviceRequest").default(device_request::default),
    TypeRules::of("resource/v1.DeviceSubRequest").default(device_request::default),
];
