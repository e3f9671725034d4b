//! One http hook: a POST request over a connection of its own (RFC 9112), with bounded time and answer. It follows no
//! redirection. `https` goes through the front-end executable, so that the gateway links no TLS.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use stockade_policy::{Hook, HttpHook, Layer, NameGlob, Origin, Settings};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::process::{Ended, MAX_OUTPUT};
use stockade_wire::types::Context;

/// Most bytes of the head of an answer.
const MAX_HEAD: usize = 64 << 10;
/// The executable beside ours that speaks TLS.
const BESIDE: &str = "stockade-agent";
/// Variables that say where certificates of authorities lie; a managed hook has the system's.
const AUTHORITIES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// A request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    target: Target,
    headers: Vec<(String, String)>,
    authorities: Vec<(String, String)>,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    secure: bool,
    host: String,
    port: u16,
    /// As the `Host` header has it.
    authority: String,
    path: String,
}

impl Job {
    /// Prepares the request of a hook, if the settings let it go there.
    pub(super) fn new(
        http: &HttpHook,
        hook: &Hook,
        settings: &Settings,
        variables: BTreeMap<String, String>,
        context: &Context,
    ) -> Result<Job, String> {
        let target = Target::read(&http.url)?;
        let managed = hook.origin.layer == Layer::Policy;
        // Lists of lower layers bind their hooks; they must not switch off a managed one.
        let binds = |(_, origin): &&(String, Origin)| !managed || origin.layer == Layer::Policy;
        let bound = |list: &'_ Option<Vec<(String, Origin)>>| {
            let list = list.as_ref()?;
            let counting: Vec<String> = list.iter().filter(binds).map(|it| it.0.clone()).collect();
            (!managed || !counting.is_empty()).then_some(counting)
        };
        if let Some(allowed) = bound(&settings.hook_urls)
            && !allowed.iter().any(|glob| is_allowed(glob, &target))
        {
            return Err(format!("`allowedHttpHookUrls` does not allow `{}`", http.url));
        }
        let outer = bound(&settings.hook_variables);
        let known: BTreeMap<&str, &str> = context
            .environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let value = |name: &str| {
            let own = http.variables.iter().any(|one| one == name);
            let outer = outer.as_ref().is_none_or(|list| list.iter().any(|one| one == name));
            if own && outer { known.get(name).copied().unwrap_or_default() } else { "" }
        };
        let mut headers = Vec::new();
        for (name, text) in &http.headers {
            let text = filled(text, value);
            if text.contains(char::is_control) {
                return Err(format!("the header `{name}` is more than one line"));
            }
            headers.push((name.clone(), text));
        }
        let authorities =
            variables.into_iter().filter(|(name, _)| AUTHORITIES.contains(&name.as_str()));
        Ok(Job { target, headers, authorities: authorities.collect() })
    }

    fn head(&self, length: usize) -> String {
        let Target { path, authority, .. } = &self.target;
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nContent-Length: {length}\r\n"
        );
        for (name, value) in [("Content-Type", "application/json"), ("Accept", "application/json")]
        {
            if !self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head
    }
}

impl Target {
    /// Reads an address (RFC 3986): `http` or `https`, a host, perhaps a port, a path and a query.
    fn read(url: &str) -> Result<Target, String> {
        let unusable = || format!("invalid address `{url}`");
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains('\\') {
            return Err(unusable());
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(unusable)?;
        let secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(unusable()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).ok_or_else(unusable)?;
        // A name and password before the host are not part of a host, and belong into a header.
        if authority.contains('@') {
            return Err(unusable());
        }
        let bracketed = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (host, port) = match bracketed {
            Some((host, port)) => (host, port),
            None => match authority.split_once(':') {
                Some((host, _)) => (host, authority.strip_prefix(host).unwrap_or_default()),
                None => (authority, ""),
            },
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().map_err(|_| unusable())?,
            None if port.is_empty() => {
                if secure {
                    443
                } else {
                    80
                }
            }
            None => return Err(unusable()),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(unusable());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, authority) = (host.to_ascii_lowercase(), authority.to_ascii_lowercase());
        Ok(Target { secure, host, port, authority, path })
    }
}

/// Says whether a pattern of `allowedHttpHookUrls` covers an address. A star stands for any characters, but in the host
/// for none that end it.
fn is_allowed(glob: &str, target: &Target) -> bool {
    if glob == "*" {
        return true;
    }
    let Some((scheme, rest)) = glob.split_once("://") else { return false };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let path = if path.is_empty() { "/" } else { path };
    let own = if target.secure { "https" } else { "http" };
    (scheme == "*" || scheme == own)
        && NameGlob::new(&authority.to_ascii_lowercase()).matches(&target.authority)
        && NameGlob::new(path).matches(&target.path)
}

/// Puts values in the place of `$NAME` and `${NAME}`.
fn filled<'v>(text: &str, value: impl Fn(&str) -> &'v str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut pieces = text.split('$');
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let braced = piece.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (name, rest) = match braced {
            Some((name, rest)) => (name, rest),
            None => piece.split_at(piece.find(|c| !is_name(c)).unwrap_or(piece.len())),
        };
        match name.is_empty() || !name.chars().all(is_name) {
            true => {
                result.push('$');
                result.push_str(piece);
            }
            false => {
                result.push_str(value(name));
                result.push_str(rest);
            }
        }
    }
    result
}

