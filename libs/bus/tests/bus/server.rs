//! A real nats-server configured from the table, with credentials for every member.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::credentials::Seed;
use oarlock_bus::permissions::{Holder, configuration};
use oarlock_bus::{Bus, Identity, Options, Role, RoleKeys, TokioSpawn};
use oarlock_testkit::Signal;
use oarlock_testkit::nats::Nats;
use tokio::time::timeout;

/// Nodes that have credentials.
pub(crate) const NODES: [&str; 3] = ["n1", "n2", "ip-10-0-0-1.ec2.internal"];

pub(crate) struct Server {
    pub(crate) nats: Nats,
    seeds: BTreeMap<String, Seed>,
}

impl Server {
    /// Starts the server; `None`, with a loud message, where nats-server cannot be built.
    pub(crate) fn start(more: &str) -> Option<Self> {
        Self::of(|configuration| Nats::start(&format!("{configuration}{more}")))
    }

    pub(crate) fn of(start: impl Fn(&str) -> Result<Nats, String>) -> Option<Self> {
        let roles = Role::ALL.into_iter().filter(|role| *role != Role::Node).map(Holder::role);
        let nodes = NODES.map(|name| Holder::node(name).unwrap());
        let credentials: Vec<(Holder, Seed)> =
            roles.chain(nodes).map(|holder| (holder, Seed::generate().unwrap())).collect();
        let users = configuration(credentials.iter().map(|(holder, seed)| (holder, seed.public_key())), None);
        let nats = match start(&users) {
            Ok(nats) => nats,
            Err(why) => {
                oarlock_testkit::skipped!("{why}: nothing was tried over NATS");
                return None;
            }
        };
        Some(Self { nats, seeds: credentials.into_iter().map(|(holder, seed)| (holder.file_name(), seed)).collect() })
    }

    /// Reloads the configuration without the credentials of these members.
    pub(crate) fn reload_without(&self, nobody: &[&str]) {
        let known = self.seeds.iter().filter(|(name, _)| !nobody.contains(&name.as_str()));
        let holders: Vec<(Holder, &Seed)> =
            known.map(|(name, seed)| (Holder::from_file_name(name).unwrap(), seed)).collect();
        self.nats.configure(&configuration(holders.iter().map(|(holder, seed)| (holder, seed.public_key())), None));
        self.nats.signal(Signal::HUP);
    }

    /// The public keys of roles.
    pub(crate) fn role_keys(&self) -> RoleKeys {
        let known = |role: Role| Some((role, self.seeds.get(role.as_str())?.public_key().to_owned()));
        RoleKeys::new(Role::ALL.into_iter().filter_map(known))
    }

    /// The credentials of a member.
    pub(crate) fn seed(&self, who: &Identity) -> &Seed {
        let holder = match who.role() {
            Role::Node => Holder::node(who.name()).unwrap(),
            role => Holder::role(role),
        };
        &self.seeds[&holder.file_name()]
    }

    pub(crate) fn options(&self, who: &Identity) -> Options {
        Options {
            servers: vec![self.nats.url()],
            credentials: Some(self.seed(who).secret().to_owned()),
            authorities: self.nats.authority().map(str::to_owned),
            role_keys: Some(self.role_keys().to_string()),
            spawn: Arc::new(TokioSpawn),
        }
    }

    /// Connects another member.
    pub(crate) async fn join(&self, who: Identity) -> Bus {
        let bus = Bus::connect(self.options(&who), who).unwrap();
        timeout(Duration::from_secs(30), bus.wait_for(|state| state.connected)).await.expect("a connection");
        bus
    }

    /// Connects a raw protocol client with a member's credentials; returns it with the server's events.
    pub(crate) async fn raw(
        &self,
        who: &Identity,
    ) -> (async_nats::Client, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let (said, heard) = tokio::sync::mpsc::unbounded_channel();
        let client = async_nats::ConnectOptions::with_nkey(self.seed(who).secret().to_owned())
            .event_callback(move |event| {
                said.send(event.to_string()).unwrap_or_default();
                std::future::ready(())
            })
            .custom_inbox_prefix(format!("_INBOX_{}.{}", who.role(), who.name().replace('.', "_")))
            .connect(self.nats.url())
            .await
            .expect("a connection");
        (client, heard)
    }
}

pub(crate) fn who(role: Role, name: &str) -> Identity {
    Identity::new(role, name).unwrap()
}
