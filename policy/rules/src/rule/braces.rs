//! Alternatives in braces, as in `Read(**/*.{pem,key})`. What refuses or asks is about each of them, and about these very
//! characters as well; what allows is about these characters alone.

/// As many texts as one may stand for.
pub(crate) const MOST: usize = 64;

/// Meaning of numbers in braces, such as `{1,3}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Alternatives, as other texts are.
    Alternatives,
    /// The count of a regular expression.
    Count,
}

/// Returns every text that one with alternatives stands for, the text as it is written first. `None` for more than [`MOST`].
pub(crate) fn spelled_out(text: &str, numbers: Numbers) -> Option<Vec<String>> {
    let (mut done, mut open) = (Vec::new(), vec![text.to_owned()]);
    while let Some(text) = open.pop() {
        let found = alternatives(&text)
            .filter(|found| numbers == Numbers::Alternatives || !is_count(found));
        let Some(found) = found else {
            done.push(text);
            continue;
        };
        let Some((before, after)) = text.split_once(found) else { continue };
        for one in each(found)?.iter().rev() {
            open.push(format!("{before}{one}{after}"));
        }
        if open.len() + done.len() > MOST {
            return None;
        }
    }
    if done.first().is_none_or(|first| first != text) {
        done.insert(0, text.to_owned());
    }
    Some(done)
}

/// Returns the alternatives of `{a,b}` or `{1..3}` with its braces. `None` for more than [`MOST`].
fn each(found: &str) -> Option<Vec<String>> {
    let inside = found.trim_start_matches('{').trim_end_matches('}');
    if inside.contains(',') {
        let parts: Vec<String> = inside.split(',').map(str::to_owned).collect();
        return (parts.len() <= MOST).then_some(parts);
    }
    let (from, to) = inside.split_once("..")?;
    if let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>()) {
        let is_short = usize::try_from(from.abs_diff(to)).is_ok_and(|count| count < MOST);
        return is_short.then(|| (from.min(to)..=from.max(to)).map(|it| it.to_string()).collect());
    }
    match (from.as_bytes(), to.as_bytes()) {
        ([from], [to]) => {
            let letters = *from.min(to)..=*from.max(to);
            Some(letters.map(|it| char::from(it).to_string()).collect())
        }
        _ => None,
    }
}

/// Returns the first part of `text` that a shell would read as alternatives, such as `{a,b}` or `{1..3}`.
pub(crate) fn alternatives(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(start, _)| {
        let (before, from) = text.split_at_checked(start)?;
        let length = from.find('}')?;
        let (found, inside) = (from.get(..=length)?, from.get(1..length)?);
        let is_quoted = ['\'', '"'].iter().any(|quote| before.matches(*quote).count() % 2 == 1);
        let is_plain = !inside.contains(|it: char| it.is_whitespace() || "'\"$\\{".contains(it));
        let has_more = inside.contains(',') || inside.contains("..");
        (!before.ends_with(['$', '\\']) && !is_quoted && is_plain && has_more).then_some(found)
    })
}

/// Says whether it is a count of a regular expression, such as `{1,3}`.
pub(crate) fn is_count(found: &str) -> bool {
    found.bytes().all(|byte| byte.is_ascii_digit() || b"{,}".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_alternative_is_a_text_of_its_own() {
        for (text, expected) in [
            ("a", &["a"][..]),
            ("*.{pem,key}", &["*.{pem,key}", "*.pem", "*.key"]),
            ("{a,b}/{c,}", &["{a,b}/{c,}", "a/c", "a/", "b/c", "b/"]),
            ("x{1..3}", &["x{1..3}", "x1", "x2", "x3"]),
            ("x{c..a}", &["x{c..a}", "xa", "xb", "xc"]),
            ("{a,{b,c}}", &["{a,{b,c}}", "a", "b", "a", "c"]),
            ("{a}", &["{a}"]),
            ("${a,b}", &["${a,b}"]),
        ] {
            let found = spelled_out(text, Numbers::Alternatives).unwrap();
            let all: Vec<&str> = found.iter().map(String::as_str).collect();
            assert_eq!(all, expected, "{text}");
        }
        assert_eq!(spelled_out("a{1,3}", Numbers::Count).unwrap(), ["a{1,3}"]);
        assert_eq!(spelled_out("{1..100}", Numbers::Alternatives), None);
        assert_eq!(spelled_out(&"{a,b}".repeat(7), Numbers::Alternatives), None);
        assert_eq!(spelled_out("{aa..zz}", Numbers::Alternatives), None);
    }
}
