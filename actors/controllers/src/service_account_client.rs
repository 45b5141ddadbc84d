//! A client transport that authenticates as a ServiceAccount: requests a token for the account, and a new one before the token expires (upstream
//! `--use-service-account-credentials`).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_client::https::Spawn;
use oarlock_client::{
    Call, Client, Endpoint, Https, ListOptions, RawReply, RawRequest, Reply, Request, Transport, WatchStream,
    WriteOptions, https,
};
use oarlock_config::Credential;
use oarlock_informer::GateSpawn;
use oarlock_meta::Status;
use oarlock_runtime::{Instant, Phase, System, clock};
use oarlock_schema::views::authentication_v1;
use oarlock_schema::{Obj, Resource, resource, type_of_kind};
use tokio::sync::Mutex;

use crate::harness::Clients;
use crate::service_accounts::NAMESPACE;

/// The requested lifetime of a token in seconds.
const TOKEN_SECONDS: i64 = 3600;
/// The age at which a token is replaced.
const RENEW_AFTER: Duration = Duration::from_secs(2880);

/// Returns the HTTPS client of a manager, and a factory of clients for ServiceAccounts, whose tokens the manager requests.
///
/// # Errors
/// When a certificate or key is malformed, or the system's authorities cannot be found.
pub fn identities(
    system: &System,
    manager: &oarlock_config::Endpoint,
    agent: &str,
) -> Result<(Client, Clients), https::Error> {
    let spawn: Arc<dyn Spawn> = Arc::new(GateSpawn(system.gate("client", Phase::Informers)));
    let nobody = oarlock_config::Endpoint { credential: Credential::None, ..manager.clone() };
    let nobody = Endpoint::new(&nobody, agent)?;
    let manager = Client::new(Arc::new(Https::new(Endpoint::new(manager, agent)?, spawn.clone())?));
    let tokens = manager.clone();
    let clients = move |account: &str| {
        let mut endpoint = nobody.clone();
        endpoint.user_agent = format!("{account}/{}", env!("CARGO_PKG_VERSION"));
        Client::new(Arc::new(Account::new(account, tokens.clone(), endpoint, spawn.clone())))
    };
    Ok((manager, Arc::new(clients)))
}

/// The transport of one ServiceAccount, with the account's current token.
struct Account {
    name: String,
    /// The client that requests tokens.
    manager: Client,
    /// The server's address, without credentials.
    endpoint: Endpoint,
    spawn: Arc<dyn Spawn>,
    current: Mutex<Option<(Arc<Https>, Instant)>>,
}

impl Account {
    /// A transport that authenticates as the account `name` at `endpoint`, which must carry no credential.
    fn new(name: &str, manager: Client, endpoint: Endpoint, spawn: Arc<dyn Spawn>) -> Self {
        Self { name: name.to_owned(), manager, endpoint, spawn, current: Mutex::new(None) }
    }

    /// Returns a transport with a valid token, and requests a new token when the current one is old.
    async fn transport(&self) -> Result<Arc<Https>, Status> {
        let mut current = self.current.lock().await;
        if let Some((transport, until)) = &*current
            && !until.passed()
        {
            return Ok(transport.clone());
        }
        let token = match (self.token().await, &*current) {
            (Ok(token), _) => token,
            // The old token is still valid for a while; the next call tries again.
            (Err(status), Some((transport, until))) if until.elapsed() < Duration::from_secs(600) => {
                tracing::warn!(account = self.name, %status, "token not renewed");
                return Ok(transport.clone());
            }
            (Err(status), _) => return Err(status),
        };
        let mut endpoint = self.endpoint.clone();
        endpoint.auth = https::Auth::Token(token);
        let transport = Https::new(endpoint, self.spawn.clone()).map_err(Status::internal_error)?;
        let transport = Arc::new(transport);
        *current = Some((transport.clone(), clock::after(RENEW_AFTER)));
        Ok(transport)
    }

    async fn token(&self) -> Result<String, Status> {
        let none = |what: &str| Status::internal_error(format!("the schema has no {what}"));
        let accounts = resource("", "v1", "serviceaccounts").ok_or_else(|| none("serviceaccounts"))?;
        let ty = type_of_kind("authentication.k8s.io", "v1", "TokenRequest").ok_or_else(|| none("TokenRequest"))?;
        let mut request = Obj::new(ty);
        request.set_at(&["spec", "expirationSeconds"], TOKEN_SECONDS);
        let ask = || Call::Create(request.clone(), WriteOptions::default());
        let mut reply = self.manager.call(accounts, "token", NAMESPACE, &self.name, ask()).await;
        if reply.as_ref().is_err_and(Status::is_not_found) {
            self.make(accounts).await?;
            reply = self.manager.call(accounts, "token", NAMESPACE, &self.name, ask()).await;
        }
        let reply = reply?;
        let Reply::Object { object, .. } = reply else {
            return Err(Status::internal_error("no TokenRequest came back"));
        };
        let answer = object.obj()?;
        let view = answer.view::<authentication_v1::TokenRequest<'_>>().ok_or_else(|| none("token in the answer"))?;
        Ok(view.status().token().to_owned())
    }

    /// Creates the account, because the first token may be requested before the account exists.
    async fn make(&self, accounts: &'static Resource) -> Result<(), Status> {
        let mut account = Obj::new(accounts.ty);
        account.set_at(&["metadata", "namespace"], NAMESPACE);
        account.set_at(&["metadata", "name"], self.name.as_str());
        match self.manager.create(accounts, account).await {
            Err(status) if !status.is_already_exists() => Err(status),
            _ => Ok(()),
        }
    }

    /// Drops the token after a 401, because the account may have been deleted and recreated.
    async fn judge<T>(&self, used: &Arc<Https>, answer: Result<T, Status>) -> Result<T, Status> {
        if answer.as_ref().is_err_and(Status::is_unauthorized) {
            let mut current = self.current.lock().await;
            if current.as_ref().is_some_and(|(transport, _)| Arc::ptr_eq(transport, used)) {
                *current = None;
            }
        }
        answer
    }
}

#[async_trait]
impl Transport for Account {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let transport = self.transport().await?;
        let answer = transport.call(request).await;
        self.judge(&transport, answer).await
    }

    async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status> {
        let transport = self.transport().await?;
        let answer = transport.watch(resource, namespace, options).await;
        self.judge(&transport, answer).await
    }

    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        let transport = self.transport().await?;
        let answer = transport.raw(request).await;
        self.judge(&transport, answer).await
    }
}
