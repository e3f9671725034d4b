use std::os::unix::fs::symlink;

use super::*;
use stockade_scratch::Folder;

const PLAIN: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.com/x\n";

/// A project with a configuration that starts programs, which is the person's own.
fn project() -> Folder {
    let folder = Folder::new();
    git_directory(&folder, ".git", "[core]\n\tpager = less\n\thooksPath = .husky\n");
    folder
}

fn git_directory(folder: &Folder, path: &str, config: &str) {
    for inner in ["objects", "refs"] {
        std::fs::create_dir_all(folder.path().join(path).join(inner)).unwrap();
    }
    folder.write(&format!("{path}/HEAD"), b"ref: refs/heads/main\n");
    folder.write(&format!("{path}/config"), config.as_bytes());
}

fn place(folder: &Folder) -> Place {
    let root = folder.path().canonicalize().unwrap();
    let (roots, homes, additional) = (Vec::new(), Vec::new(), Vec::new());
    let home = PathBuf::from("/nonexistent");
    Place { cwd: root.clone(), session: None, project: root, roots, home, homes, additional }
}

/// Returns the finding about a path: from there upwards, or about the path itself behind `@`.
fn told(folder: &Folder, path: &str) -> String {
    let place = place(folder);
    let sought = match path.strip_prefix('@') {
        Some(path) => GitPlace::At(place.cwd.join(path)),
        None => GitPlace::Above(place.cwd.join(path)),
    };
    match look(&[sought].into(), &place).into_values().next().unwrap() {
        Repository::Harmless => "harmless".to_owned(),
        Repository::Missing => "missing".to_owned(),
        Repository::Doubtful(why) => why.replace(&place.cwd.display().to_string(), "."),
    }
}

#[test]
fn the_projects_own_configuration_is_the_persons() {
    let folder = project();
    std::fs::create_dir_all(folder.path().join("src/deep")).unwrap();
    for path in ["", "src/deep", "src/..", "@.git"] {
        assert_eq!(told(&folder, path), "harmless", "{path}");
    }
    assert_eq!(told(&folder, "new"), "missing");
}

#[test]
fn a_repository_inside_is_harmless_if_each_of_its_variables_is() {
    let folder = project();
    let sets = |key: &str| {
        format!(
            "the configuration of the git repository `./in/.git` sets `{key}`, which can start a program or redirect git"
        )
    };
    for (config, expected) in [
        (PLAIN, "harmless".to_owned()),
        ("", "harmless".to_owned()),
        ("[user]\nname = a\n[branch \"main\"]\nremote = origin\n", "harmless".to_owned()),
        ("[filter \"lfs\"]\nclean = git-lfs clean -- %f\nrequired = true\n", "harmless".to_owned()),
        ("[core]\nfsmonitor = ./x\n", sets("core.fsmonitor")),
        ("[core]\nFSMonitor = true\n", sets("core.fsmonitor")),
        ("[core]\npager = ./x\n", sets("core.pager")),
        ("[pager]\nlog = ./x\n", sets("pager.log")),
        ("[diff]\nexternal = ./x\n", sets("diff.external")),
        ("[diff \"a\"]\ntextconv = ./x\n", sets("diff.a.textconv")),
        ("[filter \"lfs\"]\nclean = ./x\n", sets("filter.lfs.clean")),
        ("[core]\nhooksPath = ../h\n", sets("core.hookspath")),
        ("[alias]\nst = !./x\n", sets("alias.st")),
        ("[credential]\nhelper = !./x\n", sets("credential.helper")),
        ("[core]\nsshCommand = ./x\n", sets("core.sshcommand")),
        ("[include]\npath = ../x\n", sets("include.path")),
        ("[includeIf \"gitdir:/\"]\npath = ../x\n", sets("includeif.gitdir:/.path")),
        ("[core]\nworktree = /etc\n", sets("core.worktree")),
        ("[unheard]\nof = x\n", sets("unheard.of")),
        ("[remote \"o\"]\nurl = ext::sh -c x\n", sets("remote.o.url")),
        ("[core\n", "`./in/.git/config` cannot be read: git could not read it".to_owned()),
    ] {
        git_directory(&folder, "in/.git", config);
        std::fs::create_dir_all(folder.path().join("in/src")).unwrap();
        for path in ["in", "in/src", "@in/.git"] {
            assert_eq!(told(&folder, path), expected, "{config} {path}");
        }
    }
}

