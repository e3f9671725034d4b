//! The aliases and functions of a person, which a command text may use.
//!
//! The person hands them over once; nothing is taken from start files. A text that calls one of them is written out with it before it
//! is judged, and what was judged is what runs: an alias in place of its name, as a shell that knows it does, and
//! a function in front of the text. So no definition allows anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stockade_parser::{
    CommandKind, CommandTree, Limits, Programs, Reason, SimpleCommand, StartState, Witness,
};

use stockade_wire::errors::{Code, Failure};

/// Most bytes of all definitions.
pub const LARGEST: u64 = 256 << 10;
/// Aliases of aliases that are followed.
const DEEPEST: usize = 16;

/// Definitions by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions {
    /// Value of the alias.
    pub aliases: BTreeMap<String, String>,
    /// The whole definition.
    pub functions: BTreeMap<String, String>,
}

/// Returns the file in which they are kept.
pub fn file(state: &Path) -> PathBuf {
    state.join("definitions.json")
}

impl Definitions {
    /// Reads what is kept in the state; nothing is kept as long as nobody handed any over.
    pub fn read(state: &Path) -> Result<Definitions, Failure> {
        let path = file(state);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|it| it.take(2 * LARGEST).read_to_end(&mut bytes));
        let broken = |why: &str| {
            let message =
                format!("the definitions in `{}` are not readable: {why}", path.display());
            let help = "make them anew with `stockade snapshot`, or remove them with `stockade snapshot --remove`";
            Failure::new(Code::StateUnusable, message, help)
        };
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Definitions::default()),
            Err(error) => return Err(broken(&error.to_string())),
            Ok(_) => {}
        }
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| broken("no valid JSON"))?;
        let map = |key: &str| -> Option<BTreeMap<String, String>> {
            let object = value.get(key)?.as_object()?;
            object.iter().map(|(name, it)| Some((name.clone(), it.as_str()?.to_owned()))).collect()
        };
        let found = map("aliases").zip(map("functions"));
        let (aliases, functions) = found.ok_or_else(|| broken("keys are missing"))?;
        Ok(Definitions { aliases, functions })
    }

    /// Keeps them in the state, in place of what was kept there.
    pub fn keep(&self, state: &Path) -> io::Result<()> {
        let text = json!({ "aliases": self.aliases, "functions": self.functions }).to_string();
        let new = state.join(format!("definitions.{}.tmp", std::process::id()));
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&new)?.write_all(text.as_bytes())?;
        fs::rename(new, file(state))
    }

    /// Says whether there is none.
    pub fn is_empty(&self) -> bool {
        self.aliases.is_empty() && self.functions.is_empty()
    }

    /// Returns `text` with what it uses of them, if it uses any.
    pub fn written_out(&self, text: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let aliased = self.without_aliases(text);
        let body = aliased.as_deref().unwrap_or(text);
        let functions = self.called_by(body);
        match functions.is_empty() {
            true => aliased,
            false => {
                let texts = functions.iter().filter_map(|name| self.functions.get(*name));
                let before: Vec<&str> = texts.map(|it| it.trim_end()).collect();
                Some(format!("{}\n{body}", before.join("\n")))
            }
        }
    }

    /// Returns `text` with each alias in place of its name.
    fn without_aliases(&self, text: &str) -> Option<String> {
        let tree = tree_of(text);
        let mut written = text.to_owned();
        let mut places: Vec<(usize, usize, String)> = Vec::new();
        for command in tree.commands().iter().filter(|it| is_written(it)) {
            let Some(word) = command.words.first() else { continue };
            let (start, end) = (word.span.start as usize, word.span.end as usize);
            // A quoted word is not an alias (bash manual, 6.6), and a nested text has no place here.
            let name = text.get(start..end).filter(|it| word.exact() == Some(it.as_bytes()));
            if let Some(value) = name.and_then(|name| self.value(name)) {
                places.push((start, end, value));
            }
        }
        places.sort();
        places.dedup();
        for (start, end, value) in places.iter().rev() {
            written.replace_range(*start..*end, value);
        }
        (!places.is_empty()).then_some(written)
    }

    /// Returns the value of an alias with its first word expanded; an alias is not expanded in its own value.
    fn value(&self, name: &str) -> Option<String> {
        let mut value = self.aliases.get(name)?.clone();
        let mut seen = BTreeSet::from([name.to_owned()]);
        for _ in 0..DEEPEST {
            let first: String = value.chars().take_while(|it| !it.is_whitespace()).collect();
            let Some(next) = self.aliases.get(&first).filter(|_| !seen.contains(&first)) else {
                break;
            };
            value.replace_range(..first.len(), next);
            seen.insert(first);
        }
        Some(value)
    }

    /// Returns the functions that a text calls, and those that these call.
    fn called_by(&self, text: &str) -> BTreeSet<&str> {
        let mut called = BTreeSet::new();
        let mut texts = vec![text];
        while let Some(text) = texts.pop() {
            for command in tree_of(text).commands() {
                let name = command.words.first().and_then(|word| word.exact());
                let name = name.and_then(|it| std::str::from_utf8(it).ok());
                let known = name.and_then(|it| self.functions.get_key_value(it));
                if let Some((name, definition)) = known
                    && is_written(command)
                    && called.insert(name.as_str())
                {
                    texts.push(definition);
                }
            }
        }
        called
    }
}

