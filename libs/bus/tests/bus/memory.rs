//! The bus contract on the in-memory transport, under virtual time.

use async_trait::async_trait;
use oarlock_bus::{Bus, Exchange, Identity};

use crate::cases::{self, Ground};

struct Memory(Exchange);

#[async_trait]
impl Ground for Memory {
    async fn join(&self, identity: Identity) -> Bus {
        Bus::memory(&self.0, identity)
    }

    async fn stop(&self) {
        self.0.stop();
    }

    async fn start(&self) {
        self.0.start();
    }
}

macro_rules! in_memory {
    ($($case:ident)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $case() {
                cases::$case(&Memory(Exchange::new())).await;
            }
        )*
    };
}

cases::each_case!(in_memory);
