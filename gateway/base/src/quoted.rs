//! Words as shell text.

/// Words that bash reads as syntax where a command begins, unless they are quoted (bash manual, 3.2.1).
const RESERVED: &[&str] = &[
    "if", "then", "elif", "else", "fi", "time", "for", "in", "until", "while", "do", "done",
    "case", "esac", "coproc", "select", "function",
];

/// Returns shell text that means exactly these words: each in single quotes unless it is plain.
pub fn quoted(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:,+@%".contains(&byte))
    };
    let quote = |(index, word): (usize, &String)| {
        let reserved = index == 0 && RESERVED.contains(&word.as_str());
        if plain(word) && !reserved {
            return word.clone();
        }
        format!("'{}'", word.replace('\'', r"'\''"))
    };
    words.iter().enumerate().map(quote).collect::<Vec<_>>().join(" ")
}

/// Reads one word of shell text that means fixed bytes, quoted in any way (bash manual, 3.1.2); returns its value
/// and what follows. None where the word is empty or an expansion could change it.
pub fn word(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let inner = rest.get(first.len_utf8()..)?;
        rest = match first {
            '\'' => {
                let (quoted, left) = inner.split_once('\'')?;
                value.push_str(quoted);
                left
            }
            '"' => double_quoted(inner, &mut value)?,
            '\\' => {
                let escaped = inner.chars().next().filter(|next| *next != '\n')?;
                value.push(escaped);
                inner.get(escaped.len_utf8()..)?
            }
            plain if plain.is_alphanumeric() || "_./:,+@=-".contains(plain) => {
                value.push(plain);
                inner
            }
            _ => break,
        };
    }
    (rest.len() < text.len()).then_some((value, rest))
}

fn double_quoted<'a>(text: &'a str, value: &mut String) -> Option<&'a str> {
    let mut rest = text;
    loop {
        let first = rest.chars().next()?;
        let inner = rest.get(first.len_utf8()..)?;
        rest = match first {
            '"' => return Some(inner),
            '$' | '`' => return None,
            '\\' => match inner.chars().next()? {
                next @ ('$' | '`' | '"' | '\\') => {
                    value.push(next);
                    inner.get(1..)?
                }
                '\n' => return None,
                _ => {
                    value.push('\\');
                    inner
                }
            },
            other => {
                value.push(other);
                inner
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_so_that_no_byte_means_something() {
        let words = ["a", "b c", "it's", "$(x)", "", "*", "~", "FOO=1", "-n"].map(String::from);
        assert_eq!(quoted(&words), r"a 'b c' 'it'\''s' '$(x)' '' '*' '~' 'FOO=1' -n");
        assert_eq!(quoted(&["time".into(), "time".into()]), "'time' time");
    }
}
