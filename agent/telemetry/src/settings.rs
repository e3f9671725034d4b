//! Where telemetry goes: the variables that OpenTelemetry names for exporters.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Where a collector of this machine listens.
const USUAL: &str = "http://localhost:4318";
/// How long a collector has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long records wait for others of the same request.
const TOGETHER: Duration = Duration::from_secs(5);
/// How often metrics are sent.
const METRICS: Duration = Duration::from_secs(60);

/// Variables that name the proxy of requests over `https`.
const PROXIES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
/// Usual port of a SOCKS proxy (RFC 1928).
const SOCKS: u16 = 1080;

/// The three signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    pub(crate) const ALL: [Signal; 3] = [Signal::Traces, Signal::Metrics, Signal::Logs];

    /// The name in a URL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Metrics => "metrics",
            Signal::Logs => "logs",
        }
    }

    /// Returns the variable of this signal for an option of exporters.
    fn variable(self, option: &str) -> String {
        format!("OTEL_EXPORTER_OTLP_{}_{option}", self.name().to_uppercase())
    }
}

/// Where a signal goes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
}

/// All that the variables say.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The signals that are sent.
    pub(crate) targets: BTreeMap<Signal, Target>,
    /// Attributes of all that is sent.
    pub(crate) resource: Vec<(String, String)>,
    /// A further authority for certificates, in PEM.
    pub(crate) authority: Option<Vec<u8>>,
    pub(crate) together: Duration,
    pub(crate) metrics: Duration,
}

impl Settings {
    /// Reads the variables. An empty one counts as missing, as OpenTelemetry says.
    pub(crate) fn read(variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Settings> {
        let variable = |name: &str| variable(name).filter(|it| !it.trim().is_empty());
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        ensure!(!is_disabled, "OTEL_SDK_DISABLED switches telemetry off");
        let mut targets = BTreeMap::new();
        for signal in Signal::ALL {
            let exporter = format!("OTEL_{}_EXPORTER", signal.name().to_uppercase());
            match variable(&exporter).as_deref() {
                None | Some("otlp") => {
                    targets.insert(signal, target(signal, &variable)?);
                }
                Some("none") => {}
                Some(other) => {
                    bail!("{exporter} is `{}`, not `otlp` or `none`", other.escape_debug())
                }
            }
        }
        ensure!(
            !targets.is_empty(),
            "OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER and OTEL_LOGS_EXPORTER are `none`"
        );
        let authority = variable("OTEL_EXPORTER_OTLP_CERTIFICATE");
        let read = |file: String| {
            std::fs::read(&file)
                .with_context(|| format!("cannot read the certificate `{}`", file.escape_debug()))
        };
        Ok(Settings {
            targets,
            resource: resource(&variable),
            authority: authority.map(read).transpose()?,
            together: milliseconds("OTEL_BSP_SCHEDULE_DELAY", &variable)?.unwrap_or(TOGETHER),
            metrics: milliseconds("OTEL_METRIC_EXPORT_INTERVAL", &variable)?.unwrap_or(METRICS),
        })
    }
}

impl Settings {
    /// Returns the TCP ports to which requests go: those of collectors, and of the proxies that variables name for `https`.
    pub(crate) fn ports(&self, variable: &dyn Fn(&str) -> Option<String>) -> Vec<u16> {
        let proxies = PROXIES.iter().filter_map(|name| variable(name));
        let proxy = |text: String| {
            let url = Url::parse(&text).ok().filter(Url::has_host);
            let url = url.or_else(|| Url::parse(&format!("http://{text}")).ok())?;
            url.port_or_known_default().or(Some(SOCKS))
        };
        let own = self.targets.values().filter_map(|it| it.url.port_or_known_default());
        own.chain(proxies.filter_map(proxy)).collect()
    }
}

type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

fn target(signal: Signal, variable: Variable<'_>) -> anyhow::Result<Target> {
    let option = |option: &str| {
        let (own, all) = (signal.variable(option), format!("OTEL_EXPORTER_OTLP_{option}"));
        variable(&own).map(|it| (own, it)).or_else(|| variable(&all).map(|it| (all, it)))
    };
    if let Some((name, protocol)) = option("PROTOCOL") {
        ensure!(
            protocol == "http/protobuf",
            "{name} is `{}`, not `http/protobuf`",
            protocol.escape_debug()
        );
    }
    if let Some((name, compression)) = option("COMPRESSION") {
        ensure!(compression == "none", "{name} is `{}`, not `none`", compression.escape_debug());
    }
    let (name, address) = match variable(&signal.variable("ENDPOINT")) {
        Some(own) => (signal.variable("ENDPOINT"), own),
        None => {
            let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or_else(|| USUAL.to_owned());
            let base = base.trim_end_matches('/');
            ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), format!("{base}/v1/{}", signal.name()))
        }
    };
    // The address may hold a secret, so no error says it.
    let url = Url::parse(&address).ok().with_context(|| format!("{name} is no URL"))?;
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let may_be_read = || option("INSECURE").is_some_and(|(_, it)| it.eq_ignore_ascii_case("true"));
    match url.scheme() {
        "https" => {}
        "http" if is_local || may_be_read() => {}
        "http" => bail!(
            "{name} sends telemetry to another machine without TLS; use https, or set OTEL_EXPORTER_OTLP_INSECURE=true"
        ),
        _ => bail!("{name} is no http or https URL"),
    }
    let headers = option("HEADERS").map(|(name, text)| headers(&name, &text)).transpose()?;
    let timeout = option("TIMEOUT").map(|(name, text)| number(&name, &text)).transpose()?;
    Ok(Target { url, headers: headers.unwrap_or_default(), timeout: timeout.unwrap_or(PATIENCE) })
}

