//! How the names of programs vary, from `policies/commands/names.jsonc`: versions, builds, machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use stockade_text::json;
use stockade_text::json::{Dialect, Value};

/// The table of names that is built in.
const TEXT: &str = include_str!("../../../policies/commands/names.jsonc");

/// Parts that are taken off one name; a longer one is not a variant.
const MOST_PARTS: usize = 16;
/// Bytes of a name; a longer one is not a variant.
const LONGEST: usize = 128;

/// Facts about names.
#[derive(Debug)]
pub(super) struct Names {
    /// Programs that are installed under further names.
    pub varied: BTreeSet<String>,
    builds: BTreeSet<String>,
    machines: BTreeSet<String>,
    nameless: BTreeSet<String>,
    /// Endings of files that are programs of their own, whatever stands in front.
    scripts: BTreeSet<String>,
    /// Further names of programs.
    same: BTreeMap<String, String>,
    /// Names of variables with a star for what varies in them.
    variables: BTreeSet<String>,
    /// Commands that print a number, each as its words.
    numbers: Vec<Vec<String>>,
}

impl Names {
    /// Returns the built-in table; none if it cannot be read, which makes what is asked doubtful.
    pub(super) fn builtin() -> Option<&'static Names> {
        static NAMES: OnceLock<Option<Names>> = OnceLock::new();
        NAMES.get_or_init(|| Names::read(TEXT)).as_ref()
    }

    fn read(text: &str) -> Option<Names> {
        let value = json::read(text.as_bytes(), Dialect::Commented).ok()?;
        let list = |key: &str| -> Option<BTreeSet<String>> {
            let items = value.get(key).and_then(Value::elements)?;
            items.iter().map(|item| item.text().map(str::to_owned)).collect()
        };
        let same = value.get("same").and_then(Value::members)?;
        let one = |name: &str, of: &Value| Some((name.to_owned(), of.text()?.to_owned()));
        Some(Names {
            same: same
                .iter()
                .map(|member| one(&member.key, &member.value))
                .collect::<Option<_>>()?,
            varied: list("varied")?,
            builds: list("builds")?,
            machines: list("machines")?,
            nameless: list("nameless")?,
            scripts: list("scripts")?,
            variables: list("variables")?,
            numbers: list("numbers")?
                .iter()
                .map(|form| form.split(' ').map(str::to_owned).collect())
                .collect(),
        })
    }

    /// Says whether a command of these words prints one whole number and nothing else, or nothing at all.
    pub(super) fn prints_number(&self, words: &[&[u8]]) -> bool {
        let fits = |(wanted, word): (&String, &&[u8])| match wanted.strip_suffix('*') {
            Some("") => !word.starts_with(b"-"),
            Some(beginning) => word.starts_with(beginning.as_bytes()),
            None => wanted.as_bytes() == *word,
        };
        let is_form =
            |form: &Vec<String>| form.len() == words.len() && form.iter().zip(words).all(fits);
        self.numbers.iter().any(is_form)
    }

    /// Returns the program of which `name` is a version, a build or one for a certain machine.
    pub(super) fn base<'n>(&self, name: &'n str) -> Option<&'n str> {
        if name.len() > LONGEST || name.ends_with('=') {
            return None;
        }
        let first = name.split('-').next().filter(|first| self.machines.contains(*first));
        let behind = |(at, _)| name.get(at + 1..);
        let places = name.match_indices('-').filter(|_| first.is_some()).take(MOST_PARTS);
        let without_machine = places.filter_map(behind).find_map(|rest| self.plain(rest));
        without_machine.or_else(|| self.plain(name)).filter(|base| *base != name)
    }

    /// Returns every program of which `name` is a version, a build or one for a certain machine, the nearest first:
    /// `python3` and `python` for `python3.11`; and the program of which one is a further name.
    pub(super) fn all<'n>(&'n self, name: &'n str) -> Vec<&'n str> {
        let script = |(_, ending): (&str, &str)| self.scripts.contains(ending);
        if name.len() > LONGEST || name.rsplit_once('.').is_some_and(script) {
            return Vec::new();
        }
        let base = self.base(name).or_else(|| self.varied.contains(name).then_some(name));
        let mut found: Vec<&str> = base.into_iter().collect();
        let mut rest = base;
        for _ in 0..MOST_PARTS {
            let next = rest.and_then(|rest| self.without_last(rest));
            found.extend(next.filter(|next| self.varied.contains(*next)));
            rest = next;
        }
        let known = found.iter().copied().chain([name]);
        let same: Vec<&str> =
            known.filter_map(|it| self.same.get(it)).map(String::as_str).collect();
        found.extend(same);
        found.retain(|one| *one != name);
        found
    }

    /// Returns the row name of a variable that is one of many alike. npm reads its own in any case.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        let alike = |known: &&String| {
            known.to_ascii_lowercase().split_once('*').is_some_and(|(start, end)| {
                let rest = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
                rest.is_some_and(|rest| !rest.is_empty())
            })
        };
        self.variables.iter().find(alike).map(String::as_str)
    }

    /// Takes off what stands behind the name of a program that varies.
    fn plain<'n>(&self, name: &'n str) -> Option<&'n str> {
        let mut rest = name;
        for _ in 0..MOST_PARTS {
            if self.varied.contains(rest) {
                return Some(rest);
            }
            rest = self.without_machine(rest).or_else(|| self.without_last(rest))?;
        }
        None
    }

    /// Takes `-x86_64-linux-gnu` off.
    fn without_machine<'n>(&self, name: &'n str) -> Option<&'n str> {
        let at = name.match_indices('-').find_map(|(at, _)| {
            let word = name.get(at + 1..)?.split('-').next()?;
            self.machines.contains(word).then_some(at)
        });
        at.and_then(|at| name.get(..at)).filter(|rest| !rest.is_empty())
    }

    /// Takes the last part off: a number, or a build behind a separator.
    fn without_last<'n>(&self, name: &'n str) -> Option<&'n str> {
        const SEPARATORS: [char; 3] = ['-', '.', '_'];
        let build =
            name.rfind(SEPARATORS).and_then(|at| Some((name.get(..at)?, name.get(at + 1..)?)));
        if let Some((rest, last)) = build
            && self.builds.contains(last)
        {
            return Some(rest).filter(|rest| !rest.is_empty());
        }
        let digit = |letter: char| letter.is_ascii_digit();
        // `python3.11d`, `gcc-4.9a`: a letter behind the number.
        let bare = name.strip_suffix(|letter: char| letter.is_ascii_lowercase());
        let bare = bare.filter(|bare| bare.ends_with(digit)).unwrap_or(name);
        let rest = bare.trim_end_matches(digit);
        if rest.len() == bare.len() {
            return None;
        }
        let rest = rest.strip_suffix('v').filter(|rest| rest.ends_with(SEPARATORS)).unwrap_or(rest);
        Some(rest.strip_suffix(SEPARATORS).unwrap_or(rest)).filter(|rest| !rest.is_empty())
    }

    /// Says whether a path, made plain, lies in a directory whose entries may be any program.
    pub(super) fn is_nameless(&self, path: &str) -> bool {
        self.nameless.iter().any(|directory| {
            path.strip_prefix(directory.as_str()).is_some_and(|rest| rest.starts_with('/'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Programs;

    fn base(name: &str) -> Option<&str> {
        Names::builtin().unwrap().base(name)
    }

    #[test]
    fn versions_builds_and_machines_are_taken_off() {
        for (name, expected) in [
            ("perl5.36.0", "perl"),
            ("perl5.36-x86_64-linux-gnu", "perl"),
            ("vim.basic", "vim"),
            ("vim.gtk3", "vim"),
            ("tclsh8.6", "tclsh"),
            ("python3.11-dbg", "python3"),
            ("python3.13t", "python3"),
            ("python3.14", "python3"),
            ("ruby3.1", "ruby"),
            ("lua5.4", "lua"),
            ("php8.2", "php"),
            ("node18", "node"),
            ("node-v18.19.0", "node"),
            ("bash5", "bash"),
            ("bash-static", "bash"),
            ("dash-static", "dash"),
            ("busybox.static", "busybox"),
            ("gcc-12", "gcc"),
            ("x86_64-linux-gnu-gcc-12", "gcc"),
            ("arm-none-eabi-gcc", "gcc"),
            ("i686-w64-mingw32-g++-posix", "g++"),
            ("clang++-14", "clang++"),
            ("ld.gold", "ld"),
            ("x86_64-linux-gnu-ld.bfd", "ld"),
            ("not-14", "not"),
            ("fakeroot-sysv", "fakeroot"),
            ("fakeroot-tcp", "fakeroot"),
            ("emacs-29.1-nox", "emacs"),
            ("go1.21.5", "go"),
            ("valgrind.bin", "valgrind"),
            ("rename.ul", "rename"),
            ("bash.exe", "bash"),
        ] {
            assert_eq!(base(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn other_names_are_no_variants() {
        for name in [
            "perl",
            "curl",
            "python3.11-config",
            "git-lfs",
            "clang-format-14",
            "x86_64",
            "x86_64-linux-gnu-",
            "test1",
            "run.sh",
            "my-gcc-wrapper",
            "7z",
            "-",
            "",
            ".",
            "12",
            "5.36",
            "perldoc",
            "vimtutor",
        ] {
            assert_eq!(base(name), None, "{name}");
        }
        assert_eq!(base(&"-1".repeat(1_000)), None);
    }

    #[test]
    fn a_version_goes_by_the_name_of_each_program_that_it_is_one_of() {
        let all = |name: &'static str| Names::builtin().unwrap().all(name);
        assert_eq!(all("python3.11"), ["python3", "python"]);
        assert_eq!(all("python3.12-dbg"), ["python3", "python"]);
        assert_eq!(all("python3"), ["python"]);
        assert_eq!(all("perl5.36-x86_64-linux-gnu"), ["perl"]);
        assert_eq!(all("x86_64-linux-gnu-gcc-12"), ["gcc"]);
        assert_eq!(all("pip3.11"), ["pip3", "pip"]);
        for name in
            ["python", "perl", "perldoc", "python3-config", "git-lfs", "docker.sh", "sort.py", ""]
        {
            assert_eq!(all(name), Vec::<&str>::new(), "{name}");
        }
    }

    #[test]
    fn variables_that_npm_reads_are_known_in_any_case() {
        let names = Names::builtin().unwrap();
        for name in ["npm_config_script_shell=", "Npm_Config_Script_Shell=", "NPM_CONFIG_X="] {
            assert!(names.variable(name).is_some(), "{name}");
        }
        assert_eq!(names.variable("npm_package_name="), None);
    }

    #[test]
    fn each_varied_name_has_a_row() {
        let rows: BTreeSet<&str> = Programs::builtin().names().collect();
        let names = Names::builtin().unwrap();
        let missing: Vec<_> =
            names.varied.iter().filter(|name| !rows.contains(name.as_str())).collect();
        assert_eq!(missing, Vec::<&String>::new());
    }
}
