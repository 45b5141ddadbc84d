//! What can be wrong with a configuration file. Every error names the file and, where there is one, the field.

use std::path::PathBuf;

/// The result of everything in this crate.
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
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] oarlock_pki::Error),
    /// A file is no YAML or has a field of the wrong type.
    #[error("{path}: {source}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_norway::Error,
    },
    /// A field is missing, wrong, or asks for what this program does not do.
    #[error("{path}: {field}: {reason}", path = path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field, as a path into the file.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A server's address is none.
    #[error("server: {reason}")]
    Server {
        /// What is wrong with it.
        reason: String,
    },
    /// A configuration could not be rendered.
    #[error("render the kubeconfig: {0}")]
    Render(serde_norway::Error),
}
