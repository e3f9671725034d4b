//! Random sequences of commands over three runs: the last one reaches nothing that the first could not, and nothing
//! outside of what commands write changes. What is reached is told by the kernel, and what lies outside is looked at from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use serde_json::json;
use stockade_tests::{Place, is_root};

/// Someone who is not root.
const ORDINARY: u32 = 1234;

/// Sequences, and how long they are tried for. `STOCKADE_SEQUENCES` and `STOCKADE_SEED` set others.
const SEQUENCES: u64 = 24;
const LONGEST: Duration = Duration::from_secs(45);

/// Runs of one sequence, and commands of one run.
const RUNS: usize = 3;
const COMMANDS: usize = 7;

/// Sequences that are tried first: each was a way out once, or is the nearest thing to one.
const KNOWN: &[[&str; RUNS]] = &[
    ["rm -rf src; ln -s $R/home/.config src", "echo x > src/planted", "echo x > src/planted"],
    [
        "rm -rf out; ln -s $R/outside/dir out",
        "echo x > out/planted",
        "rm out; ln -s .. out; echo x > out/p",
    ],
    ["rm -rf conf; mkdir conf; echo a > conf/key", "mv conf aside; mkdir conf", "cat aside/key"],
    [
        "git init -q sub; mkdir sub/src",
        "rm -rf sub/src; ln -s $R/outside/dir sub/src",
        "echo x > sub/src/p",
    ],
    [
        "mkdir a; ln -s $R/outside a/src",
        "rm -rf src; mv a/src src",
        "echo x > src/file; echo x > src/dir/p",
    ],
    [
        "rm -rf $R/drop/in; ln -s $R/home $R/drop/in",
        "echo x > $R/drop/in/p",
        "ln $R/outside/file src/file2",
    ],
    [
        "ln -s src src2; rm -rf src; ln -s src2 src",
        "rm src; ln -s / src",
        "ln -s $R/outside/file out/f",
    ],
    [
        "git init -q sub; git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m a; git -C sub worktree add -q ../src/w",
        "rm -rf src/w; ln -s $R/outside/dir src/w; git -C sub worktree repair ../src/w",
        "git -C sub worktree prune; echo x > src/w/p; cp -al $R/outside/dir src/copy; echo x > src/copy/inner",
    ],
    [
        "exchange src out; cp -al src/a out/b",
        "exchange $R/drop/in $R/add; mv src/f $R/add/f; ln $R/add/f src/f",
        "echo x > src/f; mv $R/add/f $R/drop/in/f; ln -s $R/home $R/add/h; mv $R/add/h src/h",
    ],
    ["chmod 000 conf kept", "chmod 755 conf kept; cat conf/key", "rm -rf kept; mkdir kept"],
];

/// Names that commands make, move, remove and write.
const NAMES: &[&str] = &[
    "src",
    "src/a",
    "src/f",
    "out",
    "out/a",
    "conf",
    "conf/key",
    "kept",
    "kept/k",
    "sub",
    "sub/src",
    "sub/conf",
    "docs",
    "docs/x",
    "twin",
    "l1",
    "l2",
    "d/e",
    "d/e/f",
    "$R/add/y",
    "$R/add/src",
    "$R/drop/in",
    "$R/drop/in/z",
    "deep.pem",
];

/// Targets of links.
const TARGETS: &[&str] = &[
    "$R/outside",
    "$R/outside/dir",
    "$R/outside/file",
    "$R/home",
    "$R/home/.config",
    "$R/home/.bashrc",
    "/",
    "..",
    ".",
    "src",
    "out",
    "conf",
    "kept",
    "conf/key",
    "l1",
    "../outside/dir",
    "$R/add",
    "$R/drop",
    "/proc/self/root",
    "sub",
];

/// Exchanges two names (renameat2(2), RENAME_EXCHANGE); not every `mv` can.
const EXCHANGE: &str = "exchange() { python3 -c 'import ctypes, sys; from os import fsencode as b; ctypes.CDLL(None).renameat2(-100, b(sys.argv[1]), -100, b(sys.argv[2]), 2)' \"$1\" \"$2\"; }";

/// Makes the repository of a worktree.
const WORKTREE: &str =
    "git init -q sub; git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m a";

/// Numbers that look random; each seed gives its own.
struct Chance(u64);

