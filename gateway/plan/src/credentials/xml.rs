//! The settings of Maven: elements, of which only those that are listed are shown.

use super::sieve::{Sieve, Word};

/// One piece of the text.
enum Piece<'a> {
    Text(&'a str),
    /// Name, and whether it has no content.
    Opens(&'a str, bool),
    Closes(&'a str),
    /// `<?xml …?>` or a comment.
    Aside,
}

/// Returns the elements that may be shown; none for what is not read here.
pub(super) fn show(text: &str, sieve: Sieve<'_>) -> Option<String> {
    let mut shown = String::with_capacity(text.len());
    let mut open: Vec<&str> = Vec::new();
    // How deep the element lies that is left out.
    let mut hidden: Option<usize> = None;
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, end) = piece(rest)?;
        let (written, behind) = rest.split_at_checked(end)?;
        rest = behind;
        match piece {
            Piece::Aside => {
                if hidden.is_none() && written.starts_with("<?") {
                    shown.push_str(written);
                }
                continue;
            }
            Piece::Opens(name, is_empty) => {
                let within = open.last().copied().unwrap_or_default();
                // Properties have names of the person's own; their values are weighed.
                let is_shown = sieve.kept.contains(&name) || within == "properties";
                if hidden.is_none() && !is_shown {
                    hidden = Some(open.len());
                }
                if hidden.is_none() {
                    shown.push_str(&tag(written, name, open.is_empty())?);
                }
                if !is_empty {
                    open.push(name);
                } else if hidden == Some(open.len()) {
                    hidden = None;
                }
            }
            Piece::Closes(name) => {
                if open.pop()? != name {
                    return None;
                }
                match hidden {
                    Some(depth) if depth == open.len() => hidden = None,
                    Some(_) => {}
                    None => shown.push_str(written),
                }
            }
            Piece::Text(text) if hidden.is_none() => {
                let within = open.iter().rev().nth(1).copied().unwrap_or_default();
                let name = open.last().copied().unwrap_or_default();
                let weighed = match within {
                    "properties" => Sieve { kept: &[], ..sieve }.weigh("", name, text),
                    _ => sieve.weigh("", name, text),
                };
                match weighed {
                    Word::Keep => shown.push_str(text),
                    Word::Change(changed) => shown.push_str(&changed),
                    Word::Drop => {}
                }
            }
            Piece::Text(_) => {}
        }
    }
    open.is_empty().then_some(shown)
}

/// Returns a tag without attributes but those of the outermost element that name schemas.
fn tag(written: &str, name: &str, is_outermost: bool) -> Option<String> {
    let inside = written.strip_prefix('<')?.strip_suffix('>')?.trim_end_matches('/');
    let attributes = inside.strip_prefix(name)?.trim();
    let is_schema = |it: &str| it.starts_with("xmlns") || it.starts_with("xsi:");
    match (attributes.is_empty(), is_outermost && is_schema(attributes)) {
        (true, _) | (_, true) => Some(written.to_owned()),
        (false, false) => Some(match written.ends_with("/>") {
            true => format!("<{name}/>"),
            false => format!("<{name}>"),
        }),
    }
}

/// Returns the first piece, and where it ends.
fn piece(text: &str) -> Option<(Piece<'_>, usize)> {
    let Some(inside) = text.strip_prefix('<') else {
        let end = text.find('<').unwrap_or(text.len());
        return Some((Piece::Text(text.get(..end)?), end));
    };
    if inside.starts_with("!--") {
        return Some((Piece::Aside, text.find("-->")? + 3));
    }
    if inside.starts_with('?') {
        return Some((Piece::Aside, text.find("?>")? + 2));
    }
    // A type may define entities, and other parts hold text in another way.
    if inside.starts_with('!') {
        return None;
    }
    let end = text.find('>')?;
    let inside = text.get(1..end)?;
    if let Some(name) = inside.strip_prefix('/') {
        return Some((Piece::Closes(name.trim()), end + 1));
    }
    let is_name = |it: char| it.is_ascii_alphanumeric() || "._-:".contains(it);
    let name = inside.split(|it| !is_name(it)).next().filter(|name| !name.is_empty())?;
    // `>` in an attribute would end the tag too soon.
    if inside.matches(['"', '\'']).count() % 2 != 0 || inside.contains('<') {
        return None;
    }
    Some((Piece::Opens(name, inside.ends_with('/')), end + 1))
}

#[cfg(test)]
mod tests {
    use super::super::sieve::Others;
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let kept = &[
            "settings",
            "mirrors",
            "mirror",
            "url",
            "id",
            "proxies",
            "proxy",
            "host",
            "port",
            "profiles",
            "profile",
            "properties",
        ];
        let shown = show(text, Sieve { kept, others: Others::Plain });
        assert_eq!(shown.as_deref(), expected, "{text}");
    }

    #[test]
    fn mirrors_stay_and_servers_go() {
        check(
            "<?xml version=\"1.0\"?>\n<settings xmlns=\"http://m\">\n<!-- pw4711 --><servers><server><id>a</id><password>pw4711</password></server></servers>\
             <mirrors><mirror><id>m</id><url>https://u:pw4711@host/m2</url></mirror></mirrors>\
             <proxies><proxy><host>p</host><port>80</port><username>u</username><password>pw4711</password></proxy></proxies>\
             <profiles><profile><properties><a.url>https://h/x</a.url><b>pw4711</b><sonar.token>pw4711</sonar.token></properties></profile></profiles></settings>\n",
            Some(
                "<?xml version=\"1.0\"?>\n<settings xmlns=\"http://m\">\n\
                 <mirrors><mirror><id>m</id><url>https://host/m2</url></mirror></mirrors>\
                 <proxies><proxy><host>p</host><port>80</port></proxy></proxies>\
                 <profiles><profile><properties><a.url>https://h/x</a.url><b></b><sonar.token></sonar.token></properties></profile></profiles></settings>\n",
            ),
        );
    }

    #[test]
    fn what_is_not_read_here_is_not_shown() {
        for text in [
            "<!DOCTYPE a [<!ENTITY p \"pw4711\">]><settings>&p;</settings>",
            "<settings><![CDATA[pw4711]]></settings>",
            "<settings><servers></settings>",
            "<settings>",
        ] {
            check(text, None);
        }
    }
}