/// Says whether the shell of the text itself looks up the name of a command, which the text does not define.
fn is_written(command: &SimpleCommand) -> bool {
    command.via.is_empty() && command.kind != CommandKind::Function
}

/// Reads a text for the names in it: nothing is decided by this tree.
fn tree_of(text: &str) -> CommandTree {
    let (state, limits) = (StartState::default(), Limits::default());
    let draft = stockade_parser::parse(text.as_bytes(), &state, Programs::builtin(), &limits);
    let absent = draft.requests().map(|_| Witness::Absent(stockade_parser::Absence::Dead));
    let absent: Vec<Witness> = absent.collect();
    draft.confirm(&absent)
}

/// A definition as the shell of a person printed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Printed {
    /// `alias NAME=VALUE`.
    Alias(String, String),
    /// `NAME () { … }`.
    Function(String, String),
    /// Any other text; its first line.
    Other(String),
}

/// Reads what `alias -p` and `declare -f` of bash print.
pub fn printed(text: &str) -> Vec<Printed> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("alias ") {
            found.push(alias(line).unwrap_or_else(|| Printed::Other(line.to_owned())));
        } else if let Some(name) = line.trim_end().strip_suffix("()").map(str::trim) {
            let mut body = vec![line.trim_end()];
            // `declare -f` ends each definition with a brace of its own line.
            for line in lines.by_ref() {
                body.push(line);
                if line == "}" {
                    break;
                }
            }
            found.push(Printed::Function(name.to_owned(), body.join("\n")));
        } else if !line.trim().is_empty() {
            found.push(Printed::Other(line.to_owned()));
        }
    }
    found
}

fn alias(line: &str) -> Option<Printed> {
    let tree = tree_of(line);
    let command = tree.commands().first().filter(|it| it.raw(&tree) == line.as_bytes())?;
    let word = command.words.get(1).filter(|_| command.words.len() == 2)?;
    let (name, value) = std::str::from_utf8(word.exact()?).ok()?.split_once('=')?;
    Some(Printed::Alias(name.to_owned(), value.to_owned()))
}

/// Says why a definition cannot be used; nothing where it can. `tree` is that of its text, as parser and witness read it.
pub fn hindrance(definition: &Printed, tree: &CommandTree) -> Option<&'static str> {
    let is_name = |name: &str| {
        let plain = |it: char| it.is_ascii_alphanumeric() || "_-.:+@%".contains(it);
        !name.is_empty() && name.chars().all(plain) && !KEYWORDS.contains(&name)
    };
    let is_unread = || tree.opaque_spans().iter().any(|it| it.reason == Reason::Syntax);
    match definition {
        Printed::Other(_) => Some("not an alias or a function as bash prints them"),
        Printed::Alias(name, _) | Printed::Function(name, _) if !is_name(name) => {
            Some("its name is a keyword, or has characters that are not read")
        }
        Printed::Alias(_, value)
            if value.trim().is_empty() || value.contains(['\n', '#', '\0']) =>
        {
            Some("its value is empty, of several lines, or may hold a comment")
        }
        // A value that continues in the following words cannot be judged now.
        Printed::Alias(_, value) if value.ends_with([' ', '\t', '\\', '&', '|', ';', '<', '>']) => {
            Some("its value continues in the words after it")
        }
        Printed::Alias(..) | Printed::Function(..) if is_unread() => {
            Some("its text is not understood")
        }
        Printed::Alias(..) if tree.commands().is_empty() => Some("it starts nothing"),
        Printed::Function(_, text) if !text.ends_with("\n}") => Some("its end is missing"),
        Printed::Function(..) if tree.commands().iter().any(is_at_top) => {
            Some("the text holds more than one function")
        }
        Printed::Alias(..) | Printed::Function(..) => None,
    }
}

