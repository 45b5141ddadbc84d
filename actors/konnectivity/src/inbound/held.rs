//! The memory that a queue holds, which a metric counts for all queues together.

use prometheus_client::metrics::gauge::Gauge;

/// The memory that the packets of one queue hold, in bytes. A gauge counts it as long as the queue exists.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    gauge: Gauge,
}

impl Held {
    /// Counts an empty queue.
    pub(super) fn new(gauge: &Gauge) -> Self {
        Self { bytes: 0, gauge: gauge.clone() }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a packet.
    pub(super) fn add(&mut self, cost: usize) {
        self.bytes += cost;
        self.gauge.inc_by(signed(cost));
    }

    /// Removes a packet.
    pub(super) fn remove(&mut self, cost: usize) {
        let cost = cost.min(self.bytes);
        self.bytes -= cost;
        self.gauge.dec_by(signed(cost));
    }

    /// Removes all packets.
    pub(super) fn clear(&mut self) {
        self.remove(self.bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
