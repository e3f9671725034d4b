//! The state in which bash starts: what the parser may assume about it.

use std::collections::{BTreeMap, BTreeSet};

/// Facts about the shell before it reads the first byte of the text.
///
/// The gateway makes each field true when it starts the shell; a field that is not known to hold makes
/// the tree opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartState {
    /// Version of bash, major and minor.
    pub version: (u32, u32),
    /// The zsh that runs the text in place of bash, if one does. What both do not read alike makes the tree opaque.
    pub zsh: Option<crate::Zsh>,
    /// The text is read by `bash --noprofile --norc -c`, not in POSIX mode, without aliases and history.
    pub plain_options: bool,
    /// No variable that changes how bash reads a text is in the environment, and `HOME` begins with `/`
    /// and holds no blank and no character of a pattern, unless `known` has it.
    pub clean_environment: bool,
    /// The locale is C or UTF-8.
    pub utf8_or_c: bool,
    /// Bash has no operands behind the text: `$1` and on are unset.
    pub no_operands: bool,
    /// Standard input is empty: whoever reads it meets its end at once.
    pub stdin_empty: bool,
    /// The environment holds only the names in `known` and `present`: other variables are unset.
    pub closed_environment: bool,
    /// Names of variables in the environment whose values are not told.
    pub present: BTreeSet<Vec<u8>>,
    /// Values of variables that are known exactly, such as `HOME`.
    pub known: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for StartState {
    fn default() -> StartState {
        StartState {
            version: (5, 2),
            zsh: None,
            plain_options: true,
            clean_environment: true,
            utf8_or_c: true,
            no_operands: true,
            stdin_empty: false,
            closed_environment: false,
            present: BTreeSet::new(),
            known: BTreeMap::new(),
        }
    }
}

/// The builtins of bash 5.2, sorted.
const BUILTINS: &[&[u8]] = &[
    b".",
    b":",
    b"[",
    b"alias",
    b"bg",
    b"bind",
    b"break",
    b"builtin",
    b"caller",
    b"cd",
    b"command",
    b"compgen",
    b"complete",
    b"compopt",
    b"continue",
    b"declare",
    b"dirs",
    b"disown",
    b"echo",
    b"enable",
    b"eval",
    b"exec",
    b"exit",
    b"export",
    b"false",
    b"fc",
    b"fg",
    b"getopts",
    b"hash",
    b"help",
    b"history",
    b"jobs",
    b"kill",
    b"let",
    b"local",
    b"logout",
    b"mapfile",
    b"popd",
    b"printf",
    b"pushd",
    b"pwd",
    b"read",
    b"readarray",
    b"readonly",
    b"return",
    b"set",
    b"shift",
    b"shopt",
    b"source",
    b"suspend",
    b"test",
    b"times",
    b"trap",
    b"true",
    b"type",
    b"typeset",
    b"ulimit",
    b"umask",
    b"unalias",
    b"unset",
    b"wait",
];

/// Says whether bash has a builtin of this name.
pub(crate) fn is_builtin(name: &[u8]) -> bool {
    BUILTINS.binary_search(&name).is_ok()
}

/// Builtins of bash that others called sh have not: there they are programs.
const BASH_BUILTINS: &[&[u8]] = &[
    b"bind",
    b"builtin",
    b"caller",
    b"compgen",
    b"complete",
    b"compopt",
    b"declare",
    b"dirs",
    b"disown",
    b"enable",
    b"help",
    b"history",
    b"let",
    b"logout",
    b"mapfile",
    b"popd",
    b"pushd",
    b"readarray",
    b"shopt",
    b"source",
    b"suspend",
    b"typeset",
];

/// Says whether a builtin of bash is one of every shell that is called sh, or does no more than one.
pub(crate) fn is_posix_builtin(name: &[u8]) -> bool {
    BASH_BUILTINS.binary_search(&name).is_err()
}

/// Variables that change what the text after their assignment means.
const STATE_VARIABLES: &[&[u8]] = &[
    b"PATH",
    b"EXECIGNORE",
    b"BASH_LOADABLES_PATH",
    b"BASH_CMDS",
    b"BASH_ALIASES",
    b"BASH_ENV",
    b"BASH_ARGV0",
    b"ENV",
    b"PROMPT_COMMAND",
    b"PS0",
    b"PS1",
    b"PS2",
    b"PS4",
    b"IFS",
    b"BASH_COMPAT",
    b"POSIXLY_CORRECT",
    b"LANG",
    b"GLOBIGNORE",
    b"BASH_XTRACEFD",
    b"TMPDIR",
    b"CDPATH",
    b"OLDPWD",
    b"SHELLOPTS",
    b"BASHOPTS",
    b"TEXTDOMAIN",
    b"TEXTDOMAINDIR",
];

/// Says why a change of this variable changes what follows; none if it does not.
pub(crate) fn effect_of(name: &[u8], value: Option<&crate::Word>) -> Option<String> {
    if !name.first().is_some_and(u8::is_ascii_uppercase) {
        return None;
    }
    let listed = STATE_VARIABLES.contains(&name)
        || [b"LD_".as_slice(), b"DYLD_", b"BASH_FUNC_", b"LC_"].iter().any(|p| name.starts_with(p));
    if !listed {
        return None;
    }
    let exact = value.and_then(crate::Word::exact);
    let harmless = match exact {
        Some(value) if name == b"LANG" || name.starts_with(b"LC_") => is_utf8_or_c(value),
        // A prompt is decoded first: `\044` is a `$`.
        Some(value) if name.starts_with(b"PS") => !value.iter().any(|byte| b"$`\\".contains(byte)),
        Some(_) | None => false,
    };
    (!harmless).then(|| format!("`{}` is changed", String::from_utf8_lossy(name)))
}

/// Says whether a locale is C or UTF-8; an empty one means another variable decides.
fn is_utf8_or_c(locale: &[u8]) -> bool {
    let lower = locale.to_ascii_lowercase();
    matches!(lower.as_slice(), b"c" | b"posix")
        || lower.ends_with(b".utf-8")
        || lower.ends_with(b".utf8")
}
