//! Logging of this executable's own work: off, unless `STOCKADE_LOG` names levels.
//!
//! Events go to standard error, which no answer uses. They hold no command, no content and no key: those of this project
//! name numbers, states and errors, and those of libraries are heard only where their module is named.

use std::str::FromStr as _;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The levels by module: `info`, or `stockade_telemetry=debug,stockade_web=info`.
const LEVELS: &str = "STOCKADE_LOG";
/// `json`, or `text`.
const FORM: &str = "STOCKADE_LOG_FORMAT";
/// Where the modules of this project begin.
const OWN: &str = "stockade";

/// Begins to listen, if the variable says so. Without it no event is made.
pub(crate) fn begin() -> Result<(), String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.trim().is_empty());
    let Some(text) = variable(LEVELS) else { return Ok(()) };
    let levels = levels(&text).ok_or_else(|| {
        format!(
            "{LEVELS} is `{}`, not levels by module such as `stockade_telemetry=debug`",
            text.escape_debug()
        )
    })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let all = tracing_subscriber::registry().with(levels);
    let begun = match variable(FORM).as_deref() {
        None | Some("text") => all.with(lines).try_init(),
        Some("json") => all.with(lines.json()).try_init(),
        Some(other) => {
            return Err(format!("{FORM} is `{}`, not `text` or `json`", other.escape_debug()));
        }
    };
    begun.map_err(|error| error.to_string())
}

/// Reads levels. One without a module is for those of this project: the libraries below it may say what is secret.
fn levels(text: &str) -> Option<Targets> {
    let own =
        text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(|directive| match directive
            .contains('=')
        {
            true => directive.to_owned(),
            false => format!("{OWN}={directive}"),
        });
    Targets::from_str(&own.collect::<Vec<_>>().join(",")).ok()
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_level_alone_is_for_the_modules_of_this_project() {
        let info = levels("info").expect("levels");
        assert!(info.would_enable("stockade_telemetry::follow", &Level::INFO));
        assert!(!info.would_enable("stockade_telemetry::follow", &Level::DEBUG));
        assert!(!info.would_enable("hyper_util::client", &Level::ERROR));
        let named = levels("warn, stockade_web=debug,hyper_util=trace").expect("levels");
        assert!(named.would_enable("stockade_web::hook::send", &Level::DEBUG));
        assert!(!named.would_enable("stockade_telemetry::follow", &Level::INFO));
        assert!(named.would_enable("hyper_util::client", &Level::TRACE));
        for bad in ["loud", "stockade_web=loud", "a=b=c"] {
            assert!(levels(bad).is_none(), "{bad}");
        }
    }
}