#[test]
fn hooks_pointers_and_bare_repositories_are_looked_at() {
    let folder = project();
    git_directory(&folder, "in/.git", PLAIN);
    folder.write("in/.git/hooks/pre-commit.sample", b"x");
    assert_eq!(told(&folder, "in"), "harmless");
    folder.write("in/.git/hooks/post-index-change", b"x");
    let hook = "the git repository has the hook `./in/.git/hooks/post-index-change`";
    assert_eq!(told(&folder, "in"), hook);

    git_directory(&folder, "files/bare", "[core]\nfsmonitor = ./x\n");
    let bare = "the configuration of the git repository `./files/bare` sets `core.fsmonitor`, which can start a program or redirect git";
    for path in ["files/bare", "files/bare/objects", "@files/bare"] {
        assert_eq!(told(&folder, path), bare, "{path}");
    }
    assert_eq!(told(&folder, "files"), "harmless");
    folder.write("pointed/.git", b"gitdir: ../files/bare\n");
    assert_eq!(told(&folder, "pointed"), bare);
    symlink("files/bare", folder.path().join("link")).unwrap();
    assert_eq!(told(&folder, "link"), bare);
    folder.write("broken/.git", b"gitdir: nowhere\n");
    assert!(told(&folder, "broken").starts_with("`./broken/.git` cannot be read"));
}

#[test]
fn a_worktree_of_the_project_is_the_project_unless_it_adds_to_its_configuration() {
    let folder = project();
    folder.write(".git/worktrees/w/HEAD", b"ref: refs/heads/w\n");
    folder.write(".git/worktrees/w/commondir", b"../..\n");
    folder.write("w/.git", b"gitdir: ../.git/worktrees/w\n");
    assert_eq!(told(&folder, "w"), "harmless");
    folder.write("made/git/HEAD", b"ref: refs/heads/w\n");
    folder.write("made/git/commondir", b"../../.git\n");
    folder.write("made/.git", b"gitdir: git\n");
    assert_eq!(told(&folder, "made"), "harmless");
    folder.write("made/git/config.worktree", b"[core]\nfsmonitor = ./x\n");
    assert!(told(&folder, "made").contains("core.fsmonitor"), "{}", told(&folder, "made"));
}

#[test]
fn git_in_the_project_runs_in_its_submodules_too() {
    let folder = project();
    git_directory(&folder, "lib/in/.git", PLAIN);
    let entry = |path: &str| {
        let mut bytes = [&[0; 24][..], &0o160_000_u32.to_be_bytes(), &[0; 32], &[0, 6]].concat();
        bytes.extend([path.as_bytes(), &[0; 8]].concat());
        bytes.truncate((62 + path.len() + 1).next_multiple_of(8));
        bytes
    };
    let index = [&b"DIRC\0\0\0\x02\0\0\0\x01"[..], &entry("lib/in"), &[0; 20]].concat();
    folder.write(".git/index", &index);
    assert_eq!(told(&folder, ""), "harmless");
    git_directory(&folder, "lib/in/.git", "[core]\nfsmonitor = ./x\n");
    assert!(told(&folder, "").contains("`./lib/in/.git` sets `core.fsmonitor`"));
    // One that git keeps in the project's git directory is the project's.
    std::fs::remove_dir_all(folder.path().join("lib/in/.git")).unwrap();
    git_directory(
        &folder,
        ".git/modules/in",
        "[core]\nworktree = ../../../lib/in\n[filter \"x\"]\nclean = y\n",
    );
    folder.write("lib/in/.git", b"gitdir: ../../.git/modules/in\n");
    assert_eq!(told(&folder, ""), "harmless");
    folder.write(".git/index", b"DIRC");
    assert_eq!(told(&folder, ""), "`./.git/index` cannot be read: it is not an index of git");
}

#[test]
fn a_repository_below_a_remembered_root_is_not_the_persons_for_being_worked_in() {
    let folder = project();
    git_directory(&folder, "in/.git", "[core]\nfsmonitor = ./x\n");
    let outer = place(&folder);
    let inner = outer.project.join("in");
    let nested = Place {
        cwd: inner.clone(),
        project: inner.clone(),
        roots: vec![outer.project.clone()],
        ..outer
    };
    let sought = GitPlace::Above(inner);
    let judged = look(&[sought.clone()].into(), &nested);
    assert!(matches!(&judged[&sought], Repository::Doubtful(_)), "{judged:?}");
    let alone = Place { roots: Vec::new(), ..nested };
    assert_eq!(look(&[sought.clone()].into(), &alone)[&sought], Repository::Harmless);
}
