//! The certificates group.

pub mod certificate_signing_request;
