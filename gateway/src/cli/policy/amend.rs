//! `stockade allow` and `stockade block`: one entry more in the local settings of the project.

use std::path::Path;

use crate::cli::exit::ExitCode;
use serde_json::{Value, json};
use stockade_policy::{Layer, SettingsText, Severity};

use super::super::args::amend::Amend;
use super::super::ask::Terminal;
use super::{Court, failure, last, print};
use crate::audit::record::{Body, GrantRecord};
use crate::audit::{GatewayMode, Log};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::response::unrecorded;
use crate::settings;
use stockade_approvals::remember;

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

/// An entry of a list of the local settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Keys down to the list.
    pub keys: Vec<String>,
    /// The text.
    pub text: String,
}

impl Entry {
    /// Returns the line that shows it.
    fn line(&self) -> String {
        format!("+ {}: {}", self.keys.join("."), words::quoted(&self.text))
    }

    fn keys(&self) -> Vec<&str> {
        self.keys.iter().map(String::as_str).collect()
    }
}

/// Adds an entry to the local settings of the project, and shows it.
pub(crate) async fn amend(options: Amend, effect: Effect) -> Result<ExitCode, Failure> {
    let court = Court::new(&options.common)?;
    let snapshot = settings::read(&court.sources())?;
    let subject = match (&options.subject, effect) {
        (Some(subject), _) => subject.trim().to_owned(),
        (None, Effect::Allow) => last::remedy(&court, &snapshot).await?,
        (None, Effect::Block) => {
            let message = "`--last` is an option of `stockade allow`";
            return Err(Failure::new(Code::InvalidRequest, message, "specify what to block"));
        }
    };
    let kind = kind(&subject);
    let lists = lists(kind, effect);
    let entry = |keys: &&[&str]| Entry {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        text: subject.clone(),
    };
    let entries: Vec<Entry> = lists.iter().map(entry).collect();
    entries.iter().try_for_each(|entry| checked(&entry.keys(), &entry.text))?;
    let settings = snapshot.rules.settings();
    let managed = match kind {
        Kind::Rule => settings.managed_rules_only,
        Kind::Host => settings.sandbox.managed_domains_only,
        Kind::Path => false,
    };
    if effect == Effect::Allow && managed {
        let message = "only the managed settings can allow this";
        let help = "ask the administrator of this machine";
        return Err(Failure::new(Code::SettingsRejected, message, help));
    }
    add(&court, &entries, effect, options.dry_run).await
}

/// Shows entries, has a person confirm those that widen, and writes them.
pub(super) async fn add(
    court: &Court,
    entries: &[Entry],
    effect: Effect,
    dry_run: bool,
) -> Result<ExitCode, Failure> {
    let project = &court.place.project;
    let file = words::quoted(&remember::local_file(project).to_string_lossy());
    let change: Vec<String> = entries.iter().map(Entry::line).collect();
    let change = change.join("\n");
    if dry_run {
        print(&format!("{file}\n{change}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if effect == Effect::Allow {
        // Only a person widens: an agent that calls this gets no further.
        let Some(terminal) = Terminal::open() else {
            let told = format!("stockade: needs a person: add to {file}\n{change}");
            failure::tell(&format!("{told}\n  try: run the same command at a terminal"));
            return Ok(ExitCode::from(failure::NEEDS_PERSON));
        };
        let shown = format!("stockade: adds to {file}\n{change}\n");
        if !terminal.confirm(&shown, "  allow this? yes, no: ") {
            failure::tell("stockade: nothing was changed");
            return Ok(ExitCode::from(failure::DENIED));
        }
    }
    write(court, entries, effect, &file).await?;
    failure::tell(&format!("stockade: added to {file}\n{change}"));
    Ok(ExitCode::SUCCESS)
}

/// Records entries, then writes them.
async fn write(
    court: &Court,
    entries: &[Entry],
    effect: Effect,
    file: &str,
) -> Result<(), Failure> {
    court.places.prepare()?;
    let log =
        Log::open(&court.places.of_log(), GatewayMode::Embedded).map_err(|it| unrecorded(&it))?;
    let word = if effect == Effect::Allow { "allow" } else { "block" };
    let mut texts: Vec<&str> = entries.iter().map(|entry| entry.text.as_str()).collect();
    texts.dedup();
    for text in texts {
        let grant = GrantRecord {
            rule: format!("{word} {text}").into(),
            layer: "local",
            action: "made",
            who: Some(crate::audit::record::who()),
            expires: None,
        };
        log.record(Body::Grant(grant)).await.map_err(|error| unrecorded(&error))?;
    }
    for entry in entries {
        let (project, state) = (&court.place.project, &court.places.state);
        remember::remember(project, state, &entry.keys(), &entry.text).map_err(|error| {
            let message = format!("cannot change {file}: {error}");
            Failure::new(Code::SettingsUnreadable, message, "add the entry with an editor")
        })?;
    }
    Ok(())
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
pub(super) fn checked(keys: &[&str], subject: &str) -> Result<(), Failure> {
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
            let message = format!("invalid entry {}: {}", words::quoted(subject), problem.message);
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
