//! `stockade approvals webhook`: tells a URL each open question, and takes signed answers.
//!
//! Both ways are signed with one key (HMAC-SHA256, RFC 2104) that never leaves this process and its file. An answer names
//! the digest of the question that it is about, is at most five minutes old, and cannot write a rule.

mod answers;
mod form;
mod send;
mod sign;

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use reqwest::Url;
use stockade_client::{Client, Options};
use tokio::net::TcpListener;

use crate::questions::{self, Questions};
pub use form::Form;
use sign::Key;

/// Options of `stockade approvals webhook`.
#[derive(Debug)]
pub struct Webhook {
    /// The socket of the gateway; none means the usual one.
    pub socket: Option<PathBuf>,
    /// Where questions are sent.
    pub url: String,
    /// The file of the key. The plain form makes it if it does not exist.
    pub key: PathBuf,
    /// The loopback port at which answers are taken; 0 means any free one.
    pub port: u16,
    /// The form of the messages.
    pub form: Form,
}

/// Sends questions and takes answers until Ctrl-C. Prints the address for answers first, then a line for each message.
pub fn run(webhook: &Webhook) -> anyhow::Result<()> {
    let url = checked(&webhook.url)?;
    let key = Arc::new(Key::open(&webhook.key, webhook.form)?);
    let options = Options { socket: webhook.socket.clone(), ..Options::from_environment() };
    let reached = Client::reach(&options).map_err(|it| anyhow::anyhow!("{}", it.message))?;
    anyhow::ensure!(reached.is_some(), "none of your gateways is running, so no question is open");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = runtime.block_on(serve(options, url, key, webhook));
    // A question to the gateway may still be on its way.
    runtime.shutdown_background();
    ended
}

async fn serve(options: Options, url: Url, key: Arc<Key>, webhook: &Webhook) -> anyhow::Result<()> {
    let port = webhook.port;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.with_context(|| format!("cannot listen at 127.0.0.1:{port}"))?;
    let questions = Arc::new(Questions::new(options));
    let address = listener.local_addr()?;
    say(&format!("answers: http://{address}{}", webhook.form.path()))?;
    let routes = answers::routes(Arc::clone(&questions), Arc::clone(&key), webhook.form);
    let sending = send::send(questions.shown(), url, key, webhook.form)?;
    tokio::spawn(questions::watch(questions));
    tokio::select! {
        served = async { axum::serve(listener, routes).await } => Ok(served?),
        () = sending => Ok(()),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}

/// Accepts `https`, and `http` to this machine alone: a question says what runs here.
fn checked(url: &str) -> anyhow::Result<Url> {
    let parsed =
        Url::parse(url).with_context(|| format!("invalid URL `{}`", url.escape_debug()))?;
    let is_local = matches!(parsed.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match parsed.scheme() {
        "https" => Ok(parsed),
        "http" if is_local => Ok(parsed),
        _ => anyhow::bail!("the webhook `{}` does not use https", url.escape_debug()),
    }
}

/// Prints a line at once.
fn say(line: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_go_over_https_or_stay_on_this_machine() {
        for good in
            ["https://h.example/x", "http://localhost:1/", "http://127.0.0.1", "http://[::1]:2/"]
        {
            assert!(checked(good).is_ok(), "{good}");
        }
        for bad in [
            "http://h.example/",
            "http://localhost.example/",
            "ftp://localhost",
            "file:///x",
            "h",
            "",
        ] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }
}
