//! How a program in a pod reaches the API of its own cluster: the variables and files that every pod with a service account has.

use std::path::Path;

use crate::{Credential, Endpoint, Error, Result, ServerTrust};

/// Folder with the token and the authorities of a pod's service account.
const ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

impl Endpoint {
    /// Returns the API of the cluster whose pod this process is in, with the identity of the pod's service account.
    ///
    /// # Errors
    /// When the process is in no pod, or the pod has no token (`automountServiceAccountToken`).
    pub fn in_cluster() -> Result<Self> {
        of_pod(Path::new(ACCOUNT_FOLDER), |name| std::env::var(name).ok())
    }
}

fn of_pod(folder: &Path, variable: impl Fn(&str) -> Option<String>) -> Result<Endpoint> {
    let value = |name: &str| {
        let missing = || Error::Server { reason: format!("this process is in no pod: {name} is not set") };
        variable(name).filter(|value| !value.is_empty()).ok_or_else(missing)
    };
    let (host, port) = (value(HOST)?, value(PORT)?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let authorities = folder.join("ca.crt");
    let authorities =
        std::fs::read_to_string(&authorities).map_err(|source| Error::Read { path: authorities, source })?;
    let token = folder.join("token");
    // The token is read again when a request is sent; a missing one is reported here, where the reason is known.
    std::fs::metadata(&token).map_err(|source| Error::Read { path: token.clone(), source })?;
    Ok(Endpoint {
        server: format!("https://{host}:{port}"),
        more: Vec::new(),
        tls_server_name: None,
        trust: ServerTrust::Authorities(authorities),
        credential: Credential::TokenFile(token),
        impersonate: None,
        namespace: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(host: &'static str) -> impl Fn(&str) -> Option<String> {
        move |name| match name {
            HOST => Some(host.to_owned()),
            PORT => Some("443".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn a_pod_finds_its_cluster_and_an_error_names_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |host| of_pod(folder.path(), variables(host)).unwrap_err().to_string();
        assert!(refusal("").contains(HOST), "{}", refusal(""));
        assert!(refusal("10.0.0.1").contains("ca.crt"));
        std::fs::write(folder.path().join("ca.crt"), "authority").unwrap();
        assert!(refusal("10.0.0.1").contains("token"), "{}", refusal("10.0.0.1"));
        std::fs::write(folder.path().join("token"), "t").unwrap();
        let found = of_pod(folder.path(), variables("10.0.0.1")).unwrap();
        assert_eq!(found.server, "https://10.0.0.1:443");
        assert!(matches!(found.trust, ServerTrust::Authorities(ref pem) if pem == "authority"));
        assert!(matches!(found.credential, Credential::TokenFile(ref path) if path.ends_with("token")));
        assert_eq!(of_pod(folder.path(), variables("fd00::1")).unwrap().server, "https://[fd00::1]:443");
    }
}