fn is_at_top(command: &SimpleCommand) -> bool {
    matches!(
        command.position,
        stockade_parser::Position::Top | stockade_parser::Position::Pipeline(_)
    )
}

/// Words that begin or end more than a command (bash manual, 3.2).
const KEYWORDS: [&str; 18] = [
    "if", "then", "elif", "else", "fi", "time", "for", "in", "until", "while", "do", "done",
    "case", "esac", "coproc", "select", "function", "!",
];

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    fn some() -> Definitions {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned())).collect()
        };
        Definitions {
            aliases: map(&[("ll", "ls -l"), ("ls", "ls --color"), ("gs", "git status")]),
            functions: map(&[
                ("up", "up () \n{ \n    cd ..;\n    twice\n}"),
                ("twice", "twice () \n{ \n    gs\n}"),
            ]),
        }
    }

    #[test]
    fn an_alias_stands_in_place_of_its_name_where_a_shell_would_put_it() {
        let written = |text: &str| some().written_out(text);
        for (text, expected) in [
            ("ll", "ls --color -l"),
            ("ls; gs -s | cat", "ls --color; git status -s | cat"),
            ("x=$(gs) ll a", "x=$(git status) ls --color -l a"),
            ("for i in 1; do gs; done", "for i in 1; do git status; done"),
        ] {
            assert_eq!(written(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["echo ll", "'ll'", "\\ll", "bash -c ll", "eval ll", "x/ll", "cat <<E\nll\nE"] {
            assert_eq!(written(text), None, "{text}");
        }
        assert_eq!(Definitions::default().written_out("ll"), None);
    }

    #[test]
    fn a_function_stands_in_front_with_those_that_it_calls() {
        let written = some().written_out("up && echo x").unwrap();
        assert_eq!(
            written,
            "twice () \n{ \n    gs\n}\nup () \n{ \n    cd ..;\n    twice\n}\nup && echo x"
        );
        // A text has the last word about its own names.
        assert_eq!(some().written_out("up() { echo mine; }; up"), None);
        assert_eq!(some().written_out("echo up"), None);
    }

    #[test]
    fn what_bash_prints_is_read_and_what_cannot_be_used_says_why() {
        let text =
            "alias ll='ls -l'\nalias q='it'\\''s \"x\"'\nup () \n{ \n    cd ..\n}\necho hello\n";
        let read = printed(text);
        assert_eq!(
            read,
            [
                Printed::Alias("ll".into(), "ls -l".into()),
                Printed::Alias("q".into(), "it's \"x\"".into()),
                Printed::Function("up".into(), "up ()\n{ \n    cd ..\n}".into()),
                Printed::Other("echo hello".into()),
            ]
        );
        let alias = |name: &str, value: &str| {
            let alias = Printed::Alias(name.into(), value.into());
            hindrance(&alias, &tree_of(value)).is_some()
        };
        assert!(!alias("ll", "ls -l"));
        for (name, value) in
            [("if", "ls"), ("a b", "ls"), ("x", "sudo "), ("x", "ls |"), ("x", "a # b"), ("x", "'")]
        {
            assert!(alias(name, value), "{name}={value}");
        }
        for (text, is_usable) in [
            ("f ()\n{ \n    ls\n}", true),
            ("f ()\n{ \n    ls", false),
            ("f ()\n{ \n    ls\n}; ls; g ()\n{ \n    ls\n}", false),
        ] {
            let function = Printed::Function("f".into(), text.into());
            assert_eq!(hindrance(&function, &tree_of(text)).is_none(), is_usable, "{text}");
        }
    }

    #[test]
    fn what_is_kept_is_read_again_and_what_is_broken_is_an_error() {
        let folder = Folder::new();
        assert_eq!(Definitions::read(folder.path()), Ok(Definitions::default()));
        some().keep(folder.path()).unwrap();
        assert_eq!(Definitions::read(folder.path()), Ok(some()));
        fs::write(file(folder.path()), "{}").unwrap();
        assert_eq!(Definitions::read(folder.path()).unwrap_err().code, Code::StateUnusable);
    }
}