impl Chance {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        usize::try_from(self.0 >> 33).expect("a number") % below
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// Returns the text of one run.
    fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..COMMANDS {
            let (name, other, target) = (self.of(NAMES), self.of(NAMES), self.of(TARGETS));
            let line = match self.below(17) {
                0 => format!("mkdir -p {name}"),
                1 | 2 => format!("ln -sfn {target} {name}"),
                3 | 4 => format!("rm -rf {name}; ln -sfn {target} {name}"),
                5 => format!("ln {target} {name}"),
                6 => format!("ln {other} {name}"),
                7 => format!("mv {other} {name}"),
                8 => format!("mv -T {other} {name}"),
                9 => format!("rm -rf {name}"),
                10 => format!("echo text > {name}"),
                11 => format!("cp -al {other} {name}"),
                12 => format!("exchange {other} {name}"),
                13 => format!("ln -sfn \"$(realpath -m {other})\" {name}"),
                14 => format!("{WORKTREE}; git -C sub worktree add -q -f \"$PWD/{name}\""),
                15 => {
                    format!("{WORKTREE}; git -C sub worktree move \"$PWD/{other}\" \"$PWD/{name}\"")
                }
                _ => format!("git init -q {name} || cp -a {other} {name}"),
            };
            let _ = writeln!(text, "{line}"); // a string takes everything
        }
        text
    }
}

/// Where one sequence happens.
struct World {
    place: Place,
    ordinary: bool,
}

/// Everything outside of what commands write: each path with its identity, its mode and its content.
type Outside = BTreeMap<PathBuf, (u64, u64, u32, Vec<u8>)>;

/// Device, inode and right.
type Reach = BTreeSet<(u64, u64, char)>;

impl World {
    fn new(ordinary: bool) -> World {
        let place = Place::new("sequence");
        for file in [
            "project/src/f",
            "project/src/a/g",
            "project/out/a/h",
            "project/conf/key",
            "project/conf/other",
            "project/kept/k",
            "project/docs/x",
            "project/docs/k.pem",
            "project/twin",
            "add/file",
            "drop/in/file",
            "outside/file",
            "outside/dir/inner",
            "home/.config/app/settings",
            "home/.bashrc",
            "home/desk/file",
        ] {
            place.write(file, "text\n");
        }
        let root = place.root.display().to_string();
        let path = |name: &str| format!("{root}/{name}");
        let settings = json!({
            "permissions": {
                "allow": ["Edit(./src/**)", format!("Edit(/{})", path("project/out/**"))],
                "deny": ["Read(./**/*.pem)", "Edit(./kept/**)"],
            },
            "sandbox": {"filesystem": {
                "allowWrite": [path("drop/in"), path("project/out")],
                "denyRead": [path("project/conf/key")],
                "denyWrite": [path("project/docs/x")],
            }},
        });
        place.write("home/.config/stockade/settings.json", &settings.to_string());
        stockade_tests::copy_program(&executable_probe(), &place.root.join("probe"));
        let world = World { place, ordinary };
        if ordinary {
            drop(world.place.stockade_as(ORDINARY, ["--version"])); // gives everything, and makes the copy
        }
        world
    }

    /// Returns what begins `text` as the user of this world.
    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let own = self.place.stockade(arguments);
        let mut command = match self.ordinary {
            false => Command::new(program),
            true => {
                let id = ORDINARY.to_string();
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(program);
                command
            }
        };
        command.args(arguments).env_clear();
        command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.current_dir(self.place.project()).stdin(Stdio::null());
        command
    }

    fn stockade(&self, cwd: &Path, text: &str) -> (i32, String) {
        let copy = self.place.root.join("stockade");
        let program = if self.ordinary { copy.as_path() } else { stockade_tests::stockade() };
        let add = self.place.root.join("add").display().to_string();
        let cwd = cwd.display().to_string();
        let arguments = ["--cwd", &cwd, "--add-dir", &add, "run", "--no-daemon", "--", text];
        let output = self.command(program, &arguments).output().expect("stockade");
        let told = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&told).into_owned())
    }

    /// Writes the text of a run where no command can change it.
    fn script(&self, text: &str) -> String {
        let path = self.place.root.join("act.sh");
        let text = text.replace("$R", &self.place.root.display().to_string());
        fs::write(&path, format!("exec 2>/dev/null\n{EXCHANGE}\n{text}\ntrue\n"))
            .expect("a script");
        path.display().to_string()
    }

    /// Returns what a command reaches now of all that lies in this world.
    fn reach(&self) -> Reach {
        let root = self.place.root.display();
        let mut list: String =
            ["project", "add", "drop"].map(|name| format!("+{root}/{name}\n")).concat();
        for path in self.outside().keys() {
            let _ = writeln!(list, "{}", path.display());
        }
        let paths = self.place.root.join("paths");
        fs::write(&paths, list).expect("paths");
        let text = format!("{root}/probe {}", paths.display());
        let (code, told) = self.stockade(&self.place.project(), &text);
        assert_eq!(code, 0, "{told}");
        let line = |line: &str| {
            let mut words = line.split(' ');
            let (device, inode) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((device, inode, words.next()?.chars().next()?))
        };
        told.lines().filter_map(line).collect()
    }

    /// Opens everything that is asked about, and returns it by its identity.
    fn hold(&self) -> BTreeMap<(u64, u64), (OwnedFd, PathBuf)> {
        let all = ["project", "add", "drop", "outside", "home"];
        let mut rest: Vec<PathBuf> = all.map(|name| self.place.root.join(name)).into();
        let mut held = BTreeMap::new();
        while let Some(path) = rest.pop() {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let object = open(&path, flags, Mode::empty()).expect("what lies there");
            let found = path.symlink_metadata().expect("what lies there");
            if found.is_dir() {
                let entries = fs::read_dir(&path).expect("a directory");
                rest.extend(entries.map(|it| it.expect("an entry").path()));
            }
            held.insert((found.dev(), found.ino()), (object, path));
        }
        held
    }

    /// Looks at what lies outside of what commands write.
    fn outside(&self) -> Outside {
        let mut all = Outside::new();
        let mut rest: Vec<PathBuf> =
            ["outside", "home", "drop"].map(|name| self.place.root.join(name)).into();
        while let Some(path) = rest.pop() {
            // A rule opens these.
            if path.ends_with("drop/in") || path.ends_with("home/.cache") {
                continue;
            }
            let found = path.symlink_metadata().expect("what lies outside");
            let held = match () {
                () if found.is_file() => fs::read(&path).expect("a file"),
                () if found.is_dir() => Vec::new(),
                () => b"neither a file nor a directory".to_vec(),
            };
            if found.is_dir() {
                rest.extend(
                    fs::read_dir(&path)
                        .expect("a directory")
                        .map(|it| it.expect("an entry").path()),
                );
            }
            all.insert(path, (found.dev(), found.ino(), found.permissions().mode(), held));
        }
        all
    }
}

