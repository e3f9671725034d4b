//! `stockade tasks follow`: prints what a task writes until it ends.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use regex::bytes::Regex;

use super::Tasks;
use crate::cli::args::tasks::Follow;
use crate::cli::exit::ExitCode;
use crate::cli::failure;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::tasks::TaskView;
use crate::protocol::words;
use crate::tasks::output::{self, Lines};
use crate::tasks::wait::Watch;

/// Bytes that are printed at once.
const PIECE: usize = 64 << 10;
/// Lines are counted by this time.
const MINUTE: Duration = Duration::from_secs(60);

/// Prints the output of a task until it has ended; then says how it ended.
pub(super) fn follow(tasks: &Tasks<'_>, options: &Follow) -> Result<ExitCode, Failure> {
    let filter = options.filter.as_deref().map(output::filter).transpose()?;
    let task = tasks.find(&options.id)?;
    let folder = tasks.store.folder(&task.task_id);
    let watch = match task.state.has_ended() {
        true => None,
        false => Some(Watch::new(&folder).map_err(|error| unfollowed(&folder, &error))?),
    };
    let mut output = open(&task, options.offset)?;
    let mut printer = Printer::new(filter, options.per_minute);
    let task = loop {
        // Looked at before the output is read: what it wrote until its end is printed.
        let now = tasks.store.find(&task.task_id, tasks.session)?;
        if !printer.pass_on(&mut output, &folder)? {
            return Ok(ExitCode::SUCCESS);
        }
        match &watch {
            Some(watch) if !now.state.has_ended() => {
                let later = Instant::now() + MINUTE;
                watch.wait(later).map_err(|error| unfollowed(&folder, &error))?;
                printer.tell_counted()?;
            }
            Some(_) | None => break now,
        }
    };
    printer.finish()?;
    tasks.ended(&task)
}

pub(super) fn open(task: &TaskView, offset: u64) -> Result<File, Failure> {
    let path = Path::new(&task.output_path);
    let broken = |error: io::Error| unfollowed(path, &error);
    let mut file = File::open(path).map_err(broken)?;
    let length = file.metadata().map_err(broken)?.len();
    if offset > length {
        return Err(Failure::new(
            Code::InvalidRequest,
            format!("offset {offset} is past the end of the output ({length} bytes)"),
            format!("use an offset of at most {length}"),
        ));
    }
    file.seek(SeekFrom::Start(offset)).map_err(broken)?;
    Ok(file)
}

/// Prints output as it comes, or its matching lines.
struct Printer {
    filter: Option<Regex>,
    /// Most matching lines of a minute.
    rate: Option<u32>,
    /// When the current minute began, and how many lines it has.
    minute: (Instant, u32),
    /// Matching lines that were not printed.
    counted: u64,
    lines: Lines,
    /// A terminal obeys control characters, which are made visible; a pipe gets the bytes.
    is_terminal: bool,
}

impl Printer {
    fn new(filter: Option<Regex>, rate: Option<u32>) -> Printer {
        Printer {
            filter,
            rate,
            minute: (Instant::now(), 0),
            counted: 0,
            lines: Lines::default(),
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Prints what is there; returns whether anybody still reads.
    fn pass_on(&mut self, output: &mut File, folder: &Path) -> Result<bool, Failure> {
        let mut buffer = vec![0; PIECE];
        loop {
            let count = output.read(&mut buffer).map_err(|error| unfollowed(folder, &error))?;
            let piece = buffer.get(..count).unwrap_or_default();
            if piece.is_empty() {
                return Ok(true);
            }
            let written = match &self.filter {
                None if self.is_terminal => write(visible(piece).as_bytes())?,
                None => write(piece)?,
                Some(filter) => {
                    let mut matching = Vec::new();
                    let mut each = |line: &[u8]| {
                        if filter.is_match(line) {
                            matching.push(line.to_vec());
                        }
                    };
                    self.lines.push(piece, &mut each);
                    self.print_lines(&matching)?
                }
            };
            if !written {
                return Ok(false);
            }
        }
    }

    fn print_lines(&mut self, lines: &[Vec<u8>]) -> Result<bool, Failure> {
        for line in lines {
            if self.is_over_rate() {
                self.counted += 1;
                continue;
            }
            let mut text = match self.is_terminal {
                true => visible(line).into_bytes(),
                false => line.clone(),
            };
            text.push(b'\n');
            if !write(&text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_over_rate(&mut self) -> bool {
        let Some(rate) = self.rate else { return false };
        let (began, count) = self.minute;
        if began.elapsed() >= MINUTE {
            self.minute = (Instant::now(), 1);
            return rate == 0;
        }
        self.minute = (began, count.saturating_add(1));
        count >= rate
    }

    /// Says how many matching lines were not printed, when a minute is over.
    fn tell_counted(&mut self) -> Result<(), Failure> {
        if self.counted > 0 && self.minute.0.elapsed() >= MINUTE {
            self.tell_now()?;
        }
        Ok(())
    }

    fn tell_now(&mut self) -> Result<(), Failure> {
        let count = std::mem::take(&mut self.counted);
        write(format!("[{count} more matching lines]\n").as_bytes()).map(drop)
    }

    /// Prints a last line that no line feed ended.
    fn finish(&mut self) -> Result<(), Failure> {
        if let Some(filter) = &self.filter {
            let mut last = Vec::new();
            let mut each = |line: &[u8]| {
                if filter.is_match(line) {
                    last.push(line.to_vec());
                }
            };
            self.lines.finish(&mut each);
            self.print_lines(&last)?;
        }
        if self.counted > 0 {
            self.tell_now()?;
        }
        Ok(())
    }
}

fn visible(bytes: &[u8]) -> String {
    words::lines(&String::from_utf8_lossy(bytes))
}

/// Writes to standard output; returns whether anybody reads it.
pub(super) fn write(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(failure::unwritable(error)),
    }
}

pub(super) fn unfollowed(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot follow `{}`: {error}", path.display());
    Failure::new(Code::StateUnusable, message, "`stockade tasks list` lists all tasks")
}
