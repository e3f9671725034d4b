//! The entry that would have answered the last refusal in a project.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Court;
use crate::audit::query::{self, Filter, Order};
use crate::judge::Scene;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::settings::Snapshot;
use stockade_violation_help::is_verbatim;

/// The rule of the sandbox that a writable directory answers; no setting answers the others, such as a symbolic link's.
const OUTSIDE: &str = "builtin: outside of the writable directories";

/// How many of the newest records are looked through.
const NEWEST: usize = 500;

/// Returns a rule, a host or a path.
pub(super) async fn remedy(
    court: &Court,
    snapshot: &std::sync::Arc<Snapshot>,
) -> Result<String, Failure> {
    let none = |message: String| {
        let help = "`stockade audit why last` explains the last decision";
        Failure::new(Code::InvalidRequest, message, help)
    };
    let found = query::search(&court.places.of_log(), &Filter::default(), Order::Newest(NEWEST));
    let mut records = found.map_err(|error| none(error.to_string()))?.records;
    records.sort_by_key(|record| record.sequence);
    let lines = records.iter().filter_map(|it| serde_json::from_slice::<Value>(&it.bytes).ok());
    let project = court.place.project.to_string_lossy().into_owned();
    let mut ours: BTreeMap<String, Value> = BTreeMap::new();
    let mut last = None;
    for line in lines {
        let id = at(&line, "/id").as_str().unwrap_or_default().to_owned();
        match at(&line, "/kind").as_str() {
            Some("decision") if at(&line, "/request/project") == project.as_str() => {
                if at(&line, "/verdict/decision") != "allow" {
                    last = Some(Refused::Call(at(&line, "/request").clone()));
                }
                ours.insert(id, Value::Null);
            }
            Some("result")
                if at(&line, "/ref").as_str().is_some_and(|it| ours.contains_key(it)) =>
            {
                let denials = at(&line, "/touched/denials").as_array().cloned().unwrap_or_default();
                last = denials.iter().find_map(outside).map(Refused::Outside).or(last);
            }
            _ => {}
        }
    }
    match last {
        None => Err(none("nothing was refused in this project recently".to_owned())),
        Some(Refused::Outside(subject)) => Ok(subject),
        Some(Refused::Call(request)) => {
            let command = at(&request, "/command").as_str().unwrap_or_default().to_owned();
            let scene =
                Scene::with(court.place.clone(), snapshot.clone(), court.context(), &court.places)?;
            let verdict = court.judge(&scene, "Bash", json!({ "command": command })).await?;
            let shown = words::quoted(&command);
            let text = format!("no single rule allows {shown}: {}", verdict.reason);
            verdict.suggestion.ok_or_else(|| none(text))
        }
    }
}

/// Returns what is in a record at this place; null where there is nothing.
fn at<'a>(record: &'a Value, place: &str) -> &'a Value {
    record.pointer(place).unwrap_or(&Value::Null)
}

/// The last refusal.
enum Refused {
    /// Of a call, with its request.
    Call(Value),
    /// Of something that a command did; the host or path.
    Outside(String),
}

/// Returns the host or path that a denial names, if a setting can open it.
fn outside(denial: &Value) -> Option<String> {
    let object = at(denial, "/path_or_host").as_str()?;
    let blocker = at(denial, "/blocker").as_str()?;
    if object.starts_with('/') {
        let opens = blocker.starts_with("write ") && blocker.ends_with(&format!(": {OUTSIDE}"));
        // A rule that is spelled like such a name would be about others as well.
        return (opens && is_verbatim(object)).then(|| object.to_owned());
    }
    let host = object.strip_suffix(":443").or_else(|| object.strip_suffix(":80"));
    Some(host.unwrap_or(object)).filter(|host| !host.contains('*')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_what_can_be_opened() {
        let denial = |blocker: &str, object: &str| {
            outside(&json!({ "blocker": blocker, "path_or_host": object }))
        };
        assert_eq!(
            denial(&format!("write open: {OUTSIDE}"), "/home/x").as_deref(),
            Some("/home/x")
        );
        let link = "write symlink: builtin: symbolic link to /etc/x, by `..` behind a name";
        assert_eq!(denial(link, "/home/x"), None);
        for name in ["/home/x*", "/home/[a-z]/x", "/home/{a,b}", "/home/x\n"] {
            assert_eq!(denial(&format!("write open: {OUTSIDE}"), name), None, "{name}");
        }
        assert_eq!(denial("connect: builtin", "*.example:443"), None);
        assert_eq!(denial("read open: rule", "/home/x"), None);
        assert_eq!(denial("connect: builtin", "pypi.org:443").as_deref(), Some("pypi.org"));
        assert_eq!(denial("connect: builtin", "a.example:22").as_deref(), Some("a.example:22"));
    }
}
