//! A relay between client and endpoint: the headers, paths and words that reach either side.

#![allow(clippy::expect_used)]

use std::path::PathBuf;

use stockade_model::relay::Relay;
use stockade_model::{Block, Client, Endpoint, Error, Key, Message, Provider, Request, Retries};
use stockade_model_server::{Form, Reply, Server, Turn};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SECRET: &str = "sk-secret-of-the-relay";

/// Starts a relay to `server` and returns its socket, in a folder that is removed with the first value.
fn relay(server: &str) -> (tempfile::TempDir, PathBuf) {
    // An address has room for 107 bytes (unix(7)), and TMPDIR may be longer.
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let socket = folder.path().join("s");
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let mut endpoint = Endpoint::new(Provider::Anthropic, server);
    endpoint.key = Some(Key::new(SECRET));
    tokio::spawn(Relay::new(&endpoint).expect("a relay").serve(listener));
    (folder, socket)
}

async fn ask(socket: PathBuf) -> Result<String, Error> {
    let mut endpoint = Endpoint::new(Provider::Anthropic, "https://nobody.invalid");
    endpoint.relay = Some(socket);
    let once = Retries { tries: 1, ..Retries::default() };
    let client = Client::new(endpoint, once).expect("a client");
    let request = Request {
        model: "scripted".into(),
        system: Vec::new(),
        tools: Vec::new(),
        messages: vec![Message::user("hello")],
        max_output_tokens: 100,
        thinking_tokens: None,
        thinking_display: None,
    };
    let answer = client.ask(&request, &mut |_| {}).await?;
    let texts = answer.message.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    Ok(texts.collect())
}

#[tokio::test]
async fn the_relay_adds_the_key_and_reaches_its_endpoint_alone() {
    let answers =
        [Reply::answer(Form::Anthropic, &[Turn::Text("hi".into())]), Reply::error(500, "x")];
    let server = Server::start(answers).expect("a server");
    let (_folder, socket) = relay(&server.url());
    assert_eq!(ask(socket.clone()).await.expect("an answer"), "hi");
    let received = server.received();
    assert_eq!(received[0].header("x-api-key"), Some(SECRET));
    // Host, path and headers of the request choose nothing.
    let mut stream = tokio::net::UnixStream::connect(&socket).await.expect("a connection");
    let request = "POST http://elsewhere.invalid/v1/files HTTP/1.1\r\nhost: elsewhere.invalid\r\nx-api-key: other\r\n\
        cookie: c\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut told = String::new();
    stream.read_to_string(&mut told).await.expect("an answer");
    assert!(told.starts_with("HTTP/1.1 500"), "{told}");
    let second = server.received().pop().expect("a request");
    assert_eq!((second.header("x-api-key"), second.header("cookie")), (Some(SECRET), None));
}

#[tokio::test]
async fn an_endpoint_that_repeats_the_key_tells_nobody() {
    let server =
        Server::start([Reply::error(401, &format!("invalid key {SECRET}"))]).expect("a server");
    let (_folder, socket) = relay(&server.url());
    let error = ask(socket).await.expect_err("a refusal").to_string();
    assert!(error.contains("invalid key [key]") && !error.contains(SECRET), "{error}");
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_told_as_that() {
    let (_folder, socket) = relay("http://127.0.0.1:1");
    let Err(Error::GaveUp { status: None, reason, .. }) = ask(socket).await else {
        panic!("an answer");
    };
    assert!(reason.contains("refused"), "{reason}");
}
