//! Old sessions go by themselves where the settings say after how many days.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use stockade_session::{Named, Pruned, Removal, Store};

/// A day.
const DAY: Duration = Duration::from_secs(86_400);
/// The setting.
const SETTING: &str = "cleanupPeriodDays";
/// The file whose time says when somebody looked last.
const LOOKED: &str = ".pruned";
/// Settings of whoever manages the machine: they count last.
const MANAGED: &str = "/etc/stockade/managed-settings.json";

/// Takes comments out of a settings text (`//` to the end of the line, outside of strings).
fn plain(text: &str) -> String {
    let (mut kept, mut in_string, mut escaped) = (String::new(), false, false);
    let mut rest = text.chars().peekable();
    while let Some(it) = rest.next() {
        if !in_string && it == '/' && rest.peek() == Some(&'/') {
            while rest.peek().is_some_and(|next| *next != '\n') {
                rest.next();
            }
            continue;
        }
        in_string ^= it == '"' && !escaped;
        escaped = in_string && it == '\\' && !escaped;
        kept.push(it);
    }
    kept
}

/// Returns the days of a settings text; none where it says nothing or cannot be read, so that nothing is removed.
fn days(settings: &Value) -> Option<u64> {
    settings.get(SETTING)?.as_u64().filter(|days| *days > 0)
}

fn of_file(path: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(path).ok()?;
    serde_json::from_str(&plain(&text)).ok()
}

/// Returns what the first of these settings says: the managed ones, `--settings`, the user's. Projects have no say.
fn first<T>(given: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let user = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let user = || of_file(&user?.join("stockade/settings.json"));
    let managed = of_file(Path::new(MANAGED)).and_then(|it| read(&it));
    managed.or_else(|| read(given)).or_else(|| user().and_then(|it| read(&it)))
}

/// Returns after how many days a session goes.
pub(crate) fn period(given: &Value) -> Option<u64> {
    first(given, days)
}

/// Says whether contents of files are kept around commands.
pub(crate) fn covers_commands(given: &Value) -> bool {
    let is_git = first(given, |it| Some(it.get("checkpoint")?.as_str()? == "git"));
    let is_off = first(given, |it| it.get("fileCheckpointingEnabled")?.as_bool()) == Some(false);
    is_git == Some(true) && !is_off
}

/// Removes sessions that nobody used for so many days and that have no name, once a day at most. Returns a word about what
/// is gone.
pub(crate) fn clean(store: &Store, days: u64) -> Option<String> {
    let looked = store.root().join(LOOKED);
    let is_recent = |time: SystemTime| time.elapsed().is_ok_and(|age| age < DAY);
    if looked.metadata().and_then(|it| it.modified()).is_ok_and(is_recent) {
        return None;
    }
    let age = Duration::from_secs(days.saturating_mul(DAY.as_secs()));
    let Pruned { sessions, .. } = store.prune(age, Named::Stay, Removal::Apply).ok()?;
    std::fs::write(&looked, "").ok()?;
    let ids: Vec<String> = sessions.iter().map(|found| found.id.clone()).collect();
    if !ids.is_empty()
        && let Err(error) = super::indexed::refresh(store, &ids)
    {
        eprintln!("stockade: {}", crate::shown::plain(&error.to_string()));
    }
    let list: Vec<String> = sessions.iter().map(stockade_session::Found::line).collect();
    (!list.is_empty()).then(|| {
        crate::shown::plain(&format!(
            "sessions without a name that were not used for {days} days are removed: {}",
            list.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_strings_stay() {
        let text = "{ // days\n\"a\": \"http://x \\\" // y\", \"cleanupPeriodDays\": 30 // more\n}";
        let value: Value = serde_json::from_str(&plain(text)).unwrap();
        assert_eq!((days(&value), &value["a"]), (Some(30), &Value::from("http://x \" // y")));
        assert_eq!(days(&serde_json::json!({ "cleanupPeriodDays": 0 })), None);
    }
}