/// Sends a request, if it can be made, and waits for its answer.
pub(super) async fn send(
    job: Result<Job, String>,
    input: String,
    limit: Duration,
    executable: PathBuf,
) -> Ended {
    let start = Instant::now();
    let exchange = async { exchange(&job?, &input, executable).await };
    let sent = tokio::time::timeout(limit, exchange).await;
    let answer = match sent {
        Ok(Ok(answer)) => judged(answer.status, &answer.body).map(|()| answer.body),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(format!("it did not answer within {} seconds", limit.as_secs_f64())),
    };
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    match answer {
        Ok(stdout) => Ended { exit: Some(0), stdout, milliseconds, ..Ended::default() },
        Err(failure) => Ended { milliseconds, ..Ended::failed(failure) },
    }
}

/// Says whether an answer is one: success, with nothing or with a JSON object.
pub(super) fn judged(status: u16, body: &[u8]) -> Result<(), String> {
    if !(200..300).contains(&status) {
        return Err(format!("it answered with status {status}"));
    }
    let body = body.trim_ascii();
    match body.is_empty() || body.starts_with(b"{") {
        true => Ok(()),
        false => Err("its answer is not a JSON object".into()),
    }
}

/// An answer as it came.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: u16,
    body: Vec<u8>,
}

#[expect(clippy::disallowed_methods, reason = "the helper that speaks TLS beside this executable")]
async fn exchange(job: &Job, input: &str, executable: PathBuf) -> Result<Response, String> {
    let Target { secure, host, port, .. } = &job.target;
    let mut request = job.head(input.len()).into_bytes();
    request.extend_from_slice(input.as_bytes());
    if !secure {
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream =
            stream.map_err(|error| format!("`{host}:{port}` cannot be reached: {error}"))?;
        let (reading, mut writing) = stream.into_split();
        // The connection stays open until the answer is there: some services take a closed half for a client that left.
        let sending = async { drop(writing.write_all(&request).await) };
        return talk(reading, sending).await.map(|(answer, _)| answer);
    }
    let beside = executable.with_file_name(BESIDE);
    let mut command = Command::new(&beside);
    command.arg("tls").arg(host).arg(port.to_string()).env_clear();
    command.envs(job.authorities.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| {
        format!("`{}`, which it needs for `https`, cannot be started: {error}", beside.display())
    })?;
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("its tunnel has no streams".into());
    };
    let sending = async move {
        drop(stdin.write_all(&request).await);
        // Its end is the end of the request for the tunnel.
        drop(stdin);
    };
    match talk(stdout, sending).await {
        // Whole by its own word; what comes after it is nobody's matter.
        Ok((answer, Whole::ByItself)) => Ok(answer),
        // Whole because nothing came after it: the tunnel knows whether it was cut.
        Ok((answer, Whole::AtTheEnd)) => match child.wait().await {
            Ok(status) if status.success() => Ok(answer),
            Ok(_) | Err(_) => Err(complaint(&mut stderr).await),
        },
        Err(failure) => {
            let _ = child.start_kill(); // one that has ended by itself has said why
            let told = complaint(&mut stderr).await;
            Err(if told.is_empty() { failure } else { told })
        }
    }
}

/// Returns the line in which a tunnel says why it failed.
async fn complaint(stderr: &mut (impl AsyncRead + Unpin)) -> String {
    let mut told = Vec::new();
    let read = stderr.take(1024).read_to_end(&mut told).await;
    let text = String::from_utf8_lossy(&told);
    let line = text.lines().next().unwrap_or_default().to_owned();
    if read.is_err() { String::new() } else { line }
}

