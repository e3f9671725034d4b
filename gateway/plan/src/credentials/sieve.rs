//! Selects the lines of a file that may be shown: a line that may be a secret by its name, its place or its shape may not.

use stockade_shell::environment::{looks_like_credential, speaks_of_secret};

/// Letters and digits in a row, of both kinds, that nobody takes for a word.
const OPAQUE: usize = 16;
/// The same for letters alone, where small and capital ones change often.
const MIXED: usize = 20;
/// Keys whose value is a digest, not a secret.
const DIGESTS: [&str; 6] = ["rev", "commit", "checksum", "hash", "integrity", "sha256"];

/// Treatment of keys that are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// Truth values, small numbers and addresses stay.
    Plain,
    /// All stay, except those with a name that suggests a secret.
    Kept,
    /// The key stays alone.
    Blank,
}

/// Keys of a file that stay, and the treatment of the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sieve<'a> {
    pub(super) kept: &'a [&'static str],
    pub(super) others: Others,
}

/// Treatment of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    Keep,
    Change(String),
    Drop,
}

impl Sieve<'_> {
    /// Says what becomes of the value of `key`, as it is written; `place` names what the key lies in.
    pub(super) fn weigh(&self, place: &str, key: &str, value: &str) -> Word {
        if value.split_once(" #").is_some_and(|(_, comment)| !Sieve::shows_comment(comment)) {
            return Word::Drop;
        }
        let bare = value.trim().trim_matches(['"', '\'']);
        if bare.is_empty() || is_reference(bare) {
            return Word::Keep;
        }
        let is_known = self.kept.iter().any(|kept| fits(kept, key));
        let speaks = speaks_of_secret(&words(place)) || speaks_of_secret(&words(key));
        let refused = || match self.others {
            Others::Blank => Word::Change(String::new()),
            Others::Plain | Others::Kept => Word::Drop,
        };
        if !is_known && speaks {
            return refused();
        }
        let Some(shown) = without_users(value) else { return refused() };
        let is_digest = DIGESTS.contains(&key) && is_hexadecimal(bare);
        if !is_digest && looks_secret(&shown) {
            return refused();
        }
        let is_other = match self.others {
            Others::Kept => true,
            Others::Plain | Others::Blank => is_plain(bare) || is_address(bare),
        };
        match is_known || is_other {
            false => refused(),
            true if shown == value => Word::Keep,
            true => Word::Change(shown),
        }
    }

    /// Says whether a comment may be shown.
    pub(super) fn shows_comment(comment: &str) -> bool {
        let mut words = comment.split(['=', ':', '>', '<']);
        let before = words.next().unwrap_or_default();
        let speaks = |text: &str| {
            let last = text.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
            speaks_of_secret(&self::words(last))
        };
        // `#_authToken=x`, `<password>x`: what was a setting once.
        let was_setting = comment.contains(['=', ':', '<'])
            && (speaks(before) || words.any(speaks))
            && !comment.trim_end().ends_with(':');
        !was_setting
            && without_users(comment).is_some_and(|it| it == comment)
            && !looks_secret(comment)
    }
}

/// Returns a name with `_` in the place of all that is neither letter nor digit.
fn words(name: &str) -> String {
    name.chars().map(|it| if it.is_alphanumeric() { it } else { '_' }).collect()
}

/// Says whether `name` is `pattern`, in which one `*` may stand for anything.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => pattern == name,
    }
}

/// Says whether a value is nothing but the name of a variable (`${NPM_TOKEN}`), without a value for the case that there is none.
fn is_reference(value: &str) -> bool {
    let braced = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let name = match braced {
        Some(name) => name.trim_end_matches('-').trim_end_matches(':'),
        None => match value.strip_prefix('$') {
            Some(name) => name,
            None => return false,
        },
    };
    let is_capital = |it: u8| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_capital)
}

fn is_plain(value: &str) -> bool {
    const WORDS: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "none"];
    let is_number = value.len() <= 10 && value.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    WORDS.contains(&value.to_ascii_lowercase().as_str()) || is_number
}

fn is_address(value: &str) -> bool {
    let is_scheme = |it: &str| {
        !it.is_empty() && it.bytes().all(|it| it.is_ascii_lowercase() || b"+.-".contains(&it))
    };
    let scheme = value.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme));
    scheme && !value.contains(char::is_whitespace)
}

fn is_hexadecimal(value: &str) -> bool {
    value.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Returns a text whose addresses name no users; none if one may be read in another way.
pub(super) fn without_users(text: &str) -> Option<String> {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, behind) = rest.split_at(at + "://".len());
        if has_user(before) {
            return None;
        }
        shown.push_str(before);
        let is_end = |it: char| it.is_whitespace() || "\"'`,;<>()[]|\\".contains(it);
        let end = behind.find(is_end).unwrap_or(behind.len());
        let (address, behind) = behind.split_at(end);
        shown.push_str(&without_user(address)?);
        rest = behind;
    }
    shown.push_str(rest);
    (!has_user(rest)).then_some(shown)
}

