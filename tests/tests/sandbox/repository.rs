//! Git directories: what runs code in them later cannot be planted, and ordinary git goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stockade_spec::{Access, GitKeys};
use stockade_tests::skip;

use crate::place::{Place, as_root_and_user, rule, run};

pub fn git_works() -> bool {
    let found = Command::new("git").arg("--version").output().is_ok();
    if !found {
        skip("repository", "git is not installed");
    }
    found
}

/// A project that is a repository, with another repository `sub` and a bare one `bare` in it.
pub fn place(name: &str) -> Place {
    let place = Place::new(name);
    reset(&place);
    place
}

pub fn reset(place: &Place) {
    // Made once; copied from then on.
    let script = "set -e; rm -rf .git *
        one() { git -C $1 init -q -b main . && git -C $1 config user.name N &&
            git -C $1 config user.email n@example.invalid && git -C $1 commit -q --allow-empty -m one; }
        if ! test -d $O/made; then mkdir $O/made; cd $O/made; one .; mkdir sub empty; one sub
            git clone -q --bare sub bare; cd $P; fi
        cp -a $O/made/. .";
    let made = place.plain(script);
    assert_eq!(made.code, Some(0), "{}", made.text);
}

#[test]
fn nothing_that_leads_elsewhere_can_be_put_into_a_git_directory() {
    as_root_and_user(
        "repository::nothing_that_leads_elsewhere_can_be_put_into_a_git_directory",
        || {
            if !git_works() {
                return;
            }
            let place = place("leads");
            let rules = ["hooks", "config"]
                .map(|it| rule(&place.project.join(".git").join(it), Access::Protected));
            for script in [
                "echo x > .git/commondir",
                "echo x > .git/config.worktree",
                "echo x > .git/objects/info/alternates",
                "echo x > y && mv y .git/commondir",
                "ln -s /etc .git/commondir",
                "echo x > sub/.git/COMMONDIR",
                "mkdir -p .git/worktrees/w && echo x > .git/worktrees/w/config.worktree",
                "echo x > sub/.git/objects/info/alternates",
                "git -C sub config core.fsmonitor x",
                "echo x >> sub/.git/config",
                "ln sub/.git/config c && echo x >> c",
                "cp sub/.git/config c && mv c sub/.git/config",
                "truncate -s 0 sub/.git/config",
                "git -C bare config core.fsmonitor x",
                "mv bare/HEAD h && echo x >> bare/config && mv h bare/HEAD",
                "mv bare/config c",
                "mv bare/objects o && mkdir -p bare/info && echo x > bare/info/attributes && mv o bare/objects",
                "mv bare/objects o && mkdir -p o/info && echo /x > o/info/alternates && mv o bare/objects",
                "mv bare/info i && echo x > i/attributes && mv i bare/info",
                "cp -r bare/info i && echo x > i/attributes && rm -r bare/info && mv i bare/info",
                "mv bare/objects/info i && echo /x > i/alternates && mv i bare/objects/info",
                "echo x > bare/commondir",
                "echo x > empty/e && mv empty sub/.git/hooks2 && mv sub/.git sub/g && ln -s g sub/.git",
                "mv sub/.git sub/g && mv sub/g sub/.git",
            ] {
                place.stops_with(&rules, script, || reset(&place));
                reset(&place);
            }
        },
    );
}

