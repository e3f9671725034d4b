//! The tables of `policies/` that are about other things than programs, as the build read them.

use stockade_text::json::view::View;
use stockade_text::json::{Value, stored};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// `agent.jsonc`
    Agent,
    /// `agents.jsonc`
    Agents,
    /// `caches.jsonc`
    Caches,
    /// `credentials.jsonc`
    Credentials,
    /// `paths/critical.jsonc`
    Critical,
    /// `environment.jsonc`
    Environment,
    /// `paths/git.jsonc`
    Git,
    /// `paths/history.jsonc`
    History,
    /// `paths/links.jsonc`
    Links,
    /// `permissions.jsonc`
    Permissions,
    /// `paths/protected.jsonc`
    Protected,
    /// `paths/regions.jsonc`
    Regions,
    /// `review.jsonc`
    Review,
    /// `secrets.jsonc`
    Secrets,
    /// `paths/toolchains.jsonc`
    Toolchains,
    /// `paths/trees.jsonc`
    Trees,
    /// `paths/tried.jsonc`
    Tried,
    /// `commands/zsh.jsonc`
    Zsh,
}

macro_rules! stored {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $name, ".stored"))
    };
}

/// Returns a table, without places; none if the build stored something else, which a test rules out.
pub fn table(table: Table) -> Option<Value> {
    stored::restore(text(table))
}

/// Returns a table where it lies in the program.
pub fn view(table: Table) -> View<'static> {
    View::new(text(table))
}

fn text(table: Table) -> &'static str {
    match table {
        Table::Agent => stored!("agent"),
        Table::Agents => stored!("agents"),
        Table::Caches => stored!("caches"),
        Table::Credentials => stored!("credentials"),
        Table::Critical => stored!("critical"),
        Table::Environment => stored!("environment"),
        Table::Git => stored!("git"),
        Table::History => stored!("history"),
        Table::Links => stored!("links"),
        Table::Permissions => stored!("permissions"),
        Table::Protected => stored!("protected"),
        Table::Regions => stored!("regions"),
        Table::Review => stored!("review"),
        Table::Secrets => stored!("secrets"),
        Table::Toolchains => stored!("toolchains"),
        Table::Trees => stored!("trees"),
        Table::Tried => stored!("tried"),
        Table::Zsh => stored!("zsh"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_text::Span;
    use stockade_text::json::{Dialect, Kind, read};

    fn without_places(mut value: Value) -> Value {
        let nowhere = Span::new(0, 0);
        value.span = nowhere;
        match &mut value.kind {
            Kind::Array(elements) => {
                *elements = std::mem::take(elements).into_iter().map(without_places).collect();
            }
            Kind::Object(members) => {
                for member in members {
                    member.key_span = nowhere;
                    let null = Value { span: nowhere, kind: Kind::Null };
                    member.value = without_places(std::mem::replace(&mut member.value, null));
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::String(_) => {}
        }
        value
    }

    #[test]
    fn what_is_stored_is_what_the_files_say() {
        for (name, text) in [
            (Table::Agent, include_str!("../../../policies/agent.jsonc")),
            (Table::Agents, include_str!("../../../policies/agents.jsonc")),
            (Table::Caches, include_str!("../../../policies/caches.jsonc")),
            (Table::Credentials, include_str!("../../../policies/credentials.jsonc")),
            (Table::Critical, include_str!("../../../policies/paths/critical.jsonc")),
            (Table::Environment, include_str!("../../../policies/environment.jsonc")),
            (Table::Git, include_str!("../../../policies/paths/git.jsonc")),
            (Table::History, include_str!("../../../policies/paths/history.jsonc")),
            (Table::Links, include_str!("../../../policies/paths/links.jsonc")),
            (Table::Permissions, include_str!("../../../policies/permissions.jsonc")),
            (Table::Protected, include_str!("../../../policies/paths/protected.jsonc")),
            (Table::Regions, include_str!("../../../policies/paths/regions.jsonc")),
            (Table::Review, include_str!("../../../policies/review.jsonc")),
            (Table::Secrets, include_str!("../../../policies/secrets.jsonc")),
            (Table::Toolchains, include_str!("../../../policies/paths/toolchains.jsonc")),
            (Table::Trees, include_str!("../../../policies/paths/trees.jsonc")),
            (Table::Tried, include_str!("../../../policies/paths/tried.jsonc")),
            (Table::Zsh, include_str!("../../../policies/commands/zsh.jsonc")),
        ] {
            let read = read(text.as_bytes(), Dialect::Commented).unwrap();
            assert_eq!(table(name), Some(without_places(read)), "{name:?}");
        }
    }

    #[test]
    fn every_kind_of_value_is_stored_and_what_is_cut_is_none() {
        let text = br#"{"a": [null, true, false, -1.5e3, "\u00e9", [], {}], "": {"b": 0}}"#;
        let value = without_places(read(text, Dialect::Strict).unwrap());
        let stored = stored::store(&value).unwrap();
        assert_eq!(stored::restore(&stored), Some(value));
        for (length, _) in stored.char_indices() {
            assert_eq!(stored::restore(stored.split_at(length).0), None);
        }
        assert_eq!(stored::restore(&(stored + "\0")), None);
    }
}
