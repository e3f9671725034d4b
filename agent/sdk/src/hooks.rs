//! Hooks that the host registered with `initialize`.

use std::collections::HashMap;
use std::time::Duration;

use regex::Regex;
use serde_json::Value;

/// Time limit of a hook that names none.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The hooks of a host, by event.
#[derive(Debug, Default)]
pub struct Hooks(HashMap<String, Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    /// Pattern that the subject has to match; none for every subject.
    matcher: Option<Regex>,
    callbacks: Vec<Callback>,
}

/// A hook that is to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// Identity that the host gave to it.
    pub id: String,
    /// Time limit.
    pub timeout: Duration,
    /// A hook that fails does not block.
    pub may_fail: bool,
}

impl Hooks {
    /// Reads the member `hooks` of `initialize`.
    ///
    /// # Errors
    ///
    /// A matcher is not a regular expression, or a member has another form.
    pub fn read(hooks: &Value) -> Result<Hooks, String> {
        let mut read = Hooks::default();
        let Some(events) = hooks.as_object() else {
            return if hooks.is_null() { Ok(read) } else { Err("`hooks` is not an object".into()) };
        };
        for (event, entries) in events {
            let entries =
                entries.as_array().ok_or_else(|| format!("`hooks.{event}` is not a list"))?;
            let entries = entries.iter().map(Entry::read).collect::<Result<_, _>>()?;
            read.0.insert(event.clone(), entries);
        }
        Ok(read)
    }

    /// Returns the hooks of an event about a subject, in order.
    #[must_use]
    pub fn of(&self, event: &str, subject: &str) -> Vec<Callback> {
        let entries = self.0.get(event).into_iter().flatten();
        let matching =
            entries.filter(|it| it.matcher.as_ref().is_none_or(|it| it.is_match(subject)));
        matching.flat_map(|it| it.callbacks.clone()).collect()
    }
}

impl Entry {
    fn read(entry: &Value) -> Result<Entry, String> {
        let matcher = match entry.get("matcher").and_then(Value::as_str).unwrap_or_default() {
            "" | "*" => None,
            text => Some(
                Regex::new(&format!("^(?:{text})$"))
                    .map_err(|_| format!("the matcher `{text}` is invalid"))?,
            ),
        };
        let ids = entry
            .get("hookCallbackIds")
            .and_then(Value::as_array)
            .ok_or("`hookCallbackIds` is missing")?;
        let seconds = entry.get("timeout").and_then(Value::as_f64).filter(|it| *it > 0.0);
        let timeout =
            seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()).unwrap_or(TIMEOUT);
        let may_fail = entry.get("onFailure").and_then(Value::as_str) == Some("allow");
        let ids = ids.iter().filter_map(Value::as_str);
        let callbacks = ids.map(|id| Callback { id: id.to_owned(), timeout, may_fail }).collect();
        Ok(Entry { matcher, callbacks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn matchers_choose_hooks() {
        let hooks = Hooks::read(&json!({ "PreToolUse": [
            { "matcher": "Bash|Edit", "hookCallbackIds": ["a"], "timeout": 2 },
            { "matcher": null, "hookCallbackIds": ["b", "c"] },
        ] }))
        .expect("hooks");
        let ids = |event, subject| {
            hooks.of(event, subject).into_iter().map(|it| it.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("PreToolUse", "Bash"), ["a", "b", "c"]);
        assert_eq!(ids("PreToolUse", "BashOutput"), ["b", "c"]);
        assert!(ids("Stop", "").is_empty());
        assert_eq!(hooks.of("PreToolUse", "Edit")[0].timeout, Duration::from_secs(2));
        assert!(
            Hooks::read(&json!({ "Stop": [{ "matcher": "(" , "hookCallbackIds": [] }] })).is_err()
        );
        assert!(Hooks::read(&Value::Null).is_ok());
    }
}
