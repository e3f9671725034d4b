//! The key of a webhook, and the signatures made with it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::form::Form;

/// The header of a signature: `t=SECONDS,v1=HEX`, the seconds since 1970 (UTC).
pub(crate) const HEADER: &str = "stockade-signature";
/// Oldest signature that is accepted, and the most that its clock may be ahead, in seconds.
const OLDEST: u64 = 300;
/// Fewest and most bytes of a key.
const FEWEST: usize = 16;
const MOST: u64 = 4096;

/// In which direction a signed text goes. A text of one direction is not accepted in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From here to the webhook.
    Question,
    /// From the webhook to here.
    Answer,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Question => "question",
            Direction::Answer => "answer",
        }
    }
}

/// The secret that both ends know.
pub(crate) struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key(..)")
    }
}

impl Key {
    /// Reads the key from a file of this user that nobody else can read. Our own form makes one that is missing. Blanks at both ends are not part
    /// of it.
    pub(crate) fn open(path: &Path, form: Form) -> anyhow::Result<Key> {
        let shown = path.display();
        let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let opened = std::fs::OpenOptions::new().read(true).custom_flags(no_link).open(path);
        let file = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => match form {
                Form::Plain => return Key::make(path),
                Form::Slack => {
                    bail!("write the signing secret of the Slack app to `{shown}`, with mode 600")
                }
                Form::Teams => {
                    bail!("write the token of the Teams webhook to `{shown}`, with mode 600")
                }
            },
            opened => opened.with_context(|| format!("cannot read the key `{shown}`"))?,
        };
        let found = file.metadata()?;
        let own = rustix::process::geteuid().as_raw();
        anyhow::ensure!(found.is_file(), "the key `{shown}` is not a regular file");
        anyhow::ensure!(found.uid() == own, "the key `{shown}` belongs to another user");
        anyhow::ensure!(
            found.mode() & 0o077 == 0,
            "other users can use the key `{shown}`: run `chmod 600` on it"
        );
        let mut text = Vec::new();
        file.take(MOST).read_to_end(&mut text)?;
        let key = text.trim_ascii().to_vec();
        anyhow::ensure!(key.len() >= FEWEST, "the key `{shown}` is shorter than {FEWEST} bytes");
        Ok(Key(key))
    }

    fn make(path: &Path) -> anyhow::Result<Key> {
        let shown = path.display();
        let key = crate::gate::secret()?;
        if let Some(folder) = path.parent() {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot make the directory of the key `{shown}`"))?;
        }
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = made.with_context(|| format!("cannot make the key `{shown}`"))?;
        writeln!(file, "{key}")?;
        file.sync_all()?;
        Ok(Key(key.into_bytes()))
    }

    fn mac(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }

    /// Returns the value of [`HEADER`] for a text.
    pub(crate) fn sign(&self, direction: Direction, body: &[u8]) -> Option<String> {
        let seconds = now();
        let head = format!("{}.{seconds}.", direction.name());
        let mac = self.mac(&[head.as_bytes(), body])?.finalize().into_bytes();
        Some(format!("t={seconds},v1={}", hex(&mac)))
    }

    /// Says whether `header` is a signature of the text that is neither too old nor from the future.
    pub(crate) fn accepts(&self, direction: Direction, header: &str, body: &[u8]) -> bool {
        let Some((seconds, mac)) =
            header.strip_prefix("t=").and_then(|rest| rest.split_once(",v1="))
        else {
            return false;
        };
        let head = format!("{}.{seconds}.", direction.name());
        is_recent(seconds) && self.is_mac(&[head.as_bytes(), body], unhex(mac))
    }

    /// The same for Slack: `X-Slack-Signature: v0=HEX` over `v0:SECONDS:BODY`, with the signing secret of the app.
    /// Source: <https://docs.slack.dev/authentication/verifying-requests-from-slack>.
    pub(crate) fn accepts_slack(&self, seconds: &str, header: &str, body: &[u8]) -> bool {
        let mac = header.strip_prefix("v0=").and_then(unhex);
        let head = format!("v0:{seconds}:");
        is_recent(seconds) && self.is_mac(&[head.as_bytes(), body], mac)
    }

    /// The same for an outgoing webhook of Teams: `Authorization: HMAC BASE64` over the body, with the Base64 token as
    /// key. It carries no time: an answer names the question, and a question is answered once.
    /// Source: <https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-outgoing-webhook>.
    pub(crate) fn accepts_teams(&self, header: &str, body: &[u8]) -> bool {
        let mac = header.strip_prefix("HMAC ").and_then(|it| STANDARD.decode(it).ok());
        let Ok(key) = STANDARD.decode(&self.0) else { return false };
        key.len() >= FEWEST && Key(key).is_mac(&[body], mac)
    }

    fn is_mac(&self, parts: &[&[u8]], given: Option<Vec<u8>>) -> bool {
        match (self.mac(parts), given) {
            (Some(mac), Some(given)) => mac.verify_slice(&given).is_ok(),
            _ => false,
        }
    }
}

