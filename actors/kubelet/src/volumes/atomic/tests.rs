use std::os::unix::fs::MetadataExt;

use tempfile::TempDir;

use super::*;

fn payload(files: &[(&str, &str)]) -> Payload {
    let file = |text: &str| File { data: text.as_bytes().to_vec(), mode: 0o640, owner: None };
    files.iter().map(|(path, text)| (PathBuf::from(path), file(text))).collect()
}

fn put(dir: &TempDir, files: &[(&str, &str)]) -> Result<(), Failure> {
    write(dir.path(), &payload(files), |_| Ok(()))
}

fn read(dir: &TempDir, path: &str) -> Option<String> {
    fs::read_to_string(dir.path().join(path)).ok()
}

/// Returns the names in the volume's directory, without that of the data directory.
fn names(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("..2")).collect();
    names.sort();
    names
}

fn data_dirs(dir: &TempDir) -> usize {
    fs::read_dir(dir.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
}

#[test]
fn users_see_links_into_the_data() {
    let dir = TempDir::new().unwrap();
    put(&dir, &[("a", "1"), ("sub/b", "2"), ("sub/deep/c", "3")]).unwrap();
    assert_eq!(names(&dir), ["..data", "a", "sub"]);
    assert_eq!(fs::read_link(dir.path().join("sub")).unwrap(), Path::new("..data/sub"));
    assert_eq!(read(&dir, "sub/deep/c").as_deref(), Some("3"));
    let found = fs::metadata(dir.path().join("a")).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o640);
}

#[test]
fn an_update_changes_everything_and_leaves_nothing_of_the_old() {
    let dir = TempDir::new().unwrap();
    put(&dir, &[("a", "1"), ("gone", "x"), ("sub/b", "2"), ("sub/old", "y")]).unwrap();
    let before = fs::read_link(dir.path().join(DATA)).unwrap();
    put(&dir, &[("a", "1"), ("sub/b", "3"), ("new", "n")]).unwrap();
    assert_ne!(fs::read_link(dir.path().join(DATA)).unwrap(), before);
    assert_eq!(names(&dir), ["..data", "a", "new", "sub"]);
    assert_eq!((read(&dir, "sub/b").as_deref(), read(&dir, "sub/old")), (Some("3"), None));
    assert!(!dir.path().join(before).exists());
}

#[test]
fn nothing_is_written_when_nothing_changed_but_lost_links_come_back() {
    let dir = TempDir::new().unwrap();
    put(&dir, &[("a", "1"), ("b", "2")]).unwrap();
    let before = fs::read_link(dir.path().join(DATA)).unwrap();
    fs::remove_file(dir.path().join("b")).unwrap();
    put(&dir, &[("a", "1"), ("b", "2")]).unwrap();
    assert_eq!(fs::read_link(dir.path().join(DATA)).unwrap(), before);
    assert_eq!(read(&dir, "b").as_deref(), Some("2"));
}

#[test]
fn an_update_that_fails_leaves_what_was() {
    let dir = TempDir::new().unwrap();
    put(&dir, &[("a", "1")]).unwrap();
    let failed = write(dir.path(), &payload(&[("a", "2")]), |_| Err(PodError::NotReady("no".to_owned())));
    assert_eq!(failed, Err(Failure::Update(PodError::NotReady("no".to_owned()))));
    assert_eq!(read(&dir, "a").as_deref(), Some("1"));
    assert_eq!((names(&dir).len(), data_dirs(&dir)), (2, 2), "the data and the link to them");
    let fresh = TempDir::new().unwrap();
    let failed = write(fresh.path(), &payload(&[("a", "2")]), |_| Err(PodError::NotReady("no".to_owned())));
    assert_eq!(failed, Err(Failure::First(PodError::NotReady("no".to_owned()))));
    assert_eq!(names(&fresh), Vec::<String>::new());
}

#[test]
fn a_link_that_a_dead_kubelet_left_is_in_nobodys_way() {
    let dir = TempDir::new().unwrap();
    symlink("..nowhere", dir.path().join(NEW_DATA)).unwrap();
    put(&dir, &[("a", "1")]).unwrap();
    assert_eq!(names(&dir), ["..data", "a"]);
}

#[test]
fn paths_that_lead_out_are_refused_before_anything_is_written() {
    let long = "x".repeat(256);
    for (path, why) in [
        ("", "invalid path: must not be empty: \"\""),
        ("/a", "invalid path: must be relative path: /a"),
        ("a/../b", "invalid path: must not contain '..': a/../b"),
        ("..a", "invalid path: must not start with '..': ..a"),
        (long.as_str(), "invalid path: filenames must be less than or equal to 255 characters"),
    ] {
        let dir = TempDir::new().unwrap();
        assert_eq!(
            put(&dir, &[("ok", "1"), (path, "2")]),
            Err(Failure::First(PodError::Invalid(why.to_owned()))),
            "{path}"
        );
        assert_eq!(names(&dir), Vec::<String>::new());
    }
}
