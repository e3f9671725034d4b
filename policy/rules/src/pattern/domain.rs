//! Patterns for hosts, and the host of a URL.

use crate::punycode;

/// A pattern for the host of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainPattern {
    labels: Vec<String>,
    /// True if the pattern began with `*.`: any depth of sub-domain, and not the name itself.
    below: bool,
    /// True if the pattern is `*` alone.
    every: bool,
}

/// The host of a URL, as far as it can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Lower case, without final dot.
    pub name: String,
    /// True if the host is spelled as rules spell it: no escapes, no odd number for an address, a web scheme.
    pub plain: bool,
}

impl DomainPattern {
    /// Reads the text behind `domain:`.
    pub fn new(text: &str) -> Result<DomainPattern, &'static str> {
        let text = text.trim().trim_end_matches('.').to_lowercase();
        if text == "*" {
            return Ok(DomainPattern { labels: Vec::new(), below: true, every: true });
        }
        let (text, below) = match text.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (text.as_str(), false),
        };
        let refused = |character: char| "/@:%\\? \t".contains(character);
        if text.is_empty() || text.contains(refused) || text.split('.').any(str::is_empty) {
            return Err("invalid host name");
        }
        Ok(DomainPattern {
            labels: text.split('.').map(ascii_label).collect(),
            below,
            every: false,
        })
    }

    /// Returns the pattern as a host list spells it.
    pub fn text(&self) -> String {
        if self.every {
            return "*".to_owned();
        }
        let labels = self.labels.join(".");
        if self.below { format!("*.{labels}") } else { labels }
    }

    /// Says whether it is `*` alone.
    pub fn is_every(&self) -> bool {
        self.every
    }

    /// Says whether the host is matched.
    pub fn matches(&self, host: &str) -> bool {
        self.fits(host, |wanted, label| super::tool::NameGlob::new(wanted).matches(label))
    }

    /// Says whether the host could be matched: a label of the pattern has no ASCII form that is known, and that of the
    /// host is one.
    pub fn may_match(&self, host: &str) -> bool {
        self.fits(host, |wanted, label| {
            super::tool::NameGlob::new(wanted).matches(label)
                || (!wanted.is_ascii() && (label.starts_with("xn--") || !label.is_ascii()))
        })
    }

    fn fits(&self, host: &str, equal: impl Fn(&str, &str) -> bool) -> bool {
        if self.every {
            return true;
        }
        let labels: Vec<&str> = host.split('.').collect();
        let surplus = labels.len().checked_sub(self.labels.len());
        let enough = match surplus {
            Some(0) => !self.below,
            Some(_) => self.below,
            None => false,
        };
        enough
            && labels
                .iter()
                .rev()
                .zip(self.labels.iter().rev())
                .all(|(label, wanted)| equal(wanted, label))
    }
}

/// Returns a label as the name service knows it, where that is certain.
fn ascii_label(label: &str) -> String {
    let ascii = label.is_ascii().then(|| label.to_owned());
    ascii
        .or_else(|| Some(format!("xn--{}", punycode::encode(label)?)))
        .unwrap_or_else(|| label.to_owned())
}

/// Returns the host of a URL; none when the text has none.
pub fn host_of(url: &str) -> Option<Host> {
    let (scheme, rest) = url.split_once("://")?;
    let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let authority = rest.get(..end)?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let name = match place.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?.0.to_owned(),
        None => place.split_once(':').map_or(place, |(name, _)| name).to_owned(),
    };
    let decoded = percent_decoded(&name);
    let lower = decoded.to_lowercase();
    let lower = lower.strip_suffix('.').unwrap_or(&lower).to_owned();
    if lower.is_empty() {
        return None;
    }
    let blank = url.chars().any(|character| character.is_control() || character.is_whitespace());
    let odd = decoded != name || !lower.is_ascii() || lower.split('.').any(str::is_empty);
    // Brackets hold an address and nothing else.
    let bracketed = place.starts_with('[') != lower.parse::<std::net::Ipv6Addr>().is_ok();
    let odd = odd || bracketed || rest.contains('\\') || is_odd_address(&lower);
    let name = lower.split('.').map(ascii_label).collect::<Vec<_>>().join(".");
    Some(Host { name, plain: web && !blank && !odd })
}

/// Says whether the name is a number for an address in another form than four decimal parts.
fn is_odd_address(name: &str) -> bool {
    let Some(last) = name.rsplit('.').next() else { return true };
    let numeric = last.starts_with("0x")
        || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()));
    numeric && name.parse::<std::net::Ipv4Addr>().is_err()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match (first, digits.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_matched_label_by_label() {
        for (pattern, host, expected) in [
            ("docs.example", "docs.example", true),
            ("docs.example", "docs.example.evil.net", false),
            ("docs.example", "a.docs.example", false),
            ("*.docs.example", "a.b.docs.example", true),
            ("*.docs.example", "docs.example", false),
            ("*.docs.example", "evildocs.example", false),
            ("example.*", "example.org", true),
            ("example.*", "example.evil.com", false),
            ("*", "anything", true),
            ("EXAMPLE.org.", "example.org", true),
            ("münchen.example", "xn--mnchen-3ya.example", true),
            ("xn--mnchen-3ya.example", "xn--mnchen-3ya.example", true),
            ("ünchen.example", "xn--mnchen-3ya.example", false),
        ] {
            assert_eq!(
                DomainPattern::new(pattern).unwrap().matches(host),
                expected,
                "{pattern} {host}"
            );
        }
    }

    #[test]
    fn the_host_is_what_a_client_would_dial() {
        for (url, name, plain) in [
            ("https://Docs.Example./x", "docs.example", true),
            ("https://docs.example@evil.net/", "evil.net", true),
            ("https://evil.net#@docs.example/", "evil.net", true),
            ("https://evil.net\\@docs.example/", "evil.net", false),
            ("https://docs%2eexample/", "docs.example", false),
            ("ftp://docs.example/", "docs.example", false),
            ("http://127.0.0.1:80/", "127.0.0.1", true),
            ("http://2130706433/", "2130706433", false),
            ("http://0x7f.1/", "0x7f.1", false),
            ("http://[::1]:8/", "::1", true),
            ("http://[docs.example]/", "docs.example", false),
            ("https://MÜNCHEN.example/", "xn--mnchen-3ya.example", false),
        ] {
            assert_eq!(host_of(url), Some(Host { name: name.into(), plain }), "{url}");
        }
        assert_eq!(host_of("docs.example"), None);
        assert_eq!(host_of("https:///x"), None);
    }
}