#[test]
fn hooks_cannot_be_planted_in_any_git_directory() {
    as_root_and_user("repository::hooks_cannot_be_planted_in_any_git_directory", || {
        if !git_works() {
            return;
        }
        let place = place("hooks");
        for script in [
            "echo x > sub/.git/hooks/pre-commit",
            "cp sub/.git/config h && mv h sub/.git/hooks/pre-commit",
            "cd sub/.git/hooks && mv *pre-commit.sample pre-commit",
            "rm -r sub/.git/hooks && mkdir h && echo x > h/pre-commit && mv h sub/.git/hooks",
            "rm -r sub/.git/hooks && ln -s ../../empty sub/.git/hooks",
            "echo x > bare/hooks/post-update",
            "git init -q new && echo x > new/.git/hooks/pre-commit",
            "git init -q --bare new && ln -s /bin/true new/hooks/pre-receive",
            "mkdir -p n/hooks n/objects n/refs && echo x > n/hooks/pre-commit && echo x > n/HEAD",
            "mkdir -p n/hooks && echo x > n/hooks/pre-commit && mkdir n/refs n/objects",
            "mkdir -p n/hooks n/refs o && echo x > n/hooks/pre-commit && mv o n/objects",
            "mkdir -p n/h n/refs n/objects && echo x > n/h/pre-commit && mv n/h n/hooks",
            "mkdir -p n/.git/hooks && echo x > n/.git/hooks/pre-commit",
        ] {
            place.stops_with(&[], script, || reset(&place));
            reset(&place);
        }
    });
}

/// Programs that git runs when somebody uses a repository that a run has made.
#[test]
fn a_configuration_that_runs_programs_is_refused_or_put_aside() {
    as_root_and_user(
        "repository::a_configuration_that_runs_programs_is_refused_or_put_aside",
        || {
            if !git_works() {
                return;
            }
            let place = place("configuration");
            for script in [
                "git init -q new && git -C new config core.fsmonitor x",
                "git init -q new && git -C new config alias.st '!x'",
                "git init -q --bare new && git -C new config core.worktree /etc",
                "git clone -q sub new && git -C new config Core.FSMonitor x",
            ] {
                place.stops_with(&[], script, || reset(&place));
                reset(&place);
            }
            // By a write that nobody can look into before it is done.
            let fsmonitor = "printf '[core]\\n\\tfsmonitor = touch ran\\n' >>";
            for (script, directory) in [
                (format!("git init -q new && {fsmonitor} new/.git/config"), "new/.git"),
                (format!("git init -q --bare new && {fsmonitor} new/config"), "new"),
                (
                    format!(
                        "mkdir -p n && {fsmonitor} n/config && mkdir n/refs n/objects && echo x > n/HEAD"
                    ),
                    "n",
                ),
                (
                    format!("rm -rf sub/.git && git init -q sub && {fsmonitor} sub/.git/config"),
                    "sub/.git",
                ),
                (
                    format!(
                        "git init -q new && mv new moved && {fsmonitor} moved/.git/config; exec sleep 0"
                    ),
                    "moved/.git",
                ),
                (
                    format!(
                        "git init -q new && (sleep 0.3; {fsmonitor} new/.git/config) & sleep 0.1; kill -9 $$"
                    ),
                    "new/.git",
                ),
            ] {
                let ran = run(&place.spec(&script)).unwrap();
                let config = place.project.join(directory).join("config");
                let text = fs::read_to_string(&config).unwrap_or_default();
                assert!(!text.contains("fsmonitor"), "{script}: {text}");
                let planted: Vec<_> =
                    ran.violations.iter().filter(|it| it.kind == "planted").collect();
                if fs::exists(config.with_extension("refused")).unwrap() {
                    let [planted] = planted[..] else { panic!("{script}: {:?}", ran.violations) };
                    assert_eq!(planted.call, "core.fsmonitor");
                    assert_eq!(planted.object, config.to_str().unwrap());
                }
                reset(&place);
            }
        },
    );
}

/// Texts that git reads in another way than it may seem, each of which makes `git status` touch `$O/ran`.
const DECEPTIVE: &[&str] = &[
    r"[core]\n\tx = a \\\n[y]\n\tfsmonitor = touch $O/ran\n",
    r#"[core]\n\tx = "a \\\n[y]"\n\tfsmonitor = touch $O/ran\n"#,
    r"[core]\n\tx = a \r[y]\n\tfsmonitor = touch $O/ran\n",
    r"[core]\n\t# c \r[y]\n\tfsmonitor = touch $O/ran\n",
    r"[core]\n\t# c \\\n\tfsmonitor = touch $O/ran\n",
    r"[core]\n\tx = a ; \\\n\tfsmonitor = touch $O/ran\n",
    r"[CORE]FSMONITOR=touch $O/ran\n",
    r#"[y "\\"]\\""] [core] fsmonitor = touch $O/ran\n"#,
];

