//! Patterns of one name, in the two forms in which they are written.

/// A pattern of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wild(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Any text.
    Text,
    /// Any character.
    Any,
    /// One character of these ranges, or none of them; a range that ends before it begins holds none.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    Character(char),
}

impl Wild {
    /// Reads the pattern of a name of the sandbox: no escapes, `!` alone negates a class, and a class that does not end or goes
    /// backwards is an error.
    pub fn parse(text: &str) -> Result<Wild, &'static str> {
        let mut pieces = Vec::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            pieces.push(match character {
                '*' => Piece::Text,
                '?' => Piece::Any,
                '[' => {
                    let (piece, behind) =
                        class(rest.as_str(), &['!']).ok_or("a `[` in it has no `]`")?;
                    if piece.goes_backwards() {
                        return Err("a range in it goes backwards");
                    }
                    rest = behind.chars();
                    piece
                }
                plain => Piece::Character(plain),
            });
        }
        Ok(Wild(pieces))
    }

    /// Reads the pattern of a name of a rule, as `gitignore(5)` has it: `\` makes the next character a plain one, `!` and `^` negate a
    /// class, and a `[` without its `]` is a plain character.
    pub fn of_rule(text: &str) -> Wild {
        let mut pieces = Vec::new();
        let mut rest = text.chars();
        while let Some(first) = rest.next() {
            pieces.push(match first {
                '*' if pieces.last() == Some(&Piece::Text) => continue,
                '*' => Piece::Text,
                '?' => Piece::Any,
                '\\' => Piece::Character(rest.next().unwrap_or('\\')),
                '[' => match class(rest.as_str(), &['!', '^']) {
                    Some((piece, behind)) => {
                        rest = behind.chars();
                        piece
                    }
                    None => Piece::Character('['),
                },
                other => Piece::Character(other),
            });
        }
        Wild(pieces)
    }

    /// Returns the name, if the pattern stands for one alone.
    pub fn name(&self) -> Option<String> {
        let Wild(pieces) = self;
        let one = |piece: &Piece| match piece {
            Piece::Character(own) => Some(*own),
            Piece::Class { negated: false, ranges } => match ranges.as_slice() {
                [(from, to)] if from == to => Some(*from),
                _ => None,
            },
            Piece::Class { .. } | Piece::Text | Piece::Any => None,
        };
        pieces.iter().map(one).collect()
    }

    /// Returns the text without escapes, if no piece of it is a wildcard.
    pub fn literal(&self) -> Option<String> {
        let one = |piece: &Piece| match piece {
            Piece::Character(own) => Some(*own),
            Piece::Class { .. } | Piece::Text | Piece::Any => None,
        };
        self.0.iter().map(one).collect()
    }

    /// Says whether it asks for a character out of none, such as `[z-a]`.
    pub fn has_empty_class(&self) -> bool {
        self.0.iter().any(|piece| match piece {
            Piece::Class { negated: false, ranges } => is_empty(ranges),
            Piece::Class { .. } | Piece::Character(_) | Piece::Text | Piece::Any => false,
        })
    }

    /// Says whether `name` is what the pattern says.
    pub fn fits(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        fits(&self.0, &name, |piece| *piece == Piece::Text, |piece, one| piece.is(*one))
    }

    /// Returns the text that [`Wild::parse`] reads as this pattern.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Character(one) => text.push_str(&verbatim(one.encode_utf8(&mut [0; 4]))),
                Piece::Text => text.push('*'),
                Piece::Any => text.push('?'),
                // Nothing is excluded.
                Piece::Class { negated: true, ranges } if is_empty(ranges) => text.push('?'),
                Piece::Class { negated, ranges } => {
                    text.push_str(if *negated { "[!" } else { "[" });
                    text.push_str(&class_text(ranges));
                    text.push(']');
                }
            }
        }
        text
    }
}

impl Piece {
    fn is(&self, character: char) -> bool {
        match self {
            Piece::Text => false,
            Piece::Any => true,
            Piece::Class { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&character)) != *negated
            }
            Piece::Character(own) => *own == character,
        }
    }

    fn goes_backwards(&self) -> bool {
        match self {
            Piece::Class { ranges, .. } => ranges.iter().any(|(from, to)| from > to),
            Piece::Character(_) | Piece::Text | Piece::Any => false,
        }
    }
}

/// Reads a class behind its `[`; returns it and the text behind its `]`, which ends it unless it comes first.
fn class<'a>(text: &'a str, negations: &[char]) -> Option<(Piece, &'a str)> {
    let behind = text.strip_prefix(negations);
    let (negated, mut rest) = (behind.is_some(), behind.unwrap_or(text).chars());
    let mut ranges = Vec::new();
    loop {
        let first = rest.next()?;
        if first == ']' && !ranges.is_empty() {
            return Some((Piece::Class { negated, ranges }, rest.as_str()));
        }
        let mut ahead = rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(end)) if end != ']' => {
                ranges.push((first, end));
                rest = ahead;
            }
            _ => ranges.push((first, first)),
        }
    }
}

