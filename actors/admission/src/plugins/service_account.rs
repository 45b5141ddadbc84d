//! ServiceAccount: every pod runs as an existing account, with the account's token, pull secrets and limits on secrets.

mod facts;
mod mirror;
mod secrets;
mod token;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::{Reader, key};
use oarlock_runtime::Instant;
use oarlock_schema::views::core_v1::{LocalObjectReferenceMut, Pod, PodMut};
use oarlock_schema::{Obj, Resource, Value};
use oarlock_store::Interest;

use self::facts::Account;
use self::token::Token;
use super::{node, row};
use crate::attributes::{Attributes, Operation};
use crate::cache::Cache;
use crate::stage::AdmissionStage;

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How long to wait for a missing account: a controller creates the default account right after its namespace (upstream: ten tries, 100 to 200 ms
/// apart).
const LONGEST_WAIT_FOR_ACCOUNT: Duration = Duration::from_millis(1500);

/// The ServiceAccount stage.
#[derive(Debug)]
pub struct ServiceAccount {
    reader: Reader,
    accounts: Option<&'static Resource>,
    known: Cache<Account>,
    token: Token,
}

/// Creates the stage ServiceAccount.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(ServiceAccount {
        reader: reader.clone(),
        accounts: row("", "v1", "serviceaccounts"),
        known: Cache::new(Account::of),
        token: Token::new(),
    })
}

#[async_trait]
impl AdmissionStage for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.operation != Operation::Create || !attributes.is("", "pods") {
            return Ok(());
        }
        if is_mirror(attributes.object.as_deref()) {
            return self.check(attributes, None);
        }
        let name = account_name(attributes.object.as_deref());
        let name = if name.is_empty() { DEFAULT } else { name }.to_owned();
        let account = self.account(attributes, &name).await?;
        let Some(object) = attributes.object.as_deref_mut() else { return Ok(()) };
        let mut pod = PodMut::new(object);
        let asked = pod.read().spec().automount_service_account_token();
        pod.spec_mut().set_service_account_name(name.as_str()).set_service_account(name.as_str());
        if asked.or(account.automount).unwrap_or(true) {
            self.token.mount(&mut pod);
        }
        if pod.read().spec().image_pull_secrets().is_empty() && !account.pull_secrets.is_empty() {
            let mut spec = pod.spec_mut();
            let list = spec.image_pull_secrets_mut();
            list.extend(account.pull_secrets.iter().filter_map(|secret| {
                let mut reference = node("core/v1.LocalObjectReference")?;
                LocalObjectReferenceMut::new(&mut reference).set_name(secret.as_str());
                Some(Value::Struct(reference))
            }));
        }
        self.check(attributes, Some(&account))
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.resource.plural != "pods" || !attributes.resource.group.is_empty() {
            return Ok(());
        }
        match (attributes.operation, attributes.subresource) {
            (Operation::Create, "") if is_mirror(attributes.object.as_deref()) => self.check(attributes, None),
            (Operation::Create, "") => {
                let name = account_name(attributes.object.as_deref());
                if name.is_empty() {
                    let pod = attributes.object.as_ref().map_or("", |o| o.name());
                    return Err(attributes
                        .forbidden(format!("no service account specified for pod {}/{pod}", attributes.namespace)));
                }
                let account = self.account(attributes, name).await?;
                self.check(attributes, Some(&account))
            }
            (Operation::Update, "ephemeralcontainers") => {
                let Some(pod) = attributes.object.as_deref().and_then(|o| o.view::<Pod<'_>>()) else { return Ok(()) };
                let account = self.account(attributes, pod.spec().service_account_name()).await?;
                let verdict = if account.enforce { secrets::ephemeral(&account, pod) } else { Ok(()) };
                verdict.map_err(|why| attributes.forbidden(why))
            }
            _ => Ok(()),
        }
    }
}

impl ServiceAccount {
    /// Checks the final pod; a mirror pod has no account.
    fn check(&self, attributes: &Attributes<'_>, account: Option<&Account>) -> Result<(), Status> {
        let Some(pod) = attributes.object.as_deref().and_then(|o| o.view::<Pod<'_>>()) else { return Ok(()) };
        let verdict = match account {
            None => mirror::check(pod).map_err(str::to_owned),
            Some(account) if account.enforce => secrets::check(account, pod),
            Some(_) => Ok(()),
        };
        verdict.map_err(|why| attributes.forbidden(why))
    }

    async fn account(&self, attributes: &Attributes<'_>, name: &str) -> Result<Arc<Account>, Status> {
        let namespace = attributes.namespace;
        if let Some(found) = self.look(namespace, name) {
            return Ok(found);
        }
        let found = if name == DEFAULT {
            self.await_account(namespace, name, attributes.context.until(LONGEST_WAIT_FOR_ACCOUNT)).await
        } else {
            None
        };
        found.ok_or_else(|| {
            attributes.forbidden(format!(
                "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
            ))
        })
    }

    fn look(&self, namespace: &str, name: &str) -> Option<Arc<Account>> {
        let accounts = self.accounts?;
        self.known.get(accounts, self.reader.entry(accounts, namespace, name)?.as_ref())
    }

    /// Waits until `deadline` for an account to be created.
    async fn await_account(&self, namespace: &str, name: &str, deadline: Instant) -> Option<Arc<Account>> {
        let prefix = key::prefix(self.accounts?)?;
        let after = self.reader.view().list(prefix).revision();
        let interest = Interest::Object { namespace: namespace.into(), name: name.into() };
        let mut cursor = self.reader.view().watch(prefix, after, interest, None).ok()?;
        loop {
            if let Some(found) = self.look(namespace, name) {
                return Some(found);
            }
            if deadline.passed() || cursor.next_batch(1, deadline).await.is_err() {
                return self.look(namespace, name);
            }
        }
    }
}

fn is_mirror(pod: Option<&Obj>) -> bool {
    pod.is_some_and(|o| o.meta().annotations().get(MIRROR).is_some())
}

/// Returns the account of a pod, from the field or its old alias, which has the same value.
fn account_name(pod: Option<&Obj>) -> &str {
    let Some(spec) = pod.and_then(|o| o.view::<Pod<'_>>()).map(Pod::spec) else { return "" };
    let name = spec.service_account_name();
    if name.is_empty() { spec.service_account() } else { name }
}
