//! Errors of configuration files. Every error names the file and, where possible, the field.

use std::path::PathBuf;

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] oarlock_pki::Error),
    /// A file is not YAML or has a field of the wrong type.
    #[error("{path}: {source}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Position and cause.
        source: serde_norway::Error,
    },
    /// A field is missing, invalid, or requests a feature that this program lacks.
    #[error("{path}: {field}: {reason}", path = path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Path of the field in the file.
        field: String,
        /// Description of the error.
        reason: String,
    },
    /// Fields of a file are invalid.
    #[error("{path}: {errors}", path = path.display(), errors = oarlock_meta::field::aggregate(errors.as_slice()))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// An error for each field.
        errors: oarlock_meta::ErrorList,
    },
    /// A server's address is invalid.
    #[error("server: {reason}")]
    Server {
        /// Description of the error.
        reason: String,
    },
    /// A configuration could not be rendered.
    #[error("render the kubeconfig: {0}")]
    Render(serde_norway::Error),
}
