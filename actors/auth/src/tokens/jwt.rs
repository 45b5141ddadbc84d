//! The compact form of a JSON Web Signature: header, claims and signature in base64url, joined by dots. ES256 only.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oarlock_pki::{SigningKey, VerifyingKeys};
use serde::{Deserialize, Serialize};

use super::claims::Claims;

#[derive(Serialize, Deserialize)]
struct Header<'a> {
    alg: &'a str,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    kid: Option<std::borrow::Cow<'a, str>>,
    /// Extensions that a verifier must understand; none are supported.
    #[serde(default, skip_serializing)]
    crit: Option<serde::de::IgnoredAny>,
}

/// A parsed token with an unverified signature.
pub(super) struct Parsed<'a> {
    header: Vec<u8>,
    signed: &'a str,
    signature: Vec<u8>,
    /// The claims. Must not be trusted before [`Parsed::verify`].
    pub(super) claims: Claims,
}

/// Why a signature is not valid.
pub(super) enum Unverified {
    /// The header names an unknown key.
    NoKey,
    /// The signature does not match the key, or has another algorithm.
    Wrong,
}

impl<'a> Parsed<'a> {
    /// Parses a token; `None` when it is no JSON Web Token.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        if claims.contains('.') {
            return None;
        }
        let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
        Some(Self {
            header: URL_SAFE_NO_PAD.decode(header).ok()?,
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
            claims: serde_json::from_slice(&claims).ok()?,
        })
    }

    pub(super) fn verify(&self, keys: &VerifyingKeys) -> Result<(), Unverified> {
        let header: Header<'_> = serde_json::from_slice(&self.header).map_err(|_| Unverified::Wrong)?;
        if header.alg != SigningKey::ALGORITHM || header.crit.is_some() {
            return Err(Unverified::Wrong);
        }
        let id = header.kid.as_deref().filter(|id| !id.is_empty());
        if id.is_some_and(|id| !keys.contains(id)) {
            return Err(Unverified::NoKey);
        }
        if keys.verify(id, self.signed.as_bytes(), &self.signature) { Ok(()) } else { Err(Unverified::Wrong) }
    }
}

/// Signs claims.
pub(super) fn sign(claims: &Claims, key: &SigningKey) -> Result<String, SignError> {
    let header = Header { alg: SigningKey::ALGORITHM, kid: Some(key.id().into()), crit: None };
    let mut token = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&header)?);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(claims)?, &mut token);
    let signature = key.sign(token.as_bytes())?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}

/// The error of signing a token.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    #[error(transparent)]
    Encode(#[from] serde_json::Error),
    #[error(transparent)]
    Sign(#[from] oarlock_pki::Error),
}
