//! Known models, and the endpoint that is asked.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stockade_model::{Client, Endpoint, Key, Prices, Provider, Retries};

use crate::flags::Flags;

/// Prices (US dollars for a million tokens), context windows and limits of output, by beginning of the name; the longest
/// beginning that fits counts first. Source: the price lists of the providers, 2026.
static KNOWN: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../models.json")).unwrap_or_default());

fn row(model: &str) -> Option<&'static Value> {
    let rows = KNOWN.get("models").and_then(Value::as_array)?;
    let fits = |row: &&Value| {
        row.get("prefix").and_then(Value::as_str).is_some_and(|it| model.starts_with(it))
    };
    rows.iter().find(fits)
}

/// Returns the prices of a model; zero for one that is not known.
pub(crate) fn prices(model: &str) -> Prices {
    let price = |key: &str| {
        row(model).and_then(|row| row.get(key)).and_then(Value::as_f64).unwrap_or_default()
    };
    Prices {
        input: price("input"),
        cache_write: price("cacheWrite"),
        cache_read: price("cacheRead"),
        output: price("output"),
    }
}

/// Returns context window and limit of output of a model, in tokens.
pub(crate) fn windows(model: &str) -> (u64, u64) {
    let row = row(model).or_else(|| KNOWN.get("other"));
    let number =
        |key: &str| row.and_then(|row| row.get(key)).and_then(Value::as_u64).unwrap_or(16_384);
    (number("window"), number("limit"))
}

/// Returns the whole name for a short one.
pub(crate) fn whole(model: &str) -> String {
    let whole = KNOWN.get("short").and_then(|it| it.get(model)).and_then(Value::as_str);
    whole.filter(|it| !it.is_empty()).unwrap_or(model).to_owned()
}

/// The endpoint of a session, which is asked through a relay.
#[derive(Debug)]
pub(crate) struct Asks {
    pub(crate) client: Client,
    pub(crate) model: String,
    pub(crate) fallback: Option<String>,
    /// Context window, in tokens.
    pub(crate) window: u64,
    /// Where the key comes from, in the words of the protocol.
    pub(crate) key_source: String,
}

/// The part of an endpoint that a session knows: neither the address nor the key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Known {
    provider: String,
    model: String,
    fallback: Option<String>,
    window: Option<u64>,
    key_source: String,
}

impl Known {
    /// The same endpoint with another model.
    pub(crate) fn asking(self, model: &str) -> Known {
        Known { model: whole(model), ..self }
    }

    /// Asks the endpoint through the relay at `socket`.
    pub(crate) fn through(self, socket: &Path) -> anyhow::Result<Asks> {
        let mut endpoint = Endpoint::new(provider(&self.provider)?, "");
        endpoint.relay = Some(socket.to_owned());
        let client = Client::new(endpoint, retries())?;
        let Known { model, fallback, window, key_source, .. } = self;
        let window = window.unwrap_or_else(|| windows(&model).0);
        Ok(Asks { client, model, fallback, window, key_source })
    }
}

/// Variables with keys of endpoints. Neither the agent nor a command gets them.
pub(crate) const KEYS: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"];

/// Returns a variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn provider(name: &str) -> anyhow::Result<Provider> {
    match name {
        "anthropic" => Ok(Provider::Anthropic),
        "openai" => Ok(Provider::OpenAi),
        "compatible" => Ok(Provider::Compatible),
        other => {
            bail!("the provider `{other}` is not known; it is anthropic, openai or compatible")
        }
    }
}

fn name(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "anthropic",
        Provider::OpenAi => "openai",
        Provider::Compatible => "compatible",
    }
}

