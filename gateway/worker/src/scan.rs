//! The scan worker: the grammar's C code over hostile text, in a process that holds no rights.
//!
//! Started as `stockade scan` by [`crate::Scanner`]. It loads the grammar, gives every right away,
//! says so with a hello, and then answers one frame with one frame until its input ends.

use std::io::{self, BufReader, BufWriter, Read, Write};

use stockade_witness::{Grammar, frames};

/// Exit status when this build has no usable grammar.
const NO_GRAMMAR: i32 = 3;

/// Exit status when the process cannot give its rights away; no text has been read then.
const NOT_CONFINED: i32 = 4;

/// Is `stockade scan`: returns the exit status.
pub fn main() -> i32 {
    let Some(mut grammar) = Grammar::load() else { return NO_GRAMMAR };
    // The first text makes the parser take its memory and the loader its pages, while files can still be read.
    let _ = grammar.see(b"a=1 b \"$(c)\" <<E > d\n$e\nE\n");
    if stockade_kernel::confine_worker().is_err() {
        return NOT_CONFINED;
    }
    match serve(grammar, BufReader::with_capacity(BUFFER_BYTES, Input), Output) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// How much input is read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Says hello, then answers each request until `input` ends between frames.
pub fn serve(mut grammar: Grammar, mut input: impl Read, output: impl Write) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, output);
    let limit = frames::ANSWER_LIMIT_BYTES;
    frames::write_frame(&mut output, &frames::hello(&grammar.kinds()), limit)?;
    while let Some(text) = frames::read_frame(&mut input, frames::REQUEST_LIMIT_BYTES)? {
        let answer = frames::answer(&grammar.see(&text));
        // Each answer leaves at once: the gateway blames a death on the first text without an answer.
        frames::write_frame(&mut output, &answer, limit)?;
    }
    Ok(())
}

/// Descriptor 0, without the standard library's buffer and lock.
struct Input;

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut *buffer))?)
    }
}

/// Descriptor 1, without the standard library's line buffer.
struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stdout(), bytes))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
