//! serviceaccount-controller: creates the ServiceAccount `default` in every namespace (upstream `pkg/controller/serviceaccount`).

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Key, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::{Obj, Resource};

use crate::error::Error;
use crate::harness::{Concurrency, Env, Reconciled, Row, Spread, must};
use crate::project::{AccountView, NamespaceView};

pub(crate) const ROW: Row = Row {
    name: "serviceaccount-controller",
    aliases: &["serviceaccount"],
    account: "service-account-controller",
    component: "serviceaccount-controller",
    workers: Concurrency::fixed(4),
    spread: Spread::Key,
    why: "each namespace is decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

/// The name of the ServiceAccount that every namespace has.
const DEFAULT: &str = "default";

struct ServiceAccounts {
    env: Env,
    namespaces: Reconciled<NamespaceView>,
    accounts: Arc<Cache<AccountView>>,
    account: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let namespaces = Reconciled::<NamespaceView>::open(&env).await?;
    let accounts = env.informers.all::<AccountView>().await?;
    let (account, shell) = (must(AccountView::RESOURCE)?, env.shell());
    let this = ServiceAccounts { env, namespaces: namespaces.clone(), accounts: accounts.clone(), account };
    let controller = namespaces.controller(&shell, this).watches(&accounts, |change, enqueue| {
        if change.new.is_none() && change.key.name == DEFAULT {
            enqueue(Key::cluster(change.key.namespace.clone()));
        }
    });
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for ServiceAccounts {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(Requeue::No) };
        if namespace.value.phase == "Terminating" || namespace.meta.deleting() {
            return Ok(Requeue::No);
        }
        if self.accounts.named(&key.name, DEFAULT).is_some() {
            return Ok(Requeue::No);
        }
        let mut account = Obj::new(self.account.ty);
        account.set_at(&["metadata", "namespace"], key.name.clone());
        account.set_at(&["metadata", "name"], DEFAULT);
        match self.env.client.create(self.account, account).await {
            Ok(object) => self.namespaces.own.wrote(key, &self.accounts, object.revision),
            Err(status) if status.is_already_exists() || status.cause("NamespaceTerminating").is_some() => {}
            Err(status) => return Err(status.into()),
        }
        Ok(Requeue::No)
    }
}