fn is_recent(seconds: &str) -> bool {
    let is_number = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    is_number && seconds.parse().is_ok_and(|given: u64| given.abs_diff(now()) <= OLDEST)
}

/// Seconds since 1970 (UTC).
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        let is_hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hex.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
    };
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, direction: Direction, body: &[u8]) -> String {
        let head = format!("{}.{seconds}.", direction.name());
        let key = Key(b"0123456789abcdef".to_vec());
        format!(
            "t={seconds},v1={}",
            hex(&key.mac(&[head.as_bytes(), body]).unwrap().finalize().into_bytes())
        )
    }

    #[test]
    fn a_signature_holds_for_its_text_its_direction_and_five_minutes() {
        let key = Key(b"0123456789abcdef".to_vec());
        let body = br#"{"act":"allow"}"#;
        let good = key.sign(Direction::Answer, body).unwrap();
        assert!(key.accepts(Direction::Answer, &good, body));
        assert!(!key.accepts(Direction::Question, &good, body));
        assert!(!key.accepts(Direction::Answer, &good, br#"{"act":"allow" }"#));
        assert!(!Key(b"0123456789abcdeg".to_vec()).accepts(Direction::Answer, &good, body));
        for (seconds, is_good) in
            [(now() - 290, true), (now() + 290, true), (now() - 400, false), (now() + 400, false)]
        {
            let header = at(seconds, Direction::Answer, body);
            assert_eq!(key.accepts(Direction::Answer, &header, body), is_good, "{seconds}");
        }
        for wrong in [
            "",
            "t=,v1=",
            "t=1",
            "v1=00",
            &good.replace("v1=", "v1=+"),
            good.get(..good.len() - 2).unwrap(),
        ] {
            assert!(!key.accepts(Direction::Answer, wrong, body), "{wrong}");
        }
    }

    /// The example of <https://docs.slack.dev/authentication/verifying-requests-from-slack>, but for its age.
    #[test]
    fn the_form_of_slack_is_its_own() {
        let key = Key(b"8f742231b10e8888abcd99yyyzzz85a5".to_vec());
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let mac = unhex("a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503");
        assert!(key.is_mac(&[b"v0:1531420618:", body], mac));
        assert!(!key.accepts_slack(
            "1531420618",
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            body
        ));
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_a_link_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(Key::open(&path, Form::Slack).unwrap_err().to_string().contains("mode 600"));
        let made = Key::open(&path, Form::Plain).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Key::open(&path, Form::Plain).unwrap().0, made.0);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Key::open(&link, Form::Plain).is_err());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Key::open(&path, Form::Plain).unwrap_err().to_string().contains("chmod 600"));
        let short = folder.path().join("short");
        std::fs::write(&short, "   short \n").unwrap();
        std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(
            Key::open(&short, Form::Plain)
                .unwrap_err()
                .to_string()
                .contains("shorter than 16 bytes")
        );
    }
}
