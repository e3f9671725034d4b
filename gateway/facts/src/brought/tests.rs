use std::path::Path;
use std::process::Command;

use stockade_policy::{Bringing, GitPlace, TreeChange, Unpacked};
use stockade_scratch::Folder;

use super::*;

/// Runs a text of bash in `directory` as a person with an empty configuration does.
fn shell(directory: &Path, text: &str) {
    let mut command = Command::new("bash");
    command.args(["-ec", text]).current_dir(directory).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", "/nonexistent");
    for (name, value) in [("NAME", "a"), ("EMAIL", "a@b")] {
        command.env(format!("GIT_AUTHOR_{name}"), value);
        command.env(format!("GIT_COMMITTER_{name}"), value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
}

fn told(root: &Path, change: TreeChange) -> Vec<String> {
    let bringing = Bringing::Git(GitPlace::Above(root.to_owned()), change);
    let found = look([bringing.clone()].into());
    let root = root.canonicalize().unwrap();
    let relative = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
    let files: Vec<_> = found[&bringing].iter().map(relative).collect();
    files.into_iter().filter(|name| name != ".vscode").collect()
}

/// A repository: `main` has a plain file, `side` was made from it and has protected ones as well.
fn repository(more: &str) -> Folder {
    let folder = Folder::new();
    shell(
        folder.path(),
        "git init -q -b main .; echo a > a; git add .; git commit -qm one
         git switch -qc side; mkdir -p .vscode deep/x; echo 1 > .npmrc; echo 2 > .vscode/tasks.json
         echo 3 > deep/.envrc; echo 4 > deep/x/plain; git add .; git commit -qm two
         git switch -q main; echo b > b; git add .; git commit -qm three",
    );
    shell(folder.path(), more);
    folder
}

const ALL: [&str; 3] = [".npmrc", ".vscode/tasks.json", "deep/.envrc"];

#[test]
fn what_git_would_write_is_found_in_loose_objects_and_in_packs() {
    for more in
        ["true", "git gc -q --aggressive", "git repack -qad --depth=50; git pack-refs --all"]
    {
        let folder = repository(more);
        let root = folder.path();
        let to = |rev: &str| TreeChange::Switch(rev.as_bytes().to_vec());
        assert_eq!(told(root, to("side")), ALL, "{more}");
        for rev in ["main", "HEAD", "HEAD~1", "nothing", "side~1", "@{-9}", "a..b", "refs/../x"] {
            assert_eq!(told(root, to(rev)), [""; 0], "{rev}: {more}");
        }
        for rev in ["side^0", "@{-1}", "-", "refs/heads/side", "heads/side"] {
            assert_eq!(told(root, to(rev)), ALL, "{rev}: {more}");
        }
        let merge = TreeChange::Merge(b"side".to_vec());
        assert_eq!(told(root, merge.clone()), ALL, "{more}");
        let picked = TreeChange::Between(b"side^".to_vec(), b"side".to_vec());
        assert_eq!(told(root, picked), ALL, "{more}");
        // A commit that was merged already is not written again.
        shell(root, "git merge -q --no-edit side; echo x >> .npmrc; git commit -qam four");
        assert_eq!(told(root, merge), [""; 0], "{more}");
        assert_eq!(told(root, to("side")), [".npmrc"], "{more}");
        assert_eq!(told(root, to("main~2")), ALL, "{more}");
    }
}

#[test]
fn abbreviated_names_and_tags_are_found() {
    let folder = repository(
        "git tag light side; git tag -am x heavy side; git rev-parse --short=7 side > name",
    );
    let root = folder.path();
    let name = std::fs::read_to_string(root.join("name")).unwrap();
    for packed in [false, true] {
        if packed {
            shell(root, "git gc -q");
        }
        for rev in ["light", "heavy", "heavy^{}", name.trim(), &name.trim().to_uppercase()] {
            let expected: &[&str] = if rev.ends_with('}') { &[] } else { &ALL };
            assert_eq!(told(root, TreeChange::Switch(rev.into())), expected, "{rev}");
        }
    }
}

#[test]
fn files_that_were_changed_are_found_where_they_would_be_written_back() {
    let folder = repository("git switch -q side; echo mine > .npmrc; rm .vscode/tasks.json");
    let root = folder.path();
    let changed = [".npmrc", ".vscode/tasks.json"];
    assert_eq!(told(root, TreeChange::Reset(b"HEAD".to_vec())), changed);
    assert_eq!(told(root, TreeChange::Switch(b"HEAD".to_vec())), [""; 0]);
    assert_eq!(told(root, TreeChange::Paths(None, Vec::new())), changed);
    let root = root.canonicalize().unwrap();
    let below = TreeChange::Paths(Some(b"HEAD".to_vec()), vec![root.join(".vscode")]);
    assert_eq!(told(&root, below), changed[1..]);
    assert_eq!(told(&root, TreeChange::Checkout(b".npmrc".to_vec())), changed[..1]);
    assert_eq!(told(&root, TreeChange::Checkout(b"main".to_vec())), ALL);
    shell(&root, "git checkout -q .; echo mine > .npmrc; git stash -q");
    let stashed = TreeChange::Between(b"stash@{0}^".to_vec(), b"stash@{0}".to_vec());
    assert_eq!(told(&root, stashed), [".npmrc"]);
}

#[test]
fn a_branch_of_a_remote_and_what_a_branch_follows_are_found() {
    let (origin, folder) = (repository("true"), Folder::new());
    shell(folder.path(), &format!("git clone -q '{}' inner", origin.path().display()));
    let root = folder.path().join("inner");
    shell(origin.path(), "git merge -q --no-edit side");
    assert_eq!(told(&root, TreeChange::Switch(b"side".to_vec())), ALL);
    assert_eq!(told(&root, TreeChange::Merge(b"@{u}".to_vec())), [""; 0]);
    shell(&root, "git fetch -q");
    for rev in ["@{u}", "origin/main", "FETCH_HEAD", "origin"] {
        assert_eq!(told(&root, TreeChange::Merge(rev.into())), ALL, "{rev}");
    }
}

#[test]
fn broken_repositories_tell_nothing_and_end_soon() {
    let folder = repository("git gc -q");
    let root = folder.path();
    for entry in std::fs::read_dir(root.join(".git/objects/pack")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        shell(root, &format!("chmod u+w '{}'", path.display()));
        for at in (0..bytes.len()).step_by(7) {
            let mut other = bytes.clone();
            other[at] ^= 0x5a;
            std::fs::write(&path, &other).unwrap();
            let told = told(root, TreeChange::Switch(b"side".to_vec()));
            assert!(told.iter().all(|it| ALL.contains(&it.as_str())), "{told:?}");
            std::fs::write(&path, &bytes[..at]).unwrap();
            let _ = super::look(
                [Bringing::Git(GitPlace::Above(root.into()), TreeChange::Switch(b"side".to_vec()))]
                    .into(),
            );
        }
        std::fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn names_in_archives_are_found() {
    let folder = Folder::new();
    let root = folder.path().canonicalize().unwrap();
    let long = "d".repeat(120);
    shell(
        &root,
        &format!(
            "mkdir -p in/top/.vscode in/top/{long}; cd in; echo 1 > top/.vscode/a; echo 2 > top/b; echo 3 > top/{long}/.envrc
             tar -cf ../plain.tar top; tar -czf ../small.tgz top; tar --format=pax -cf ../pax.tar top
             python3 -c \"import shutil; shutil.make_archive('../z', 'zip', '.', 'top')\"",
        ),
    );
    for name in ["plain.tar", "small.tgz", "pax.tar", "z.zip"] {
        for (strip, members, expected) in [
            (0, vec![], vec![".vscode/a".to_owned(), format!("{long}/.envrc")]),
            (0, vec!["top/.vscode"], vec![".vscode/a".to_owned()]),
            (0, vec!["top/b", "top/.vsc"], vec![]),
            (2, vec![], vec![".envrc".to_owned()]),
        ] {
            let unpacked = Unpacked {
                archive: root.join(name),
                into: root.join("out"),
                strip,
                members: members.iter().map(|it| it.as_bytes().to_vec()).collect(),
            };
            let bringing = Bringing::Unpacked(unpacked);
            let found = look([bringing.clone()].into());
            let above = if strip == 0 { "out/top" } else { "out" };
            let expected: Vec<_> = expected.iter().map(|it| root.join(above).join(it)).collect();
            let files = found[&bringing].iter().filter(|path| !path.ends_with(".vscode"));
            assert_eq!(files.cloned().collect::<Vec<_>>(), expected, "{name} {strip} {members:?}");
        }
    }
}
