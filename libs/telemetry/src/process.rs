//! Process metrics under the names that every Prometheus client uses; empty on systems without `/proc`.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Collector that reads `/proc` on every scrape.
#[derive(Debug)]
pub(crate) struct Process;

/// Resource figures of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    /// CPU seconds of all threads, in user and kernel mode.
    cpu: f64,
    /// Virtual memory in bytes.
    virtual_memory: u64,
    resident_memory: u64,
    /// Start time in seconds since the epoch.
    started: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
        if let Some(own) = figures(&read("/proc/self/stat"), &read("/proc/stat"), Units::of_system()) {
            let help = "Seconds that the process's threads have run";
            encoder
                .encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, f64>(&own.cpu, None)?;
            for (name, help, value) in [
                ("process_virtual_memory_bytes", "Size of the address space", own.virtual_memory as f64),
                ("process_resident_memory_bytes", "Memory that is there", own.resident_memory as f64),
                ("process_start_time_seconds", "When the process began, since the epoch", own.started),
            ] {
                encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
            }
        }
        let open = fs::read_dir("/proc/self/fd").ok().map(|all| all.count() as u64);
        for (name, help, value) in [
            ("process_open_fds", "File descriptors that are open", open),
            ("process_max_fds", "File descriptors that may be", max_fds(&read("/proc/self/limits"))),
        ] {
            if let Some(value) = value {
                encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

/// Units in which the kernel counts.
#[derive(Clone, Copy, Debug)]
struct Units {
    ticks_per_second: f64,
    page: u64,
}

impl Units {
    fn of_system() -> Self {
        Self {
            ticks_per_second: rustix::param::clock_ticks_per_second() as f64,
            page: rustix::param::page_size() as u64,
        }
    }
}

/// Parses `/proc/self/stat` and `/proc/stat` (proc(5)). A process name may contain any character, so fields are counted from its end.
fn figures(own: &str, system: &str, units: Units) -> Option<Figures> {
    let fields: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
    // The first of these fields is number 3 in the manual.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let seconds = |ticks: u64| ticks as f64 / units.ticks_per_second;
    let boot: u64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(Figures {
        cpu: seconds(field(14)? + field(15)?),
        virtual_memory: field(23)?,
        resident_memory: field(24)? * units.page,
        started: boot as f64 + seconds(field(22)?),
    })
}

/// Parses the file limit from `/proc/self/limits`.
fn max_fds(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_behind_any_name() {
        let own =
            "42 (a) b (c)) S 1 42 42 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 9 0 1000 8388608 512 18446744073709551615";
        let units = Units { ticks_per_second: 100.0, page: 4096 };
        let read = figures(own, "cpu 1 2 3\nbtime 1700000000\n", units);
        let expected =
            Figures { cpu: 3.0, virtual_memory: 8_388_608, resident_memory: 2_097_152, started: 1_700_000_010.0 };
        assert_eq!(read, Some(expected));
        assert_eq!(figures("42 (short) S 1", "btime 1\n", units), None);
        assert_eq!(
            max_fds("Limit  Soft Limit\nMax open files            1024                 4096                 files\n"),
            Some(1024)
        );
        assert_eq!(max_fds("Max open files            unlimited            unlimited            files\n"), None);
    }

    #[test]
    fn this_process_has_them_all() {
        let more = prometheus_client::registry::Registry::default();
        let text = crate::registry().encode_with(crate::metrics::Format::OpenMetrics, &more);
        for name in [
            "process_virtual_memory_bytes ",
            "process_resident_memory_bytes ",
            "process_start_time_seconds ",
            "process_open_fds ",
            "process_max_fds ",
        ] {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            assert!(line.is_some_and(|value| value.parse::<f64>().unwrap() > 0.0), "{name}\n{text}");
        }
        assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
