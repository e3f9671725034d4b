//! Requests of a host about the settings of a session that runs. They are answered here, in front of the agent: it neither
//! sees them nor could it say that something was tightened which was not.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use stockade_policy::SettingsText;
use stockade_scene::scene::Scene;
use stockade_settings::host::{TIGHTENING, tight};
use stockade_text::json::{self as commented, Kind};

use crate::places::Places;
use crate::protocol::errors::Failure;
use crate::protocol::types::Context;
use crate::serve::rights::Rights;

/// Longest line that may be such a request, in bytes.
const LONGEST: usize = 2 << 20;
/// Request that lists the settings that tighten, and the files that set them.
const LIST: &str = "stockade_settings";
/// Sets one that tightens.
const TIGHTEN: &str = "stockade_tighten";

/// A session's settings as its host sees them.
pub(super) struct Settings {
    rights: Rights,
    places: Places,
}

/// A line of a host, as far as it matters here.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    request_id: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    subtype: String,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    value: Value,
}

impl Settings {
    pub(super) fn new(rights: Rights, places: Places) -> Settings {
        Settings { rights, places }
    }

    /// Returns the answer to a line that is a request about settings; every other one is the agent's.
    pub(super) fn answer(&self, line: &[u8]) -> Option<String> {
        let line = Some(line).filter(|line| line.len() <= LONGEST)?;
        let line: Line = serde_json::from_slice(line).ok()?;
        let is_one = [LIST, TIGHTEN].contains(&line.request.subtype.as_str());
        if line.kind != "control_request" || !is_one {
            return None;
        }
        let answer = match line.request.subtype == TIGHTEN {
            true => self.tighten(&line.request),
            false => self.list(line.request.key.as_deref()),
        };
        let response = match answer {
            Ok(response) => {
                json!({ "subtype": "success", "request_id": line.request_id, "response": response })
            }
            Err(failure) => {
                let error = format!("{}; {}", failure.message, failure.help);
                json!({ "subtype": "error", "request_id": line.request_id, "error": error })
            }
        };
        Some(format!("{}\n", json!({ "type": "control_response", "response": response })))
    }

    fn scene(&self, context: &Context) -> Result<Scene, Failure> {
        Scene::find(self.rights.directory(), context, &self.places)
    }

    /// Returns the settings that may tighten, or one of them, with the files that set them, the strongest first.
    fn list(&self, key: Option<&str>) -> Result<Value, Failure> {
        if let Some(key) = key {
            known(key)?;
        }
        let scene = self.scene(&self.rights.context())?;
        let texts: Vec<(&SettingsText, commented::Value)> = scene
            .snapshot
            .texts
            .iter()
            .rev()
            .filter_map(|it| Some((it, commented::read(&it.text, it.dialect()).ok()?)))
            .collect();
        let row = |name: &&str| {
            let set = texts.iter().filter_map(|(text, value)| {
                let value = plain(name.split('.').try_fold(value, |it, name| it.get(name))?);
                Some(json!({ "layer": text.layer.name(), "file": text.file.to_string_lossy(), "value": value }))
            });
            json!({ "key": name, "tightens": tight(name), "set": set.collect::<Vec<_>>() })
        };
        let wanted = TIGHTENING.iter().filter(|name| key.is_none_or(|key| key == **name));
        Ok(json!({ "settings": wanted.map(row).collect::<Vec<_>>() }))
    }

    /// Sets a setting to the value that tightens, or adds entries to a list.
    fn tighten(&self, request: &Request) -> Result<Value, Failure> {
        let key = request.key.as_deref().unwrap_or_default();
        known(key)?;
        let value = match &request.value {
            Value::Null => tight(key),
            given => given.clone(),
        };
        let nest =
            |inner: Value, name: &str| Value::Object(Map::from_iter([(name.to_owned(), inner)]));
        let settings = key.split('.').rev().fold(value, nest).to_string();
        self.rights.tighten(&settings, |context| self.scene(context).map(drop))?;
        Ok(json!({ "keys": [key] }))
    }
}

/// Refuses a key that no value tightens, by whatever name.
fn known(key: &str) -> Result<(), Failure> {
    if TIGHTENING.contains(&key) {
        return Ok(());
    }
    let message = format!("no value of `{}` tightens a running session", key.escape_debug());
    let help = "`session.settings.list` has the keys";
    Err(Failure::new(crate::protocol::errors::Code::SettingsRejected, message, help))
}

/// Returns a value of a settings file without its places in the text.
fn plain(value: &commented::Value) -> Value {
    match &value.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => json!(value),
        Kind::Number(text) => serde_json::from_str(text).unwrap_or_default(),
        Kind::String(text) => json!(text),
        Kind::Array(all) => all.iter().map(plain).collect(),
        Kind::Object(members) => {
            Value::Object(members.iter().map(|it| (it.key.clone(), plain(&it.value))).collect())
        }
    }
}
