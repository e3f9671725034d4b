//! How far a wildcard in an address reaches: it ends at the boundary of the host that the pattern names, and covers no
//! second address.

use stockade_parser::{EffectKind, SimpleCommand, Word};

use crate::pattern::command::CommandPattern;

/// A piece of a pattern: a byte, or none for `*`.
type Glob = [Option<u8>];

/// Returns the word that leads to another host than the pattern names, or perhaps does.
pub(super) fn stray<'a>(
    command: &'a SimpleCommand,
    pattern: &CommandPattern,
    literal: usize,
) -> Option<&'a Word> {
    let words = pattern.words();
    let addresses: Vec<&[Option<u8>]> =
        words.iter().filter_map(|word| authority_of(word)).collect();
    let host = words.get(literal).filter(|word| authority_of(word).is_none() && is_begun(word));
    let free = reached(command, literal);
    if let Some(host) = host
        && let Some((place, first)) = free.first()
        && *place == literal
    {
        let fits = first.is_some_and(|text| fits(host_part(host), host_of(text)));
        let place = if fits { free.get(1)?.0 } else { *place };
        return command.words.get(place);
    }
    if addresses.is_empty() {
        return None;
    }
    let open = words.iter().skip(literal).filter(|word| authority_of(word).is_some()).count();
    let strays = free.iter().enumerate().find(|(number, (_, text))| {
        let fits = |text: &[u8]| {
            address(text).is_some_and(|it| addresses.iter().any(|glob| fits(glob, it)))
        };
        *number >= open || !text.is_some_and(fits)
    });
    strays.and_then(|(_, (place, _))| command.words.get(*place))
}

/// Returns the addresses that a command goes to by words that the pattern does not spell out, with their places; none
/// for one that is not known before it runs.
fn reached(command: &SimpleCommand, literal: usize) -> Vec<(usize, Option<&[u8]>)> {
    let network = command.effects.iter().filter(|effect| effect.kind == EffectKind::Network);
    let named = network
        .filter_map(|effect| Some((effect.word as usize, effect.object(&command.words)?.exact())));
    let mut found: Vec<(usize, Option<&[u8]>)> = named.collect();
    if found.is_empty() || !command.effects_known {
        // Where no row tells addresses from other words, they are told by their form.
        let words = command.words.iter().enumerate();
        let texts = words.filter_map(|(place, word)| Some((place, word.exact()?)));
        found.extend(texts.filter(|(_, it)| address(it).is_some()).map(|(at, it)| (at, Some(it))));
    }
    found.retain(|(place, _)| *place >= literal.max(1));
    found.sort_unstable_by_key(|(place, _)| *place);
    found.dedup_by_key(|(place, _)| *place);
    found
}

/// Says whether a word of a pattern names the beginning of a host, and goes on with a wildcard.
fn is_begun(word: &Glob) -> bool {
    let host = host_part(word);
    host.contains(&None) && host.first().is_some_and(|first| !matches!(first, None | Some(b'-')))
}

/// Returns what stands between `://` and the path in a word of a pattern.
fn authority_of(word: &Glob) -> Option<&Glob> {
    let mark: Vec<Option<u8>> = b"://".iter().copied().map(Some).collect();
    let at = word.windows(3).position(|part| *part == *mark)?;
    Some(host_part(word.get(at + 3..)?))
}

fn host_part(word: &Glob) -> &Glob {
    let end = |it: &Option<u8>| matches!(it, Some(b'/' | b'?' | b'#'));
    word.split(end).next().unwrap_or_default()
}

/// Returns what stands between `://` and the path in an address (RFC 3986, 3.2). A backslash ends nothing: some programs
/// take it for `/`, others for a part of the user.
fn address(text: &[u8]) -> Option<&[u8]> {
    let at = text.windows(3).position(|part| part == b"://")?;
    Some(host_of(text.get(at + 3..)?))
}

fn host_of(text: &[u8]) -> &[u8] {
    text.split(|byte| b"/?#".contains(byte)).next().unwrap_or_default()
}

/// Says whether an authority is one that the pattern names. A star behind a name ends it there, but for a port; one behind
/// a dot is one label, or further numbers of an address; one in front is any number of labels.
fn fits(glob: &Glob, text: &[u8]) -> bool {
    let port = |rest: &[u8]| {
        rest.strip_prefix(b":")
            .is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_digit))
    };
    if let [None] = glob {
        return true;
    }
    if let [name @ .., Some(last), None] = glob
        && !matches!(last, b'.' | b':' | b'@')
    {
        let name: Vec<Option<u8>> = name.iter().copied().chain([Some(*last)]).collect();
        let ends = (0..=text.len()).filter(|end| {
            let rest = text.get(*end..).unwrap_or_default();
            rest.is_empty() || port(rest)
        });
        return ends
            .into_iter()
            .any(|end| text.get(..end).is_some_and(|host| matches(&name, host, first_of(&name))));
    }
    matches(glob, text, first_of(glob))
}

