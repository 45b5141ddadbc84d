//! Allocates the addresses of one node's pods.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cri::{Error, Result};

/// Allocator of a network's host addresses. It goes round the range, so that a freed address is not reused at once.
#[derive(Debug)]
pub(super) struct Addresses {
    net: IpNet,
    taken: BTreeSet<IpAddr>,
    next: u32,
}

impl Addresses {
    pub(super) fn new(net: IpNet) -> Self {
        Self { net, taken: BTreeSet::new(), next: 0 }
    }

    /// Makes new pods get addresses of another network.
    pub(super) fn renumber(&mut self, net: IpNet) {
        if self.net != net {
            (self.net, self.next) = (net, 0);
        }
    }

    /// Returns the number of host addresses, without the network address, the bridge's (the first) and the broadcast address.
    fn size(&self) -> u32 {
        let bits = self.net.max_prefix_len() - self.net.prefix_len();
        2_u32.saturating_pow(bits.into()).saturating_sub(3)
    }

    fn at(&self, index: u32) -> IpAddr {
        match self.net.network() {
            IpAddr::V4(first) => IpAddr::V4((first.to_bits().wrapping_add(index + 2)).into()),
            IpAddr::V6(first) => IpAddr::V6((first.to_bits().wrapping_add(u128::from(index) + 2)).into()),
        }
    }

    pub(super) fn take(&mut self) -> Result<IpAddr> {
        let size = self.size();
        for _ in 0..size.min(1 << 16) {
            let address = self.at(self.next % size);
            self.next = (self.next + 1) % size;
            if self.taken.insert(address) {
                return Ok(address);
            }
        }
        Err(Error::Failed(format!("no free address in {}", self.net)))
    }

    pub(super) fn claim(&mut self, address: IpAddr) {
        self.taken.insert(address);
    }

    pub(super) fn give_back(&mut self, address: IpAddr) {
        self.taken.remove(&address);
    }
}
