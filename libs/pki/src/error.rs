//! Errors of keys and certificates.

use std::path::PathBuf;

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a key or certificate could not be created, read, stored or trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{action} {path}: {source}", path = path.display())]
    File {
        /// The attempted action, for example `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// One half of a certificate and key pair is missing and cannot be created again safely.
    #[error("{path} is missing although {other} exists", path = missing.display(), other = present.display())]
    HalfPair {
        /// The missing file.
        missing: PathBuf,
        /// The existing file.
        present: PathBuf,
    },
    /// A file does not hold what its name says.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// A key or certificate is malformed.
    #[error("{0}")]
    Malformed(String),
    /// A name is not valid in a certificate.
    #[error("{0:?} cannot be a certificate name")]
    Name(String),
    /// The key or certificate library returned an error.
    #[error("certificate library: {0}")]
    Library(#[from] rcgen::Error),
    /// TLS cannot be configured with the given material.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
    /// The authority cannot sign because only its certificate is loaded.
    #[error("the key of the authority {0} is not here")]
    NoKey(String),
    /// The operating system provided no randomness, or the signature failed.
    #[error("the cryptographic library failed without a reason")]
    Crypto,
}

impl Error {
    /// Adds the name of the affected file to an error that lacks it.
    #[must_use]
    pub fn in_file(self, path: impl Into<PathBuf>) -> Self {
        match self {
            Self::File { .. } | Self::HalfPair { .. } | Self::Content { .. } => self,
            other => Self::Content { path: path.into(), reason: other.to_string() },
        }
    }
}

impl From<ring::error::Unspecified> for Error {
    fn from(_: ring::error::Unspecified) -> Self {
        Self::Crypto
    }
}
