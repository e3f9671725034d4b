//! Tells what it can reach: for each path of the file that it is given, and for everything below those that begin with `+`, one line
//! for each right: device, inode, right. `r` reads, `w` writes, `m` changes the mode, `c` makes a file in a directory.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Most entries that are tried below one path.
const MOST: usize = 2_000;

/// `O_NONBLOCK`: nothing is waited for.
const AT_ONCE: i32 = 0o4000;

fn main() {
    let list = std::env::args().nth(1).expect("a file with paths");
    let list = fs::read_to_string(list).expect("paths");
    for line in list.lines() {
        match line.strip_prefix('+') {
            Some(path) => below(Path::new(path)),
            None => attempt(Path::new(line)),
        }
    }
}

/// Tries all that lies below `path`, and what links there lead to, with its entries.
fn below(path: &Path) {
    let (mut rest, mut seen) = (vec![path.to_path_buf()], 0);
    while let Some(path) = rest.pop() {
        seen += 1;
        if seen > MOST {
            return;
        }
        attempt(&path);
        let is_link = path.is_symlink();
        for entry in entries(&path) {
            match is_link {
                true => attempt(&entry),
                false => rest.push(entry),
            }
        }
    }
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(path).into_iter().flatten().flatten();
    listed.take(100).map(|entry| entry.path()).collect()
}

fn attempt(path: &Path) {
    // Followed: what counts is what it leads to.
    let Ok(there) = fs::metadata(path) else { return };
    if !there.is_file() && !there.is_dir() {
        return;
    }
    let tell = |found: &fs::Metadata, right: char| {
        println!("{} {} {right}", found.dev(), found.ino());
    };
    if fs::set_permissions(path, there.permissions()).is_ok() {
        tell(&there, 'm');
    }
    if there.is_dir() {
        let name = path.join(format!("reach-{}", std::process::id()));
        if OpenOptions::new().write(true).create_new(true).open(&name).is_ok() {
            tell(&there, 'c');
            let _ = fs::remove_file(&name); // what cannot be removed is seen by who looks from outside
        }
        return;
    }
    let opened = |file: std::io::Result<File>, right| {
        if let Ok(found) = file.and_then(|file| file.metadata()) {
            tell(&found, right);
        }
    };
    opened(OpenOptions::new().read(true).custom_flags(AT_ONCE).open(path), 'r');
    opened(OpenOptions::new().write(true).custom_flags(AT_ONCE).open(path), 'w');
}
