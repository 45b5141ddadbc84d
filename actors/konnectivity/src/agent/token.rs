//! The token by which an agent authenticates.

use std::path::PathBuf;

use async_trait::async_trait;

/// The token by which an agent authenticates. Read for each connection, because tokens are rotated.
#[async_trait]
pub trait Token: Send + Sync + 'static {
    /// Returns the token.
    ///
    /// # Errors
    /// Why there is none.
    async fn read(&self) -> std::io::Result<String>;
}

/// A token in a file, such as a projected one of a service account (upstream `--service-account-token-path`).
#[derive(Clone, Debug)]
pub struct TokenFile(pub PathBuf);

#[async_trait]
impl Token for TokenFile {
    async fn read(&self) -> std::io::Result<String> {
        let named = |error: std::io::Error| std::io::Error::new(error.kind(), format!("{}: {error}", self.0.display()));
        std::fs::read_to_string(&self.0).map_err(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_file_is_named() {
        let error = TokenFile("/proc/none/token".into()).read().await.unwrap_err();
        assert!(error.to_string().contains("/proc/none/token"), "{error}");
    }
}
