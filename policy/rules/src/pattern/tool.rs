//! Names and values with `*`.

/// A text in which `*` stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameGlob {
    parts: Vec<String>,
}

impl NameGlob {
    /// Reads a text; every `*` is a wildcard.
    pub fn new(text: &str) -> NameGlob {
        NameGlob { parts: text.split('*').map(str::to_owned).collect() }
    }

    /// Says whether the whole of `text` is matched.
    pub fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some(mut left) = text.strip_prefix(first.as_str()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
        for part in middle {
            match left.split_once(part.as_str()) {
                Some((_, behind)) => left = behind,
                None => return false,
            }
        }
        left.ends_with(last.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_run_and_the_whole_text_counts() {
        for (pattern, text, expected) in [
            ("mcp__a__get_*", "mcp__a__get_x", true),
            ("mcp__a__get_*", "mcp__a__set_x", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(NameGlob::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }
}
