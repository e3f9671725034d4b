//! Access to the page: for whoever brought the link, once, and afterwards for the page that it opened.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};

/// Bytes of a secret.
const LENGTH: usize = 32;
/// How long the link waits to be opened.
const WAITS: Duration = Duration::from_secs(600);
/// The header with the secret of the page, which no browser sends by itself.
const PAGE: &str = "x-stockade-page";

/// The secrets of one server.
#[derive(Debug)]
pub(crate) struct Gate {
    host: String,
    /// The name of the cookie; browsers send those of one port to all others.
    cookie: String,
    /// The secret of the link, until somebody used it, and how long it is good.
    link: Mutex<Option<(String, Instant)>>,
    /// The value of the cookie.
    browser: String,
    /// The secret of the page that was opened.
    page: String,
}

/// Secrets that a browser gets for the link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The secret of the page.
    pub page: String,
    /// The line of the cookie.
    pub cookie: String,
}

impl Gate {
    /// Makes the secrets of the server at `port`; also returns the link.
    pub(crate) fn new(port: u16) -> anyhow::Result<(Gate, String)> {
        let link = secret()?;
        let host = format!("localhost:{port}");
        // Behind the mark: browsers send nothing of it, so it is in no log and in no `Referer`.
        let address = format!("http://{host}/#{link}");
        let link = Mutex::new(Some((link, Instant::now() + WAITS)));
        let cookie = format!("stockade-{port}");
        Ok((Gate { host, cookie, link, browser: secret()?, page: secret()? }, address))
    }

    /// Refuses requests under another name, as a page makes whose name was made to mean this address, and those of other
    /// pages.
    pub(crate) fn is_own(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let hosts = headers.get_all(header::HOST).iter().count();
        if hosts != 1 || text(header::HOST) != Some(&self.host) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        if text(header::ORIGIN).is_some_and(|origin| origin != self.origin()) {
            return Err(StatusCode::FORBIDDEN);
        }
        match headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?")) {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => Err(StatusCode::FORBIDDEN),
        }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.host)
    }

    /// Checks that a request that changes something names this page as its origin, and is none that a form can make.
    pub(crate) fn may_write(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let own = self.origin();
        let is_own = headers.get(header::ORIGIN).is_some_and(|origin| *origin == own);
        let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|it| it == "application/json");
        match (is_own, is_json) {
            (true, true) => Ok(()),
            (false, _) => Err(StatusCode::FORBIDDEN),
            (true, false) => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
        }
    }

    /// Changes the secret of the link for those of the page; the link is used up by it. A wrong one changes nothing.
    pub(crate) fn open(&self, link: &str) -> Option<Opened> {
        let mut kept = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let is_right = kept
            .as_ref()
            .is_some_and(|(kept, until)| is_same(kept, link) && Instant::now() < *until);
        is_right.then(|| {
            *kept = None;
            let Gate { cookie, browser, page, .. } = self;
            let cookie = format!("{cookie}={browser}; HttpOnly; SameSite=Strict; Path=/");
            Opened { page: page.clone(), cookie }
        })
    }

    /// Checks that a request has the cookie and the secret of the page.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let page = headers.get(PAGE).and_then(|value| value.to_str().ok());
        let is_page = page.is_some_and(|given| is_same(&self.page, given));
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).map(str::trim);
        let is_browser = pairs.any(|pair| {
            let given = pair.strip_prefix(&self.cookie).and_then(|it| it.strip_prefix('='));
            given.is_some_and(|given| is_same(&self.browser, given))
        });
        match is_page && is_browser {
            true => Ok(()),
            false => Err(StatusCode::UNAUTHORIZED),
        }
    }
}

/// Compares in a time that does not tell where two secrets differ.
fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |found, (one, other)| found | (one ^ other)) == 0
}

/// Returns a new secret in hexadecimal digits.
pub(crate) fn secret() -> anyhow::Result<String> {
    let mut bytes = [0; LENGTH];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn a_link_opens_once_and_a_wrong_one_never() {
        let (gate, link) = Gate::new(1).unwrap();
        let (_, secret) = link.split_once('#').unwrap();
        assert_eq!(gate.open(""), None);
        assert_eq!(gate.open(&secret.replacen(|_: char| true, "x", 1)), None);
        let Opened { page, cookie } = gate.open(secret).unwrap();
        assert_eq!(gate.open(secret), None);
        assert_eq!(gate.open(&page), None);
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"));
        let cookie = cookie.split(';').next().unwrap();
        let both = [("x-stockade-page", page.as_str()), ("cookie", cookie)];
        assert!(gate.knows(&headers(&both)).is_ok());
        // Neither of them is enough, and the link is neither.
        let of_other = format!("stockade-2={}", cookie.split_once('=').unwrap().1);
        for wrong in [
            vec![both[0]],
            vec![both[1]],
            vec![both[0], ("cookie", &of_other)],
            vec![both[0], ("cookie", "stockade-1=")],
            vec![("x-stockade-page", secret), both[1]],
            vec![("x-stockade-page", ""), both[1]],
        ] {
            assert!(gate.knows(&headers(&wrong)).is_err(), "{wrong:?}");
        }
        assert!(gate.knows(&headers(&[both[0], ("cookie", &format!("a=b; {cookie}"))])).is_ok());
    }

    #[test]
    fn a_link_that_nobody_opens_in_time_is_dead() {
        let (gate, link) = Gate::new(1).unwrap();
        if let Some((_, until)) = gate.link.lock().unwrap().as_mut() {
            *until = Instant::now();
        }
        assert_eq!(gate.open(link.split_once('#').unwrap().1), None);
    }

    #[test]
    fn another_name_and_another_page_get_nothing() {
        let (gate, _) = Gate::new(80).unwrap();
        let own = ("host", "localhost:80");
        let page = ("origin", "http://localhost:80");
        let json = ("content-type", "application/json");
        assert!(gate.is_own(&headers(&[own])).is_ok());
        assert!(gate.is_own(&headers(&[own, page])).is_ok());
        for wrong in [
            vec![],
            vec![("host", "evil.test:80")],
            vec![("host", "127.0.0.1:80")],
            vec![("host", "localhost")],
            vec![own, ("host", "evil.test")],
            vec![own, ("origin", "http://localhost:81")],
            vec![own, ("origin", "null")],
            vec![own, ("sec-fetch-site", "cross-site")],
            vec![own, ("sec-fetch-site", "same-site")],
        ] {
            assert!(gate.is_own(&headers(&wrong)).is_err(), "{wrong:?}");
        }
        assert!(gate.may_write(&headers(&[own, page, json])).is_ok());
        for wrong in [vec![own, json], vec![own, page], vec![page, ("content-type", "text/plain")]]
        {
            assert!(gate.may_write(&headers(&wrong)).is_err(), "{wrong:?}");
        }
    }
}
