//! Private keys: ECDSA on P-256, stored as PKCS#8.

use rcgen::PublicKeyData as _;
use ring::digest;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::{Error, Result};

/// An ECDSA P-256 key pair. `Debug` prints no key material.
pub struct KeyPair {
    inner: rcgen::KeyPair,
}

impl KeyPair {
    /// Generates a key from the operating system's randomness (about 30 µs).
    ///
    /// # Errors
    /// When the operating system provides no randomness.
    pub fn generate() -> Result<Self> {
        Ok(Self { inner: rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)? })
    }

    /// Reads a PKCS#8 key in PEM (`-----BEGIN PRIVATE KEY-----`).
    ///
    /// # Errors
    /// When the text is not PEM, or the key is not a P-256 key.
    pub fn from_pem(text: &str) -> Result<Self> {
        let block = pem::parse(text).map_err(|e| Error::Malformed(format!("no PEM key: {e}")))?;
        if block.tag() != "PRIVATE KEY" {
            return Err(Error::Malformed(format!("a PKCS#8 \"PRIVATE KEY\" is needed, not {:?}", block.tag())));
        }
        let key = PrivatePkcs8KeyDer::from(block.into_contents());
        let inner = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ECDSA_P256_SHA256)
            .map_err(|e| Error::Malformed(format!("no ECDSA P-256 key: {e}")))?;
        Ok(Self { inner })
    }

    /// Returns the key as PKCS#8 PEM. Secret: write it with [`crate::Visibility::Private`] only.
    #[must_use]
    pub fn to_pem(&self) -> String {
        self.inner.serialize_pem()
    }

    /// Returns the key for rustls.
    #[must_use]
    pub fn to_rustls(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.inner.serialize_der().into())
    }

    /// Returns the public half as a DER SubjectPublicKeyInfo.
    #[must_use]
    pub fn public_der(&self) -> Vec<u8> {
        self.inner.subject_public_key_info()
    }

    /// Returns the public half as PEM (`-----BEGIN PUBLIC KEY-----`).
    #[must_use]
    pub fn public_pem(&self) -> String {
        self.inner.public_key_pem()
    }

    /// Returns the uncompressed point: 0x04, x, y.
    pub(crate) fn public_point(&self) -> &[u8] {
        self.inner.public_key_raw()
    }

    pub(crate) fn pkcs8(&self) -> &[u8] {
        self.inner.serialized_der()
    }

    pub(crate) fn rcgen(&self) -> &rcgen::KeyPair {
        &self.inner
    }
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPair(..)")
    }
}

/// Computes the SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, bytes)
}
