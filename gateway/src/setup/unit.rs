//! A user unit of systemd: it listens in the place of the personal gateway and starts it with the first connection
//! (systemd.socket(5)).

use std::path::PathBuf;

use super::folders::Folders;
use super::{Change, Kind, Surroundings, files, text_of};
use crate::protocol::errors::{Code, Failure};

/// First line of each file that set-up writes.
const MARK: &str = "# Written by `stockade setup --socket-unit`.\n";

const SOCKET: &str = "\
[Unit]
Description=Socket of this user's stockade gateway

[Socket]
ListenStream=%t/stockade/gateway.sock
SocketMode=0600
DirectoryMode=0700

[Install]
WantedBy=sockets.target
";

const SERVICE: &str = "\
[Unit]
Description=stockade gateway of this user
Requires=stockade.socket
After=stockade.socket

[Service]
ExecStart=EXECUTABLE serve --idle 10m
StandardInput=socket
StandardOutput=journal
StandardError=journal
";

/// Left to the person.
const THEN: &str =
    "systemctl --user daemon-reload && systemctl --user enable --now stockade.socket";
/// Left to the person after the units are gone.
const AFTER_UNDO: &str =
    "systemctl --user disable --now stockade.socket; systemctl --user daemon-reload";

/// Returns the changes that write both units.
pub(crate) fn install(around: &Surroundings) -> Result<Vec<Change>, Failure> {
    let executable = escaped(&text_of(&around.executable)?);
    let service = SERVICE.replace("EXECUTABLE", &executable);
    changes(around, &[Some(SOCKET.to_owned()), Some(service)], THEN)
}

/// Returns the changes that take both units away; nothing where there are none.
pub(crate) fn uninstall(around: &Surroundings) -> Result<Vec<Change>, Failure> {
    let mut changes = changes(around, &[None, None], AFTER_UNDO)?;
    changes.retain(|change| !change.is_nothing());
    Ok(changes)
}

/// Removes empty folders that set-up made for the units.
pub(crate) fn left(around: &Surroundings) {
    let mut folders = Folders::of(around);
    folders.leave(&around.configuration.join("systemd/user/stockade.socket"), &[]);
    let _ = folders.keep(); // what then stays is a few empty folders, and no part of the gate
}

fn changes(
    around: &Surroundings,
    texts: &[Option<String>; 2],
    after_words: &str,
) -> Result<Vec<Change>, Failure> {
    let folder = around.configuration.join("systemd/user");
    let mut changes = Vec::new();
    for (name, text) in ["stockade.socket", "stockade.service"].iter().zip(texts) {
        let path: PathBuf = folder.join(name);
        let before = files::read(&path)?;
        if before.as_ref().is_some_and(|text| !text.starts_with(MARK)) {
            return Err(Failure::new(
                Code::InvalidRequest,
                format!("`{}` exists and was not made by stockade", path.display()),
                "move it",
            ));
        }
        let after = text.as_ref().map(|text| format!("{MARK}{text}"));
        let after_words = String::new();
        let (kind, is_first, mode) = (Kind::Text, false, 0o644);
        changes.push(Change { path, kind, before, after, is_first, mode, after_words });
    }
    if let Some(last) = changes.last_mut() {
        last.after_words = after_words.to_owned();
    }
    Ok(changes)
}

/// Returns a path as one word of a command line (systemd.service(5), "Command lines").
fn escaped(path: &str) -> String {
    let mut word = String::from("\"");
    for letter in path.chars() {
        match letter {
            '"' | '\\' => word.extend(['\\', letter]),
            '%' | '$' => word.extend([letter, letter]),
            _ => word.push(letter),
        }
    }
    word.push('"');
    word
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_path_stays_one_word() {
        assert_eq!(escaped("/a b/s"), r#""/a b/s""#);
        assert_eq!(escaped(r#"/a"b\c%d$e"#), r#""/a\"b\\c%%d$$e""#);
    }
}
