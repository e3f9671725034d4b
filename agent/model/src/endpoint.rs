//! Where a model is asked.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

/// The wire form of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses.
    OpenAi,
    /// Chat completions as Ollama, vLLM, llama.cpp, LM Studio, `OpenRouter` and others have them.
    Compatible,
}

/// One endpoint with its settings.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The wire form.
    pub provider: Provider,
    /// Address without the path of the wire form, such as `https://api.anthropic.com`.
    pub base_url: String,
    /// The key; `None` where the egress side adds it, or where the endpoint wants none.
    pub key: Option<Key>,
    /// Further headers, by name. None of them may carry a key.
    pub headers: Vec<(String, String)>,
    /// A stream without any byte for this long is broken.
    pub silence: Duration,
    /// The socket of a [`crate::relay`], relative to the working directory or absolute: requests go there and nowhere else.
    pub relay: Option<PathBuf>,
}

impl Endpoint {
    /// A stream without any byte for this long is broken, unless settings say otherwise.
    pub const SILENCE: Duration = Duration::from_secs(90);

    /// Returns an endpoint without a key and without further headers.
    #[must_use]
    pub fn new(provider: Provider, base_url: impl Into<String>) -> Endpoint {
        let base_url = base_url.into();
        Endpoint {
            provider,
            base_url,
            key: None,
            headers: Vec::new(),
            silence: Self::SILENCE,
            relay: None,
        }
    }
}

/// A key. It is wiped from memory after use, and no text form shows it.
#[derive(Clone)]
pub struct Key {
    text: Zeroizing<String>,
    form: Form,
}

/// The header that carries a key.
#[derive(Clone, Copy)]
enum Form {
    /// The provider's own header for keys.
    ApiKey,
    /// `Authorization: Bearer` (RFC 6750).
    Bearer,
}

impl Key {
    /// Takes an API key, such as that of `ANTHROPIC_API_KEY`, without the white space around it.
    #[must_use]
    pub fn new(text: &str) -> Key {
        Key { text: Zeroizing::new(text.trim().to_owned()), form: Form::ApiKey }
    }

    /// Takes a token for the `Authorization` header, such as that of `ANTHROPIC_AUTH_TOKEN`.
    #[must_use]
    pub fn bearer(text: &str) -> Key {
        Key { text: Zeroizing::new(text.trim().to_owned()), form: Form::Bearer }
    }

    /// Replaces the key in `text`, so that an endpoint that repeats it tells nobody.
    pub(crate) fn mask(&self, text: &str) -> String {
        match self.text.is_empty() {
            true => text.to_owned(),
            false => text.replace(self.text.as_str(), "[key]"),
        }
    }

    /// Returns the header that carries the key to `provider`.
    pub(crate) fn header(&self, provider: Provider) -> (&'static str, Zeroizing<String>) {
        match (provider, self.form) {
            (Provider::Anthropic, Form::ApiKey) => ("x-api-key", self.text.clone()),
            (Provider::Anthropic, Form::Bearer) | (Provider::OpenAi | Provider::Compatible, _) => {
                ("authorization", Zeroizing::new(format!("Bearer {}", self.text.as_str())))
            }
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_no_text_form() {
        let mut endpoint = Endpoint::new(Provider::Anthropic, "https://api.anthropic.com");
        endpoint.key = Some(Key::new(" sk-1234\n"));
        assert!(!format!("{endpoint:?}").contains("1234"));
        let sent = |key: Key, provider| {
            let (name, value) = key.header(provider);
            format!("{name}: {}", value.as_str())
        };
        assert_eq!(sent(Key::new(" sk-1234\n"), Provider::Anthropic), "x-api-key: sk-1234");
        assert_eq!(sent(Key::bearer("t"), Provider::Anthropic), "authorization: Bearer t");
        assert_eq!(sent(Key::new("k"), Provider::Compatible), "authorization: Bearer k");
    }
}
