//! The arguments of a shell (bash manual, 6.1), as far as they say what is to run.

/// Command that a shell was asked to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A text, with nothing that changes how it is read.
    Text(String),
    /// These words behind the shell's own name: options that count, a text or script, positional parameters.
    Words(Vec<String>),
    /// The text is on standard input, if that is not a terminal; with options that count and positional parameters.
    Input {
        /// Options that count.
        options: Vec<String>,
        /// Positional parameters.
        parameters: Vec<String>,
    },
}

/// Options without effect on a command: ours starts a shell that is neither a login shell nor interactive, and
/// reads no file before the command.
const IGNORED: [&str; 4] = ["--login", "--noprofile", "--norc", "--noediting"];
/// The same, with a file that is not read.
const IGNORED_WITH_FILE: [&str; 2] = ["--rcfile", "--init-file"];
/// Options that are handed on, for they change what a text does.
const KEPT: [&str; 3] = ["--posix", "--restricted", "--verbose"];
/// Letters of the same two kinds; `c` and `s` say where the text is, `o` and `O` take a word.
const IGNORED_LETTERS: &str = "li";
const KEPT_LETTERS: &str = "abefhkmnprtuvxBCDEHPT";

/// Reads the words behind the shell's name; an error says which is not understood.
pub(crate) fn read(arguments: &[String]) -> Result<Asked, String> {
    let mut found = Found::default();
    let mut words = arguments.iter();
    let mut rest: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" | "-" => break,
            long if IGNORED.contains(&long) => {}
            long if IGNORED_WITH_FILE.contains(&long) => {
                words.next().ok_or_else(|| format!("`{long}` needs a file"))?;
            }
            long if KEPT.contains(&long) => found.options.push(long.to_owned()),
            long if long.starts_with("--") => {
                return Err(format!("unknown option `{long}`"));
            }
            short if short.starts_with(['-', '+']) && short.len() > 1 => {
                found.letters(short, &mut words)?;
            }
            _ => {
                rest.push(word.clone());
                break;
            }
        }
    }
    rest.extend(words.cloned());
    found.asked(rest)
}

#[derive(Default)]
struct Found {
    options: Vec<String>,
    text: bool,
    input: bool,
}

impl Found {
    /// Reads a cluster of letters such as `-lc`.
    fn letters<'a>(
        &mut self,
        cluster: &str,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let sign = if cluster.starts_with('-') { '-' } else { '+' };
        for letter in cluster.chars().skip(1) {
            match letter {
                'c' if sign == '-' => self.text = true,
                's' if sign == '-' => self.input = true,
                'o' | 'O' => {
                    let name = words.next().filter(|word| !word.starts_with(['-', '+']));
                    let name = name.ok_or_else(|| format!("`{sign}{letter}` needs a name"))?;
                    self.options.extend([format!("{sign}{letter}"), name.clone()]);
                }
                _ if IGNORED_LETTERS.contains(letter) => {}
                _ if KEPT_LETTERS.contains(letter) => self.options.push(format!("{sign}{letter}")),
                _ => return Err(format!("unknown option `{sign}{letter}`")),
            }
        }
        Ok(())
    }

    fn asked(self, mut rest: Vec<String>) -> Result<Asked, String> {
        let Found { options, text, input } = self;
        if text {
            return match (rest.len(), options.is_empty()) {
                (0, _) => Err("`-c` needs a text".into()),
                (1, true) => Ok(Asked::Text(rest.remove(0))),
                (_, _) => Ok(Asked::Words([options, vec!["-c".into()], rest].concat())),
            };
        }
        if input || rest.is_empty() {
            return Ok(Asked::Input { options, parameters: rest });
        }
        Ok(Asked::Words([options, rest].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Result<Asked, String> {
        read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn words(words: &[&str]) -> Asked {
        Asked::Words(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn the_forms_of_agents_are_one_text() {
        let forms: [&[&str]; 9] = [
            &["-c", "ls -l"],
            &["-l", "-c", "ls -l"],
            &["-c", "-l", "ls -l"],
            &["-lc", "ls -l"],
            &["-ic", "ls -l"],
            &["-i", "-l", "-c", "ls -l"],
            &["--login", "-c", "ls -l"],
            &["--noprofile", "--norc", "--rcfile", "/tmp/x", "-c", "ls -l"],
            &["-c", "--", "ls -l"],
        ];
        for form in forms {
            assert_eq!(asked(form), Ok(Asked::Text("ls -l".into())), "{form:?}");
        }
    }

    #[test]
    fn what_changes_the_text_stays_with_it() {
        assert_eq!(asked(&["-ec", "a", "x", "-c"]), Ok(words(&["-e", "-c", "a", "x", "-c"])));
        assert_eq!(
            asked(&["-o", "pipefail", "-c", "a"]),
            Ok(words(&["-o", "pipefail", "-c", "a"]))
        );
        assert_eq!(
            asked(&["-O", "extglob", "+e", "-c", "a"]),
            Ok(words(&["-O", "extglob", "+e", "-c", "a"]))
        );
        assert_eq!(asked(&["-l", "a.sh", "-c", "x"]), Ok(words(&["a.sh", "-c", "x"])));
    }

    #[test]
    fn without_text_or_script_it_is_standard_input() {
        let none = Asked::Input { options: Vec::new(), parameters: Vec::new() };
        for form in [&[][..], &["-i"], &["-l"], &["-"], &["-s"]] {
            assert_eq!(asked(form), Ok(none.clone()), "{form:?}");
        }
        let some = Asked::Input { options: vec!["-e".into()], parameters: vec!["x".into()] };
        assert_eq!(asked(&["-es", "x"]), Ok(some));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for form in [
            &["-c"][..],
            &["--dump-strings", "-c", "ls"],
            &["-Z", "-c", "ls"],
            &["-o"],
            &["-O", "-c", "ls"],
            &["--rcfile"],
        ] {
            assert!(asked(form).is_err(), "{form:?}");
        }
    }
}
