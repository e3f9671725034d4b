//! The TCP ports on which the processes of a task listen, as `/proc` has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Most processes of one task that are looked at.
const MOST_PROCESSES: usize = 10_000;
/// The state of a socket that listens, in `/proc/net/tcp` (`TCP_LISTEN`, proc_net_tcp.rst of the kernel).
const LISTENING: &str = "0A";

/// All processes of this machine, by their parents.
#[derive(Debug)]
pub struct Processes(BTreeMap<u32, Vec<u32>>);

impl Processes {
    /// Looks at `/proc`.
    pub fn now() -> Processes {
        let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if let Some(parent) =
                fs::read_to_string(entry.path().join("stat")).ok().as_deref().and_then(parent)
            {
                found.entry(parent).or_default().push(pid);
            }
        }
        Processes(found)
    }

    /// Returns the processes below `root`, nearest first.
    pub fn below(&self, root: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut parents = vec![root];
        let mut seen = BTreeSet::from([root]);
        while let Some(parent) = parents.pop() {
            for child in self.0.get(&parent).into_iter().flatten() {
                if found.len() < MOST_PROCESSES && seen.insert(*child) {
                    found.push(*child);
                    parents.push(*child);
                }
            }
        }
        found
    }
}

/// Returns the parent that a line of `/proc/PID/stat` names. The name of the program, which may hold anything, ends with the
/// last `)` (proc_pid_stat(5)).
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the ports on which processes below `monitor` listen, in order.
pub fn listening(processes: &Processes, monitor: u32) -> Vec<u16> {
    let mut tables: BTreeMap<PathBuf, Vec<(u64, u16)>> = BTreeMap::new();
    let mut ports = BTreeSet::new();
    for pid in processes.below(monitor) {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        // One that has ended, or may not be looked into, holds no port that is shown.
        let Ok(network) = fs::read_link(folder.join("ns/net")) else { continue };
        let table = tables.entry(network).or_insert_with(|| table(&folder));
        if table.is_empty() {
            continue;
        }
        let held = sockets(&folder);
        ports.extend(table.iter().filter(|(inode, _)| held.contains(inode)).map(|(_, port)| *port));
    }
    ports.into_iter().collect()
}

/// Returns the sockets that listen in the network of a process: inode and port.
fn table(folder: &Path) -> Vec<(u64, u16)> {
    let read = |name: &str| fs::read_to_string(folder.join("net").join(name)).unwrap_or_default();
    let both = [read("tcp"), read("tcp6")];
    both.iter().flat_map(|text| text.lines().filter_map(listener)).collect()
}

/// Reads a line of `/proc/net/tcp`; none unless the socket listens.
fn listener(line: &str) -> Option<(u64, u16)> {
    let mut fields = line.split_whitespace();
    let port = fields.nth(1)?.rsplit_once(':')?.1;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    (state == LISTENING).then_some(())?;
    Some((inode.parse().ok()?, u16::from_str_radix(port, 16).ok()?))
}

/// Returns the inodes of the sockets that a process holds.
fn sockets(folder: &Path) -> BTreeSet<u64> {
    let links = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    links
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_line_of_the_table_is_read_only_if_the_socket_listens() {
        let line = |state: &str| {
            format!(
                "   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0"
            )
        };
        assert_eq!(listener(&line("0A")), Some((4711, 8080)));
        assert_eq!(listener(&line("01")), None);
        for broken in
            ["", "sl local_address rem_address st", "0: x y 0A a b c d e f", "0: :zz y 0A"]
        {
            assert_eq!(listener(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_name_of_a_program_hides_no_parent() {
        assert_eq!(parent("17 (a) 1 b) S 4 17 17 0 -1"), Some(4));
        assert_eq!(parent("17 (cat"), None);
    }

    #[test]
    fn a_process_holds_the_ports_on_which_it_listens() {
        let server = TcpListener::bind("127.76.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let _client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let parent = std::os::unix::process::parent_id();
        assert!(listening(&Processes::now(), parent).contains(&port));
        drop(server);
        assert!(!listening(&Processes::now(), parent).contains(&port));
    }
}
