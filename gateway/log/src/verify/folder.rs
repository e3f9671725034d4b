//! Contents of the folder of a log, and what does not belong there.

use std::fs;
use std::io;
use std::path::Path;

use super::super::checkpoint::Checkpoint;
use super::super::files;
use super::super::tree::tile_path;
use super::{Bound, Context, Finding, Report, Source};

/// Contents of the folder.
pub(super) struct Contents {
    /// Numbers of the segments, ascending.
    pub(super) segments: Vec<u64>,
    /// The seals whose signature holds.
    pub(super) seals: Vec<Bound>,
}

/// Lists the folder, names what does not belong there, and reads the seals.
pub(super) fn check(context: &Context, report: &mut Report) -> io::Result<Contents> {
    let mut contents = Contents { segments: Vec::new(), seals: Vec::new() };
    let mut seals = Vec::new();
    let entries = match fs::read_dir(&context.directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report.add(Finding::new("log_missing", "the folder of the log does not exist"));
            return Ok(contents);
        }
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        let is_leftover = name.starts_with('.') && name.ends_with(".tmp");
        if let (Some(number), true) = (files::segment_number(&name), kind.is_file()) {
            contents.segments.push(number);
        } else if let (Some(number), true) = (seal_number(&name), kind.is_file()) {
            seals.push(number);
        } else if kind.is_dir() && name == "tile" {
            tiles(&context.directory, &entry.path(), report)?;
        } else if !(kind.is_file() && (name == "checkpoint" || name == "lock" || is_leftover)) {
            report.add(Finding::new("unknown_file", format!("`{name}` does not belong here")));
        }
    }
    contents.segments.sort_unstable();
    if contents.segments.is_empty() {
        report.add(Finding::new("log_missing", "there is no segment"));
    }
    read_seals(context, &seals, &mut contents, report)?;
    Ok(contents)
}

fn seal_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".seal")?.parse().ok()?;
    (files::seal_name(number) == name).then_some(number)
}

fn read_seals(
    context: &Context,
    seals: &[u64],
    contents: &mut Contents,
    report: &mut Report,
) -> io::Result<()> {
    for number in seals {
        let name = files::seal_name(*number);
        let note = files::read(&context.directory.join(&name))?.unwrap_or_default();
        match Checkpoint::read(&note, std::slice::from_ref(&context.key)) {
            Ok(checkpoint) => {
                contents.seals.push(Bound { source: Source::Seal(*number), checkpoint });
            }
            Err(doubt) => {
                report.add(Finding {
                    segment: Some(files::segment_name(*number)),
                    ..Finding::new("bad_signature", format!("`{name}`: {}", doubt.words()))
                });
            }
        }
    }
    let last = contents.segments.last().copied().unwrap_or(0);
    for number in
        contents.segments.iter().filter(|number| **number < last && !seals.contains(number))
    {
        let name = files::seal_name(*number);
        if *number + 1 == last {
            report.notes.push(format!("`{name}`, the seal of the last closed segment, is missing"));
        } else {
            report.add(Finding {
                segment: Some(files::segment_name(*number)),
                ..Finding::new("bad_signature", format!("`{name}` is missing"))
            });
        }
    }
    Ok(())
}

/// Names files below `tile` whose names are none of tiles.
fn tiles(directory: &Path, folder: &Path, report: &mut Report) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let below =
                path.strip_prefix(directory).unwrap_or(&path).to_string_lossy().into_owned();
            let is_leftover =
                below.ends_with(".tmp") && entry.file_name().to_string_lossy().starts_with('.');
            let is_tile =
                tile_number(&below).is_some_and(|(level, index)| tile_path(level, index) == below);
            if !is_tile && !is_leftover {
                report.add(Finding::new("unknown_file", format!("`{below}` does not belong here")));
            }
        }
    }
    Ok(())
}

/// Returns level and index of `tile/L/x…/NNN`.
fn tile_number(below: &str) -> Option<(usize, u64)> {
    let (level, parts) = below.strip_prefix("tile/")?.split_once('/')?;
    let mut index: u64 = 0;
    for part in parts.split('/') {
        let digits = part.strip_prefix('x').unwrap_or(part);
        index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
    }
    Some((level.parse().ok()?, index))
}
