use super::*;

/// An index of version 2 with these entries: mode and path.
fn index(entries: &[(u32, &str)]) -> Vec<u8> {
    let count = u32::try_from(entries.len()).unwrap();
    let mut bytes = [&b"DIRC"[..], &2_u32.to_be_bytes(), &count.to_be_bytes()].concat();
    for (mode, path) in entries {
        let start = bytes.len();
        bytes.extend([0; MODE]);
        bytes.extend(mode.to_be_bytes());
        bytes.extend([0; BEFORE_OBJECT - MODE - 4 + 20]);
        bytes.extend(u16::try_from(path.len()).unwrap().to_be_bytes());
        bytes.extend(path.as_bytes());
        bytes.push(0);
        let length = (bytes.len() - start).next_multiple_of(8);
        bytes.resize(start + length, 0);
    }
    bytes.extend([0; 20]);
    bytes
}

fn read(bytes: &[u8]) -> Option<Vec<String>> {
    let found = gitlinks(bytes, 20, |_| None)?;
    Some(found.into_iter().map(|path| String::from_utf8(path).unwrap()).collect())
}

#[test]
fn entries_that_are_repositories_are_found() {
    let bytes = index(&[(0o100_644, "a"), (GITLINK, "lib/x"), (0o120_000, "link"), (GITLINK, "z")]);
    assert_eq!(read(&bytes), Some(vec!["lib/x".to_owned(), "z".to_owned()]));
}

#[test]
fn no_text_of_any_length_is_read_beyond_its_end() {
    let whole = index(&[(GITLINK, "lib/x"), (0o100_644, "b")]);
    for length in 0..whole.len() - 20 {
        assert_eq!(read(&whole[..length]), None, "{length}");
    }
    for at in 0..whole.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            gitlinks(&damaged, 20, |_| None);
        }
    }
    assert_eq!(read(b"DIRC\0\0\0\x05\0\0\0\0"), None);
}

#[test]
fn what_git_writes_in_each_version_is_read() {
    let folder = stockade_scratch::Folder::new();
    let root = folder.path();
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(root).args(["-c", "user.name=a", "-c", "user.email=b"]).args(words);
        command.output().is_ok_and(|it| it.status.success())
    };
    if !git(&["init", "-q", "."]) {
        println!("skipped what_git_writes_in_each_version_is_read: no git");
        return;
    }
    assert!(git(&["init", "-q", "lib/inner"]));
    assert!(git(&["-C", "lib/inner", "commit", "-q", "--allow-empty", "-m", "x"]));
    for name in ["a", "lib/b", "lib/c", "lib/inner-not", "z"] {
        folder.write(name, b"x");
    }
    assert!(git(&["add", "-A"]));
    assert!(git(&["add", "-N", "."]));
    for version in ["2", "3", "4"] {
        assert!(git(&["update-index", "--force-write-index", "--index-version", version]));
        let bytes = std::fs::read(root.join(".git/index")).unwrap();
        assert_eq!(read(&bytes), Some(vec!["lib/inner".to_owned()]), "{version}");
    }
    assert!(git(&["update-index", "--split-index"]));
    let bytes = std::fs::read(root.join(".git/index")).unwrap();
    let shared = |name: &str| std::fs::read(root.join(".git").join(name)).ok();
    assert_eq!(gitlinks(&bytes, 20, shared), Some(vec![b"lib/inner".to_vec()]));
    assert_eq!(gitlinks(&bytes, 20, |_| None), None, "half of an index is none");
}