/// How it is known that an answer is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whole {
    ByItself,
    AtTheEnd,
}

/// Sends a request and reads the answer. A service may answer before it has read everything, so what is sent in vain is
/// no failure.
async fn talk(
    reading: impl AsyncRead + Unpin,
    sending: impl Future<Output = ()>,
) -> Result<(Response, Whole), String> {
    let limit = MAX_OUTPUT.saturating_add(u64::try_from(MAX_HEAD).unwrap_or(MAX_OUTPUT)) + 1;
    let mut bytes = Vec::new();
    let mut reading = reading.take(limit);
    let receiving = async {
        loop {
            let count = reading.read_buf(&mut bytes).await;
            let count = count.map_err(|error| format!("its answer cannot be read: {error}"))?;
            if let Some(answer) = parsed(&bytes, count == 0)? {
                let whole = if count == 0 { Whole::AtTheEnd } else { Whole::ByItself };
                return Ok((answer, whole));
            }
            if count == 0 {
                return Err("its answer ends too early".to_owned());
            }
        }
    };
    tokio::pin!(receiving);
    tokio::select! {
        answer = &mut receiving => answer,
        () = sending => receiving.await,
    }
}

/// Reads an answer from what has come of it; none when more must come.
fn parsed(bytes: &[u8], ended: bool) -> Result<Option<Response>, String> {
    let too_much = || format!("its answer is longer than {MAX_OUTPUT} bytes");
    let Some((head, body)) = split_at(bytes, b"\r\n\r\n") else {
        return if bytes.len() > MAX_HEAD { Err(too_much()) } else { Ok(None) };
    };
    let head = std::str::from_utf8(head).map_err(|_| "its answer is not HTTP")?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().splitn(3, ' ');
    let version = first.next().unwrap_or_default();
    let status = first.next().filter(|digits| digits.len() == 3).and_then(|it| it.parse().ok());
    let (Some(status), true) = (status, version.starts_with("HTTP/1.")) else {
        return Err("its answer is not HTTP".into());
    };
    if (100..200).contains(&status) {
        return parsed(body, ended);
    }
    let (mut length, mut chunked) = (None, false);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or("its answer is not HTTP")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let given: u64 = value.parse().map_err(|_| "its answer has no valid length")?;
            if length.is_some_and(|known| known != given) {
                return Err("its answer has two lengths".into());
            }
            length = Some(given);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err("its answer has an unknown encoding".into());
            }
            chunked = true;
        }
    }
    if status == 204 || status == 304 {
        return Ok(Some(Response { status, body: Vec::new() }));
    }
    let body = match (chunked, length) {
        // Chunks end with an empty line; without one there is no need to look at them again.
        (true, _) if !ended && !body.ends_with(b"\r\n\r\n") => None,
        (true, _) => unchunked(body)?,
        (false, Some(length)) if length > MAX_OUTPUT => return Err(too_much()),
        (false, Some(length)) => {
            body.get(..usize::try_from(length).unwrap_or(usize::MAX)).map(<[u8]>::to_vec)
        }
        (false, None) => ended.then(|| body.to_vec()),
    };
    let long = |body: &Vec<u8>| u64::try_from(body.len()).is_ok_and(|length| length > MAX_OUTPUT);
    match body {
        Some(body) if long(&body) => Err(too_much()),
        Some(body) => Ok(Some(Response { status, body })),
        None if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_OUTPUT) => {
            Err(too_much())
        }
        None => Ok(None),
    }
}

/// Puts a body that came in chunks together (RFC 9112, 7.1); none when more must come.
fn unchunked(mut rest: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut body = Vec::new();
    loop {
        let Some((line, after)) = split_at(rest, b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(line).unwrap_or_default();
        let size = size.split(';').next().unwrap_or_default().trim();
        let size =
            usize::from_str_radix(size, 16).map_err(|_| "its answer has a chunk without size")?;
        if size == 0 {
            return Ok(Some(body));
        }
        let (Some(chunk), Some(end)) = (after.get(..size), size.checked_add(2)) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        rest = match after.get(size..end) {
            Some(b"\r\n") => after.get(end..).unwrap_or_default(),
            Some(_) => return Err("its answer has a chunk without end".into()),
            None => return Ok(None),
        };
    }
}

fn split_at<'b>(bytes: &'b [u8], mark: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    let (head, rest) = bytes.split_at_checked(at)?;
    Some((head, rest.get(mark.len()..)?))
}

#[cfg(test)]
mod tests;