/// Finds the endpoint with its key: options first, then `model` of `--settings`, then the environment.
pub(crate) fn find(flags: &Flags, settings: &Value) -> anyhow::Result<(Endpoint, Known)> {
    let own = settings.get("model").cloned().unwrap_or_default();
    let set = |key: &str| own.get(key).and_then(Value::as_str).map(str::to_owned);
    let form = flags.provider.clone().or_else(|| set("provider"));
    let provider = form.map_or_else(guessed, |form| provider(&form))?;
    let (base, key_name, default) = match provider {
        Provider::Anthropic => {
            ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "https://api.anthropic.com")
        }
        Provider::OpenAi | Provider::Compatible => {
            ("OPENAI_BASE_URL", "OPENAI_API_KEY", "https://api.openai.com/v1")
        }
    };
    let base_url = flags.base_url.clone().or_else(|| set("baseUrl")).or_else(|| variable(base));
    let mut endpoint = Endpoint::new(provider, base_url.unwrap_or_else(|| default.to_owned()));
    let token = variable("ANTHROPIC_AUTH_TOKEN").filter(|_| provider == Provider::Anthropic);
    let api_key = variable(key_name);
    let key_source = match (&token, &api_key) {
        (Some(_), _) => "ANTHROPIC_AUTH_TOKEN",
        (None, Some(_)) => key_name,
        (None, None) => "none",
    };
    endpoint.key = match (token, api_key) {
        (Some(token), _) => Some(Key::bearer(&token)),
        (None, Some(key)) => Some(Key::new(&key)),
        (None, None) => None,
    };
    if provider == Provider::Anthropic && !flags.betas.is_empty() {
        endpoint.headers.push(("anthropic-beta".into(), flags.betas.join(",")));
    }
    let named = flags.model.clone().or_else(|| match &own {
        Value::String(model) => Some(model.clone()),
        _ => set("model"),
    });
    let model = named
        .filter(|it| it != "default")
        .or_else(|| variable("ANTHROPIC_MODEL").filter(|_| provider == Provider::Anthropic));
    let model = match model {
        Some(model) => whole(&model),
        None => usual(provider).context("no model is named; name one with `--model MODEL`")?,
    };
    let fallback =
        flags.fallback_model.clone().or_else(|| set("fallbackModel")).map(|it| whole(&it));
    let (provider, key_source) = (name(provider).to_owned(), key_source.to_owned());
    let window = own.get("contextWindow").and_then(Value::as_u64).filter(|it| *it > 0);
    Ok((endpoint, Known { provider, model, fallback, window, key_source }))
}

fn usual(provider: Provider) -> Option<String> {
    let model = KNOWN.get("default").and_then(|it| it.get(name(provider))).and_then(Value::as_str);
    model.filter(|it| !it.is_empty()).map(str::to_owned)
}

/// Returns the provider whose variables are set.
fn guessed() -> anyhow::Result<Provider> {
    let anthropic = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"];
    if anthropic.iter().any(|name| variable(name).is_some()) {
        return Ok(Provider::Anthropic);
    }
    match (variable("OPENAI_BASE_URL"), variable("OPENAI_API_KEY")) {
        (Some(url), _) if !url.contains("api.openai.com") => Ok(Provider::Compatible),
        (Some(_), _) | (None, Some(_)) => Ok(Provider::OpenAi),
        (None, None) => bail!(
            "no model is set up; set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name an endpoint with `--provider` and `--base-url`"
        ),
    }
}

/// Returns how often a request is repeated; `STOCKADE_MODEL_TRIES` lowers it.
fn retries() -> Retries {
    let usual = Retries::default();
    let tries = variable("STOCKADE_MODEL_TRIES").and_then(|it| it.parse().ok());
    Retries {
        tries: tries.filter(|it| (1..=usual.tries).contains(it)).unwrap_or(usual.tries),
        ..usual
    }
}

/// Returns the tokens for thinking that the options ask for.
pub(crate) fn thinking(flags: &Flags) -> Option<u64> {
    if flags.thinking.as_deref() == Some("disabled") {
        return None;
    }
    let by_effort = flags.effort.as_deref().map(|effort| match effort {
        "low" => 2_048,
        "medium" => 8_192,
        "high" => 16_384,
        _ => 32_000,
    });
    flags.max_thinking_tokens.or(by_effort).filter(|it| *it > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_prices_and_short_names() {
        assert_eq!(whole("sonnet"), "claude-sonnet-4-5");
        assert_eq!(whole("llama3"), "llama3");
        assert!((prices("claude-sonnet-4-5-20250929").output - 15.0).abs() < 1e-9);
        assert!((prices("claude-opus-4-5").output - 25.0).abs() < 1e-9);
        assert!(prices("llama3").output.abs() < 1e-9);
        assert_eq!(windows("llama3"), (128_000, 16_384));
    }
}
