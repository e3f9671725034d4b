//! Requests about sessions that need not be open, and about settings.

use serde_json::{Value, json};
use stockade_session::Found;

use super::serve::{Failure, INVALID, Server, UNKNOWN_METHOD, failed, locked, text};

/// Longest plan, in bytes.
const LONGEST_PLAN: usize = 1 << 20;

impl Server {
    /// Answers requests about sessions that need not be open.
    pub(super) async fn stored(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        match method {
            "session.list" => {
                let all = self.store.list();
                Ok(
                    json!({ "sessions": all.iter().map(|it| self.metadata(it)).collect::<Vec<_>>() }),
                )
            }
            "session.getLastId" => Ok(json!({ "id": self.store.list().first().map(|it| &it.id) })),
            "session.getMetadata" => Ok(self.metadata(&self.found(params)?)),
            "session.get" => {
                let live = self.live(params)?;
                let mut object = live.usage();
                if object.is_null() {
                    object = json!({ "usage": null, "aggregateUsage": null });
                }
                if let Some(object) = object.as_object_mut() {
                    object.insert("id".into(), json!(live.id));
                    object.insert("cwd".into(), json!(live.cwd));
                    object.insert("busy".into(), json!(live.is_busy()));
                }
                Ok(object)
            }
            "session.getMessages" => {
                let (state, notes) = self.store.state(&self.found(params)?).map_err(failed)?;
                let messages = state.messages.iter().map(|said| {
                    json!({ "uuid": said.uuid, "by_model": said.by_model, "content": said.content })
                });
                Ok(json!({ "messages": messages.collect::<Vec<_>>(), "notes": notes }))
            }
            "session.rename" => {
                let found = self.found(params)?;
                self.store.rename(&found, text(params, "name")).map_err(failed)?;
                Ok(json!({}))
            }
            "session.delete" => {
                let found = self.found(params)?;
                self.close(&found.id).await;
                self.store.delete(&found).map_err(failed)?;
                Ok(json!({}))
            }
            // Each event is on disk before its effects, so there is nothing left to save.
            "session.save" => {
                let live = self.live(params)?;
                Ok(json!({ "saved": self.store.has(&live.id) }))
            }
            "session.setForeground" => {
                let live = self.live(params)?;
                *locked(&self.foreground) = Some(live.id.clone());
                Ok(json!({}))
            }
            "session.getForeground" => Ok(json!({ "id": *locked(&self.foreground) })),
            "session.plan.get" | "session.plan.set" | "session.plan.delete" => {
                self.plan(method, params)
            }
            other => {
                Err((UNKNOWN_METHOD, format!("there is no method `{}`", other.escape_debug())))
            }
        }
    }

    fn plan(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let path = self.found(params)?.folder.join("plan.md");
        match method {
            "session.plan.get" => Ok(json!({ "plan": std::fs::read_to_string(path).ok() })),
            "session.plan.set" => {
                let plan = params.get("plan").and_then(Value::as_str);
                if plan.is_none_or(|plan| plan.len() > LONGEST_PLAN) {
                    let words = format!("`plan` is not a text of at most {LONGEST_PLAN} bytes");
                    return Err((INVALID, words));
                }
                std::fs::write(path, text(params, "plan")).map_err(failed)?;
                Ok(json!({}))
            }
            _ => match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
                Ok(()) | Err(_) => Ok(json!({})),
            },
        }
    }

    fn metadata(&self, found: &Found) -> Value {
        let workspace = &found.workspace;
        json!({ "id": found.id, "name": workspace.name, "cwd": workspace.cwd, "branch": workspace.branch,
            "created_at": workspace.created_at, "updated_at": workspace.updated_at, "bytes": found.bytes,
            "open": locked(&self.sessions).contains_key(&found.id) })
    }

    /// Answers what the settings of an open session are, or tightens one. Its gateway does both, not its agent.
    pub(super) async fn settings(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let key = text(params, "key");
        let subtype = match method {
            "session.settings.toggle" => "stockade_tighten",
            _ => "stockade_settings",
        };
        let mut what = json!({ "subtype": subtype, "value": params.get("value") });
        if let Some(fields) = what.as_object_mut().filter(|_| method != "session.settings.list") {
            fields.insert("key".into(), json!(key));
        }
        let answer = self.control(params, what).await.map_err(|(_, words)| (INVALID, words))?;
        let id = text(params, "id");
        match method {
            "session.settings.toggle" => {
                let told = json!({ "session": id, "keys": answer.get("keys") });
                self.tell(id, &json!({ "method": "settings.changed", "params": told }));
                Ok(answer)
            }
            "session.settings.get" => {
                Ok(answer.pointer("/settings/0").cloned().unwrap_or_default())
            }
            _ => Ok(answer),
        }
    }
}
