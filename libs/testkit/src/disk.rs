//! Disk faults (slow or failing) for one running process.
//!
//! strace injects the faults into the process's own sync calls, so neither a special file system nor root is needed.

use std::process::Command;
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::{Process, wait};

/// All system calls with which a program makes data durable.
const SYNCS: &str = "fdatasync,fsync,sync_file_range,msync";

/// A disk fault for one process; dropping the value ends the fault.
#[derive(Debug)]
pub struct Disk {
    // Dropped first: the process continues when its tracer has ended.
    _strace: Process,
    calls: NamedTempFile,
}

impl Disk {
    /// Checks that disk faults can be injected on this machine.
    ///
    /// # Errors
    /// The reason: strace is missing, or the system does not let one process trace another.
    pub fn available() -> Result<(), String> {
        let mut victim = Command::new("sleep");
        victim.arg("60");
        let victim = Process::start(victim, "sleep");
        Self::slow(victim.id(), Duration::ZERO).map(drop)
    }

    /// Delays every sync of a process.
    ///
    /// # Errors
    /// As [`Disk::available`].
    pub fn slow(process: u32, by: Duration) -> Result<Self, String> {
        Self::inject(process, &format!("delay_exit={}", by.as_micros()))
    }

    /// Makes every sync of a process fail with an I/O error.
    ///
    /// # Errors
    /// As [`Disk::available`].
    pub fn failing(process: u32) -> Result<Self, String> {
        Self::inject(process, "error=EIO")
    }

    fn inject(process: u32, fault: &str) -> Result<Self, String> {
        let calls = NamedTempFile::new().map_err(|error| error.to_string())?;
        let mut command = Command::new("strace");
        if let Err(error) = Command::new("strace").arg("-V").output() {
            return Err(format!("strace: {error}"));
        }
        command.args(["-f", "-p", &process.to_string(), "-e", &format!("trace={SYNCS}")]);
        command.args(["-e", &format!("inject={SYNCS}:{fault}"), "-o"]).arg(calls.path());
        let mut strace = Process::start(command, "strace");
        wait::eventually("strace is attached", || {
            let ended = strace.ended();
            let said = strace.said();
            match ended {
                _ if said.contains(" attached") => Ok(Ok(())),
                true => Ok(Err(format!("strace: {said}"))),
                false => Err(said),
            }
        })?;
        Ok(Self { _strace: strace, calls })
    }

    /// Returns the number of delayed or failed syncs.
    ///
    /// # Panics
    /// When strace's output file cannot be read.
    #[must_use]
    pub fn marks(&self) -> u64 {
        let calls = std::fs::read_to_string(self.calls.path()).expect("what strace wrote");
        calls.lines().filter(|line| line.ends_with("(DELAYED)") || line.ends_with("(INJECTED)")).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::Command;
    use std::time::Duration;

    use super::Disk;
    use crate::{Process, wait};

    #[test]
    fn a_process_is_told_that_its_disk_failed_and_others_are_not() {
        if let Err(why) = Disk::available() {
            crate::skipped!("{why}: no disk was slow or failed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut script = tempfile::NamedTempFile::new().unwrap();
        let file = folder.path().join("file").display().to_string();
        writeln!(
            script,
            "while dd if=/dev/zero of={file} bs=1 count=1 conv=fdatasync 2>/dev/null; do :; done; echo over"
        )
        .unwrap();
        let mut command = Command::new("sh");
        command.arg(script.path());
        let mut writer = Process::start(command, "writer");
        let count = |disk: &Disk| if disk.marks() >= 2 { Ok(()) } else { Err(disk.marks()) };
        let slow = Disk::slow(writer.id(), Duration::from_millis(50)).unwrap();
        wait::eventually("slow syncs", || count(&slow));
        drop(slow);
        assert!(!writer.ended(), "it only had to wait");
        let failing = Disk::failing(writer.id()).unwrap();
        wait::eventually("the writer gives up", || if writer.ended() { Ok(()) } else { Err(writer.said()) });
        assert!(failing.marks() > 0);
        assert_eq!(writer.said(), "over\n");
        std::fs::File::create(folder.path().join("other")).unwrap().sync_all().unwrap();
    }
}
