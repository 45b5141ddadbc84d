//! The `Debug` text of a message never shows a secret.

use oarlock_contracts::cri::{AuthConfig, PullImageRequest};
use oarlock_contracts::etcd::{AuthenticateRequest, AuthenticateResponse};

#[test]
fn credentials_are_left_out_of_debug_texts() {
    let secret = || "hunter2".to_owned();
    let auth = AuthConfig {
        username: secret(),
        password: secret(),
        auth: secret(),
        server_address: "registry.local".to_owned(),
        identity_token: secret(),
        registry_token: secret(),
    };
    let pull = PullImageRequest { auth: Some(auth), ..PullImageRequest::default() };
    let login = AuthenticateRequest { name: "root".to_owned(), password: secret() };
    let token = AuthenticateResponse { token: secret() };
    let text = format!("{pull:?} {login:?} {token:?}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("registry.local") && text.contains("root"), "{text}");
}
