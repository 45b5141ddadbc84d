//! Credentials of bus members: an NKey seed, that is an Ed25519 key in NATS' encoding. The server knows only the public half.

use std::fmt;

use nkeys::{KeyPair, KeyPairType};

/// A member's private key, which proves its identity to the server. Debug does not print the key.
#[derive(Clone)]
pub struct Seed {
    text: String,
    public: String,
}

/// Error for a text without a user's seed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no NKey seed of a user: {0}")]
pub struct BadSeed(String);

impl Seed {
    /// Generates a seed from the operating system's randomness.
    ///
    /// # Errors
    /// When the system provides no randomness.
    pub fn generate() -> Result<Self, BadSeed> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| BadSeed(error.to_string()))?;
        let pair = KeyPair::new_from_raw(KeyPairType::User, bytes).map_err(|error| BadSeed(error.to_string()))?;
        Self::of(&pair)
    }

    /// Reads a seed from a file's text: the first line that is neither empty nor a comment (`#`).
    ///
    /// # Errors
    /// When that line is not a user's seed.
    pub fn parse(text: &str) -> Result<Self, BadSeed> {
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = KeyPair::from_seed(line.unwrap_or_default()).map_err(|error| BadSeed(error.to_string()))?;
        if pair.key_pair_type() != KeyPairType::User {
            return Err(BadSeed("it is somebody else's".to_owned()));
        }
        Self::of(&pair)
    }

    fn of(pair: &KeyPair) -> Result<Self, BadSeed> {
        let text = pair.seed().map_err(|error| BadSeed(error.to_string()))?;
        Ok(Self { text, public: pair.public_key() })
    }

    /// Returns the public half, as it appears in the servers' configuration.
    #[must_use]
    pub fn public_key(&self) -> &str {
        &self.public
    }

    /// Returns the seed as text, for a file that only its owner can read.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.text
    }

    /// Signs the challenge that a server sends for each connection, and the proofs of answers.
    pub(crate) fn sign(&self, nonce: &[u8]) -> Result<Vec<u8>, BadSeed> {
        let pair = KeyPair::from_seed(&self.text).map_err(|error| BadSeed(error.to_string()))?;
        pair.sign(nonce).map_err(|error| BadSeed(error.to_string()))
    }
}

/// Whether a text is the public half of a user's seed.
pub(crate) fn is_public_key(text: &str) -> bool {
    text.starts_with('U') && KeyPair::from_public_key(text).is_ok()
}

/// Whether the private half of this public key signed the message.
pub(crate) fn verify(public_key: &str, message: &[u8], signature: &[u8]) -> bool {
    KeyPair::from_public_key(public_key).is_ok_and(|pair| pair.verify(message, signature).is_ok())
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Seed").field(&self.public).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_read_as_it_was_written_and_never_shown() {
        let seed = Seed::generate().unwrap();
        let again = Seed::parse(&format!("# scheduler\n\n  {}\n", seed.secret())).unwrap();
        assert_eq!((again.public_key(), again.secret()), (seed.public_key(), seed.secret()));
        assert!(seed.public_key().starts_with('U') && seed.secret().starts_with("SU"));
        assert!(!format!("{seed:?}").contains(seed.secret()));
        assert_ne!(Seed::generate().unwrap().secret(), seed.secret());
    }

    #[test]
    fn what_is_no_users_seed_is_refused() {
        let seed = Seed::generate().unwrap();
        let account = KeyPair::new_from_raw(KeyPairType::Account, [7; 32]).unwrap().seed().unwrap();
        let cut = &seed.secret()[..20];
        for text in ["", "# only\n", "SU", seed.public_key(), cut, account.as_str()] {
            assert!(Seed::parse(text).is_err(), "{text}");
        }
    }
}
