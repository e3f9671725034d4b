//! Hooks that are services behind HTTP, with and without TLS.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::{Value, json};
use stockade_tests::Place;

use super::{decision, hooks, judged};

/// Answers one request with `response` and returns what came.
fn serve(response: &'static str) -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            assert!(
                reader.read_line(&mut line).expect("a line") > 0,
                "the request ends early: {head}"
            );
            if let Some(digits) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = digits.trim().parse().expect("a length");
            }
            let last = line == "\r\n";
            head.push_str(&line);
            if last {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body");
        stream.write_all(response.as_bytes()).expect("the answer");
        head + &String::from_utf8(body).expect("UTF-8")
    });
    (port, served)
}

#[test]
fn a_service_decides_like_a_command() {
    let place = Place::new("hook-http");
    let deny = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"says the service"}}"#;
    let response: &'static str = Box::leak(
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{deny}",
            deny.len()
        )
        .into_boxed_str(),
    );
    let (port, served) = serve(response);
    let handler = json!({
        "type": "http", "url": format!("http://127.0.0.1:{port}/judge?x=1"),
        "headers": { "Authorization": "Bearer $LANG", "X-Home": "$HOME" }, "allowedEnvVars": ["LANG"],
    });
    let answer = judged(&place, "user", &hooks("PreToolUse", json!([handler])), "ls");
    assert_eq!(decision(&answer), ("deny", "hook"), "{answer}");
    assert_eq!(answer["reason"], json!("a hook refused: says the service"));
    let request = served.join().expect("a request");
    assert!(request.starts_with("POST /judge?x=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nAuthorization: Bearer C.UTF-8\r\n"), "{request}");
    assert!(request.contains("\r\nX-Home: \r\n"), "{request}");
    assert!(request.contains(r#""tool_input":{"command":"ls"}"#), "{request}");

    for (response, decided) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", ("allow", "builtin")),
        ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", ("deny", "hook")),
        ("HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", ("deny", "hook")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", ("deny", "hook")),
        ("hello\r\n\r\n", ("deny", "hook")),
    ] {
        let (port, served) = serve(response);
        let handler = json!({ "type": "http", "url": format!("http://127.0.0.1:{port}/") });
        let answer = judged(&place, "policy", &hooks("PreToolUse", json!([handler])), "ls");
        assert_eq!(decision(&answer), decided, "{response}: {answer}");
        served.join().expect("a request");
    }
}

/// Answers one request over TLS, or meets a client that does not trust the certificate.
fn serve_tls(response: &'static str) -> (u16, std::thread::JoinHandle<bool>) {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let folder = stockade_tests::root().join("tests/fixtures/tls");
    let certificate =
        CertificateDer::from_pem_file(folder.join("localhost.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join("localhost.key")).expect("its key");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate with its key");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    let served = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        let mut connection = rustls::ServerConnection::new(config.into()).expect("a connection");
        let mut stream = rustls::Stream::new(&mut connection, &mut socket);
        let mut request = vec![0; 64 << 10];
        let asked = stream.read(&mut request).is_ok_and(|count| count > 0);
        asked && stream.write_all(response.as_bytes()).is_ok()
    });
    (port, served)
}

#[test]
fn a_service_behind_tls_is_asked_when_its_certificate_holds() {
    let place = Place::new("hook-https");
    stockade_tests::executable("stockade-agent");
    let body = r#"{"decision":"block","reason":"over TLS"}"#;
    let response: &'static str = Box::leak(
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_boxed_str(),
    );
    let authority = stockade_tests::root().join("tests/fixtures/tls/authority.pem");
    // A managed hook has the authorities of the system alone, which know nothing of this one.
    for (layer, host, reason, answered) in [
        ("user", "localhost", "a hook refused: over TLS", true),
        ("policy", "localhost", "no safe connection with `localhost:", false),
    ] {
        let (port, served) = serve_tls(response);
        let handler = json!({ "type": "http", "url": format!("https://{host}:{port}/hook") });
        let case = json!({
            "layers": { layer: hooks("PreToolUse", json!([handler])) }, "tool": "Bash",
            "input": { "command": "ls" }, "cwd": place.project(), "home": place.home(),
        });
        let mut command = place.stockade(["check", "--jsonl", "--run-hooks", "--no-daemon"]);
        command.env("SSL_CERT_FILE", &authority).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the executable starts");
        writeln!(child.stdin.take().expect("a pipe"), "{case}").expect("it reads");
        let output = child.wait_with_output().expect("its end");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(decision(&answer), ("deny", "hook"), "{answer}");
        let said = answer["reason"].as_str().unwrap_or_default();
        let none = "no certificates of authorities are installed";
        assert!(said.contains(reason) || (layer == "policy" && said.contains(none)), "{answer}");
        if answered {
            assert!(served.join().expect("a server"), "it was asked");
        }
    }
}

#[test]
fn a_service_that_is_not_listed_is_not_asked() {
    let place = Place::new("hook-urls");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    let port = listener.local_addr().expect("its number").port();
    let mut settings = hooks(
        "PreToolUse",
        json!([{ "type": "http", "url": format!("http://127.0.0.1:{port}/") }]),
    );
    for (layer, listed, decided) in [
        ("user", json!(["https://hooks.example/*"]), ("allow", "builtin")),
        ("user", json!([]), ("allow", "builtin")),
        ("policy", json!(["https://hooks.example/*"]), ("deny", "hook")),
    ] {
        settings["allowedHttpHookUrls"] = listed;
        let answer = judged(&place, layer, &settings, "ls");
        assert_eq!(decision(&answer), decided, "{answer}");
        let error = answer["hooks"][0]["error"].as_str().unwrap_or_default();
        assert!(error.starts_with("`allowedHttpHookUrls` does not allow "), "{answer}");
        assert!(listener.accept().is_err(), "nothing connects");
    }
}
