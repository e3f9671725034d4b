//! A `cd` counts for the next command of its session, while it leads to where the session may work.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::gateway::Gateway;

use super::text;

/// A project, and the way to its commands: a gateway that stays, or each call by itself.
struct Work {
    place: Place,
    options: &'static [&'static str],
    gateway: Option<Gateway>,
}

impl Work {
    /// Both ways to run commands, each in a project of its own with a folder `a b`.
    fn both(name: &str) -> Vec<Work> {
        let stays = Place::new(&format!("{name}-stays"));
        let alone = Place::new(&format!("{name}-alone"));
        for place in [&stays, &alone] {
            std::fs::create_dir(place.project().join("a b")).expect("a folder");
        }
        let gateway = Some(Gateway::start(&stays));
        vec![
            Work { place: stays, options: &[], gateway },
            Work { place: alone, options: &["--no-daemon"], gateway: None },
        ]
    }

    fn output(&self, from: &Path, options: &[&str], line: &str) -> Output {
        let words = [&["run"], self.options, options, &["--", line]].concat();
        let mut command = self.place.stockade(words);
        command.current_dir(from).env("PWD", from).output().expect("it starts")
    }

    /// Standard output of a command of session `s`, and what is said on standard error.
    fn run(&self, line: &str) -> (String, String) {
        self.run_in("s", line)
    }

    fn run_in(&self, session: &str, line: &str) -> (String, String) {
        let output = self.output(&self.project(), &["--session", session], line);
        (text(&output.stdout).trim().to_owned(), text(&output.stderr))
    }

    /// Where the next command of session `s` works, with nothing said of it.
    fn next(&self) -> PathBuf {
        let (cwd, said) = self.run("pwd");
        assert_eq!(said, "", "{cwd}");
        cwd.into()
    }

    fn project(&self) -> PathBuf {
        self.place.project().canonicalize().expect("the project")
    }
}

#[test]
fn a_cd_is_carried_to_the_next_command_of_its_session_alone() {
    for work in Work::both("sd-carried") {
        let (project, inside) = (work.project(), work.project().join("a b"));
        work.run("cd 'a b'");
        assert_eq!(work.next(), inside, "{:?}", work.options);
        assert_eq!(work.run_in("other", "pwd").0, project.display().to_string());
        // Literal words work there, and a failure changes nothing of it.
        work.run("mkdir c; touch here; cd c; exit 3");
        let words = ["run", "--session", "s"];
        let words = [&words, work.options, &["--", "ls", ".."]].concat();
        assert_eq!(text(&work.place.output(words).stdout), "c\nhere\n");
        // A call that names a directory gets it; a call from elsewhere begins there.
        let named = project.to_str().expect("a path in UTF-8");
        let output = work.output(&project, &["--session", "s", "--cwd", named], "pwd");
        assert_eq!(text(&output.stdout).trim(), named);
        let output = work.output(&inside, &["--session", "s"], "pwd");
        assert_eq!(Path::new(text(&output.stdout).trim()), inside);
        work.run("cd ../..; pwd");
        assert_eq!(work.next(), project);
    }
}

#[test]
fn a_cd_out_of_the_project_is_not_carried_and_a_line_says_so() {
    for work in Work::both("sd-outside") {
        let project = work.project();
        let (cwd, said) = work.run("cd /usr; pwd");
        let line = format!(
            "stockade: the working directory stays `{}`: `/usr` is outside of the project and of its additional directories\n",
            project.display()
        );
        assert_eq!((cwd.as_str(), said), ("/usr", line));
        let json = work.output(&project, &["--session", "s", "--json"], "cd /usr");
        let json: Value = serde_json::from_slice(&json.stdout).expect("an object");
        assert_eq!(json["cwd_after"], "/usr", "{json}");
        assert_eq!(work.next(), project);
        // An additional directory is one of those where it may work, as long as the call has it.
        let other = work.place.root.canonicalize().expect("it is there").join("other");
        std::fs::create_dir(&other).expect("a folder");
        let named = other.to_str().expect("a path in UTF-8");
        let added = ["--session", "s", "--add-dir", named];
        work.output(&project, &added, &format!("cd '{named}'"));
        assert_eq!(text(&work.output(&project, &added, "pwd").stdout).trim(), named);
        let (cwd, said) = work.run("pwd");
        assert_eq!(Path::new(&cwd), project);
        assert!(said.contains("which is gone or outside of the project now"), "{said}");
    }
}

#[test]
fn a_directory_that_went_or_became_a_link_to_elsewhere_is_not_gone_on_in() {
    for work in Work::both("sd-gone") {
        let project = work.project();
        let inside = project.join("a b");
        for target in [None, Some(Path::new("/usr"))] {
            work.run("mkdir -p 'a b'; cd 'a b'");
            std::fs::remove_dir(&inside).expect("the folder goes");
            if let Some(target) = target {
                symlink(target, &inside).expect("a link");
            }
            let (cwd, said) = work.run("pwd");
            assert_eq!(Path::new(&cwd), project, "{target:?}");
            assert!(said.contains("which is gone or outside of the project now"), "{said}");
            assert_eq!(work.next(), project, "{target:?}");
        }
    }
}

#[test]
fn a_repository_to_which_a_command_goes_does_not_become_the_project() {
    for work in Work::both("sd-nested") {
        work.place.write("project/.git/HEAD", "ref: refs/heads/main\n");
        work.place.write("project/a b/.git/HEAD", "ref: refs/heads/main\n");
        work.run("cd 'a b'");
        // The write goes to the project of the session.
        assert_eq!(work.run("pwd; echo x > ../top"), {
            (work.project().join("a b").display().to_string(), String::new())
        });
        assert!(work.project().join("top").is_file(), "{:?}", work.options);
    }
}

#[test]
fn a_session_that_ended_begins_where_its_caller_is_and_the_list_shows_where_it_goes_on() {
    let mut works = Work::both("sd-ended");
    let work = works.remove(0);
    let inside = work.project().join("a b");
    work.run("cd 'a b'");
    let shown = || {
        let output = work.place.output(["sessions", "--json"]);
        let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
        object["sessions"][0]["cwd"].clone()
    };
    assert_eq!(shown(), json!(inside));
    // A task begins there, and where it goes is its own affair.
    let task = work.output(
        &work.project(),
        &["--session", "s", "--background", "--quiet"],
        "pwd; cd ..; pwd",
    );
    let id = text(&task.stdout).trim().to_owned();
    assert!(work.place.output(["tasks", "wait", &id]).status.success());
    let told = text(&work.place.output(["tasks", "output", &id]).stdout);
    assert_eq!(told, format!("{}\n{}\n", inside.display(), work.project().display()));
    assert_eq!(work.next(), inside);
    assert!(work.place.output(["sessions", "close", "s"]).status.success());
    assert_eq!(work.next(), work.project());
    assert!(work.gateway.is_some());
}
