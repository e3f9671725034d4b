//! `stockade allow` and `stockade block`: one entry more in the local settings of the project.

use std::path::Path;

use crate::cli::exit::ExitCode;
use serde_json::{Value, json};
use stockade_policy::{Layer, SettingsText, Severity};

use super::super::args::amend::Amend;
use super::super::ask::Terminal;
use super::{Court, failure, print};
use crate::audit::record::{Body, Grant};
use crate::audit::{GatewayMode, Log};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::response::unrecorded;
use crate::settings;
use stockade_monitor::approve::{self, remember};

/// Direction of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// More is permitted, which a person confirms.
    Allow,
    /// Less is permitted.
    Block,
}

/// Kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rule,
    Host,
    Path,
}

/// Adds an entry to the local settings of the project, and shows it.
pub(crate) async fn amend(options: Amend, effect: Effect) -> Result<ExitCode, Failure> {
    let court = Court::new(&options.common)?;
    let snapshot = settings::read(&court.sources())?;
    let subject = options.subject.trim();
    let kind = kind(subject);
    let lists = lists(kind, effect);
    lists.iter().try_for_each(|keys| checked(keys, subject))?;
    let settings = snapshot.rules.settings();
    let managed = match kind {
        Kind::Rule => settings.managed_rules_only,
        Kind::Host => settings.sandbox.managed_domains_only,
        Kind::Path => false,
    };
    if effect == Effect::Allow && managed {
        let message = "the managed settings alone decide this";
        let help = "ask the administrator of this machine";
        return Err(Failure::new(Code::SettingsRejected, message, help));
    }
    let project = &court.place.project;
    let file = words::quoted(&approve::local_file(project).to_string_lossy());
    let entry = words::quoted(subject);
    let change: Vec<String> =
        lists.iter().map(|keys| format!("+ {}: {entry}", keys.join("."))).collect();
    let change = change.join("\n");
    if options.dry_run {
        print(&format!("{file}\n{change}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if effect == Effect::Allow {
        // Only a person widens: an agent that calls this gets no further.
        let Some(terminal) = Terminal::open() else {
            let told = format!("stockade: needs a person: allow {entry} in {file}");
            failure::tell(&format!("{told}\n  try: run the same command at a terminal"));
            return Ok(ExitCode::from(failure::NEEDS_PERSON));
        };
        let shown = format!("stockade: adds to {file}\n{change}\n");
        if !terminal.confirm(&shown, "  allow this? yes, no: ") {
            failure::tell("stockade: nothing was changed");
            return Ok(ExitCode::from(failure::DENIED));
        }
    }
    court.places.prepare()?;
    let log =
        Log::open(&court.places.of_log(), GatewayMode::Embedded).map_err(|it| unrecorded(&it))?;
    let word = if effect == Effect::Allow { "allow" } else { "block" };
    let grant = Grant {
        rule: format!("{word} {subject}").into(),
        layer: "local",
        action: "made",
        who: Some(crate::audit::record::who()),
        expires: None,
    };
    log.record(Body::Grant(grant)).await.map_err(|error| unrecorded(&error))?;
    for keys in lists {
        remember::remember(project, &court.places.state, keys, subject).map_err(|error| {
            let message = format!("{file} cannot be changed: {error}");
            Failure::new(Code::SettingsUnreadable, message, "add the entry with an editor")
        })?;
    }
    failure::tell(&format!("stockade: added to {file}\n{change}"));
    Ok(ExitCode::SUCCESS)
}

/// Returns the kind of entry that a text is: a path has a `/` outside of parentheses, a host has a dot, and anything else
/// is a rule.
fn kind(subject: &str) -> Kind {
    let is_rule = subject.contains('(') || !subject.contains(['.', '/', ':']);
    match (is_rule, subject.contains('/')) {
        (true, _) if subject != "localhost" => Kind::Rule,
        (_, true) => Kind::Path,
        (_, false) => Kind::Host,
    }
}

/// Returns the lists that an entry belongs into.
fn lists(kind: Kind, effect: Effect) -> &'static [&'static [&'static str]] {
    match (kind, effect) {
        (Kind::Rule, Effect::Allow) => &[&["permissions", "allow"]],
        (Kind::Rule, Effect::Block) => &[&["permissions", "deny"]],
        (Kind::Host, Effect::Allow) => &[&["sandbox", "network", "allowedDomains"]],
        (Kind::Host, Effect::Block) => &[&["sandbox", "network", "deniedDomains"]],
        (Kind::Path, Effect::Allow) => &[&["sandbox", "filesystem", "allowWrite"]],
        (Kind::Path, Effect::Block) => {
            &[&["sandbox", "filesystem", "denyRead"], &["sandbox", "filesystem", "denyWrite"]]
        }
    }
}

/// Refuses an entry that the reader of settings has something to say about.
fn checked(keys: &[&str], subject: &str) -> Result<(), Failure> {
    let nested = |value: Value, key: &&str| json!({ *key: value });
    let value = keys.iter().rev().fold(json!([subject]), nested);
    let text = SettingsText {
        layer: Layer::Local,
        file: "<entry>".into(),
        text: value.to_string().into_bytes(),
        anchor: Path::new("/").to_path_buf(),
        trusted: true,
        above: false,
    };
    let loaded = stockade_policy::load(&[text]);
    match loaded.problems.iter().max_by_key(|problem| problem.severity) {
        Some(problem) if problem.severity >= Severity::Warning => {
            let message = format!("{} is not usable: {}", words::quoted(subject), problem.message);
            Err(Failure::new(Code::InvalidRequest, message, problem.help.clone()))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_rule_a_host_or_a_path() {
        for (subject, expected) in [
            ("Bash(make:*)", Kind::Rule),
            ("Edit(/src/**)", Kind::Rule),
            ("WebFetch(domain:a.example)", Kind::Rule),
            ("Bash", Kind::Rule),
            ("mcp__a__b", Kind::Rule),
            ("pypi.org", Kind::Host),
            ("*.example.com", Kind::Host),
            ("localhost", Kind::Host),
            ("a.example:8080", Kind::Host),
            ("~/.cache/pip", Kind::Path),
            ("./build", Kind::Path),
            ("/var/tmp", Kind::Path),
        ] {
            assert_eq!(kind(subject), expected, "{subject}");
        }
    }

    #[test]
    fn an_entry_that_settings_would_not_hold_is_refused() {
        for (keys, bad) in [
            (&["permissions", "allow"][..], "Bash(make"),
            (&["permissions", "deny"], "Bsah(make:*)"),
            (&["sandbox", "network", "allowedDomains"], "a..b"),
        ] {
            assert!(checked(keys, bad).is_err(), "{bad}");
        }
        assert_eq!(checked(&["permissions", "allow"], "Bash(make:*)"), Ok(()));
    }
}
