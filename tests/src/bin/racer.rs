//! Acts for which no shell has a command. `exchange A B` gives two files or directories each other's name. The rest are halves of
//! two races between two runs, and each ends when `stop` is there:
//!
//! - `make` makes and removes a file in a directory `d`; `move` gives that directory another name and the old one back.
//! - `configure` makes and removes the configuration of `g`, which holds `objects`; `complete` makes and removes `refs` there,
//!   with which it is a git directory.
//!
//! `move` and `complete` print whether the forbidden file ever stayed.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

/// Turns after which a race is over.
const TURNS: usize = 5_000;

/// How long a file may be there before it is taken away again: longer than any supervisor waits for a processor.
const MOMENT: Duration = Duration::from_secs(10);

/// Says whether there is a file at `path`, and still after a moment.
fn stays(path: &Path) -> bool {
    let begun = Instant::now();
    while path.exists() {
        if begun.elapsed() > MOMENT {
            return true;
        }
    }
    false
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("exchange") => {
            let (one, other) = (&words[2], &words[3]);
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let done =
                rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, flags);
            std::process::exit(i32::from(done.is_err()));
        }
        Some("make") => repeat("d/f.secret", || ()),
        Some("configure") => {
            repeat("g/config", || while Path::new("g/refs").exists() && !is_over() {})
        }
        Some("complete") => race(|| {
            let is_git = fs::create_dir("g/refs").is_ok();
            let stays = is_git && stays(Path::new("g/config"));
            let _ = fs::remove_dir("g/refs");
            stays
        }),
        _ => race(|| {
            let _ = fs::rename("d", "kept");
            let stays = stays(Path::new("kept/f.secret"));
            let _ = fs::rename("kept", "d");
            stays
        }),
    }
}

/// Makes a file, calls `made`, and removes the file, until the race is over. All may be refused, or find the directory away.
fn repeat(path: &str, made: impl Fn()) {
    while !is_over() {
        if File::create_new(path).is_ok() {
            made();
        }
        let _ = fs::remove_file(path);
    }
}

fn is_over() -> bool {
    Path::new("stop").exists()
}

/// Takes turns until the file stays; prints whether it did.
fn race(turn: impl Fn() -> bool) {
    let found = (0..TURNS).any(|_| turn());
    let _ = File::create("stop");
    println!("{found}");
}
