//! `stockade-agent tls HOST PORT`: one TLS connection for a gateway, which links no TLS. What comes on standard input is
//! sent once the certificate of the other side was checked; what comes back goes to standard output.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Most bytes that are sent.
const MAX_REQUEST: u64 = 80 << 20;

/// Where to connect.
#[derive(Debug, Args)]
pub(crate) struct Tls {
    /// Name of the other side, for which its certificate must be made
    host: String,
    /// Port
    port: u16,
}

/// Carries one request and its answer; tells in one line why it cannot.
pub(crate) fn run(options: &Tls) -> ExitCode {
    match carry(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn carry(Tls { host, port }: &Tls) -> anyhow::Result<()> {
    let mut request = Vec::new();
    let mut stdin = std::io::stdin().lock().take(MAX_REQUEST + 1);
    stdin.read_to_end(&mut request).context("the request cannot be read")?;
    if u64::try_from(request.len()).is_ok_and(|length| length > MAX_REQUEST) {
        bail!("the request is longer than {MAX_REQUEST} bytes");
    }
    let name =
        ServerName::try_from(host.clone()).with_context(|| format!("`{host}` is not a host"))?;
    let connection = ClientConnection::new(Arc::new(config()?), name)?;
    let unreachable = || format!("`{host}:{port}` cannot be reached");
    let socket = TcpStream::connect((host.as_str(), *port)).with_context(unreachable)?;
    let mut stream = StreamOwned::new(connection, socket);
    let unsafe_with = || format!("no safe connection with `{host}:{port}`");
    stream.write_all(&request).and_then(|()| stream.flush()).with_context(unsafe_with)?;
    let mut stdout = std::io::stdout().lock();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // Also when the other side goes without a word: its answer may be cut then.
            Err(error) => return Err(error).with_context(unsafe_with),
        };
        let Some(piece) = buffer.get(..count) else { return Ok(()) };
        // Each piece at once: the gateway knows when the answer is whole.
        stdout.write_all(piece).and_then(|()| stdout.flush()).context("nobody takes the answer")?;
    }
}

/// Returns what is trusted: the authorities of this system, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
fn config() -> anyhow::Result<ClientConfig> {
    let mut authorities = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    authorities.add_parsable_certificates(found.certs);
    if authorities.is_empty() {
        bail!("no certificates of authorities are installed, so no certificate can be checked");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(authorities).with_no_client_auth())
}