/// Says whether the pieces of a pattern make up `text`, where a star takes any run; without a stack of its own.
pub fn fits<P, T>(
    pieces: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    is: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut piece, mut at) = (0, 0);
    // The last star, and how much it has taken: the least first.
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pieces.get(piece), text.get(at)) {
            (Some(one), _) if is_star(one) => {
                star = Some((piece, at));
                piece += 1;
                continue;
            }
            (Some(one), Some(unit)) if is(one, unit) => {
                piece += 1;
                at += 1;
                continue;
            }
            (None, None) => return true,
            (Some(_) | None, _) => {}
        }
        match star {
            Some((own, taken)) if taken < text.len() => {
                star = Some((own, taken + 1));
                piece = own + 1;
                at = taken + 1;
            }
            Some(_) | None => return false,
        }
    }
}

/// Returns `text` so that it stands for itself alone in a pattern: each wildcard becomes a class of one character.
pub fn verbatim(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '*' | '?' | '[' => result.extend(['[', character, ']']),
            plain => result.push(plain),
        }
    }
    result
}

/// Says whether no range of a class holds a character: each ends before it begins.
fn is_empty(ranges: &[(char, char)]) -> bool {
    ranges.iter().all(|(first, last)| first > last)
}

/// Returns the inside of a class: a `]` first, where it ends no class, and a `-` where no character before it makes it a range.
fn class_text(ranges: &[(char, char)]) -> String {
    let kept = |(first, last): &&(char, char)| first <= last || is_empty(ranges);
    let ranges: Vec<(char, char)> = ranges.iter().filter(kept).copied().collect();
    let closes = ranges.first().is_some_and(|(first, _)| *first == ']');
    let dash = if ranges.iter().any(|(first, _)| *first == '-') { "-" } else { "" };
    let mut text = String::from(if closes { "" } else { dash });
    for range in ranges {
        match range {
            (']', ']') => text.push(']'),
            ('-', '-') => {}
            ('-', last) => text.extend(['.', '-', last]),
            (first, last) => text.extend([first, '-', last]),
        }
    }
    text.push_str(if closes { dash } else { "" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_in_whatever_way_a_star_can_be_filled() {
        let fits = |wild: &str, name: &str| Wild::parse(wild).unwrap().fits(name);
        for (wild, name) in [
            ("*", ""),
            ("a*b*a*b", "abab"),
            ("*b*a", "bcbaa"),
            ("a*", "a\nb"),
            ("ssh_host_*_key", "ssh_host_x_key"),
            ("é*", "é*"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("[^a]", "^"),
            ("\\*", "\\x"),
            ("**a", "ba"),
        ] {
            assert!(fits(wild, name), "{wild} {name}");
        }
        for (wild, name) in
            [("a*a", "a"), ("?", ""), ("?", "ab"), ("*b*a", "ab"), ("[!x]", "x"), ("", "a")]
        {
            assert!(!fits(wild, name), "{wild} {name}");
        }
        // Many stars against a long name take no time without end.
        assert!(!fits(&"*a".repeat(200), &"a".repeat(199)));
        let name = |wild: &str| Wild::parse(wild).unwrap().name();
        assert_eq!(name("a[[]b][*]").as_deref(), Some("a[b]*"));
        assert_eq!((name("[ab]"), name("[!a]"), name("a?"), name("*")), (None, None, None, None));
        for wild in ["[", "[a", "[]", "[z-a]", "[ab-a]"] {
            assert!(Wild::parse(wild).is_err(), "{wild}");
        }
    }

    #[test]
    fn a_pattern_of_a_rule_is_the_same_when_the_sandbox_reads_its_text() {
        for (rule, text) in [
            ("\\*a", "[*]a"),
            ("a**b", "a*b"),
            ("[^a]?", "[!a-a]?"),
            ("a[", "a[[]"),
            ("[!z-a]", "?"),
            ("[b-az]", "[z-z]"),
            ("a\\", "a\\"),
        ] {
            let wild = Wild::of_rule(rule);
            assert_eq!(wild.text(), text, "{rule}");
            let again = Wild::parse(text).unwrap();
            for name in ["*a", "ab", "aXb", "bc", "a[", "z", "a\\", "", "é"] {
                assert_eq!(wild.fits(name), again.fits(name), "{rule} {text} {name}");
            }
        }
        let empty = |rule: &str| Wild::of_rule(rule).has_empty_class();
        assert_eq!((empty("[z-a]"), empty("[!z-a]"), empty("[az-b]")), (true, false, false));
        let literal = |rule: &str| Wild::of_rule(rule).literal();
        assert_eq!(
            (literal("\\[a").as_deref(), literal("[a]"), literal("?")),
            (Some("[a"), None, None)
        );
    }
}
