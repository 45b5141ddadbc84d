//! The bus contract over NATS.

use async_trait::async_trait;
use oarlock_bus::{Bus, Identity};
use parking_lot::Mutex;
use tokio::task::block_in_place;

use crate::cases::{self, Ground};
use crate::server::Server;

struct Nats(Mutex<Server>);

#[async_trait]
impl Ground for Nats {
    async fn join(&self, identity: Identity) -> Bus {
        let options = self.0.lock().options(&identity);
        let bus = Bus::connect(options, identity).unwrap();
        bus.wait_for(|state| state.connected).await;
        bus
    }

    async fn stop(&self) {
        block_in_place(|| self.0.lock().nats.kill());
    }

    async fn start(&self) {
        block_in_place(|| self.0.lock().nats.restart());
    }
}

macro_rules! over_nats {
    ($($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                if let Some(server) = block_in_place(|| Server::start("")) {
                    cases::$case(&Nats(Mutex::new(server))).await;
                }
            }
        )*
    };
}

cases::each_case!(over_nats);
