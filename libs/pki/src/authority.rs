//! Certificate authorities: certificate, key and signing.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyUsagePurpose, SigningKey as _};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::certificate::Presented;
use crate::{Error, KeyPair, Leaf, Result, Subject, der, leaf::San};

/// Lifetime of an authority's certificate: ten years, as kubeadm's.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long before `now` a certificate becomes valid, so that clients with slow clocks accept it.
const BACKDATE: Duration = Duration::from_secs(3600);

/// A certificate authority. Without its key it can only verify certificates.
#[derive(Debug)]
pub struct Authority {
    certificate: CertificateDer<'static>,
    key: Option<KeyPair>,
    common_name: String,
}

/// A certificate with its private key.
#[derive(Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Key of the certificate.
    pub key: KeyPair,
}

impl Issued {
    /// The certificate in PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        certificate_pem(&self.certificate)
    }

    /// Issues a certificate by a new authority whose key is discarded; returns it with that authority's certificate in PEM.
    ///
    /// # Errors
    /// As [`Authority::create`] and [`Authority::issue`].
    pub fn of_its_own(leaf: &Leaf, now: UnixTime) -> Result<(Self, String)> {
        let authority = Authority::create(&format!("{}-ca@{}", leaf.subject.common_name, now.as_secs()), now)?;
        Ok((authority.issue(leaf, now)?, authority.certificate_pem()))
    }

    /// Parses the certificate.
    ///
    /// # Errors
    /// When the certificate does not parse.
    pub fn facts(&self) -> Result<Presented> {
        Presented::parse(&self.certificate)
    }
}

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// When the operating system provides no randomness.
    pub fn create(common_name: &str, now: UnixTime) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::KeyCertSign];
        params.serial_number = Some(serial()?);
        valid(&mut params, now, AUTHORITY_LIFETIME);
        let certificate = params.self_signed(key.rcgen())?;
        Ok(Self { certificate: certificate.der().clone(), key: Some(key), common_name: common_name.to_owned() })
    }

    /// Loads an authority from its PEM certificate and key.
    ///
    /// # Errors
    /// When either is malformed or the key does not belong to the certificate.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self> {
        let key = KeyPair::from_pem(key)?;
        let certificate = one_certificate(certificate)?;
        let facts = Presented::parse(&certificate)?;
        if facts.public_key != key.public_der() {
            return Err(Error::Malformed("the certificate does not belong to the key".to_owned()));
        }
        Ok(Self { certificate, key: Some(key), common_name: facts.subject.common_name })
    }

    /// Loads an authority from its PEM certificate alone, without the ability to sign.
    ///
    /// # Errors
    /// When the certificate is malformed.
    pub fn believed(certificate: &str) -> Result<Self> {
        let certificate = one_certificate(certificate)?;
        let facts = Presented::parse(&certificate)?;
        Ok(Self { certificate, key: None, common_name: facts.subject.common_name })
    }

    fn key(&self) -> Result<&KeyPair> {
        self.key.as_ref().ok_or_else(|| Error::NoKey(self.common_name.clone()))
    }

    /// Returns the authority's certificate, which peers must trust.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns the certificate in PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        certificate_pem(&self.certificate)
    }

    /// Returns the authority's key in PEM, if loaded. Secret.
    #[must_use]
    pub fn key_pem(&self) -> Option<String> {
        self.key.as_ref().map(KeyPair::to_pem)
    }

    /// Issues a certificate with a new key.
    ///
    /// # Errors
    /// When a name is not valid in a certificate, or the authority's key is not loaded.
    pub fn issue(&self, leaf: &Leaf, now: UnixTime) -> Result<Issued> {
        let key = KeyPair::generate()?;
        let certificate = self.sign(leaf, &key.public_der(), now)?;
        Ok(Issued { certificate, key })
    }

    /// Signs a certificate for a given public key (a DER SubjectPublicKeyInfo), such as a signing request's.
    ///
    /// # Errors
    /// When the key's algorithm is unknown, a name is not valid in a certificate, or the authority's key is not loaded.
    pub fn sign(&self, leaf: &Leaf, public_key: &[u8], now: UnixTime) -> Result<CertificateDer<'static>> {
        let mut params = CertificateParams::default();
        // A placeholder for the real subject, see `der`.
        params.distinguished_name = name(&leaf.subject.common_name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = leaf.usage.purposes();
        params.subject_alt_names = leaf.sans.iter().map(San::to_rcgen).collect::<Result<_>>()?;
        params.serial_number = Some(serial()?);
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, now, leaf.lifetime);

        let public_key = rcgen::SubjectPublicKeyInfo::from_der(public_key)?;
        let issuer = rcgen::Issuer::from_ca_cert_der(&self.certificate, self.key()?.rcgen())?;
        let draft = params.signed_by(&public_key, &issuer)?;
        self.resign(draft.der(), &leaf.subject)
    }

    /// Replaces the subject of a draft certificate and signs the result.
    fn resign(&self, draft: &[u8], subject: &Subject) -> Result<CertificateDer<'static>> {
        let (tbs, algorithm) = der::with_subject(draft, &subject.to_der())
            .ok_or_else(|| Error::Malformed("the drafted certificate is no DER".to_owned()))?;
        let signature = self.key()?.rcgen().sign(&tbs)?;
        // A bit string starts with the number of unused bits.
        let signature = der::element(der::BIT_STRING, &[&[0], signature.as_slice()].concat());
        Ok(der::element(der::SEQUENCE, &[tbs, algorithm, signature].concat()).into())
    }

    /// Whether this authority signed `certificate`.
    #[must_use]
    pub fn signed(&self, certificate: &CertificateDer<'_>) -> bool {
        let own = X509Certificate::from_der(&self.certificate);
        let other = X509Certificate::from_der(certificate);
        match (own, other) {
            (Ok((_, own)), Ok((_, other))) => {
                other.issuer().as_raw() == own.subject().as_raw()
                    && other.verify_signature(Some(own.public_key())).is_ok()
            }
            _ => false,
        }
    }

    /// Returns the authority's common name.
    #[must_use]
    pub fn common_name(&self) -> &str {
        &self.common_name
    }
}

/// Encodes a certificate in PEM, with the line breaks that upstream writes.
pub(crate) fn certificate_pem(certificate: &CertificateDer<'_>) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("CERTIFICATE", certificate.as_ref()), config)
}

/// Parses the first certificate of a PEM text.
pub(crate) fn one_certificate(text: &str) -> Result<CertificateDer<'static>> {
    crate::parse_chain(text)?.into_iter().next().ok_or_else(|| Error::Malformed("no PEM certificate in it".to_owned()))
}

fn name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Draws 127 random bits: a positive serial number that is practically unique.
fn serial() -> Result<rcgen::SerialNumber> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new().fill(&mut bytes)?;
    if let Some(first) = bytes.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    Ok(rcgen::SerialNumber::from_slice(&bytes))
}

fn valid(params: &mut CertificateParams, now: UnixTime, lifetime: Duration) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = Duration::from_secs(now.as_secs());
    params.not_before = epoch + now.saturating_sub(BACKDATE);
    params.not_after = epoch + now.saturating_add(lifetime);
}
