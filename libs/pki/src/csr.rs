//! Parsing of certificate signing requests. [`crate::Authority::sign`] signs approved requests.

use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509CertificationRequest};

use crate::certificate::san;
use crate::{Error, Result, San, Subject};

/// A signing request with a verified signature, which proves that the requester holds the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsrInfo {
    /// Requested subject.
    pub subject: Subject,
    /// Requested DNS names and addresses, sorted.
    pub sans: Vec<San>,
    /// Whether the request also has names of other kinds (mail, URI, …); no built-in signer grants those.
    pub other_names: bool,
    /// DER SubjectPublicKeyInfo.
    pub public_key: Vec<u8>,
}

/// Parses and verifies a PEM `CERTIFICATE REQUEST`.
///
/// # Errors
/// When the text is not such a PEM block, the request is malformed, or its signature is wrong.
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
