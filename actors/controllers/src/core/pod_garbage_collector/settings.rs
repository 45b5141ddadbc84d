//! Settings of pod-garbage-collector-controller.

/// Flags of pod-garbage-collector-controller; names are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct PodGarbageCollectorSettings {
    /// How many ended pods may exist before the oldest of them are deleted; 0 or less keeps all.
    #[arg(long, default_value_t = 12_500, value_name = "PODS", allow_negative_numbers = true)]
    pub terminated_pod_gc_threshold: i32,
}

impl Default for PodGarbageCollectorSettings {
    fn default() -> Self {
        Self { terminated_pod_gc_threshold: 12_500 }
    }
}

impl PodGarbageCollectorSettings {
    /// Number of ended pods that are kept; `None` keeps all.
    pub(super) fn threshold(&self) -> Option<usize> {
        usize::try_from(self.terminated_pod_gc_threshold).ok().filter(|threshold| *threshold > 0)
    }
}
