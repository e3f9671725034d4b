use super::*;

fn target(url: &str) -> Option<(bool, String, u16, String)> {
    Target::read(url).ok().map(|it| (it.secure, it.host, it.port, it.path))
}

#[test]
fn addresses_are_read_strictly() {
    let some =
        |secure, host: &str, port, path: &str| Some((secure, host.into(), port, path.into()));
    assert_eq!(target("http://localhost/hook"), some(false, "localhost", 80, "/hook"));
    assert_eq!(target("https://A.example"), some(true, "a.example", 443, "/"));
    assert_eq!(target("http://127.0.0.1:8080?x=1"), some(false, "127.0.0.1", 8080, "/?x=1"));
    assert_eq!(target("http://[::1]:9/a#b"), some(false, "::1", 9, "/a"));
    for bad in [
        "ftp://a/",
        "http://",
        "http:///x",
        "http://user@a/",
        "http://a b/",
        "http://a:b/",
        "http://a\r\nX: y/",
        "http://a\\@b/",
        "http://a:99999/",
        "https//a",
    ] {
        assert_eq!(target(bad), None, "{bad}");
    }
}

#[test]
fn a_pattern_of_addresses_does_not_reach_over_the_host() {
    for (glob, url, allowed) in [
        ("*", "http://a/", true),
        ("https://hooks.example/*", "https://hooks.example/x/y", true),
        ("https://hooks.example/*", "http://hooks.example/x", false),
        ("https://*.example/x", "https://a.b.example/x", true),
        ("https://*.example/*", "https://evil.test/.example/", false),
        ("https://hooks.example", "https://hooks.example/", true),
        ("https://hooks.example", "https://hooks.example/x", false),
        ("http://localhost:*/*", "http://localhost:8080/x", true),
        ("hooks.example", "http://hooks.example/", false),
    ] {
        let target = Target::read(url).unwrap();
        assert_eq!(is_allowed(glob, &target), allowed, "{glob} {url}");
    }
}

#[test]
fn headers_take_the_variables_that_are_allowed() {
    let value = |name: &str| if name == "TOKEN" { "secret" } else { "" };
    for (text, expected) in [
        ("Bearer $TOKEN", "Bearer secret"),
        ("${TOKEN}x", "secretx"),
        ("a $OTHER b", "a  b"),
        ("5 $ and $-", "5 $ and $-"),
        ("${TOKEN", "${TOKEN"),
    ] {
        assert_eq!(filled(text, value), expected, "{text}");
    }
}

#[test]
fn answers_are_read_to_their_end_and_no_further() {
    let read = |text: &str, ended| {
        parsed(text.as_bytes(), ended)
            .map(|it| it.map(|it| (it.status, String::from_utf8(it.body).unwrap())))
    };
    let some = |status, body: &str| Ok(Some((status, body.to_owned())));
    assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", false), some(200, "{}"));
    assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", false), Ok(None));
    assert_eq!(read("HTTP/1.0 200 OK\r\n\r\n{}", true), some(200, "{}"));
    assert_eq!(read("HTTP/1.0 200 OK\r\n\r\n{}", false), Ok(None));
    assert_eq!(read("HTTP/1.1 204 No\r\n\r\n", false), some(204, ""));
    assert_eq!(
        read("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", false),
        some(503, "")
    );
    let chunks =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n";
    assert_eq!(read(chunks, false), some(200, "{}"));
    assert_eq!(read(chunks.get(..chunks.len() - 8).unwrap(), false), Ok(None));
    for bad in [
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    ] {
        assert!(read(bad, false).is_err(), "{bad}");
    }
}

#[test]
fn only_success_with_nothing_or_an_object_is_an_answer() {
    assert_eq!(judged(200, b""), Ok(()));
    assert_eq!(judged(201, b" {\"a\":1}"), Ok(()));
    assert_eq!(judged(200, b"[]"), Err("its answer is not a JSON object".into()));
    assert_eq!(judged(302, b""), Err("it answered with status 302".into()));
    assert_eq!(judged(500, b"{}"), Err("it answered with status 500".into()));
}
