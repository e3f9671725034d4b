//! Servers of the host, and rules that it has for their tools.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Served;

/// Returns rules for the tools of servers as the host has them: `ask` and `deny`. What allows gives no right.
pub(super) fn policies(servers: &Value) -> Result<Vec<(&'static str, Vec<String>)>, String> {
    let mut found = Vec::new();
    for (server, config) in servers.as_object().into_iter().flatten() {
        let tools = config.get("tools").and_then(Value::as_array).into_iter().flatten();
        for tool in tools {
            let text = |key: &str| tool.get(key).and_then(Value::as_str);
            let name = text("name").ok_or("a policy of a tool has no `name`")?;
            for (key, asks, denies) in [
                ("permission_policy", "always_ask", "always_deny"),
                ("org_max_permission", "ask", "blocked"),
            ] {
                let kind = match text(key) {
                    None | Some("always_allow" | "allow") => continue,
                    Some(it) if it == asks => "ask",
                    Some(it) if it == denies => "deny",
                    Some(it) => return Err(format!("`{key}` is invalid: `{}`", it.escape_debug())),
                };
                found.push((kind, vec![format!("mcp__{server}__{name}")]));
            }
        }
    }
    Ok(found)
}

impl Served {
    /// Returns the state of the servers; none is connected before the first message.
    pub(super) fn servers(&self) -> Value {
        let Some(door) = &self.door else {
            let plan = self.plan.iter();
            let own = plan.clone().flat_map(|plan| plan.servers.iter().map(|it| (it, "pending")));
            let others = plan.flat_map(|plan| plan.failed.iter().map(|it| (it, "failed")));
            let all = own.chain(others);
            return all.map(|(name, status)| json!({ "name": name, "status": status })).collect();
        };
        let mut servers = self.servers.clone();
        if let Some(list) = servers.as_array_mut() {
            list.retain(|it| !name(it).is_some_and(|it| self.removed.contains(it)));
        }
        for server in servers.as_array_mut().into_iter().flatten() {
            let is_off = name(server).is_some_and(|it| door.is_off(it));
            if let Some(status) = server.get_mut("status").filter(|it| *it != "failed") {
                *status = json!(if is_off { "disabled" } else { "connected" });
            }
        }
        servers
    }

    /// Switches a server on or off, or says whether it is connected: the tools of a session never change, so that one that
    /// failed stays so.
    pub(super) fn server(&self, wanted: &str, on: Option<bool>) -> Result<Value, String> {
        let servers = self.servers();
        let found = servers.as_array().into_iter().flatten().find(|it| name(it) == Some(wanted));
        let shown = wanted.escape_debug();
        let found = found.ok_or_else(|| format!("there is no server `{shown}`"))?;
        let door = self.door.as_ref().ok_or("no server is connected before the first message")?;
        if found.get("status") == Some(&json!("failed")) {
            return Err(format!(
                "the server `{shown}` failed at the start; its tools would be new"
            ));
        }
        on.into_iter().for_each(|on| door.switch(wanted, on));
        Ok(json!({}))
    }

    /// Puts these servers in the place of those of the host. Once the session has begun, its tools stay as they are: calls of
    /// a server that is gone are refused, and a new one cannot be added.
    pub(super) fn set_servers(&mut self, servers: &Value) -> Result<Value, String> {
        let wanted = servers.as_object().ok_or("`servers` is not an object")?;
        let rules = policies(servers)?;
        let mut errors = Map::new();
        let mut own = BTreeSet::new();
        for (name, config) in wanted {
            match config.get("type").and_then(Value::as_str).unwrap_or("stdio") {
                "sdk" => drop(own.insert(name.clone())),
                other => {
                    let reason = format!(
                        "servers of the type `{}` are not built; use one of the type `sdk`",
                        other.escape_debug()
                    );
                    errors.insert(name.clone(), json!(reason));
                }
            }
        }
        let (added, removed) = match (&mut self.plan, &self.door) {
            (Some(plan), _) => {
                let before: BTreeSet<String> = plan.servers.iter().cloned().collect();
                plan.servers.retain(|it| own.contains(it));
                plan.servers.extend(own.difference(&before).cloned());
                (changes(&own, &before), changes(&before, &own))
            }
            (None, Some(_)) => self.exchange(&own, &mut errors),
            (None, None) => return Err("the session is about to begin; ask again".into()),
        };
        rules.into_iter().for_each(|(kind, rules)| self.state.restrict(kind, rules));
        Ok(json!({ "added": added, "removed": removed, "errors": errors }))
    }

    /// Takes servers away from a session that runs, and gives back those that it had.
    fn exchange(
        &mut self,
        own: &BTreeSet<String>,
        errors: &mut Map<String, Value>,
    ) -> (Vec<String>, Vec<String>) {
        let known: BTreeSet<String> = self
            .servers
            .as_array()
            .into_iter()
            .flatten()
            .filter(|it| it.get("status") != Some(&json!("failed")))
            .filter_map(|it| name(it).map(str::to_owned))
            .collect();
        let before: BTreeSet<String> = known.difference(&self.removed).cloned().collect();
        for name in own.difference(&known) {
            let reason =
                "the tools of a session never change; name the server before the first message";
            errors.insert(name.clone(), json!(reason));
        }
        let removed = changes(&before, own);
        let added: Vec<String> = own.intersection(&self.removed).cloned().collect();
        if let Some(door) = &self.door {
            removed.iter().for_each(|it| door.switch(it, false));
            added.iter().for_each(|it| door.switch(it, true));
        }
        self.removed.retain(|it| !added.contains(it));
        self.removed.extend(removed.iter().cloned());
        (added, removed)
    }
}

fn changes(these: &BTreeSet<String>, not_those: &BTreeSet<String>) -> Vec<String> {
    these.difference(not_those).cloned().collect()
}

fn name(server: &Value) -> Option<&str> {
    server.get("name").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_a_host_are_rules_that_ask_or_deny() {
        let of = |policy: Value| policies(&json!({ "calc": { "tools": [policy] } }));
        let add = || vec!["mcp__calc__add".to_owned()];
        assert_eq!(
            of(json!({ "name": "add", "permission_policy": "always_ask" })),
            Ok(vec![("ask", add())])
        );
        assert_eq!(
            of(json!({ "name": "add", "org_max_permission": "blocked" })),
            Ok(vec![("deny", add())])
        );
        assert_eq!(
            of(json!({ "name": "add", "permission_policy": "always_allow" })),
            Ok(Vec::new())
        );
        for wrong in [json!({ "name": "add", "permission_policy": "never" }), json!({})] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
        assert_eq!(policies(&Value::Null), Ok(Vec::new()));
    }
}
