//! First changes of a run to watched files ([`crate::Watched`]), and the previous contents: the journal that pid 1
//! writes during the run, entry by entry, each before the change itself.

use std::ffi::OsString;
use std::path::PathBuf;

/// Most of a file that is kept.
pub const MOST_KEPT_BYTES: usize = 256 << 10;

/// One entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// From here on the run is watched.
    Began,
    /// The first change at a path.
    Touched(Touched),
    /// So many further paths are not listed; 0 for a number that is not known yet.
    More(u64),
}

/// The first change of one path by a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Real path.
    pub path: PathBuf,
    /// System call.
    pub call: String,
    /// Name of the process, from itself.
    pub program: String,
    /// Milliseconds since 1970.
    pub at: u64,
    /// Previous content.
    pub before: Before,
}

/// Content of a path before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// There was nothing.
    Nothing,
    /// A file with this content.
    Content(OsString),
    /// A symbolic link with this text.
    Link(OsString),
    /// A symbolic link with this text, and what the file holds that it leads to; none where there was nothing.
    Led(OsString, Option<OsString>),
    /// A file of so many bytes, too many to keep.
    Large(u64),
    /// The path could not be read, or is not a file.
    Unknown,
}

/// Reads a journal. What stands behind an entry that is cut short was never done.
#[cfg(target_os = "linux")]
#[must_use]
pub fn read_journal(mut bytes: &[u8]) -> Vec<Entry> {
    use crate::codec::{self, Wire as _};
    let mut entries = Vec::new();
    while let Ok(Some(frame)) = codec::receive(&mut bytes) {
        let Ok(entry) = Entry::from_bytes(&frame) else { break };
        entries.push(entry);
    }
    entries
}

/// Reads a journal. Without a supervisor nothing writes one.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn read_journal(_: &[u8]) -> Vec<Entry> {
    Vec::new()
}

#[cfg(target_os = "linux")]
mod wire {
    use super::{Before, Entry, Touched};
    use crate::codec::Wire;

    impl Wire for Entry {
        fn put(&self, out: &mut Vec<u8>) {
            match self {
                Entry::Began => 0_u8.put(out),
                Entry::Touched(touched) => {
                    1_u8.put(out);
                    touched.put(out);
                }
                Entry::More(count) => {
                    2_u8.put(out);
                    count.put(out);
                }
            }
        }
        fn take(from: &mut &[u8]) -> Option<Entry> {
            match u8::take(from)? {
                0 => Some(Entry::Began),
                1 => Some(Entry::Touched(Wire::take(from)?)),
                2 => Some(Entry::More(Wire::take(from)?)),
                _ => None,
            }
        }
    }

    impl Wire for Touched {
        fn put(&self, out: &mut Vec<u8>) {
            let Touched { path, call, program, at, before } = self;
            path.put(out);
            call.put(out);
            program.put(out);
            at.put(out);
            before.put(out);
        }
        fn take(from: &mut &[u8]) -> Option<Touched> {
            Some(Touched {
                path: Wire::take(from)?,
                call: Wire::take(from)?,
                program: Wire::take(from)?,
                at: Wire::take(from)?,
                before: Wire::take(from)?,
            })
        }
    }

    impl Wire for Before {
        fn put(&self, out: &mut Vec<u8>) {
            match self {
                Before::Nothing => 0_u8.put(out),
                Before::Content(text) => {
                    1_u8.put(out);
                    text.put(out);
                }
                Before::Link(text) => {
                    2_u8.put(out);
                    text.put(out);
                }
                Before::Large(bytes) => {
                    3_u8.put(out);
                    bytes.put(out);
                }
                Before::Unknown => 4_u8.put(out),
                Before::Led(text, content) => {
                    5_u8.put(out);
                    text.put(out);
                    content.put(out);
                }
            }
        }
        fn take(from: &mut &[u8]) -> Option<Before> {
            match u8::take(from)? {
                0 => Some(Before::Nothing),
                1 => Some(Before::Content(Wire::take(from)?)),
                2 => Some(Before::Link(Wire::take(from)?)),
                3 => Some(Before::Large(Wire::take(from)?)),
                4 => Some(Before::Unknown),
                5 => Some(Before::Led(Wire::take(from)?, Wire::take(from)?)),
                _ => None,
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::super::read_journal;
        use super::*;
        use crate::codec;

        #[test]
        fn a_journal_is_read_up_to_an_entry_that_is_cut_short() {
            let touched = |path: &str, before| {
                Entry::Touched(Touched {
                    path: path.into(),
                    call: "open".to_owned(),
                    program: "sh".to_owned(),
                    at: 7,
                    before,
                })
            };
            let entries = vec![
                Entry::Began,
                touched("/p/a", Before::Content("text".into())),
                touched("/p/b", Before::Link("a".into())),
                touched("/p/l", Before::Led("a".into(), Some("text".into()))),
                touched("/p/c", Before::Large(9)),
                touched("/p/d", Before::Unknown),
                touched("/p/e", Before::Nothing),
                Entry::More(3),
            ];
            let mut bytes = Vec::new();
            for entry in &entries {
                codec::send(&mut bytes, &entry.to_bytes()).unwrap();
            }
            assert_eq!(read_journal(&bytes), entries);
            bytes.pop();
            assert_eq!(read_journal(&bytes), entries[..7]);
        }
    }
}