#[test]
fn a_configuration_that_deceives_its_reader_runs_nothing() {
    as_root_and_user("repository::a_configuration_that_deceives_its_reader_runs_nothing", || {
        if !git_works() {
            return;
        }
        let place = place("deceptive");
        let ran = place.outside.join("ran");
        for text in DECEPTIVE {
            let make = format!("git init -q new && printf '{text}'");
            let routes = [
                format!("{make} > new/.git/config"),
                format!("{make} > new/.git/new && mv new/.git/new new/.git/config"),
            ];
            let uses = "git -C new status > /dev/null";
            for route in routes {
                place.plain(&format!("{route} && {uses}"));
                assert!(ran.exists(), "git must run it unconfined: {text}");
                fs::remove_file(&ran).unwrap();
                reset(&place);
                let told = run(&place.spec(&route)).unwrap().violations;
                place.plain(uses);
                assert!(!ran.exists(), "{route}: {told:?}");
                assert!(!told.is_empty(), "{route}");
                reset(&place);
            }
        }
    });
}

/// Each names a program, a text for a shell, or a file that git loads.
const DANGEROUS: &[&str] = &[
    "alias.st",
    "branch.m.mergeOptions",
    "browser.b.cmd",
    "browser.b.path",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.attributesFile",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.hooksPath",
    "core.pager",
    "core.protectHFS",
    "core.sshCommand",
    "core.worktree",
    "credential.helper",
    "credential.https://x.helper",
    "diff.d.command",
    "diff.d.textconv",
    "diff.external",
    "diff.tool",
    "difftool.d.cmd",
    "difftool.d.path",
    "extensions.worktreeConfig",
    "filter.f.clean",
    "filter.f.process",
    "filter.f.smudge",
    "format.outputDirectory",
    "gc.recentObjectsHook",
    "gc.repackFilterTo",
    "git-secrets.x",
    "gitcvs.logFile",
    "gpg.program",
    "gpg.ssh.defaultKeyCommand",
    "gpg.ssh.program",
    "gpg.x509.program",
    "gui.x",
    "guitool.g.cmd",
    "help.browser",
    "help.htmlPath",
    "hook.h.command",
    "http.proxy",
    "http.https://x.sslVerify",
    "imap.tunnel",
    "include.path",
    "includeIf.gitdir:/.path",
    "init.templateDir",
    "instaweb.httpd",
    "instaweb.modulePath",
    "interactive.diffFilter",
    "lfs.customtransfer.t.path",
    "lfs.url",
    "man.m.cmd",
    "man.m.path",
    "man.viewer",
    "merge.m.driver",
    "merge.tool",
    "mergetool.m.cmd",
    "mergetool.m.path",
    "pager.log",
    "protocol.ext.allow",
    "pull.twohead",
    "rebase.instructionFormat",
    "receive.procReceiveRefs",
    "remote.r.proxy",
    "remote.r.receivepack",
    "remote.r.uploadpack",
    "remote.r.vcs",
    "secrets.providers",
    "sendemail.smtpServer",
    "sendemail.toCmd",
    "sequence.editor",
    "ssh.variant",
    "submodule.s.update",
    "svn.authors-prog",
    "svn.authorsProg",
    "svn-remote.r.url",
    "tar.tgz.command",
    "tig.bind",
    "trace2.eventTarget",
    "trailer.t.cmd",
    "trailer.t.command",
    "uploadpack.packObjectsHook",
    "url.u.insteadOf",
    "web.browser",
];

