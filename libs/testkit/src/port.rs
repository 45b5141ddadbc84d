//! Ports for programs that need a fixed port, also across restarts.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The range of ports, below the kernel's ephemeral ports, so that no program gets one of these by chance.
const FIRST_PORT: u16 = 12_000;
const PORT_COUNT: u16 = 20_000;

static NEXT_OFFSET: AtomicU16 = AtomicU16::new(0);

/// Returns a free port of the loopback address. This process returns each port once, and no other test process gets the port while this one runs.
///
/// # Panics
/// When the port's lock file in the temporary directory cannot be created.
#[must_use]
pub fn own() -> u16 {
    // Test programs that run in sequence begin at different ports: connections of an earlier one may linger.
    let start = std::process::id().wrapping_mul(64);
    loop {
        let place = start.wrapping_add(u32::from(NEXT_OFFSET.fetch_add(1, Ordering::Relaxed))) % u32::from(PORT_COUNT);
        let port = FIRST_PORT + u16::try_from(place).expect("less than the count");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && claimed(port) {
            return port;
        }
    }
}

/// Locks the port until this process ends; false when another process holds the lock.
fn claimed(port: u16) -> bool {
    let path = std::env::temp_dir().join(format!("oarlock-port-{port}"));
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let free = file.try_lock().is_ok();
    if free {
        std::mem::forget(file);
    }
    free
}
