//! The list of things to do that the tools TaskCreate, TaskGet, TaskList and TaskUpdate keep.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Most items of a list.
const MOST: usize = 500;
/// States of an item; the last one takes it off the list.
const STATES: [&str; 4] = ["pending", "in_progress", "completed", "deleted"];

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Number of the item as text.
    pub id: String,
    /// The work to do.
    pub subject: String,
    /// More about it.
    pub description: String,
    /// The same in progress, such as `Running tests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
    /// The agent that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Items that wait for this one.
    pub blocks: Vec<String>,
    /// Items that this one waits for.
    pub blocked_by: Vec<String>,
    /// Whatever the model keeps with it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct List {
    items: Vec<Item>,
    last: u64,
}

fn text(input: &Value, key: &str) -> Option<String> {
    input.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn names(input: &Value, key: &str) -> Vec<String> {
    let list = input.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

impl List {
    /// Does a call of one of the four tools. Returns words for the model and the result for programs.
    pub(crate) fn call(&mut self, tool: &str, input: &Value) -> Result<(String, Value), String> {
        match tool {
            "TaskCreate" => self.create(input),
            "TaskUpdate" => self.update(input),
            "TaskGet" => self.get(input),
            _ => Ok(self.list()),
        }
    }

    /// Returns the item with this number.
    pub(crate) fn item(&self, id: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.id == id)
    }

    fn create(&mut self, input: &Value) -> Result<(String, Value), String> {
        if self.items.len() >= MOST {
            return Err(format!("the list has {MOST} items; delete some with TaskUpdate"));
        }
        self.last += 1;
        let item = Item {
            id: self.last.to_string(),
            subject: text(input, "subject").unwrap_or_default(),
            description: text(input, "description").unwrap_or_default(),
            active_form: text(input, "activeForm"),
            status: "pending".into(),
            owner: None,
            blocks: Vec::new(),
            blocked_by: Vec::new(),
            metadata: input.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default(),
        };
        let told = format!("Task #{} created successfully: {}", item.id, item.subject);
        let result = json!({ "task": { "id": item.id, "subject": item.subject } });
        self.items.push(item);
        Ok((told, result))
    }

    fn place(&self, input: &Value) -> Result<usize, String> {
        let id = text(input, "taskId").unwrap_or_default();
        self.items
            .iter()
            .position(|item| item.id == id)
            .ok_or_else(|| format!("there is no task #{}; TaskList shows all", id.escape_debug()))
    }

    fn get(&self, input: &Value) -> Result<(String, Value), String> {
        let item = self.items.get(self.place(input)?).ok_or("the task is gone")?;
        let mut told = format!("Task #{}: {}\nStatus: {}", item.id, item.subject, item.status);
        if !item.description.is_empty() {
            told.push_str(&format!("\nDescription: {}", item.description));
        }
        for (word, ids) in [("Blocks", &item.blocks), ("Blocked by", &item.blocked_by)] {
            if !ids.is_empty() {
                told.push_str(&format!("\n{word}: #{}", ids.join(", #")));
            }
        }
        Ok((told, json!({ "task": item })))
    }

    fn list(&self) -> (String, Value) {
        let line = |item: &Item| {
            let waits = self.waits(item);
            let waits = match waits.is_empty() {
                true => String::new(),
                false => format!(" [blocked by #{}]", waits.join(", #")),
            };
            let owner = item.owner.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
            format!("#{} [{}] {}{owner}{waits}", item.id, item.status, item.subject)
        };
        let lines: Vec<String> = self.items.iter().map(line).collect();
        let told = if lines.is_empty() { "No tasks found".to_owned() } else { lines.join("\n") };
        (told, json!({ "tasks": self.items }))
    }

    /// Returns the items for which one still waits.
    fn waits(&self, item: &Item) -> Vec<String> {
        let is_open = |id: &&String| {
            self.items.iter().any(|other| other.id == **id && other.status != "completed")
        };
        item.blocked_by.iter().filter(is_open).cloned().collect()
    }

    fn update(&mut self, input: &Value) -> Result<(String, Value), String> {
        let place = self.place(input)?;
        let status = text(input, "status");
        if let Some(status) = status.as_ref().filter(|it| !STATES.contains(&it.as_str())) {
            let status = status.escape_debug();
            return Err(format!("there is no status `{status}`; they are {}", STATES.join(", ")));
        }
        let id = self.items.get(place).map(|item| item.id.clone()).unwrap_or_default();
        if status.as_deref() == Some("deleted") {
            self.items.remove(place);
            for item in &mut self.items {
                item.blocks.retain(|it| *it != id);
                item.blocked_by.retain(|it| *it != id);
            }
            let result = json!({ "success": true, "taskId": id, "updatedFields": ["deleted"] });
            return Ok((format!("Updated task #{id} deleted"), result));
        }
        let (before, fields) = self.change(place, input, status);
        self.link(&id, input);
        let after = self.items.get(place).map(|item| item.status.clone());
        let told = format!("Updated task #{id} {}", fields.join(", "));
        let result = json!({ "success": true, "taskId": id, "updatedFields": fields,
            "statusChange": { "from": before, "to": after } });
        Ok((told.trim_end().to_owned(), result))
    }

    fn change(
        &mut self,
        place: usize,
        input: &Value,
        status: Option<String>,
    ) -> (String, Vec<&'static str>) {
        let mut fields = Vec::new();
        let Some(item) = self.items.get_mut(place) else { return (String::new(), fields) };
        let before = item.status.clone();
        let mut set = |field: &mut String, value: Option<String>, name: &'static str| {
            if let Some(value) = value.filter(|value| value != field) {
                *field = value;
                fields.push(name);
            }
        };
        set(&mut item.subject, text(input, "subject"), "subject");
        set(&mut item.description, text(input, "description"), "description");
        set(&mut item.status, status, "status");
        for (field, name) in [(&mut item.active_form, "activeForm"), (&mut item.owner, "owner")] {
            if let Some(value) = text(input, name) {
                *field = Some(value);
                fields.push(name);
            }
        }
        if let Some(more) = input.get("metadata").and_then(Value::as_object) {
            for (key, value) in more {
                match value {
                    Value::Null => drop(item.metadata.remove(key)),
                    value => drop(item.metadata.insert(key.clone(), value.clone())),
                }
            }
            fields.push("metadata");
        }
        (before, fields)
    }

    /// Notes which items wait for which, on both sides.
    fn link(&mut self, id: &str, input: &Value) {
        let pairs = names(input, "addBlocks").into_iter().map(|other| (id.to_owned(), other));
        let waits = names(input, "addBlockedBy").into_iter().map(|other| (other, id.to_owned()));
        for (first, then) in pairs.chain(waits).collect::<Vec<_>>() {
            let has = |id: &str| self.items.iter().any(|item| item.id == id);
            if first == then || !has(&first) || !has(&then) {
                continue;
            }
            for item in &mut self.items {
                if item.id == first && !item.blocks.contains(&then) {
                    item.blocks.push(then.clone());
                }
                if item.id == then && !item.blocked_by.contains(&first) {
                    item.blocked_by.push(first.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_made_changed_linked_and_taken_off() {
        let mut list = List::default();
        let mut call = |tool: &str, input: Value| list.call(tool, &input).map(|it| it.0);
        assert_eq!(call("TaskList", json!({})), Ok("No tasks found".into()));
        let made = call("TaskCreate", json!({ "subject": "Fix it", "description": "all" }));
        assert_eq!(made, Ok("Task #1 created successfully: Fix it".into()));
        call("TaskCreate", json!({ "subject": "Test it", "description": "" })).unwrap();
        let update = json!({ "taskId": "2", "addBlockedBy": ["1", "2", "9"], "owner": "me" });
        assert_eq!(call("TaskUpdate", update), Ok("Updated task #2 owner".into()));
        let shown = "#1 [pending] Fix it\n#2 [pending] Test it (me) [blocked by #1]";
        assert_eq!(call("TaskList", json!({})), Ok(shown.into()));
        assert_eq!(
            call("TaskGet", json!({ "taskId": "1" })),
            Ok("Task #1: Fix it\nStatus: pending\nDescription: all\nBlocks: #2".into())
        );
        call("TaskUpdate", json!({ "taskId": "1", "status": "completed" })).unwrap();
        let shown = "#1 [completed] Fix it\n#2 [pending] Test it (me)";
        assert_eq!(call("TaskList", json!({})), Ok(shown.into()));
        assert!(call("TaskUpdate", json!({ "taskId": "1", "status": "done" })).is_err());
        call("TaskUpdate", json!({ "taskId": "1", "status": "deleted" })).unwrap();
        assert_eq!(call("TaskList", json!({})), Ok("#2 [pending] Test it (me)".into()));
        assert!(call("TaskGet", json!({ "taskId": "1" })).is_err());
        let third = call("TaskCreate", json!({ "subject": "x", "description": "" }));
        assert_eq!(third, Ok("Task #3 created successfully: x".into()));
    }
}
