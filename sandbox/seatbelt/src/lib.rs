//! A [`SandboxSpec`] as the text of a Seatbelt profile (`sandbox-exec(1)`, the profile language of Apple's
//! sandbox): a pure function.
//!
//! The last rule that matches decides, so grants come first and refusals after them. Every refusal carries a
//! message with the number of its rule: a denial in the system's log leads back to it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use stockade_spec::{Access, FileRule, Network, SandboxSpec};

/// Rules that every program needs to start, and that shells and compilers need of the system.
const BASE: &str = "\
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow user-preference-read)
(allow ipc-posix-sem)
(allow file-ioctl (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/random\") (literal \"/dev/urandom\") (literal \"/dev/tty\"))
(allow pseudo-tty)
";

/// Settings of the kernel that may be read.
const SYSCTLS: &[&str] = &[
    "hw.activecpu",
    "hw.byteorder",
    "hw.cachelinesize",
    "hw.cputype",
    "hw.logicalcpu",
    "hw.machine",
    "hw.memsize",
    "hw.model",
    "hw.ncpu",
    "hw.pagesize",
    "hw.physicalcpu",
    "kern.argmax",
    "kern.hostname",
    "kern.maxfilesperproc",
    "kern.osproductversion",
    "kern.osrelease",
    "kern.ostype",
    "kern.osversion",
    "kern.version",
    "sysctl.proc_translated",
    "vm.loadavg",
];

/// Services of the system that programs look up: accounts, trust, logging. None of them starts a program.
const SERVICES: &[&str] = &[
    "com.apple.SecurityServer",
    "com.apple.logd",
    "com.apple.system.logger",
    "com.apple.system.notification_center",
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
    "com.apple.trustd",
    "com.apple.trustd.agent",
];

/// Devices that may be written.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/tty", "/dev/stdout", "/dev/stderr", "/dev/ptmx"];

/// Directories that are links into `/private` on every macOS.
const LINKED: &[&str] = &["/tmp", "/var", "/etc"];

/// Returns the profile that enforces `spec`.
///
/// Limits, descriptors and the environment are no part of a profile; the launcher sees to them.
pub fn profile(spec: &SandboxSpec) -> String {
    let mut text =
        String::from("(version 1)\n(deny default (with message \"stockade: default\"))\n");
    if !spec.confine {
        return "(version 1)\n(allow default)\n".to_owned();
    }
    text.push_str(BASE);
    list(&mut text, "allow sysctl-read", "sysctl-name", SYSCTLS);
    list(&mut text, "allow mach-lookup", "global-name", SERVICES);
    reading(&mut text, spec);
    writing(&mut text, spec);
    names(&mut text, spec);
    patterns(&mut text, spec);
    network(&mut text, spec);
    text
}

fn list(text: &mut String, operation: &str, filter: &str, values: &[&str]) {
    line(text, format_args!("({operation}"));
    for value in values {
        line(text, format_args!("  ({filter} {})", quoted(value.as_bytes())));
    }
    line(text, format_args!(")"));
}

/// Writing to a text cannot fail.
fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{words}");
}

/// Reading: the more specific path wins, so shorter ones come first; of equal ones the refusal is the last.
fn reading(text: &mut String, spec: &SandboxSpec) {
    line(text, format_args!("(allow file-read*)"));
    let mut rules: Vec<(usize, &FileRule)> = spec.files.rules.iter().enumerate().collect();
    rules.sort_by_key(|(_, rule)| (depth(&rule.path), rule.access == Access::None));
    for (number, rule) in rules {
        let path = canonical(&rule.path);
        match rule.access {
            Access::None => {
                // Not even its size and times; its own name stays.
                for operation in ["file-read*", "file-read-metadata", "process-exec"] {
                    refuse(text, operation, &path, number);
                }
            }
            Access::Read | Access::Write => {
                line(text, format_args!("(allow file-read* (subpath {}))", path_text(&path)));
                line(text, format_args!("(allow process-exec (subpath {}))", path_text(&path)));
            }
            Access::ReadOnly | Access::Protected | Access::Kept => {}
        }
    }
}

/// Writing: every grant, then every refusal, whatever is more specific.
fn writing(text: &mut String, spec: &SandboxSpec) {
    list(text, "allow file-write*", "literal", DEVICES);
    let rules = || spec.files.rules.iter().enumerate();
    let own = spec.files.private_tmp.iter().cloned();
    let granted =
        rules().filter(|(_, rule)| rule.access == Access::Write).map(|it| it.1.path.clone());
    let regions: BTreeSet<PathBuf> = granted.chain(own).map(|path| canonical(&path)).collect();
    for region in &regions {
        line(text, format_args!("(allow file-write* (subpath {}))", path_text(region)));
    }
    for (number, rule) in rules() {
        let refuses = match rule.access {
            Access::ReadOnly | Access::Protected | Access::None => true,
            // Nothing answers single calls there.
            Access::Write | Access::Read | Access::Kept => false,
        };
        if !refuses {
            continue;
        }
        let path = canonical(&rule.path);
        // A region inside of what cannot be read is still a region.
        if rule.access != Access::None || !regions.iter().any(|region| region.starts_with(&path)) {
            refuse(text, "file-write*", &path, number);
        }
        // Directories above the path cannot be renamed, removed or exchanged.
        let above = path.ancestors().skip(1);
        for above in
            above.take_while(|above| regions.iter().any(|region| above.starts_with(region)))
        {
            let above = path_text(above);
            line(
                text,
                format_args!(
                    "(deny file-write-unlink (literal {above}) (with message \"stockade: rule {number}\"))"
                ),
            );
        }
    }
}

/// Names that may not come into being anywhere in a writable region, in whatever case.
fn names(text: &mut String, spec: &SandboxSpec) {
    for name in &spec.files.guarded_names {
        let pattern = any_case(name.as_bytes());
        line(
            text,
            format_args!(
                "(deny file-write* (regex #\"/{pattern}(/|$)\") (with message \"stockade: guarded name\"))"
            ),
        );
    }
}

/// Files that a pattern names, whenever they come to be. A class of characters stands for any of them.
fn patterns(text: &mut String, spec: &SandboxSpec) {
    for rule in &spec.files.patterns {
        let mut whole = String::new();
        for name in canonical(&rule.path).components() {
            let std::path::Component::Normal(name) = name else { continue };
            match name.as_bytes() {
                b"**" => whole.push_str("(/[^/]+)*"),
                name => whole.push_str(&format!("/{}", wild(name))),
            }
        }
        line(
            text,
            format_args!(
                "(deny file-write* (regex #\"^{whole}(/|$)\") (with message \"stockade: pattern\"))"
            ),
        );
    }
}

/// Returns the pattern of one name in the profile language.
fn wild(name: &[u8]) -> String {
    let mut rest = name;
    let mut pattern = String::new();
    while let Some(at) = rest.iter().position(|byte| b"*?[".contains(byte)) {
        let (plain, wild) = rest.split_at(at);
        pattern.push_str(&any_case(plain));
        let (piece, length) = match wild {
            [b'*', ..] => ("[^/]*", 1),
            [b'[', inner @ ..] => {
                // A bracket that is the first one inside is one of the characters.
                let first = 1 + usize::from(inner.starts_with(b"!"));
                let end = inner.iter().skip(first).position(|byte| *byte == b']');
                ("[^/]", end.map_or(wild.len(), |end| end + first + 2))
            }
            _ => ("[^/]", 1),
        };
        pattern.push_str(piece);
        rest = wild.get(length..).unwrap_or_default();
    }
    pattern + &any_case(rest)
}

fn network(text: &mut String, spec: &SandboxSpec) {
    let mut outbound =
        |filter: String| line(text, format_args!("(allow network-outbound {filter})"));
    match spec.network {
        Network::Host => {
            line(text, format_args!("(allow network*)"));
            return;
        }
        Network::Off => {}
        Network::Proxy { http, socks } => {
            for port in [http, socks] {
                outbound(format!("(remote tcp \"localhost:{port}\")"));
            }
        }
    }
    let regions = spec.files.rules.iter().filter(|rule| rule.access == Access::Write);
    let sockets =
        regions.map(|rule| &rule.path).chain(&spec.files.sockets).chain(&spec.files.private_tmp);
    let sockets: BTreeSet<PathBuf> = sockets.map(|path| canonical(path)).collect();
    for socket in sockets {
        let path = path_text(&socket);
        line(text, format_args!("(allow network-outbound (remote unix-socket (subpath {path})))"));
        line(text, format_args!("(allow network-bind (local unix-socket (subpath {path})))"));
    }
}

/// Refuses `operation` on `path` and all beneath. A path that is not ASCII may be written in another normal
/// form of Unicode: a pattern with any text in the place of those characters refuses these, too.
fn refuse(text: &mut String, operation: &str, path: &Path, number: usize) {
    let tag = format!("(with message \"stockade: rule {number}\")");
    line(text, format_args!("(deny {operation} (subpath {}) {tag})", path_text(path)));
    let pattern = any_case(path.as_os_str().as_bytes());
    line(text, format_args!("(deny {operation} (regex #\"^{pattern}(/|$)\") {tag})"));
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

/// Returns the path behind the links that every macOS has.
fn canonical(path: &Path) -> PathBuf {
    match LINKED.iter().any(|linked| path.starts_with(linked)) {
        true => Path::new("/private").join(path.strip_prefix("/").unwrap_or(path)),
        false => path.to_path_buf(),
    }
}

fn path_text(path: &Path) -> String {
    quoted(path.as_os_str().as_bytes())
}

/// Returns `bytes` as a string of the profile language: printable ASCII as it is, all else by its number.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text.push('"');
    text
}

/// Returns a pattern that matches `bytes` in whatever letter case, and any text in the place of what is not
/// printable ASCII or would end the pattern.
fn any_case(bytes: &[u8]) -> String {
    let mut pattern = String::new();
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {
                let (lower, upper) = (byte.to_ascii_lowercase(), byte.to_ascii_uppercase());
                pattern.extend(['[', char::from(lower), char::from(upper), ']']);
            }
            b'0'..=b'9' | b'/' | b'_' | b'-' | b' ' | b',' | b':' | b'=' | b'@' | b'%' | b'~' => {
                pattern.push(char::from(*byte));
            }
            b'!' | b'#' | b'&' | b'\'' | b';' | b'<' | b'>' | b'`' => {
                pattern.push(char::from(*byte))
            }
            b'.' | b'*' | b'+' | b'?' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'|' | b'$' => {
                pattern.extend(['[', char::from(*byte), ']']);
            }
            _ if pattern.ends_with(".*") => {}
            _ => pattern.push_str(".*"),
        }
    }
    pattern
}

#[cfg(test)]
mod tests;
