//! The client and the relay send their requests to an endpoint in the same way.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::endpoint::{Endpoint, Provider};
use crate::error::Error;

/// Limit for opening a connection.
pub(crate) const CONNECT: Duration = Duration::from_secs(30);
/// Marks an answer of the relay itself: the endpoint gave none.
pub(crate) const UNREACHED: &str = "x-stockade-unreached";

/// Returns the headers of every request.
pub(crate) fn headers(endpoint: &Endpoint) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let mut insert = |name: &str, value: &str, secret: bool| {
        let invalid =
            |what: &str| Error::Settings(format!("the {what} of header `{name}` is invalid"));
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid("value"))?;
        value.set_sensitive(secret);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("name"))?;
        headers.insert(name, value);
        Ok(())
    };
    for (name, value) in &endpoint.headers {
        insert(name, value, false)?;
    }
    if endpoint.provider == Provider::Anthropic {
        insert("anthropic-version", "2023-06-01", false)?;
    }
    if let Some(key) = &endpoint.key {
        let (name, value) = key.header(endpoint.provider);
        insert(name, &value, true)?;
    }
    Ok(headers)
}

/// Returns an error with its causes, without the address, which may hold a password.
pub(crate) fn told(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        words.push(error.to_string());
        cause = error.source();
    }
    if words.is_empty() { "the request failed".to_owned() } else { words.join(": ") }
}
