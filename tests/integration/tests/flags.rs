//! Flags that cannot be what they say.

use std::process::Command;

#[test]
fn a_watch_window_that_holds_nothing_is_refused_by_its_name() {
    for command in ["up", "apiserver"] {
        for value in ["0", "1048575", "-1", "1Mi", ""] {
            let flag = format!("--watch-window-bytes={value}");
            let ran = Command::new(oarlock_testkit::oarlock()).args([command, &flag]).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(2), "{command} {flag}: {said}");
            assert!(said.contains("'--watch-window-bytes <BYTES>'"), "{command} {flag}: {said}");
        }
        let help = Command::new(oarlock_testkit::oarlock()).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8_lossy(&help.stdout);
        assert!(help.contains("--watch-window-bytes <BYTES>") && help.contains("410 Expired"), "{help}");
        assert!(help.contains("[default: 67108864]"), "{help}");
    }
}
