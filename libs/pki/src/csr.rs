//! Parsing of certificate signing requests. [`crate::Authority::sign`] signs approved requests.

use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer as _, X509CertificationRequest};

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
    let (rest, request) = X509CertificationRequest::from_der(block.contents())
        .map_err(|e| Error::Malformed(format!("no certificate request: {e}")))?;
    if !rest.is_empty() {
        return Err(Error::Malformed("no certificate request: trailing data".to_owned()));
    }
    request.verify_signature().map_err(|_| Error::Malformed("the request's signature does not verify".to_owned()))?;
    let info = &request.certification_request_info;
    // A name in an encoding that is not read here could be any name to whoever signs or checks the certificate.
    let text = |attribute: &AttributeTypeAndValue<'_>| {
        let text = attribute.as_str().map(str::to_owned);
        text.map_err(|_| Error::Malformed("a name of the subject has an encoding that is not supported".to_owned()))
    };
    let mut asked = CsrInfo {
        subject: Subject {
            common_name: info.subject.iter_common_name().map(text).last().transpose()?.unwrap_or_default(),
            organizations: info.subject.iter_organization().map(text).collect::<Result<_>>()?,
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn asked(organization: DnValue) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "jane");
        name.push(DnType::OrganizationName, organization);
        params.distinguished_name = name;
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    #[test]
    fn a_group_in_an_encoding_that_is_not_read_is_no_group_less() {
        let info = parse_csr(&asked(DnValue::Utf8String("system:masters".to_owned()))).unwrap();
        assert_eq!(info.subject, Subject::user("jane", ["system:masters"]));
        let hidden = rcgen::string::BmpString::try_from("system:masters").unwrap();
        let refused = parse_csr(&asked(DnValue::BmpString(hidden))).unwrap_err().to_string();
        assert!(refused.contains("encoding"), "{refused}");
    }

    #[test]
    fn nothing_follows_a_request() {
        let text = asked(DnValue::Utf8String("o".to_owned()));
        let mut contents = pem::parse(&text).unwrap().into_contents();
        contents.push(0);
        let longer = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", contents));
        assert!(parse_csr(&longer).is_err());
    }
}
