//! k9s in a terminal (tmux) whose screen is read.

use std::path::Path;
use std::process::Command;

use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Kubectl};
use tempfile::TempDir;

/// A tmux server of the test's own, with k9s on its one screen.
struct Screen {
    home: TempDir,
}

impl Screen {
    fn start(k9s: &Path, kubeconfig: &Path) -> Self {
        let screen = Self { home: tempfile::tempdir().unwrap() };
        let command = format!(
            "TERM=xterm-256color HOME={home} K9S_CONFIG_DIR={home} {} --kubeconfig {} --all-namespaces --command pods",
            k9s.display(),
            kubeconfig.display(),
            home = screen.home.path().display(),
        );
        screen.tmux(&["new-session", "-d", "-x", "180", "-y", "50", &command]).unwrap();
        screen
    }

    fn tmux(&self, words: &[&str]) -> Result<String, String> {
        let mut tmux = Command::new("tmux");
        let ran = tmux.arg("-S").arg(self.home.path().join("tmux")).args(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if ran.status.success() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stderr)) }
    }

    fn types(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat()).unwrap();
    }

    /// Waits until the screen has a line with all of these texts.
    fn shows(&self, texts: &[&str]) {
        eventually(&format!("a line with {texts:?}"), || {
            let screen = self.tmux(&["capture-pane", "-p"])?;
            let line = |line: &str| texts.iter().all(|text| line.contains(text));
            if screen.lines().any(line) { Ok(()) } else { Err(screen) }
        });
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // k9s and its tmux server may have ended.
        let _ = self.tmux(&["kill-server"]);
    }
}

#[test]
fn its_lists_logs_and_commands() {
    let Some(bin) = crate::swaps::programs(&["k9s"]) else { return };
    if let Err(why) = Command::new("tmux").arg("-V").output() {
        oarlock_testkit::skipped!("tmux: {why}: k9s was not tried");
        return;
    }
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = Kubectl::new(&cluster.kubeconfig());
    kubectl.ok("create deployment web --image=registry.k8s.io/pause:3.10 --replicas=2");
    let pod = kubectl.until("get pods -o jsonpath={.items[0].metadata.name}", |name| !name.is_empty());

    let screen = Screen::start(&bin.join("k9s"), &cluster.kubeconfig());
    screen.shows(&["default", &pod, "1/1", "Running"]);
    screen.types(&[":deployments", "Enter"]);
    screen.shows(&["default", "web", "2/2"]);
    // The list of k9s is a watch: changes by other clients appear without a refresh.
    kubectl.ok("scale deployment web --replicas=5");
    screen.shows(&["default", "web", "5/5"]);
    screen.types(&[":nodes", "Enter"]);
    screen.shows(&["Ready", "v1.35"]);
    screen.types(&[":pods", "Enter"]);
    screen.shows(&["default", &pod, "Running"]);
    // The filter of k9s leaves one row, which is deleted.
    screen.types(&[&format!("/{pod}"), "Enter"]);
    screen.shows(&["Pods", "[1]"]);
    screen.types(&["C-k"]);
    kubectl.until("get pods -o name", |names| !names.is_empty() && !names.contains(&pod));
}
