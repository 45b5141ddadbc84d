//! Accounts with `kubernetes.io/enforce-mountable-secrets`: their pods use only the listed secrets.

use oarlock_schema::views::List;
use oarlock_schema::views::core_v1::{EnvFromSource, EnvVar, Pod};

use super::facts::Account;

/// Checks a new pod.
pub(super) fn check(account: &Account, pod: Pod<'_>) -> Result<(), String> {
    let name = &account.name;
    for secret in pod.spec().volumes().iter().filter_map(|v| v.secret()).map(|s| s.secret_name()) {
        if !allows(account, secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
            ));
        }
    }
    for container in pod.spec().init_containers().iter() {
        environment(account, "init container", container.name(), container.env(), container.env_from())?;
    }
    for container in pod.spec().containers().iter() {
        environment(account, "container", container.name(), container.env(), container.env_from())?;
    }
    for (at, secret) in pod.spec().image_pull_secrets().iter().enumerate() {
        if !account.pull_secrets.iter().any(|s| s == secret.name()) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{}\" is not allowed because service account {name} does not reference that imagePullSecret",
                secret.name()
            ));
        }
    }
    Ok(())
}

/// Checks the ephemeral containers that an update adds.
pub(super) fn ephemeral(account: &Account, pod: Pod<'_>) -> Result<(), String> {
    let mut containers = pod.spec().ephemeral_containers().iter();
    containers.try_for_each(|c| environment(account, "ephemeral container", c.name(), c.env(), c.env_from()))
}

fn environment(
    account: &Account,
    what: &str,
    container: &str,
    env: List<'_, EnvVar<'_>>,
    from: List<'_, EnvFromSource<'_>>,
) -> Result<(), String> {
    let refuse = |way: &str, secret: &str| {
        Err(format!(
            "{what} {container} with {way} referencing secret.secretName=\"{secret}\" is not allowed because service account {} does not reference that secret",
            account.name
        ))
    };
    for var in env.iter() {
        let secret = var.value_from().and_then(|v| v.secret_key_ref()).map(|s| s.name());
        if let Some(secret) = secret.filter(|s| !allows(account, s)) {
            return refuse(&format!("envVar {}", var.name()), secret);
        }
    }
    for secret in from.iter().filter_map(|f| f.secret_ref()).map(|s| s.name()) {
        if !allows(account, secret) {
            return refuse("envFrom", secret);
        }
    }
    Ok(())
}

fn allows(account: &Account, secret: &str) -> bool {
    account.secrets.iter().any(|s| s == secret)
}
