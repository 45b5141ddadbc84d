//! Keys for ServiceAccount tokens: ECDSA P-256, JWS algorithm ES256. Key ids are upstream's: base64url of the SHA-256 of the public key's DER.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey};
use x509_parser::prelude::FromDer as _;

use crate::key::sha256;
use crate::{Error, KeyPair, Result};

/// Private key that signs tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    id: String,
    point: Vec<u8>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// The JWS algorithm.
    pub const ALGORITHM: &'static str = "ES256";

    /// Creates a token key from a key pair.
    ///
    /// # Errors
    /// When the cryptographic library refuses the key.
    pub fn new(key: &KeyPair) -> Result<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.pkcs8(), &random)
            .map_err(|e| Error::Malformed(format!("no ECDSA P-256 key: {e}")))?;
        Ok(Self { pair, random, id: key_id(&key.public_der()), point: key.public_point().to_vec() })
    }

    /// Returns the key's id, the `kid` of its tokens.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Signs `message`; the signature is r and s, 64 bytes, as JWS requires.
    ///
    /// # Errors
    /// When the operating system provides no randomness.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        Ok(self.pair.sign(&self.random, message)?.as_ref().to_vec())
    }
}

/// Public keys that verify tokens; several while a key is rotated.
#[derive(Debug, Clone, Default)]
pub struct VerifyingKeys {
    /// Uncompressed points by key id.
    points: BTreeMap<String, Vec<u8>>,
}

impl VerifyingKeys {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the public half of `key`.
    #[must_use]
    pub fn with(mut self, key: &SigningKey) -> Self {
        self.points.insert(key.id.clone(), key.point.clone());
        self
    }

    /// Adds the key of this PEM `PUBLIC KEY` (`--service-account-key-file`).
    ///
    /// # Errors
    /// When the key is not an ECDSA P-256 key.
    pub fn with_pem(mut self, text: &str) -> Result<Self> {
        let block = pem::parse(text).map_err(|e| Error::Malformed(format!("no PEM key: {e}")))?;
        let not_ours = || Error::Malformed("an ECDSA P-256 \"PUBLIC KEY\" is needed".to_owned());
        if block.tag() != "PUBLIC KEY" {
            return Err(not_ours());
        }
        let (_, info) = x509_parser::x509::SubjectPublicKeyInfo::from_der(block.contents()).map_err(|_| not_ours())?;
        let point = info.subject_public_key.data.to_vec();
        // id-ecPublicKey with an uncompressed point of 2 * 32 bytes.
        if info.algorithm.algorithm.to_id_string() != "1.2.840.10045.2.1"
            || point.len() != 65
            || point.first() != Some(&4)
        {
            return Err(not_ours());
        }
        self.points.insert(key_id(block.contents()), point);
        Ok(self)
    }

    /// Whether the set has a key with this id.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.points.contains_key(id)
    }

    /// Whether `signature` (r and s) over `message` is by the key `id`; without an id, by any key.
    #[must_use]
    pub fn verify(&self, id: Option<&str>, message: &[u8], signature: &[u8]) -> bool {
        let verifies = |point: &Vec<u8>| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
        };
        match id {
            Some(id) => self.points.get(id).is_some_and(verifies),
            None => self.points.values().any(verifies),
        }
    }

    /// Returns the JSON Web Key Set served at `/openid/v1/jwks`, with fields in upstream's order.
    #[must_use]
    pub fn jwks(&self) -> String {
        let keys: Vec<String> = self.points.iter().filter_map(|(id, point)| jwk(id, point)).collect();
        format!("{{\"keys\":[{}]}}", keys.join(","))
    }
}

/// Computes upstream's key id of a DER SubjectPublicKeyInfo.
fn key_id(public_der: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(sha256(public_der))
}

fn jwk(id: &str, point: &[u8]) -> Option<String> {
    let (x, y) = (point.get(1..33)?, point.get(33..65)?);
    let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
    let id = serde_json::Value::from(id);
    Some(format!(
        "{{\"use\":\"sig\",\"kty\":\"EC\",\"kid\":{id},\"crv\":\"P-256\",\"alg\":\"ES256\",\"x\":\"{x}\",\"y\":\"{y}\"}}"
    ))
}
