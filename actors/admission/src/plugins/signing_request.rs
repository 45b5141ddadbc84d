//! The contents of a CertificateSigningRequest.

use base64::Engine as _;
use oarlock_pki::Subject;
use oarlock_schema::views::certificates_v1::CertificateSigningRequest;

/// Returns the subject of the requested certificate.
///
/// # Errors
/// The reason why the request cannot be parsed.
pub(super) fn subject(asked: CertificateSigningRequest<'_>) -> Result<Subject, String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(asked.spec().request());
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    oarlock_pki::parse_csr(&text).map(|info| info.subject).map_err(|error| error.to_string())
}