/// Returns the bytes that the first star stands for beside those of a label.
fn first_of(glob: &Glob) -> &'static [u8] {
    let head: Vec<u8> = glob.iter().map_while(|it| *it).collect();
    let host = head.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
    match host {
        [] => b".",
        // The stars after numbers stand for numbers.
        _ if host.iter().all(|it| it.is_ascii_digit() || *it == b'.') => b"numbers",
        _ => b"",
    }
}

/// Matches a whole text with stars that stand for parts of a host.
fn matches(glob: &Glob, text: &[u8], first: &'static [u8]) -> bool {
    let stands = |byte: u8, begun: bool| match first {
        // A letter would make a name of the address: `10.0.1.example` is anybody's.
        b"numbers" => byte.is_ascii_digit() || (begun && byte == b'.'),
        _ => {
            byte.is_ascii_alphanumeric()
                || b"-_".contains(&byte)
                || (begun && first.contains(&byte))
        }
    };
    // Places of the pattern that the text read so far may have reached.
    let mut places = vec![false; glob.len() + 1];
    if let Some(start) = places.first_mut() {
        *start = true;
    }
    let star = glob.iter().position(Option::is_none);
    let spread = |places: &mut Vec<bool>| {
        for (at, symbol) in glob.iter().enumerate() {
            if symbol.is_none() && places.get(at) == Some(&true) {
                places.get_mut(at + 1).into_iter().for_each(|next| *next = true);
            }
        }
    };
    spread(&mut places);
    for byte in text {
        let mut next = vec![false; glob.len() + 1];
        for (at, symbol) in glob.iter().enumerate().filter(|(at, _)| places.get(*at) == Some(&true))
        {
            let to = match symbol {
                Some(wanted) if wanted == byte => at + 1,
                None if stands(*byte, star == Some(at)) => at,
                Some(_) | None => continue,
            };
            next.get_mut(to).into_iter().for_each(|place| *place = true);
        }
        spread(&mut next);
        places = next;
    }
    places.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(pattern: &str, text: &str) -> bool {
        let glob: Vec<Option<u8>> =
            pattern.bytes().map(|byte| (byte != b'*').then_some(byte)).collect();
        fits(host_part(&glob), host_of(text.as_bytes()))
    }

    #[test]
    fn a_star_ends_where_the_host_does() {
        for (pattern, text, expected) in [
            ("api.example.com*", "api.example.com", true),
            ("api.example.com*", "api.example.com/v1", true),
            ("api.example.com*", "api.example.com?v=1", true),
            ("api.example.com*", "api.example.com#a@b", true),
            ("api.example.com*", "api.example.com:443/v1", true),
            ("api.example.com*", "api.example.com:", false),
            ("api.example.com*", "api.example.com:x@evil.net", false),
            ("api.example.com*", "api.example.com:443@evil.net", false),
            ("api.example.com*", "api.example.com@evil.net", false),
            ("api.example.com*", "api.example.com\\@evil.net", false),
            ("api.example.com*", "api.example.com.evil.net", false),
            ("api.example.com*", "api.example.comx", false),
            ("api.example.com:*/x", "api.example.com:80/x", true),
            ("api.example.com:*/x", "api.example.com:80@evil.net/x", false),
            ("api.example.com/*", "api.example.com/x", true),
            ("*.example.com/*", "a.b.example.com/x", true),
            ("*.example.com/*", "evil.net/.example.com/x", false),
            ("*.example.com/*", "evil.net#.example.com/x", false),
            ("*.example.com/*", "a@evil.net/.example.com/x", false),
            ("*.example.com*", "a.example.com:80", true),
            ("*.example.com*", "a.example.com.evil.net", false),
            ("example.*", "example.org", true),
            ("example.*", "example.evil.com", false),
            ("10.0.*", "10.0.1.2", true),
            ("10.0.*", "10.0.evil.net", false),
            ("10.0.*.*", "10.0.1.2", true),
            ("10.0.*.*", "10.0.1.2.3", true),
            ("10.0.*.*", "10.0.48213.com", false),
            ("10.0.*.*", "10.0.1.2-x", false),
            ("10.0.*:*", "10.0.1.2:80", true),
            ("root@10.0.*", "root@10.0.1.2", true),
            ("root@10.35.*", "root@10.35.dev", false),
            ("root@10.0.*.*", "root@10.0.48213.com", false),
            ("*example.com", "example.com", true),
            ("**.example.com", "a.example.com", true),
            ("deploy@host*", "deploy@host", true),
            ("deploy@host*", "deploy@host.evil.net", false),
            ("deploy@*", "deploy@host.example.com", true),
            ("deploy@*", "deploy@a@b", false),
            ("*", "any.host:1", true),
        ] {
            assert_eq!(fit(pattern, text), expected, "{pattern} {text}");
        }
    }
}
