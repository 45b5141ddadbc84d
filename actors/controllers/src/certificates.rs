//! Controllers of certificates.

pub(crate) mod root_ca_publisher;
