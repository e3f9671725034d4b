//! The caller's memory, directories and process, read once.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use stockade_kernel::syscalls::{self, Notification};

const PAGE: u64 = 4096;

/// The thread whose call waits.
pub(super) struct Caller<'a> {
    listener: BorrowedFd<'a>,
    call: &'a Notification,
}

impl<'a> Caller<'a> {
    pub(super) fn new(listener: BorrowedFd<'a>, call: &'a Notification) -> Caller<'a> {
        Caller { listener, call }
    }

    /// Returns the number of the calling thread.
    pub(super) fn thread(&self) -> u32 {
        self.call.thread
    }

    /// Returns argument `index`.
    pub(super) fn argument(&self, index: usize) -> u64 {
        self.call.arguments.get(index).copied().unwrap_or(0)
    }

    /// Returns argument `index` as the kernel takes a C `int`.
    pub(super) fn number(&self, index: usize) -> i32 {
        let low = u32::try_from(self.argument(index) & u64::from(u32::MAX)).unwrap_or(0);
        i32::from_ne_bytes(low.to_ne_bytes())
    }

    /// Returns argument `index` as the kernel takes an `unsigned int`.
    pub(super) fn bits(&self, index: usize) -> u32 {
        u32::try_from(self.argument(index) & u64::from(u32::MAX)).unwrap_or(0)
    }

    /// Fails unless the same call still waits: then what was read by number was the caller's.
    pub(super) fn still_waits(&self) -> io::Result<()> {
        if syscalls::is_waiting(self.listener, self.call.id) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ENOENT))
        }
    }

    /// Reads the path that argument `index` points at.
    pub(super) fn path(&self, index: usize) -> io::Result<PathBuf> {
        let mut path = Vec::new();
        let mut address = self.argument(index);
        while path.len() < PAGE as usize {
            // Never across a page that may not be there.
            let rest = usize::try_from(PAGE - address % PAGE).unwrap_or(1);
            let mut part = vec![0; rest.min(256)];
            let count = syscalls::read_memory(self.thread(), address, &mut part)?;
            part.truncate(count);
            if count == 0 {
                return Err(io::Error::from_raw_os_error(libc::EFAULT));
            }
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                path.extend(part.iter().take(end));
                self.still_waits()?;
                return Ok(PathBuf::from(OsString::from_vec(path)));
            }
            path.extend(part);
            address = address.saturating_add(count as u64);
        }
        Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
    }

    /// Reads the `length` bytes that argument `index` points at.
    pub(super) fn bytes(&self, index: usize, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let count = syscalls::read_memory(self.thread(), self.argument(index), &mut bytes)?;
        self.still_waits()?;
        if count == length { Ok(bytes) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
    }

    /// Opens the caller's working directory, or what its descriptor `number` refers to.
    pub(super) fn directory(&self, number: i32) -> io::Result<OwnedFd> {
        let path = if number == libc::AT_FDCWD {
            format!("/proc/{}/cwd", self.thread())
        } else {
            format!("/proc/{}/fd/{number}", self.thread())
        };
        let opened = syscalls::open_path(Path::new(&path), libc::O_PATH, 0);
        self.still_waits()?;
        match opened {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) && number >= 0 => {
                Err(io::Error::from_raw_os_error(libc::EBADF))
            }
            result => result,
        }
    }

    /// Returns a copy of the caller's descriptor `number`.
    pub(super) fn descriptor(&self, number: i32) -> io::Result<OwnedFd> {
        let process = syscalls::process_descriptor(self.process()?)?;
        self.still_waits()?;
        let copy = syscalls::descriptor_of(process.as_fd(), number)?;
        self.still_waits()?;
        Ok(copy)
    }

    /// Returns the process of the calling thread.
    pub(super) fn process(&self) -> io::Result<i32> {
        self.status("Tgid:", 10)?.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Returns the caller's file mode creation mask.
    pub(super) fn umask(&self) -> io::Result<u32> {
        self.status("Umask:", 8)
    }

    fn status(&self, field: &str, radix: u32) -> io::Result<u32> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.thread()))?;
        self.still_waits()?;
        text.lines()
            .find_map(|line| line.strip_prefix(field))
            .and_then(|value| u32::from_str_radix(value.trim(), radix).ok())
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}
