//! Parsing of certificates: user, alternative names, validity.

use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::key::sha256;
use crate::{Error, Result, San, Subject};

/// The attribute upstream reads a user's uid from (`AllowParsingUserUIDFromCertAuth`).
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// A parsed certificate. Its content is unverified until [`crate::ClientTrust`] or TLS has checked the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// Subject: CN and every O.
    pub subject: Subject,
    /// All uid attributes, in order; upstream treats more than one as an error.
    pub uids: Vec<String>,
    /// Subject alternative names, sorted.
    pub sans: Vec<San>,
    /// First second of the validity, since the epoch.
    pub not_before: u64,
    /// Last second of the validity, since the epoch.
    pub not_after: u64,
    /// DER SubjectPublicKeyInfo.
    pub public_key: Vec<u8>,
    /// Lower-case hex SHA-256 of the whole certificate: upstream's credential id.
    pub fingerprint: String,
}

impl Presented {
    /// Parses a DER certificate.
    ///
    /// # Errors
    /// When the bytes are not a certificate.
    pub fn parse(certificate: &CertificateDer<'_>) -> Result<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|e| Error::Malformed(format!("no X.509 certificate: {e}")))?;
        let seconds = |t: i64| u64::try_from(t).unwrap_or(0);
        let text = |values: Vec<&str>| values.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let subject = parsed.subject();
        let mut sans: Vec<San> = match parsed.subject_alternative_name() {
            Ok(Some(extension)) => extension.value.general_names.iter().filter_map(san).collect(),
            _ => Vec::new(),
        };
        sans.sort();
        Ok(Self {
            subject: Subject {
                // Go keeps the last CN of several.
                common_name: subject.iter_common_name().filter_map(|a| a.as_str().ok()).last().unwrap_or("").to_owned(),
                organizations: text(subject.iter_organization().filter_map(|a| a.as_str().ok()).collect()),
            },
            uids: text(
                subject
                    .iter_attributes()
                    .filter(|a| a.attr_type().to_id_string() == UID_OID)
                    .filter_map(|a| a.as_str().ok())
                    .collect(),
            ),
            sans,
            not_before: seconds(parsed.validity().not_before.timestamp()),
            not_after: seconds(parsed.validity().not_after.timestamp()),
            public_key: parsed.public_key().raw.to_vec(),
            fingerprint: hex(sha256(certificate).as_ref()),
        })
    }

    /// Whether the certificate is valid at `now` and for at least `spare` seconds more.
    #[must_use]
    pub fn good_for(&self, now: UnixTime, spare: u64) -> bool {
        let now = now.as_secs();
        self.not_before <= now && now.saturating_add(spare) <= self.not_after
    }
}

/// [`Presented::parse`] as a function.
///
/// # Errors
/// When the bytes are not a certificate.
pub fn parse_presented(certificate: &CertificateDer<'_>) -> Result<Presented> {
    Presented::parse(certificate)
}

/// Parses every certificate in a PEM text, in order; other blocks are skipped.
///
/// # Errors
/// When the text is malformed PEM.
pub fn parse_chain(text: &str) -> Result<Vec<CertificateDer<'static>>> {
    let blocks = pem::parse_many(text).map_err(|e| Error::Malformed(format!("no PEM: {e}")))?;
    Ok(blocks
        .into_iter()
        .filter(|block| block.tag() == "CERTIFICATE")
        .map(|block| CertificateDer::from(block.into_contents()))
        .collect())
}

pub(crate) fn san(name: &GeneralName<'_>) -> Option<San> {
    match name {
        GeneralName::DNSName(name) => Some(San::Dns((*name).to_owned())),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|b| San::Ip(b.into())),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|b| San::Ip(b.into())),
            _ => None,
        },
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
