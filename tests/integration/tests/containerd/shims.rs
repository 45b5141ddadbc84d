//! Shims of a test's containerd: processes that outlive it, each with the containers that it has started.
//!
//! A containerd that is killed between the start of a shim and the record of it, or between the last container's end and the shim's, does not know the
//! shim when it is started again. So shims are found by the socket in their command lines.

use std::fs;
use std::path::Path;

use oarlock_testkit::wait::eventually;

use super::machine::{run, try_run};

/// The name of the program, as far as all versions share it.
const PROGRAM: &str = "containerd-shim";
/// The folder in which runc keeps the state of containers that shims start for the kubelet, whichever containerd they belong to.
pub(super) const RUNC_STATE: &str = "/run/containerd/runc/k8s.io";

/// Ends each shim of the containerd that listens at this socket, after the containers of the shim.
pub(super) fn end(socket: &str) {
    for shim in of(socket) {
        // A shim adopts what its containers leave behind, so its children are asked for until there are none.
        eventually("a shim has no children", || match children(&shim) {
            children if children.is_empty() => Ok(()),
            children => {
                // A child that has ended meanwhile cannot be killed.
                let ended: Vec<_> = children.iter().map(|child| try_run("kill", &["-KILL", child])).collect();
                Err(format!("{children:?}: {ended:?}"))
            }
        });
        run("kill", &["-KILL", &shim]);
    }
    eventually("no shim runs", || match of(socket) {
        shims if shims.is_empty() => Ok(()),
        shims => Err(shims.join(", ")),
    });
}

/// Removes runc's state of the containers whose bundles lie below a folder: a shim that is killed leaves it behind.
pub(super) fn forget_containers(below: &Path) {
    let listed = run("runc", &["--root", RUNC_STATE, "list", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    for container in listed.as_array().into_iter().flatten() {
        if Path::new(container["bundle"].as_str().unwrap()).starts_with(below) {
            run("runc", &["--root", RUNC_STATE, "delete", "--force", container["id"].as_str().unwrap()]);
        }
    }
}

/// The process ids of the shims of the containerd that listens at this socket.
pub(super) fn of(socket: &str) -> Vec<String> {
    let line = |pid: &String| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    processes().filter(|pid| is_shim(&line(pid), socket)).collect()
}

/// Whether a process with this command line, whose words end with zeros, is a shim of the containerd that listens at this socket.
fn is_shim(line: &[u8], socket: &str) -> bool {
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(PROGRAM.as_bytes()) && words.any(|word| word == socket.as_bytes())
}

/// The running children of a process. Those that have ended and wait for their parent are none.
fn children(parent: &str) -> Vec<String> {
    let is_child = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name of the program, in parentheses, may hold spaces.
        let (state, of) = stat
            .rsplit_once(") ")
            .map(|(_, rest)| rest.split(' '))
            .map_or((None, None), |mut fields| (fields.next(), fields.next()));
        of == Some(parent) && state != Some("Z")
    };
    processes().filter(is_child).collect()
}

fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

#[test]
fn a_shim_is_known_by_its_program_and_its_socket() {
    let shim = b"/usr/bin/containerd-shim-runc-v2\0-namespace\0k8s.io\0-address\0/tmp/a/sock\0";
    assert!(is_shim(shim, "/tmp/a/sock"));
    assert!(!is_shim(shim, "/tmp/a/soc"));
    assert!(!is_shim(shim, "/tmp/b/sock"));
    assert!(!is_shim(b"/usr/bin/ctr\0-a\0/tmp/a/sock\0", "/tmp/a/sock"));
    assert!(!is_shim(b"", "/tmp/a/sock"));
}
