use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use stockade_scratch::Folder;

fn expanded(folder: &Folder, patterns: &[&str], limit: Duration) -> Vec<Found> {
    let root = folder.path().to_path_buf();
    let patterns: Vec<String> =
        patterns.iter().map(|pattern| format!("{}/{pattern}", root.display())).collect();
    let asked: Vec<(&str, Unlisted)> =
        patterns.iter().map(|it| (it.as_str(), Unlisted::Whole)).collect();
    let ground = Ground {
        is_needed: &|path| root.starts_with(path),
        follows: &|link| !link.ends_with("shut"),
    };
    expand(&asked, ground, limit).unwrap()
}

fn names(folder: &Folder, paths: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().display().to_string();
    paths.iter().map(name).collect()
}

#[test]
fn patterns_stand_for_what_exists() {
    let folder = Folder::new();
    for name in ["a/.env", "a/b/.env", "a/b/x.pem", "c/.env.local", "c/y.pem"] {
        folder.write(name, "");
    }
    symlink("a", folder.path().join("link")).unwrap();
    symlink(".", folder.path().join("a/self")).unwrap();
    symlink("../c", folder.path().join("a/shut")).unwrap();
    let asked = [
        ("**/.env", vec!["a/.env", "a/b/.env"]),
        ("a/*/y.pem", vec![]),
        ("*/.env*", vec!["a/.env", "c/.env.local", "link/.env"]),
        ("**/[xy].pem", vec!["a/b/x.pem", "c/y.pem"]),
        ("a/?/.env", vec!["a/b/.env"]),
        ("missing", vec!["missing"]),
        ("missing/**", vec![]),
        ("a/**", vec!["a"]),
        ("a/**/b", vec!["a/b"]),
        ("**/**/b/**/.env", vec!["a/b/.env"]),
        ("[a]/[b]/x.pem", vec!["a/b/x.pem"]),
        ("c", vec!["c"]),
        ("*", vec!["a", "c", "link"]),
    ];
    // Together, and each alone.
    let together: Vec<&str> = asked.iter().map(|it| it.0).collect();
    let found = expanded(&folder, &together, LIMIT);
    for ((pattern, expected), found) in asked.iter().zip(&found) {
        assert_eq!(&names(&folder, &found.paths), expected, "{pattern}");
        assert_eq!(expanded(&folder, &[pattern], LIMIT).first(), Some(found), "{pattern}");
        assert_eq!(found.unseen, Vec::<PathBuf>::new(), "{pattern}");
    }
}

#[test]
fn what_is_not_seen_in_time_counts_as_a_whole_and_what_is_needed_is_seen() {
    let folder = Folder::new();
    for name in ["k.pem", "a/k.pem", "a/b/k.pem", "c/other"] {
        folder.write(name, "");
    }
    let found = expanded(&folder, &["**/*.pem"], Duration::ZERO);
    assert_eq!(names(&folder, &found[0].paths), ["a", "c", "k.pem"]);
    assert_eq!(names(&folder, &found[0].unseen), ["a", "c"]);
}

#[test]
fn what_lies_too_deep_for_a_path_counts_as_a_whole() {
    let folder = Folder::new();
    let name = "d".repeat(200);
    let mut at = rustix::fs::open(folder.path(), rustix::fs::OFlags::PATH, 0o0.into()).unwrap();
    for _ in 0..30 {
        rustix::fs::mkdirat(&at, name.as_str(), 0o755.into()).unwrap();
        at = rustix::fs::openat(&at, name.as_str(), rustix::fs::OFlags::PATH, 0o0.into()).unwrap();
    }
    let found = expanded(&folder, &["**/*.pem"], LIMIT);
    let [one] = found[0].unseen.as_slice() else { panic!("{found:?}") };
    assert!(one.as_os_str().len() < 4_000 && fs::metadata(one).is_ok());
}

#[test]
fn of_too_many_paths_the_directories_above_count() {
    let needed = |path: &Path| path == Path::new("/p");
    let many = |count: usize, at: &str| -> Vec<PathBuf> {
        (0..count).map(|it| format!("{at}/{it}").into()).collect()
    };
    let gathered = whole::gather(many(5_000, "/p/d/e"), &needed);
    assert_eq!(gathered.into_iter().collect::<Vec<_>>(), [PathBuf::from("/p/d/e")]);
    // The directory that holds most comes first, and is enough.
    let gathered = whole::gather([many(5_000, "/p/d/e"), many(1, "/p/f")].concat(), &needed);
    let expected = ["/p/d/e", "/p/f/0"].map(PathBuf::from);
    assert_eq!(gathered.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(whole::gather(many(5_000, "/p"), &needed).len(), 5_000);
    assert_eq!(whole::gather(many(4_000, "/p/d"), &needed).len(), 4_000);
}
