//! Programs started and files opened for writing, and by whom, as `strace` saw them.

use std::collections::HashMap;

use super::room;

/// A program that was started, or that somebody tried to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The file.
    pub path: Vec<u8>,
    /// Its words.
    pub argv: Vec<Vec<u8>>,
    /// The name of the program that started it.
    pub by: Vec<u8>,
}

/// A file that was opened for writing, or that somebody tried to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// As it was given to the kernel.
    pub path: Vec<u8>,
    /// The name of the program that opened it.
    pub by: Vec<u8>,
}

/// Acts of one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Programs, in order, without the bash that was given the text.
    pub started: Vec<Started>,
    /// Files.
    pub written: Vec<Written>,
}

/// Reads the output of `strace -f -xx -o` between the marks of the room.
pub fn read(log: &[u8]) -> Trace {
    let log = String::from_utf8_lossy(log);
    let [begin, end] = room::MARKS.map(hex);
    let part = log.split_once(&begin).map_or(&*log, |(_, after)| after);
    let part = part.split_once(&end).map_or(part, |(before, _)| before);
    let lines: Vec<(&str, &str)> = part.lines().filter_map(|line| line.split_once(' ')).collect();
    let parents = parents(&lines);
    let mut image: HashMap<&str, Vec<u8>> = HashMap::new();
    let mut pending: HashMap<&str, Vec<u8>> = HashMap::new();
    let mut running = false;
    let mut trace = Trace::default();
    for (pid, call) in lines {
        let call = call.trim_start();
        let by = image_of(pid, &image, &parents);
        if let Some(arguments) = call.strip_prefix("execve(") {
            let strings = strings(arguments);
            let Some((path, argv)) = strings.split_first() else { continue };
            if running {
                let started = Started { path: path.clone(), argv: argv.to_vec(), by };
                trace.started.push(started);
            }
            let name = base_name(path);
            if call.ends_with("<unfinished ...>") {
                pending.insert(pid, name);
            } else if call.ends_with(" = 0") {
                running |= name == b"bash";
                image.insert(pid, name);
            }
        } else if call.starts_with("<... execve resumed>") {
            if let Some(name) = pending.remove(pid)
                && call.ends_with(" = 0")
            {
                running |= name == b"bash";
                image.insert(pid, name);
            }
        } else if running && opens_for_writing(call) {
            let path = strings(call).into_iter().next().unwrap_or_default();
            trace.written.push(Written { path, by });
        }
    }
    trace
}

/// Returns the parent of each process.
fn parents<'a>(lines: &[(&'a str, &'a str)]) -> HashMap<&'a str, &'a str> {
    let makes = ["clone(", "clone3(", "fork(", "vfork(", "<... clone", "<... fork", "<... vfork"];
    let mut parents = HashMap::new();
    for (pid, call) in lines {
        let call = call.trim_start();
        if makes.iter().any(|prefix| call.starts_with(prefix))
            && let Some((_, child)) = call.rsplit_once(" = ")
        {
            parents.insert(child, *pid);
        }
    }
    parents
}

/// The program that process `pid` is: its own, or that of the process that made it.
fn image_of(pid: &str, image: &HashMap<&str, Vec<u8>>, parents: &HashMap<&str, &str>) -> Vec<u8> {
    let mut at = pid;
    for _ in 0..1_000 {
        if let Some(name) = image.get(at) {
            return name.clone();
        }
        match parents.get(at) {
            Some(parent) => at = parent,
            None => break,
        }
    }
    Vec::new()
}

fn opens_for_writing(call: &str) -> bool {
    (call.starts_with("open(") || call.starts_with("openat(") || call.starts_with("creat("))
        && (call.contains("O_WRONLY") || call.contains("O_RDWR") || call.starts_with("creat("))
}

/// The quoted strings of a call, decoded.
fn strings(call: &str) -> Vec<Vec<u8>> {
    let mut strings = Vec::new();
    let mut rest = call;
    while let Some((_, after)) = rest.split_once('"') {
        let Some((hex, after)) = after.split_once('"') else { break };
        let byte = |pair: &str| u8::from_str_radix(pair, 16).unwrap_or(b'?');
        strings.push(hex.split("\\x").skip(1).map(byte).collect());
        rest = after;
    }
    strings
}

/// Returns `text` as `strace -xx` writes it.
fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
}

fn base_name(path: &[u8]) -> Vec<u8> {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_names_who_started_what() {
        let log = b"1 execve(\"\\x2f\\x62\\x61\\x73\\x68\", [\"\\x62\"], 0x1 /* 1 var */) = 0\n\
            1 clone(child_stack=NULL) = 2\n\
            2 execve(\"\\x6c\\x73\", [\"\\x6c\\x73\", \"\"], 0x1 /* 1 var */ <unfinished ...>\n\
            1 openat(AT_FDCWD, \"\\x66\", O_WRONLY|O_CREAT, 0666) = 3\n\
            2 <... execve resumed>) = 0\n";
        let started = vec![Started {
            path: b"ls".to_vec(),
            argv: vec![b"ls".to_vec(), Vec::new()],
            by: b"bash".to_vec(),
        }];
        let written = vec![Written { path: b"f".to_vec(), by: b"bash".to_vec() }];
        assert_eq!(read(log), Trace { started, written });
    }
}
