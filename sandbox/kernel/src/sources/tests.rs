use std::collections::BTreeSet;

use stockade_spec::{Fallback, Files, Limits, Mediation, Network, Program};

use super::*;

fn rule(path: PathBuf, access: Access) -> FileRule {
    FileRule { path, access, origin: "test".to_owned() }
}

fn spec(rules: &[FileRule]) -> SandboxSpec {
    let (argv, environment) = (Vec::new(), Vec::new());
    SandboxSpec {
        program: Program { path: "/bin/true".into(), argv, environment, cwd: "/".into() },
        files: Files { rules: rules.to_vec(), ..Files::default() },
        network: Network::Off,
        limits: Limits::default(),
        terminal: None,
        required: BTreeSet::new(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: Fallback::Refuse,
    }
}

/// Returns the paths that are opened, those with rules and those that are absent.
fn opened(rules: &[FileRule]) -> Result<[Vec<PathBuf>; 3], Failure> {
    let sources = Sources::open(&spec(rules), &Foreign::default(), None)?;
    let paths = |rules: &[FileRule]| rules.iter().map(|it| it.path.clone()).collect();
    let opened = sources.opened.into_keys().collect();
    Ok([opened, paths(&sources.rules), paths(&sources.absent)])
}

#[test]
fn rules_are_opened_absent_or_refused_by_what_lies_at_their_paths() {
    let folder = std::env::temp_dir().canonicalize().unwrap();
    let folder = folder.join(format!("stockade-sources-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("d")).unwrap();
    std::fs::write(folder.join("f"), "x").unwrap();
    std::os::unix::fs::symlink("d", folder.join("l")).unwrap();
    let at = |name: &str| rule(folder.join(name), Access::Protected);
    let kept = rule(folder.join("l"), Access::Kept);
    let found = opened(&[at("d"), at("f"), at("none"), at("f/none"), kept]);
    let paths = |names: &[&str]| names.iter().map(|it| folder.join(it)).collect::<Vec<_>>();
    let expected = [paths(&["d", "f"]), paths(&["d", "f"]), paths(&["none", "f/none"])];
    assert_eq!(found, Ok(expected));
    for name in ["l", "l/f"] {
        assert_eq!(opened(&[at(name)]), Err(exchanged(&folder.join(name))));
    }
    for path in [PathBuf::from("d"), folder.join("d/../f")] {
        let reason = format!("`{}` is not an absolute real path", path.display());
        assert_eq!(opened(&[rule(path, Access::Write)]), Err(Failure::Spec { reason }));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Here the host that was left is the one where this process is.
#[test]
fn paths_and_the_journal_are_found_in_the_host_that_was_left() {
    use std::io::{Read as _, Write as _};

    let root = || open(Path::new("/")).unwrap();
    let left = Left { host: root(), staging: root() };
    let same = |path: &Path| {
        let found = std::fs::File::from(open_in(Some(&left), path).unwrap()).metadata().unwrap();
        let expected = std::fs::symlink_metadata(path).unwrap();
        std::os::unix::fs::MetadataExt::ino(&found)
            == std::os::unix::fs::MetadataExt::ino(&expected)
    };
    assert!(same(Path::new("/")) && same(Path::new("/proc")));
    let relative = open_in(Some(&left), Path::new("proc")).map_err(|error| error.kind());
    assert_eq!(relative.err(), Some(io::ErrorKind::InvalidInput));
    let folder = std::env::temp_dir().canonicalize().unwrap();
    let file = folder.join(format!("stockade-journal-{}", std::process::id()));
    std::fs::write(&file, "a").unwrap();
    let mut spec = spec(&[]);
    assert!(own_files(None, &spec).unwrap().journal.is_none());
    spec.files.watched = Some(stockade_spec::Watched {
        names: Vec::new(),
        everywhere: Vec::new(),
        except: Vec::new(),
        paths: Vec::new(),
        journal: file.clone(),
    });
    for host in [None, Some(&left)] {
        let mut opened = std::fs::File::from(own_files(host, &spec).unwrap().journal.unwrap());
        opened.write_all(b"b").unwrap();
        assert!(opened.read(&mut [0]).is_err(), "it is for writing alone");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "abb");
    std::fs::remove_file(&file).unwrap();
}