/// Keys that `init`, `clone`, `remote add`, `branch`, `submodule`, `sparse-checkout` and common programs write.
const ORDINARY: &[&str] = &[
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.symlinks",
    "core.precomposeunicode",
    "core.sparseCheckout",
    "core.sparseCheckoutCone",
    "core.autocrlf",
    "extensions.objectFormat",
    "extensions.partialClone",
    "remote.origin.url",
    "remote.origin.fetch",
    "remote.origin.promisor",
    "remote.origin.mirror",
    "remote.origin.partialclonefilter",
    "remote.origin.gh-resolved",
    "remote.origin.pushurl",
    "branch.main.remote",
    "branch.main.merge",
    "branch.main.rebase",
    "branch.main.vscode-merge-base",
    "submodule.s.url",
    "submodule.s.active",
    "submodule.active",
    "user.name",
    "user.email",
    "user.signingKey",
    "commit.gpgSign",
    "pull.rebase",
    "push.default",
    "fetch.prune",
    "init.defaultBranch",
    "lfs.repositoryformatversion",
    "lfs.https://x/info/lfs.access",
    "advice.detachedHead",
    "color.ui",
    "gc.auto",
    "index.sparse",
];

/// The keys that the gateway gives to every command.
pub fn known_keys() -> GitKeys {
    let known = stockade_policy::git_keys();
    let [refused, free, changeable, addable] =
        [&known.refused, &known.free, &known.changeable, &known.addable]
            .map(|keys| keys.iter().map(Into::into).collect());
    GitKeys { refused, free, changeable, addable }
}

#[test]
fn every_dangerous_key_is_refused_and_every_ordinary_one_kept() {
    if !git_works() {
        return;
    }
    let place = place("keys");
    let script = DANGEROUS.iter().chain(ORDINARY).enumerate().fold(String::new(), |script, (number, key)| {
        let (section, name) = key.rsplit_once('.').unwrap();
        let section = section.replacen('.', " \"", 1);
        let end = if section.contains('"') { "\"" } else { "" };
        script + &format!("mkdir -p r{number}/refs r{number}/objects; echo '[{section}{end}] {name} = x' > r{number}/config\n")
    });
    let mut spec = place.spec(&script);
    spec.files.git_keys = known_keys();
    run(&spec).unwrap();
    let kept = |number: usize| place.project.join(format!("r{number}/config")).exists();
    for (number, key) in DANGEROUS.iter().enumerate() {
        assert!(!kept(number), "{key}");
        assert!(place.project.join(format!("r{number}/config.refused")).exists(), "{key}");
    }
    for (number, key) in ORDINARY.iter().enumerate() {
        assert!(kept(DANGEROUS.len() + number), "{key}");
    }
}

#[test]
fn a_run_that_is_ended_is_looked_at_too() {
    as_root_and_user("repository::a_run_that_is_ended_is_looked_at_too", || {
        if !git_works() {
            return;
        }
        let place = place("ended");
        let script = "git init -q new && echo '[alias] a = !b' >> new/.git/config && echo ready && sleep 100";
        for stops in [true, false] {
            let (child, _, mut reader) = crate::place::start(&place.spec(script)).unwrap();
            let mut ready = [0; 6];
            std::io::Read::read_exact(&mut reader, &mut ready).unwrap();
            if stops {
                child.stopper().unwrap().stop(std::time::Duration::ZERO).unwrap();
                let (exit, violations) = child.wait_with_violations().unwrap();
                assert!(matches!(exit.signal, Some(9 | 15)), "{exit:?}");
                let kinds: Vec<_> = violations.iter().map(|it| &*it.kind).collect();
                // On a busy machine pid 1 may be late with its last words; the monitor looks and says so.
                assert!(kinds.contains(&"planted"), "{kinds:?}");
            } else {
                drop(child);
            }
            assert!(exists(&place.project.join("new/.git/config.refused")), "{stops}");
            assert!(!exists(&place.project.join("new/.git/config")), "{stops}");
            reset(&place);
        }
    });
}

