//! The bearer token, reread from its file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::endpoint::{Auth, Error};
use super::error::TokenError;

/// Time for which a token from a file is used before it is read again (as client-go).
const REREAD_INTERVAL: Duration = Duration::from_secs(60);

/// Source of the `authorization` header.
pub(super) enum Token {
    None,
    Fixed(HeaderValue),
    File { path: PathBuf, read: Mutex<Option<(HeaderValue, Instant)>> },
}

impl Token {
    pub(super) fn new(auth: Auth) -> Result<Self, Error> {
        Ok(match auth {
            Auth::None => Self::None,
            Auth::Token(token) => {
                Self::Fixed(header(&token).ok_or(Error::Credential { what: "token", reason: "malformed".to_owned() })?)
            }
            Auth::TokenFile(path) => Self::File { path, read: Mutex::default() },
        })
    }

    /// Returns the header, and whether a retry may produce another one.
    pub(super) fn header(&self) -> Result<Option<(HeaderValue, bool)>, TokenError> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(value) => Ok(Some((value.clone(), false))),
            Self::File { path, read } => {
                let mut read = read.lock();
                if let Some((value, until)) = &*read
                    && Instant::now() < *until
                {
                    return Ok(Some((value.clone(), true)));
                }
                match (from_file(path), &*read) {
                    (Ok(value), _) => {
                        *read = Some((value.clone(), Instant::now() + REREAD_INTERVAL));
                        Ok(Some((value, true)))
                    }
                    // While the file is being replaced, the last token may still be valid.
                    (Err(error), Some((old, _))) => {
                        tracing::warn!(%error, "token not renewed");
                        Ok(Some((old.clone(), true)))
                    }
                    (Err(error), None) => Err(error),
                }
            }
        }
    }

    /// Forces the file to be read again, after the server refused the token.
    pub(super) fn forget(&self) {
        if let Self::File { read, .. } = self
            && let Some((_, until)) = &mut *read.lock()
        {
            *until = Instant::now();
        }
    }
}

fn from_file(path: &Path) -> Result<HeaderValue, TokenError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| TokenError::Unreadable { path: path.to_owned(), source })?;
    header(text.trim()).ok_or_else(|| TokenError::Malformed(path.to_owned()))
}

fn header(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| !token.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}
