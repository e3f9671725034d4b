//! Acts for which no shell has a command. `exchange A B` gives two files or directories each other's name. The rest is one half
//! of a race between two runs: `make` makes and removes a file in a directory `d`, `move` gives that directory another name and
//! the old one back. Prints how often the file stayed under the other name. Ends when `stop` is there.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

/// Moves after which the race is over.
const MOVES: usize = 5_000;

/// How long a file may be there before it is taken away again.
const MOMENT: Duration = Duration::from_millis(200);

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
        Some("make") => {
            while !Path::new("stop").exists() {
                // Either may be refused, or find the directory away.
                let _ = File::create_new("d/f.secret");
                let _ = fs::remove_file("d/f.secret");
            }
        }
        _ => {
            let mut found = 0;
            for _ in 0..MOVES {
                let _ = fs::rename("d", "kept");
                found += usize::from(stays(Path::new("kept/f.secret")));
                let _ = fs::rename("kept", "d");
            }
            let _ = File::create("stop");
            println!("{found}");
        }
    }
}