/// Returns what stands behind `://` without a user.
fn without_user(address: &str) -> Option<String> {
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let (authority, path) = address.split_at(end);
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_host = |it: char| it.is_ascii_alphanumeric() || "-._:${}*%".contains(it);
    let port = host.rsplit_once(':').map(|(_, port)| port).unwrap_or("0");
    let is_port = |it: &str| it.bytes().all(|it| it.is_ascii_digit()) || it.contains('{');
    let is_clear = host.chars().all(is_host) && is_port(port) && !path.contains(['?', '#']);
    // `user:pa/ss@host` is read so by nobody, and may be meant.
    let pairs = path.bytes().zip(path.bytes().skip(1));
    let hides_user = pairs.clone().any(|(before, it)| it == b'@' && before != b'/');
    if !is_clear || hides_user {
        return None;
    }
    let user = if user == "git" { "git@" } else { "" };
    Some(format!("{user}{host}{path}"))
}

/// Says whether a text without `://` holds `user:password@host`, or anything like it but `git@host` and `@scope`.
fn has_user(text: &str) -> bool {
    let parts = text.split(|it: char| it.is_whitespace() || "\"'`,;=<>()[]|".contains(it));
    parts.filter(|part| !part.starts_with('@')).any(|part| {
        part.split_once('@').is_some_and(|(user, _)| {
            let is_package = user.is_empty() || user.ends_with('/');
            !is_package && user != "git" && user.contains(':')
        })
    })
}

/// Says whether a text holds what has the shape of a secret.
pub(super) fn looks_secret(text: &str) -> bool {
    let certificate = text.contains("-----BEGIN CERTIFICATE-----");
    if certificate {
        return text.contains("PRIVATE KEY");
    }
    let split = |it: char| it.is_whitespace() || "\"'`,;=:/@<>()[]{}|".contains(it);
    let mut parts = text.split(split);
    looks_like_credential(text) || parts.any(|part| looks_like_credential(part) || is_opaque(part))
}

fn is_opaque(part: &str) -> bool {
    is_uuid(part)
        || part.split(|it: char| !it.is_ascii_alphanumeric()).any(|run| {
            let digits = run.bytes().filter(u8::is_ascii_digit).count();
            let mixes = digits > 0 && digits < run.len();
            let pairs = run.bytes().zip(run.bytes().skip(1));
            let changes =
                pairs.filter(|(a, b)| a.is_ascii_lowercase() && b.is_ascii_uppercase()).count();
            (run.len() >= OPAQUE && (mixes || digits == run.len()))
                || (run.len() >= MIXED && changes >= 4)
        })
}

fn is_uuid(part: &str) -> bool {
    let lengths = part.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && part.split('-').all(is_hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weigh(others: Others, key: &str, value: &str) -> Word {
        Sieve { kept: &["registry", "@*:registry"], others }.weigh("", key, value)
    }

    #[test]
    fn addresses_lose_their_users_and_odd_ones_go() {
        for (value, shown) in [
            ("https://u:p@host/npm/", Some("https://host/npm/")),
            ("\"https://token@host:8080/@scope/x\"", Some("\"https://host:8080/@scope/x\"")),
            ("https://${U}:${P}@host/", Some("https://host/")),
            ("https://u@p@host/", Some("https://host/")),
            ("git+ssh://git@host/x", Some("git+ssh://git@host/x")),
            ("https://host/npm/", Some("https://host/npm/")),
            ("https://u:pa/ss@host/", None),
            ("https://host/?token=x", None),
            ("https://u:p\\u0040host/", None),
            ("u:p@host:80", None),
            ("https://a:b@c/ u:p@host", None),
        ] {
            assert_eq!(without_users(value).as_deref(), shown, "{value}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_left_out() {
        for (key, value) in [
            ("_authToken", "x"),
            ("//host/:_password", "aHVudGVyMg=="),
            ("npmAuthIdent", "me:x"),
            ("foo", "swordfish"),
            ("registry", "https://host/0a1b2c3d4e5f6a7b8c9d/npm/"),
            ("registry", "https://host/t/01234567-89ab-cdef-0123-456789abcdef/npm/"),
            ("registry", "npm_0123456789abcdefghijABCDEFGHIJ012345"),
            ("_authToken", "${TOKEN:-secret}"),
        ] {
            assert_eq!(weigh(Others::Plain, key, value), Word::Drop, "{key}={value}");
        }
        for (key, value) in [
            ("registry", "https://host/npm-remote-2024/"),
            ("@scope:registry", "http://127.0.0.1:4873/"),
            ("fund", "false"),
            ("fetch-retries", "5"),
            ("_authToken", "${NPM_TOKEN}"),
            ("npmAuthToken", "\"${NPM_TOKEN:-}\""),
        ] {
            assert_eq!(weigh(Others::Plain, key, value), Word::Keep, "{key}={value}");
        }
        assert_eq!(weigh(Others::Kept, "foo", "bar baz"), Word::Keep);
        assert_eq!(weigh(Others::Blank, "nexusPassword", "x"), Word::Change(String::new()));
    }

    #[test]
    fn comments_stay_unless_they_were_settings_with_secrets() {
        for comment in ["# see the wiki", "; registry=https://host/", "# the token is set in CI"] {
            assert!(Sieve::shows_comment(comment), "{comment}");
        }
        for comment in [
            "#_authToken=x",
            "# //host/:_password=x",
            "# https://u:p@host/",
            "<password>x</password>",
        ] {
            assert!(!Sieve::shows_comment(comment), "{comment}");
        }
    }
}
