//! Ports for programs that must be told theirs, or that come back to it.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the kernel gives to whoever asks for any: nobody takes one of these by chance.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of the loopback address that is free now and that this process gives away once; no other process of tests is given it while this one runs.
///
/// # Panics
/// When the port's lock file in the temporary directory cannot be made.
#[must_use]
pub fn own() -> u16 {
    // Test programs that run one after the other begin at different places: what one has left behind may linger.
    let start = std::process::id().wrapping_mul(64);
    loop {
        let place = start.wrapping_add(u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
        let port = FIRST + u16::try_from(place).expect("less than the count");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && claimed(port) {
            return port;
        }
    }
}

/// Takes the port's lock until this process ends, unless another process has it.
fn claimed(port: u16) -> bool {
    let path = std::env::temp_dir().join(format!("oarlock-port-{port}"));
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let free = file.try_lock().is_ok();
    if free {
        std::mem::forget(file);
    }
    free
}
