//! Refusals of which the host alone knows whether there was anything to be refused: sockets and servers that a run does not
//! see.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use stockade_spec::{OWN_LOOPBACK, UNSEEN_SOCKET, Violation};

/// Directories of the host that every run has its own of.
const HIDDEN: [&str; 4] = ["/run", "/tmp", "/var/tmp", "/run/user"];

/// Says whether a refusal is one: of what is nowhere on the host, nothing was kept from the run.
pub(super) fn knows(found: &Violation) -> bool {
    match found.rule.as_str() {
        UNSEEN_SOCKET => is_socket(Path::new(&found.object)),
        OWN_LOOPBACK => found.object.parse().is_ok_and(|there: std::net::SocketAddr| {
            TABLES.iter().any(|table| {
                std::fs::read_to_string(table).is_ok_and(|text| listens(there.port(), &text))
            })
        }),
        _ => true,
    }
}

/// The tables of TCP sockets (proc_net_tcp of the kernel's documentation).
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Says whether a table has a socket that listens at `port`: the local address is the second field, the state the fourth,
/// 0A is `TCP_LISTEN`.
fn listens(port: u16, table: &str) -> bool {
    let end = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.get(1).is_some_and(|local| local.ends_with(&end)) && fields.get(3) == Some(&"0A")
    })
}

/// Says whether there is a socket at `path`. A command chose the path, so no link is followed, and no other file system is
/// asked, which could be one that does not answer.
fn is_socket(path: &Path) -> bool {
    let around =
        HIDDEN.iter().filter(|directory| path.starts_with(directory)).max_by_key(|it| it.len());
    let Some(mut start) = around.map(PathBuf::from) else { return false };
    let Ok(mut inside) = path.strip_prefix(&start).map(Path::to_path_buf) else { return false };
    // The directory of each user is a file system of its own.
    if start.ends_with("user")
        && let Some(user) = inside.iter().next().map(PathBuf::from)
    {
        inside = inside.strip_prefix(&user).unwrap_or(&inside).to_path_buf();
        start.push(user);
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&start, flags | OFlags::NOFOLLOW, Mode::empty());
    let beneath = |directory: OwnedFd| {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV | ResolveFlags::BENEATH;
        openat2(directory, &inside, flags, Mode::empty(), resolve)
    };
    let found = opened.and_then(beneath).and_then(|it| statat(it, "", AtFlags::EMPTY_PATH));
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn found(rule: &str, object: &str) -> bool {
        knows(&Violation {
            rule: rule.to_owned(),
            object: object.to_owned(),
            ..Violation::default()
        })
    }

    #[test]
    fn a_server_that_listens_is_known_and_no_other() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap().to_string();
        assert!(found(OWN_LOOPBACK, &address));
        drop(server);
        assert!(!found(OWN_LOOPBACK, &address));
        assert!(!found(OWN_LOOPBACK, "no address"));
        assert!(found("builtin: anything else", "no address"));
    }

    #[test]
    fn a_socket_is_known_where_no_link_leads_to_it() {
        // One of the directories that every run has its own of; a socket address is short besides (unix(7)).
        let place = Path::new("/tmp").join(format!("stockade-host-{}", std::process::id()));
        // An earlier run that was killed may have had this number.
        drop(std::fs::remove_dir_all(&place));
        std::fs::create_dir_all(&place).unwrap();
        let at = |name: &str| place.join(name).display().to_string();
        let _server = UnixListener::bind(at("s")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink("s", at("link")).unwrap();
        let seen = ["s", "file", "link", "missing"].map(|name| found(UNSEEN_SOCKET, &at(name)));
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(seen, [true, false, false, false]);
        assert!(!found(UNSEEN_SOCKET, "/etc/passwd"));
    }
}
