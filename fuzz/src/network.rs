//! Messages of a confined program to the proxy: the input alone, and the input inside a valid message.

use stockade::decode::{body, hello, http, socks};
use stockade_policy::Host;

const REQUEST: &[u8] = b"POST http://a.example:8080/x?y HTTP/1.1\r\nHost: a.example:8080\r\n\
    Connection: keep-alive, x\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
const TUNNEL: &[u8] = b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";
const LENGTH: &[u8] =
    b"PUT http://[2001:db8::1]/ HTTP/1.0\r\nHost: [2001:db8::1]\r\nContent-Length: 3\r\n\r\nabc";
const SOCKS: [&[u8]; 3] = [
    b"\x05\x01\x00\x03\x09a.example\x01\xbb",
    b"\x05\x01\x00\x01\x01\x02\x03\x04\x01\xbb",
    b"\x04\x01\x00\x50\x00\x00\x00\x01u\x00a.example\x00",
];

/// Puts the rest of `bytes` into `message`, at a place and instead of a number of bytes that their first two say.
fn put_into(message: &[u8], bytes: &[u8]) -> Vec<u8> {
    let [place, gone, rest @ ..] = bytes else { return message.to_vec() };
    let place = usize::from(*place) * message.len() / 256;
    let end = (place + usize::from(*gone) % 8).min(message.len());
    let rest = &rest[..rest.len().min(48)];
    [&message[..place], rest, &message[end..]].concat()
}

/// A name that is read is read again as the same one, and stands for no other text.
pub fn host_holds(bytes: &[u8]) {
    for text in [bytes.to_vec(), put_into(b"a-b.xn--bcher-kva.example.", bytes)] {
        let Ok(host) = Host::parse(&text) else { continue };
        let told = host.to_string();
        assert_eq!(Host::parse(told.as_bytes()).as_ref(), Ok(&host));
        let plain = text.to_ascii_lowercase();
        assert_eq!(plain.strip_suffix(b".").unwrap_or(&plain), told.as_bytes());
    }
}

/// A request that is handed on is for the same host, and nothing else is.
pub fn http_holds(bytes: &[u8]) {
    let messages = [REQUEST, TUNNEL, LENGTH].map(|message| put_into(message, bytes));
    for text in messages.into_iter().chain([bytes.to_vec()]) {
        let Some(end) = http::head_end(&text) else { continue };
        let Ok(head) = http::read(&text[..end]) else { continue };
        let mut whole = body::Gate::new(head.body);
        let mut parts = body::Gate::new(head.body);
        let taken = whole.take(&text[end..]);
        let mut count = 0;
        let stopped = text[end..].chunks(3).try_for_each(|part| {
            count += parts.take(part)?;
            Ok::<_, body::BodyError>(())
        });
        assert_eq!(taken, stopped.map(|()| count), "a body depends on how it comes");
        let http::Target::Request { host, port, .. } = &head.target else { continue };
        let on = head.handed_on().expect("a request");
        assert_eq!(http::head_end(&on), Some(on.len()), "two heads");
        match http::read(&on).expect("a head").target {
            http::Target::Request { host: again, port: same, absolute: false, .. } => {
                assert_eq!((&again, &same), (host, port));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A request is whole at one place, and names a host that is read again as the same one.
pub fn socks_hold(bytes: &[u8]) {
    let messages = SOCKS.map(|message| put_into(message, bytes));
    for text in messages.into_iter().chain([bytes.to_vec()]) {
        let _ = socks::offer(&text);
        let Ok(Some((request, used))) = socks::request(&text) else { continue };
        assert!(used <= text.len());
        let told = request.host.to_string();
        assert_eq!(Host::parse(told.as_bytes()), Ok(request.host.clone()));
        for end in 0..used {
            assert_eq!(socks::request(&text[..end]), Ok(None), "whole too early");
        }
        assert_eq!(socks::request(&text[..used]), Ok(Some((request, used))));
    }
}

fn counted(bytes: usize, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap_or(0).to_be_bytes();
    [&length[4 - bytes..], content].concat()
}

/// A first message, in records of `size` bytes.
fn first_message(size: usize) -> Vec<u8> {
    let entry = [vec![0], counted(2, b"a.example")].concat();
    let name = [vec![0, 0], counted(2, &counted(2, &entry))].concat();
    let other = [vec![0, 43], counted(2, &[2, 3, 4])].concat();
    let extensions = counted(2, &[name, other].concat());
    let body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 19, 1], &[1, 0], &extensions].concat();
    let message = [vec![1], counted(3, &body)].concat();
    message.chunks(size).flat_map(|part| [vec![22, 3, 1], counted(2, part)].concat()).collect()
}

/// A name that was seen stays the same whatever follows, and is not seen before its message is whole.
pub fn hello_holds(bytes: &[u8]) {
    let messages = [9, 64, 999].map(|size| put_into(&first_message(size), bytes));
    for text in messages.into_iter().chain([bytes.to_vec()]) {
        let seen = hello::read(&text);
        let Ok(hello::Flight::Hello { .. }) = &seen else { continue };
        assert_eq!(hello::read(&[&text[..], b"more"].concat()), seen);
        let first = (0..=text.len())
            .find(|end| !matches!(hello::read(&text[..*end]), Ok(hello::Flight::Partial)));
        assert_eq!(first.map(|end| hello::read(&text[..end])), Some(seen));
    }
}
