//! The executable of this process.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Says whether `path` is the file that this process runs.
pub fn is_this_executable(path: &Path) -> bool {
    match (fs::metadata(path), fs::metadata("/proc/self/exe")) {
        (Ok(one), Ok(own)) => {
            path.is_absolute() && (one.dev(), one.ino()) == (own.dev(), own.ino())
        }
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_of_this_process_is_this_executable() {
        let own = fs::read_link("/proc/self/exe").unwrap();
        assert!(is_this_executable(&own) && !is_this_executable(Path::new("/bin/sh")));
    }
}
