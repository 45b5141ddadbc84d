//! What can go wrong with keys and certificates.

use std::path::PathBuf;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a key or certificate could not be made, read, kept or trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{action} {path}: {source}", path = path.display())]
    File {
        /// What was tried, for example `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// One half of a certificate and key pair is missing and cannot be made again safely.
    #[error("{path} is missing although {other} exists", path = missing.display(), other = present.display())]
    HalfPair {
        /// The file that is not there.
        missing: PathBuf,
        /// The file that is.
        present: PathBuf,
    },
    /// A file does not hold what its name promises.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A key or certificate is malformed.
    #[error("{0}")]
    Malformed(String),
    /// A name cannot stand in a certificate.
    #[error("{0:?} cannot be a certificate name")]
    Name(String),
    /// The key or certificate library refused.
    #[error("certificate library: {0}")]
    Library(#[from] rcgen::Error),
    /// TLS cannot be configured with what was given.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
    /// The authority of this name cannot sign: only its certificate is here.
    #[error("the key of the authority {0} is not here")]
    NoKey(String),
    /// The operating system gave no randomness or the signature failed.
    #[error("the cryptographic library failed without a reason")]
    Crypto,
}

impl Error {
    /// Names the file an error is about, where the error itself could not know it.
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
