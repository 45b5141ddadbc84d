//! Certificate signing requests: read here, approved by the API, signed by [`crate::Authority::sign`].

use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509CertificationRequest};

use crate::certificate::san;
use crate::{Error, Result, San, Subject};

/// What a signing request asks for. Its signature was verified: the asker holds the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsrInfo {
    /// The subject asked for.
    pub subject: Subject,
    /// The DNS names and addresses asked for, sorted.
    pub sans: Vec<San>,
    /// Whether names of another kind (mail, URI, …) are asked for too; no built-in signer grants those.
    pub other_names: bool,
    /// DER SubjectPublicKeyInfo.
    pub public_key: Vec<u8>,
}

/// Reads and verifies a PEM `CERTIFICATE REQUEST`.
///
/// # Errors
/// When the text is no such PEM, the request is malformed, or its signature is wrong.
pub fn parse_csr(text: &str) -> Result<CsrInfo> {
    let request = |block: &pem::Pem| block.tag() == "CERTIFICATE REQUEST";
    let Some(block) = pem::parse(text).ok().filter(request) else {
        return Err(Error::Malformed("PEM block type must be CERTIFICATE REQUEST".to_owned()));
    };
    let (_, request) = X509CertificationRequest::from_der(block.contents())
        .map_err(|e| Error::Malformed(format!("no certificate request: {e}")))?;
    request.verify_signature().map_err(|_| Error::Malformed("the request's signature does not verify".to_owned()))?;
    let info = &request.certification_request_info;
    let mut asked = CsrInfo {
        subject: Subject {
            common_name: info
                .subject
                .iter_common_name()
                .filter_map(|a| a.as_str().ok())
                .last()
                .unwrap_or("")
                .to_owned(),
            organizations: info
                .subject
                .iter_organization()
                .filter_map(|a| a.as_str().ok())
                .map(str::to_owned)
                .collect(),
        },
        sans: Vec::new(),
        other_names: false,
        public_key: info.subject_pki.raw.to_vec(),
    };
    for extension in request.requested_extensions().into_iter().flatten() {
        if let ParsedExtension::SubjectAlternativeName(names) = extension {
            for name in &names.general_names {
                match san(name) {
                    Some(name) => asked.sans.push(name),
                    None => asked.other_names = true,
                }
            }
        }
    }
    asked.sans.sort();
    Ok(asked)
}
