//! Symbolic links on the way to the gateway's own directories and to its socket: those of the person lead on, those that
//! a command could have made are refused, by gateways and by clients alike.

use std::fs::DirBuilder;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use stockade_tests::{Place, is_root};

const NOBODY: u32 = 65_534;

type Stockade<'a> = &'a dyn Fn(&[&str]) -> Command;

/// How a call names a directory of the gateway.
#[derive(Debug, Clone, Copy)]
enum Named {
    /// By a variable.
    Variable(&'static str),
    /// By an option.
    Option(&'static str),
}

use Named::{Option as ByOption, Variable as ByVariable};

impl Named {
    fn to(self, path: &Path, stockade: Stockade<'_>, arguments: &[&str]) -> Command {
        let path = path.to_str().expect("text");
        match self {
            ByVariable(name) => {
                let mut command = stockade(arguments);
                command.env(name, path);
                command
            }
            ByOption(name) => stockade(&[&[arguments[0], name, path], &arguments[1..]].concat()),
        }
    }
}

const ALL: [Named; 7] = [
    ByVariable("XDG_STATE_HOME"),
    ByVariable("XDG_CONFIG_HOME"),
    ByVariable("XDG_RUNTIME_DIR"),
    ByVariable("XDG_CACHE_HOME"),
    ByVariable("HOME"),
    ByOption("--state-dir"),
    ByOption("--audit-dir"),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn as_everybody(name: &str, test: impl Fn(&Place, Stockade<'_>)) {
    let place = Place::new(name);
    test(&place, &|arguments| place.stockade(arguments));
    if is_root() {
        let place = Place::new(&format!("{name}-user"));
        test(&place, &|arguments| place.stockade_as(NOBODY, arguments));
    }
}

/// Makes a directory in which settings of a user are found, whatever variable leads there.
fn directory(place: &Place, name: &str) {
    let settings = r#"{"permissions": {"allow": ["Bash"]}}"#;
    for below in [".config/stockade", "stockade"] {
        place.write(&format!("{name}/{below}/settings.json"), settings);
    }
}

fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the executable starts");
    (status.code(), text(&stdout), text(&stderr))
}

/// A gateway that ends with the test.
struct Serving(Child);

impl Serving {
    /// Starts it, and returns it with where it listens.
    fn start(mut command: Command) -> (Serving, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the gateway starts");
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        said.read_line(&mut line).expect("its first line");
        let socket = line.trim_end().strip_prefix("listening on ").map(str::to_owned);
        let serving = Serving(child);
        (serving, socket.expect("it listens"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_link_of_the_person_leads_to_the_directories_of_the_gateway() {
    as_everybody("own-links", |place, stockade| {
        directory(place, "home");
        let link = place.root.join("links/there");
        std::fs::create_dir(place.root.join("links")).expect("a folder");
        for (at, named) in ALL.into_iter().enumerate() {
            let real = format!("real{at}");
            match named {
                // Nothing else belongs beside a log, or beside a socket.
                ByOption("--audit-dir") | ByVariable("XDG_RUNTIME_DIR") => {
                    std::fs::create_dir(place.root.join(&real)).expect("a folder");
                }
                ByOption(_) | ByVariable(_) => directory(place, &real),
            }
            // A link that leads to a link.
            symlink(format!("../{real}"), place.root.join("links/next")).expect("a link");
            symlink("next", &link).expect("a link");
            let hi = (Some(0), "hi\n".to_owned(), String::new());
            let call = |arguments: &[&str]| named.to(&link, stockade, arguments);
            assert_eq!(ended(call(&["run", "--no-daemon", "--", "echo hi"])), hi, "{named:?}");
            let (code, said, told) = ended(call(&["audit", "verify"]));
            assert_eq!(code, Some(0), "{named:?}: {said}{told}");
            let (_gateway, _socket) = Serving::start(call(&["serve"]));
            // The client's directories are the gateway's.
            let client = match named {
                ByVariable(_) => call(&["run", "--", "echo hi"]),
                ByOption(_) => stockade(&["run", "--", "echo hi"]),
            };
            assert_eq!(ended(client), hi, "{named:?}");
            for name in ["there", "next"] {
                std::fs::remove_file(place.root.join("links").join(name)).expect("it goes");
            }
        }
    });
}

#[test]
fn a_link_of_a_command_leads_to_no_directory_of_the_gateway() {
    as_everybody("own-links-made", |place, stockade| {
        directory(place, "home");
        directory(place, "project/real");
        directory(place, "other");
        let (real, link) = (place.root.join("other"), place.project().join("link"));
        symlink("../other", &link).expect("a link");
        for named in ALL {
            if matches!(named, ByVariable("XDG_CACHE_HOME")) {
                continue; // nothing of the gateway's own is there
            }
            let state_is_named = matches!(
                named,
                ByVariable("XDG_STATE_HOME") | ByOption("--state-dir" | "--audit-dir")
            );
            let mut calls: Vec<&[&str]> = vec![&["run", "--no-daemon", "--", "echo hi"]];
            if state_is_named {
                calls.push(&["audit", "verify"]);
                calls.push(&["serve"]);
            }
            for arguments in calls {
                let (code, said, told) = ended(named.to(&link, stockade, arguments));
                assert_eq!(code, Some(122), "{named:?} {arguments:?}: {said}{told}");
                assert_eq!(said, "", "{named:?} {arguments:?}");
                for part in [
                    format!("contains the symbolic link `{}`", link.display()),
                    real.display().to_string(),
                ] {
                    assert!(told.contains(&part), "{named:?} {arguments:?}: {told}");
                }
            }
            // Nothing was made there meanwhile.
            let made = |name: &str| real.join(name).exists();
            assert!(!made("stockade/audit") && !made("audit") && !made(".local"), "{named:?}");
        }
    });
}

#[test]
fn gateways_and_clients_find_a_socket_in_the_same_way() {
    as_everybody("own-links-socket", |place, stockade| {
        directory(place, "home");
        let private = |name: &str| {
            let made = DirBuilder::new().mode(0o700).create(place.root.join(name));
            made.expect("a folder");
        };
        private("sockets");
        symlink("runtime", place.root.join("mine")).expect("a link");
        symlink("../sockets/named", place.root.join("runtime/s")).expect("a link");
        // The person's own links, to the directory and to the socket itself, lead to the socket.
        let mine = place.root.join("mine/s");
        let mine = mine.to_str().expect("text");
        let (gateway, socket) = Serving::start(stockade(&["serve", "--socket", mine]));
        assert_eq!(Path::new(&socket), place.root.join("sockets/named"));
        let hi = (Some(0), "hi\n".to_owned(), String::new());
        let by = |socket: &str| ended(stockade(&["run", "--socket", socket, "--", "echo hi"]));
        assert_eq!(by(mine), hi);
        assert_eq!(by(&socket), hi);
        // A link in a project leads neither a client there, nor a gateway.
        let link = place.project().join("link");
        symlink("../sockets", &link).expect("a link");
        let led = link.join("named");
        let led = led.to_str().expect("text");
        let is_refused = |(code, said, told): (Option<i32>, String, String)| {
            assert_eq!((code, said.as_str()), (Some(122), ""), "{told}");
            let over =
                format!("the socket `{led}` contains the symbolic link `{}`", link.display());
            let help = format!("use the real path `{socket}`");
            assert!(told.contains(&over) && told.contains(&help), "{told}");
        };
        is_refused(by(led));
        is_refused(ended(stockade(&["check", "--socket", led, "--", "echo hi"])));
        // From elsewhere, too: the state remembers where commands could write.
        let mut elsewhere = stockade(&["run", "--socket", led, "--", "echo hi"]);
        elsewhere.current_dir(place.root.join("sockets"));
        is_refused(ended(elsewhere));
        drop(gateway);
        is_refused(ended(stockade(&["serve", "--socket", led])));
        // The usual place.
        private("sockets/stockade");
        for arguments in [&["run", "--", "echo hi"][..], &["serve"]] {
            let mut usual = stockade(arguments);
            usual.env("XDG_RUNTIME_DIR", &link);
            let (code, said, told) = ended(usual);
            assert_eq!((code, said.as_str()), (Some(122), ""), "{told}");
            assert!(told.contains("contains the symbolic link"), "{told}");
        }
    });
}