#[test]
fn new_repositories_can_be_made_and_used() {
    as_root_and_user("repository::new_repositories_can_be_made_and_used", || {
        if !git_works() {
            return;
        }
        let place = place("new");
        let script = "set -e; export HOME=/tmp; git config --global protocol.file.allow always
            git config --global user.name N; git config --global user.email n@example.invalid
            git init -q a; mkdir b0; git init -q --bare b0; git -C a config user.name M; echo 1 > a/f; git -C a add f; git -C a commit -qm a
            git init -q --bare b; git clone -q a c; git -C c remote add up ../b; git -C c push -q up HEAD
            git clone -q --bare a d.git; git clone -q --no-local a e; git clone -q --mirror a m
            git -C a worktree add -q ../w; git -C w commit -q --allow-empty -m w; git -C a worktree list
            git -C a submodule --quiet add ../sub s; git -C a commit -qm s; git clone -q --recursive a r
            git -C c fetch -q; git -C c gc -q; git -C a worktree remove w
            git -C sub worktree add -q ../sw; git -C sw commit -q --allow-empty -m sw
            git -C sub stash list; git -C sub gc -q; git -C sub worktree remove sw
            mkdir -p config refs/objects hooks; echo 1 > hooks/run.sh; echo 1 > config/x; echo 1 > refs/config
            mv hooks hooks2; mkdir src; mv hooks2 src/hooks; echo 1 > src/hooks/use.ts; echo 1 > HEAD";
        // `.gitmodules` is the gateway's to guard, not this test's.
        let mut spec = place.spec(script);
        spec.files.rules.extend(
            ["hooks", "config"]
                .map(|it| rule(&place.project.join(".git").join(it), Access::Protected)),
        );
        let ran = run(&spec).unwrap();
        assert_eq!(ran.exit.code, Some(0), "{} {:?}", ran.text, ran.violations);
        assert!(exists(&place.project.join("r/s/.git")) && exists(&place.project.join("c/f")));
    });
}

/// Makes git directories until one of them has an inode of `known`, and returns which has.
fn with_an_inode_of(place: &Place, known: &[u64]) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    (0..200).find_map(|number| {
        let git = place.project.join(format!("r{number}/.git"));
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::create_dir(git.join("refs")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("config"), "").unwrap();
        known.contains(&fs::metadata(&git).unwrap().ino()).then_some(git)
    })
}

#[test]
fn a_repository_of_somebody_else_that_gets_an_inode_of_the_run_stays_as_it_is() {
    as_root_and_user(
        "repository::a_repository_of_somebody_else_that_gets_an_inode_of_the_run_stays_as_it_is",
        || {
            // The run removes what it made, has it replaced, or somebody else removes it.
            for removal in ["rmdir d*", "for d in d*; do mkdir e && mv -T e $d; done", ":"] {
                let place = Place::new("inodes");
                assert_eq!(place.plain("mkfifo go").code, Some(0));
                let script = format!(
                    "for i in {{1..64}}; do mkdir d$i; done; stat -c %i d*; {removal}; echo ready; read x < go
                     ! echo x >> \"$x/config\""
                );
                let (child, _, mut reader) = crate::place::start(&place.spec(&script)).unwrap();
                let mut said = String::new();
                while !said.ends_with("ready\n") {
                    let mut byte = [0];
                    std::io::Read::read_exact(&mut reader, &mut byte).unwrap();
                    said.push(char::from(byte[0]));
                }
                if removal == ":" {
                    assert_eq!(place.plain("rmdir d*").code, Some(0));
                }
                let known: Vec<u64> = said.lines().filter_map(|line| line.parse().ok()).collect();
                assert_eq!(known.len(), 64, "{said}");
                let git = with_an_inode_of(&place, &known);
                if git.is_none() {
                    skip("an inode that is given twice", "this file system gives none twice");
                }
                let git = git.unwrap_or_else(|| place.project.join("r0/.git"));
                fs::write(place.project.join("go"), format!("{}\n", git.display())).unwrap();
                assert_eq!(child.wait().unwrap().code, Some(0), "{removal}");
                assert_eq!(fs::read(git.join("config")).unwrap(), b"", "{removal}");
            }
        },
    );
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
