//! The process inside a cage: it runs one text after the other, each in an empty home with its own stubs.
//!
//! The process is this package's `oracle` program under another name, in the root of the cage. A request on its standard input
//! is the status of the stubs (a byte), the scenery and the text, each with its length in front (four bytes, little
//! end first); the answer is a byte. What happened stands in the trace, between two opens of files that do not exist.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::cage::{HOME, STUBS};
use super::scenery::Scenery;

/// The name of the program in the root of the cage.
pub const NAME: &str = "room";

/// Files that are opened before a text runs, and when all of its processes are gone or their time is over.
pub const MARKS: [&str; 2] = ["/.room/begin", "/.room/end"];

/// How long one text may run.
const TIME_LIMIT: Duration = Duration::from_millis(1_000);

/// Is the room, until its standard input ends.
pub fn main() -> u8 {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut status = [0];
    while input.read_exact(&mut status).is_ok() {
        let done = part(&mut input)
            .and_then(|scenery| Ok((Scenery::decode(&scenery), part(&mut input)?)))
            .and_then(|(scenery, text)| run(&text, status[0], &scenery));
        if done.is_err() || output.write_all(&[1]).and_then(|()| output.flush()).is_err() {
            return 1;
        }
    }
    0
}

/// Reads one part of a request.
fn part(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let mut part = vec![0; u32::from_le_bytes(length) as usize];
    input.read_exact(&mut part)?;
    Ok(part)
}

fn run(text: &[u8], status: u8, scenery: &Scenery) -> io::Result<()> {
    for folder in [HOME, "/tmp", STUBS] {
        empty(folder.as_ref())?;
    }
    let place = |path: &Vec<u8>| Path::new(HOME).join(OsStr::from_bytes(path));
    for folder in &scenery.folders {
        // A folder that cannot be made is missing, as it would be without scenery.
        let _ = fs::create_dir_all(place(folder));
    }
    for file in &scenery.files {
        let _ = fs::write(place(file), b"");
    }
    fs::write(Path::new(STUBS).join(".status"), [b'0' + status, b'\n'])?;
    for name in names(text) {
        let real = Path::new("/usr/bin").join(OsStr::from_bytes(name));
        let target = if real.exists() { real } else { "/usr/bin/stub".into() };
        // Names that differ only for this file system, or are too long for it, have no stub.
        let _ = symlink(target, Path::new(STUBS).join(OsStr::from_bytes(name)));
    }
    mark(0);
    let mut bash = Command::new("/usr/bin/bash")
        .args(["--noprofile", "--norc", "-c"])
        .arg(OsStr::from_bytes(text))
        .env_clear()
        .envs([("PATH", STUBS), ("HOME", HOME), ("LC_ALL", "C")])
        .current_dir(HOME)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    wait(&mut bash)?;
    mark(1);
    stop(&mut bash)
}

fn mark(number: usize) {
    // Not there; the trace shows the attempt.
    let _ = fs::File::open(MARKS[number]);
}

/// Waits until bash and all that it left behind are gone, or their time is over.
fn wait(bash: &mut Child) -> io::Result<()> {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut pause = Duration::from_micros(200);
    while bash.try_wait()?.is_none() || !others()?.is_empty() {
        if Instant::now() > deadline {
            break;
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
    Ok(())
}

/// Ends what is left. An error is a room that cannot be used again.
fn stop(bash: &mut Child) -> io::Result<()> {
    for _ in 0..200 {
        let left = others()?;
        if left.is_empty() {
            bash.wait()?;
            return Ok(());
        }
        let kill = format!("kill -9 {}", left.join(" "));
        let mut killer = Command::new("/usr/bin/bash").args(["-c", &kill]).spawn()?;
        killer.wait()?;
        bash.try_wait()?;
        sleep(Duration::from_millis(1));
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// The processes of this namespace but the tracer, which is its first, and this one.
fn others() -> io::Result<Vec<String>> {
    let own = std::process::id().to_string();
    let mut others = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|byte| byte.is_ascii_digit()) && name != "1" && name != own {
            others.push(name);
        }
    }
    Ok(others)
}

/// Removes all that is in `folder`.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Every run of characters in `text` that could name a program.
fn names(text: &[u8]) -> BTreeSet<&[u8]> {
    let plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+[]:@%^,".contains(byte) || *byte >= 0x80;
    let mut names: BTreeSet<&[u8]> = text.split(|byte| !plain(byte)).collect();
    // `$'\x61'` and the like make others; those are started without success, which the trace shows as well.
    names.retain(|name| !matches!(*name, b"" | b"." | b".."));
    names
}
