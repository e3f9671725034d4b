//! Why the log cannot be used, in the words that reach a person.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why a record could not be made durable, or the log not be opened. Nothing was run because of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A write, sync or create failed.
    #[error("audit log {} cannot be written: {cause}; nothing was run", .directory.display())]
    Write {
        /// The folder of the log.
        directory: PathBuf,
        /// Failed operation, and its file.
        step: String,
        /// Error of the system, such as `No space left on device (ENOSPC)`.
        cause: String,
    },
    /// A file of the log cannot be read.
    #[error("audit log {} cannot be read: {cause}", .directory.display())]
    Read {
        /// The folder of the log.
        directory: PathBuf,
        /// The file.
        step: String,
        /// Error of the system.
        cause: String,
    },
    /// The log holds less than it must, or something else than was signed.
    #[error("audit log {} cannot be continued: {finding}; nothing was run", .directory.display())]
    Damaged {
        /// The folder of the log.
        directory: PathBuf,
        /// Damage that was found.
        finding: String,
    },
    /// Another process holds the log.
    #[error("audit log {} is held by a running gateway; nothing was run", .directory.display())]
    Busy {
        /// The folder of the log.
        directory: PathBuf,
    },
    /// The lock file was removed or replaced while this process held it.
    #[error("audit log {} lost its lock: `lock` was removed or replaced while a gateway used it; nothing was run", .directory.display())]
    LockLost {
        /// The folder of the log.
        directory: PathBuf,
    },
    /// The log was written by a newer stockade.
    #[error("audit log {} has records of format {version}, which only a newer stockade reads; nothing was run", .directory.display())]
    Newer {
        /// The folder of the log.
        directory: PathBuf,
        /// The format of the first such record.
        version: u64,
    },
    /// The log belongs to another machine.
    #[error("audit log {} belongs to the host {origin}, and this is {host}; nothing was run", .directory.display())]
    OtherHost {
        /// The folder of the log.
        directory: PathBuf,
        /// The `host.id` in the origin of the log.
        origin: String,
        /// The `host.id` of this machine.
        host: String,
    },
    /// The record was not durable in time.
    #[error("audit log {} did not answer within {seconds} s; nothing was run", .directory.display())]
    Slow {
        /// The folder of the log.
        directory: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// The record cannot be written as a line.
    #[error("audit log {} cannot store this record: {cause}; nothing was run", .directory.display())]
    Record {
        /// The folder of the log.
        directory: PathBuf,
        /// Why.
        cause: String,
    },
    /// The process that keeps the log cannot be used, or refused the record.
    #[error("audit log {} is kept by the recorder: {cause}; nothing was run", .directory.display())]
    Recorder {
        /// The folder of the log.
        directory: PathBuf,
        /// The words of the recorder, or of the system.
        cause: String,
    },
    /// The redaction rules cannot be used.
    #[error("the redaction rules cannot be used: {cause}; nothing was run")]
    Rules {
        /// The rule, and the reason.
        cause: String,
    },
}

impl Error {
    /// Returns the error of a log in `directory` whose disk did not answer in time.
    pub fn slow(directory: &Path) -> Error {
        Error::Slow { directory: directory.to_path_buf(), seconds: super::PATIENCE.as_secs() }
    }

    /// Returns why, for another process that tells it.
    pub fn cause(&self) -> String {
        let (Error::Write { step, cause, .. } | Error::Read { step, cause, .. }) = self else {
            return self.to_string();
        };
        format!("{step}: {cause}")
    }

    /// Returns what a person can do about it, one sentence.
    pub fn help(&self) -> String {
        match self {
            Error::Write { step, directory, .. } => format!(
                "{step} failed: make room, lift the limit or give the rights back, or name another place with --audit-dir and \
                 --state-dir; `stockade audit verify {}` checks the log",
                directory.display()
            ),
            Error::Read { step, .. } => format!("{step} failed: name the folder with --audit-dir"),
            Error::Damaged { directory, .. } => format!(
                "`stockade audit verify {0}` names the fault; `stockade audit repair {0}` rebuilds everything that can be \
                 derived from the records; restore missing files, or specify another log with --audit-dir and --state-dir",
                directory.display()
            ),
            Error::Busy { .. } => "use the socket of that gateway, or stop it".into(),
            Error::LockLost { .. } => "stop this gateway and start it again".into(),
            Error::Newer { .. } => {
                "install that version again, or name another place for a new log with --state-dir"
                    .into()
            }
            Error::OtherHost { .. } => {
                "name a place for a log of this host with --state-dir; if this machine only has \
                 a new identity, move the state directory aside and keep it"
                    .into()
            }
            Error::Slow { .. } => "check the disk of the log".into(),
            Error::Record { .. } => "shorten the request".into(),
            Error::Recorder { .. } => {
                "try again in a moment; `sudo stockade doctor --system` tells the administrator the cause".into()
            }
            Error::Rules { .. } => "correct the rule named above".into(),
        }
    }
}

/// Where an error belongs: the folder of the log.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) directory: PathBuf,
}

impl Scene {
    /// Returns what makes an input or output error of `step` on `path` an [`Error::Write`].
    pub(super) fn write<'a>(
        &'a self,
        step: &'a str,
        path: &'a Path,
    ) -> impl Fn(io::Error) -> Error + 'a {
        move |source| Error::Write {
            directory: self.directory.clone(),
            step: format!("to {step} `{}`", path.display()),
            cause: words(&source),
        }
    }

    /// Returns what makes an input error on `path` an [`Error::Read`].
    pub(super) fn read(&self, path: &Path) -> impl Fn(io::Error) -> Error {
        let directory = self.directory.clone();
        let step = format!("to read `{}`", path.display());
        move |source| Error::Read {
            directory: directory.clone(),
            step: step.clone(),
            cause: words(&source),
        }
    }

    /// Returns an [`Error::Damaged`].
    pub(super) fn damaged(&self, finding: impl Into<String>) -> Error {
        Error::Damaged { directory: self.directory.clone(), finding: finding.into() }
    }
}

/// Returns an error of the system as words with its name: `No space left on device (ENOSPC)`.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let plain = text.split(" (os error").next().unwrap_or(&text).to_owned();
    match error.raw_os_error().and_then(name) {
        Some(name) => format!("{plain} ({name})"),
        None => plain,
    }
}

fn name(number: i32) -> Option<&'static str> {
    let known = [
        (Errno::NOSPC, "ENOSPC"),
        (Errno::DQUOT, "EDQUOT"),
        (Errno::FBIG, "EFBIG"),
        (Errno::IO, "EIO"),
        (Errno::ROFS, "EROFS"),
        (Errno::ACCESS, "EACCES"),
        (Errno::PERM, "EPERM"),
        (Errno::NOENT, "ENOENT"),
        (Errno::NOTDIR, "ENOTDIR"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::LOOP, "ELOOP"),
        (Errno::EXIST, "EEXIST"),
        (Errno::MFILE, "EMFILE"),
        (Errno::NFILE, "ENFILE"),
        (Errno::NOMEM, "ENOMEM"),
        (Errno::STALE, "ESTALE"),
        (Errno::NOTSUP, "ENOTSUP"),
    ];
    known.iter().find(|(errno, _)| errno.raw_os_error() == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_as_the_manual_says() {
        let scene = Scene { directory: "/var/log/x".into() };
        let error =
            scene.write("append", Path::new("/var/log/x/00000001.jsonl"))(Errno::NOSPC.into());
        assert_eq!(
            error.to_string(),
            "audit log /var/log/x cannot be written: No space left on device (ENOSPC); nothing was run"
        );
    }
}
