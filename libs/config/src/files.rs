//! Files that flags and other files name.

use std::path::Path;

use crate::{Error, Result};

/// Reads a text.
///
/// # Errors
/// [`Error::Read`], which names the file.
pub(crate) fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}