/// Reads `name=value,name=value` with values in percent encoding. No error says a value.
fn headers(variable: &str, text: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs(text) {
        let shown = name.escape_debug().to_string();
        let name = HeaderName::from_bytes(name.as_bytes())
            .with_context(|| format!("{variable} has the invalid header name `{shown}`"))?;
        let mut value = HeaderValue::from_str(&value)
            .ok()
            .with_context(|| format!("{variable} has an invalid value for the header `{shown}`"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn resource(variable: Variable<'_>) -> Vec<(String, String)> {
    let mut attributes = BTreeMap::from([("service.name".to_owned(), "stockade".to_owned())]);
    attributes.extend(variable("OTEL_RESOURCE_ATTRIBUTES").iter().flat_map(|text| pairs(text)));
    attributes.extend(variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
    attributes.insert("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    attributes.into_iter().collect()
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (unescaped(name.trim()), unescaped(value.trim())));
    pairs.filter(|(name, _)| !name.is_empty()).collect()
}

/// Returns text without percent encoding; what is not UTF-8 then, as it stands.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let escaped =
            digits.filter(|_| *first == b'%').and_then(|it| u8::from_str_radix(it, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = behind.get(if escaped.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn milliseconds(name: &str, variable: Variable<'_>) -> anyhow::Result<Option<Duration>> {
    variable(name).map(|text| number(name, &text)).transpose()
}

fn number(name: &str, text: &str) -> anyhow::Result<Duration> {
    let number = text.trim().parse().ok().filter(|number| (1..=86_400_000).contains(number));
    let number = number.with_context(|| {
        format!("{name} is `{}`, not a number of milliseconds", text.escape_debug())
    })?;
    Ok(Duration::from_millis(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> anyhow::Result<Settings> {
        Settings::read(&|name| {
            variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn urls(variables: &[(&str, &str)]) -> Vec<String> {
        let settings = read(variables).expect("settings");
        settings.targets.values().map(|it| it.url.to_string()).collect()
    }

    #[test]
    fn endpoints_are_those_of_the_variables() {
        let usual =
            ["traces", "metrics", "logs"].map(|it| format!("http://localhost:4318/v1/{it}"));
        assert_eq!(urls(&[]), usual);
        assert_eq!(urls(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), usual, "an empty one is missing");
        let all = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example/otlp/"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t.example/own"),
            ("OTEL_LOGS_EXPORTER", "none"),
        ];
        assert_eq!(urls(&all), ["https://t.example/own", "https://c.example/otlp/v1/metrics"]);
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, x-tenant = a"),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "x-only=logs"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "30000"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod,service.name=other,broken"),
            ("OTEL_SERVICE_NAME", "gate"),
        ])
        .expect("settings");
        let of = |signal| settings.targets.get(&signal).expect("a target");
        assert_eq!(
            of(Signal::Traces).headers.get("authorization").expect("it is sent"),
            "Bearer x"
        );
        assert_eq!(of(Signal::Metrics).headers.get("x-tenant").expect("it is sent"), "a");
        let own: Vec<_> = of(Signal::Logs).headers.iter().collect();
        assert_eq!(own, [(&HeaderName::from_static("x-only"), &HeaderValue::from_static("logs"))]);
        let timeouts = Signal::ALL.map(|it| of(it).timeout.as_millis());
        assert_eq!(timeouts, [30_000, 250, 250]);
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            settings.resource,
            [
                own("deployment.environment", "prod"),
                own("service.name", "gate"),
                own("service.version", env!("CARGO_PKG_VERSION")),
            ]
        );
        assert!(!format!("{settings:?}").contains("Bearer"), "headers are not shown");
    }

    #[test]
    fn requests_go_to_the_ports_of_collectors_and_of_proxies() {
        let ports = |variables: &[(&str, &str)]| {
            let of = |name: &str| {
                variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
            };
            read(variables).expect("settings").ports(&of)
        };
        assert_eq!(ports(&[]), [4318; 3]);
        let found = ports(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "https://c.example:99/x"),
            ("https_proxy", "http://p.example:3128"),
            ("HTTPS_PROXY", "p.example:8080"),
            ("all_proxy", "socks5://p.example"),
            ("ALL_PROXY", "p.example"),
        ]);
        assert_eq!(found, [443, 443, 99, 3128, 8080, 1080, 80]);
    }

    #[test]
    fn what_cannot_be_done_is_said_without_the_values() {
        let cases = [
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "http://c.example",
                "OTEL_EXPORTER_OTLP_ENDPOINT sends telemetry to another machine without TLS; use https, or set OTEL_EXPORTER_OTLP_INSECURE=true",
            ),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "ftp://key@c.example",
                "OTEL_EXPORTER_OTLP_ENDPOINT is no http or https URL",
            ),
            (
                "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
                "c.example:4318",
                "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT is no http or https URL",
            ),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "key", "OTEL_EXPORTER_OTLP_ENDPOINT is no URL"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "a b=key",
                "OTEL_EXPORTER_OTLP_HEADERS has the invalid header name `a b`",
            ),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "a=k%0Aey",
                "OTEL_EXPORTER_OTLP_HEADERS has an invalid value for the header `a`",
            ),
            (
                "OTEL_EXPORTER_OTLP_PROTOCOL",
                "grpc",
                "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`, not `http/protobuf`",
            ),
            (
                "OTEL_EXPORTER_OTLP_COMPRESSION",
                "gzip",
                "OTEL_EXPORTER_OTLP_COMPRESSION is `gzip`, not `none`",
            ),
            (
                "OTEL_EXPORTER_OTLP_TIMEOUT",
                "10s",
                "OTEL_EXPORTER_OTLP_TIMEOUT is `10s`, not a number of milliseconds",
            ),
            (
                "OTEL_BSP_SCHEDULE_DELAY",
                "0",
                "OTEL_BSP_SCHEDULE_DELAY is `0`, not a number of milliseconds",
            ),
            (
                "OTEL_TRACES_EXPORTER",
                "zipkin",
                "OTEL_TRACES_EXPORTER is `zipkin`, not `otlp` or `none`",
            ),
            ("OTEL_SDK_DISABLED", "true", "OTEL_SDK_DISABLED switches telemetry off"),
        ];
        for (name, value, message) in cases {
            let error = read(&[(name, value)]).expect_err(name);
            assert_eq!(error.to_string(), message);
        }
        let far = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c.example"),
            ("OTEL_EXPORTER_OTLP_INSECURE", "true"),
        ];
        assert!(read(&far).is_ok());
    }
}