fn executable_probe() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_reach"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the texts of each sequence.
fn sequences() -> Vec<(String, [String; RUNS])> {
    let known = KNOWN.iter().map(|texts| ("known".to_owned(), texts.map(str::to_owned)));
    let first = number("STOCKADE_SEED").unwrap_or(1);
    let count = number("STOCKADE_SEQUENCES").unwrap_or(SEQUENCES);
    let random = (first..first + count).map(|seed| {
        let mut chance = Chance(seed);
        chance.below(2);
        (
            format!("STOCKADE_SEED={seed} STOCKADE_SEQUENCES=1"),
            std::array::from_fn(|_| chance.text()),
        )
    });
    known.chain(random).collect()
}

/// Tries one sequence with confined commands.
fn confined(world: &World, texts: &[String; RUNS]) {
    let first = world.reach();
    // While somebody holds what was there, no other object gets its number.
    let held = world.hold();
    assert!(first.iter().any(|it| it.2 == 'w') && first.iter().any(|it| it.2 == 'c'), "{first:?}");
    let outside = world.outside();
    let there: BTreeSet<(u64, u64)> = outside.values().map(|it| (it.0, it.1)).collect();
    for (index, text) in texts.iter().enumerate() {
        let script = world.script(text);
        let (code, told) = world.stockade(&world.place.project(), &format!("bash {script}"));
        assert_eq!(code, 0, "run {index} did not start or end: {told}\n{texts:#?}");
        let now = world.outside();
        assert!(now == outside, "run {index} changed what lies outside\n{texts:#?}");
    }
    let last = world.reach();
    let more: Vec<_> = last
        .difference(&first)
        .filter(|it| there.contains(&(it.0, it.1)) || held.contains_key(&(it.0, it.1)))
        .map(|it| (held.get(&(it.0, it.1)).map(|held| &held.1), it))
        .collect();
    assert!(more.is_empty(), "the last run reaches more: {more:?}\n{texts:#?}");
    let secret = world.place.project().join("docs/k.pem");
    if let Ok(found) = secret.metadata() {
        assert!(!last.contains(&(found.dev(), found.ino(), 'r')), "{texts:#?}");
    }
}

/// Does the same as a person, and sees that commands still run.
fn by_a_person(world: &World, texts: &[String; RUNS]) {
    for text in texts {
        // Acts of a person in the home directory are not tested here.
        let text = text.replace("$R/home", "$R/outside");
        let script = world.script(&text);
        world.command(Path::new("/bin/bash"), &[&script]).status().expect("bash");
        let (code, told) = world.stockade(&world.place.project(), "echo ran");
        assert!(code == 0 && told.starts_with("ran\n"), "{code} {told}\n{texts:#?}");
    }
}

#[test]
fn what_runs_leave_behind_lets_the_last_reach_no_more_than_the_first() {
    let begun = Instant::now();
    let mut tried = 0;
    for (index, (name, texts)) in sequences().into_iter().enumerate() {
        if begun.elapsed() > LONGEST && index > KNOWN.len() {
            break;
        }
        println!("sequence {index}, {name}");
        // One after the other as root and as an ordinary user, where both can be had.
        let ordinary = is_root() && index % 2 == 1;
        confined(&World::new(ordinary), &texts);
        if index % 3 == 0 {
            by_a_person(&World::new(ordinary), &texts);
        }
        tried += 1;
    }
    println!("{tried} sequences in {:?}", begun.elapsed());
}
