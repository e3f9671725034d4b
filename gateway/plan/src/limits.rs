//! The limits of a run: the defaults, and what settings say.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use stockade_policy::SandboxSettings;
use stockade_spec::Limits;

use super::place_of;

/// Least and most of what a run may write to disks by default.
const DISK: (u64, u64) = (1 << 30, 64 << 30);

/// Returns the limits of a run in `directory`.
pub(super) fn of(settings: &SandboxSettings, directory: &Path) -> Limits {
    let mut origins = Vec::new();
    let mut of = |name: &str, default: u64| {
        let set = settings.limits.get(name);
        let base = set.map_or(default, |set| set.0);
        // Those of a project count only where they are lower.
        let lowered = settings.lowered_limits.get(name).filter(|lowered| lowered.0 < base);
        let Some((value, origin)) = lowered.or(set) else { return default };
        origins.push((name.to_owned(), place_of(&value.to_string(), origin)));
        *value
    };
    let default = Limits::default();
    let descriptors = of("descriptors", default.descriptors);
    // A program may raise its own limit, unless the settings limit it.
    let descriptors_hard = match settings.limits.contains_key("descriptors")
        || settings.lowered_limits.contains_key("descriptors")
    {
        true => descriptors,
        false => default.descriptors_hard,
    };
    Limits {
        processes: of("processes", default.processes),
        memory_bytes: of("memory", memory()),
        file_bytes: of("fileSize", default.file_bytes),
        descriptors,
        descriptors_hard,
        shm_bytes: of("sharedMemory", default.shm_bytes),
        disk_bytes: of("diskWritten", disk(directory)),
        origins,
    }
}

/// Half of the machine's memory, at least 2 GiB.
fn memory() -> u64 {
    // The first line; in a container another file may stand in its place.
    let mut start = [0; 256];
    let read = File::open("/proc/meminfo").and_then(|mut file| file.read(&mut start));
    let start = start.get(..read.unwrap_or(0)).unwrap_or_default();
    let text = String::from_utf8_lossy(start);
    let total = text.lines().find_map(|line| {
        let rest = line.strip_prefix("MemTotal:")?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    (total.unwrap_or(0) * 1024 / 2).max(2 << 30)
}

/// Half of what is free where the project lies, at least 1 and at most 64 GiB.
fn disk(directory: &Path) -> u64 {
    let free = rustix::fs::statvfs(directory)
        .map_or(DISK.0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    (free / 2).clamp(DISK.0, DISK.1)
}
