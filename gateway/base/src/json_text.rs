//! Puts values into JSON text, and takes them out, leaving every other byte as it is.

use stockade_text::json;
use stockade_text::json::{Dialect, Kind, Value};

/// Returns `text` with `element` at the end of the list at `path`, whose objects and list are made where they
/// are missing. None when the text is not a JSON object, or something else stands on the path.
///
/// `element` is JSON text. A list that holds an equal string already is left as it is.
pub fn append(text: &str, path: &[&str], element: &str) -> Option<String> {
    appended(Dialect::Strict, text, path, element)
}

/// Does the same in a text that may hold comments, which stay.
pub fn append_commented(text: &str, path: &[&str], element: &str) -> Option<String> {
    appended(Dialect::Commented, text, path, element)
}

fn appended(dialect: Dialect, text: &str, path: &[&str], element: &str) -> Option<String> {
    let root = json::read(text.as_bytes(), dialect).ok()?;
    root.members()?;
    let added = json::read(element.as_bytes(), Dialect::Strict).ok()?;
    let mut place = &root;
    for (depth, key) in path.iter().enumerate() {
        match place.get(key) {
            Some(found) => place = found,
            None => {
                let value = format!("[{element}]");
                let (at, insertion) =
                    into_object(text, place, &nested(path.get(depth..)?, &value)?)?;
                return checked(
                    dialect,
                    text,
                    &Edit { from: at, to: at, new: insertion },
                    path,
                    &added,
                );
            }
        }
    }
    let elements = place.elements()?;
    if elements.iter().any(|found| found.text().is_some() && found.kind == added.kind) {
        return Some(text.into());
    }
    let edit = into_list(text, place, elements, element)?;
    checked(dialect, text, &edit, path, &added)
}

/// Returns `text` without the elements of the list at `path` that `is_ours` holds for; the same text when there
/// is none. None when the text is not a JSON object.
pub fn remove(text: &str, path: &[&str], is_ours: impl Fn(&Value) -> bool) -> Option<String> {
    let mut text = text.to_owned();
    loop {
        let root = json::read(text.as_bytes(), Dialect::Strict).ok()?;
        root.members()?;
        let list = path.iter().try_fold(&root, |place, key| place.get(key));
        let Some(elements) = list.and_then(Value::elements) else { return Some(text) };
        let Some(index) = elements.iter().position(&is_ours) else { return Some(text) };
        let ours = elements.get(index)?;
        let before = index.checked_sub(1).and_then(|index| elements.get(index));
        // With its comma: the one before it, or for the first element the one behind it.
        let (start, end) = match (before, elements.get(index + 1)) {
            (Some(before), _) => (before.span.end, ours.span.end),
            (None, Some(after)) => (ours.span.start, after.span.start),
            (None, None) => (ours.span.start, ours.span.end),
        };
        let (head, tail) = (text.get(..start as usize)?, text.get(end as usize..)?);
        text = format!("{head}{tail}");
    }
}

/// Returns the text of the first element of the list at `path` that `is_ours` holds for.
pub fn element(text: &str, path: &[&str], is_ours: impl Fn(&Value) -> bool) -> Option<String> {
    let root = json::read(text.as_bytes(), Dialect::Strict).ok()?;
    let list = path.iter().try_fold(&root, |place, key| place.get(key))?;
    let found = list.elements()?.iter().find(|element| is_ours(element))?;
    text.get(found.span.start as usize..found.span.end as usize).map(str::to_owned)
}

/// Returns `text` with `value` as the member at `path`, whose objects are made where they are missing. None when
/// the text is not a JSON object, or something else stands there. `value` is JSON text.
pub fn put(text: &str, path: &[&str], value: &str) -> Option<String> {
    let root = json::read(text.as_bytes(), Dialect::Strict).ok()?;
    root.members()?;
    let added = json::read(value.as_bytes(), Dialect::Strict).ok()?;
    let mut place = &root;
    for (depth, key) in path.iter().enumerate() {
        match place.get(key) {
            Some(found) => place = found,
            None => {
                let (at, insertion) =
                    into_object(text, place, &nested(path.get(depth..)?, value)?)?;
                let made = format!("{}{insertion}{}", text.get(..at)?, text.get(at..)?);
                return (plain(&at_path(&made, path)?) == plain(&added)).then_some(made);
            }
        }
    }
    (plain(place) == plain(&added)).then(|| text.to_owned())
}

/// Returns `text` without the member at `path`, if it is there. None when the text is not a JSON object.
pub fn take(text: &str, path: &[&str]) -> Option<String> {
    let root = json::read(text.as_bytes(), Dialect::Strict).ok()?;
    root.members()?;
    let (last, objects) = path.split_last()?;
    let parent = objects.iter().try_fold(&root, |place, key| place.get(key));
    let Some(members) = parent.and_then(Value::members) else { return Some(text.to_owned()) };
    let Some(index) = members.iter().position(|member| member.key == *last) else {
        return Some(text.to_owned());
    };
    let ours = members.get(index)?;
    let before = index.checked_sub(1).and_then(|index| members.get(index));
    let (start, end) = match (before, members.get(index + 1)) {
        (Some(before), _) => (before.value.span.end, ours.value.span.end),
        (None, Some(after)) => (ours.key_span.start, after.key_span.start),
        (None, None) => (ours.key_span.start, ours.value.span.end),
    };
    Some(format!("{}{}", text.get(..start as usize)?, text.get(end as usize..)?))
}

/// Returns the value at `path`.
pub fn at_path(text: &str, path: &[&str]) -> Option<Value> {
    let root = json::read(text.as_bytes(), Dialect::Strict).ok()?;
    path.iter().try_fold(&root, |place, key| place.get(key)).cloned()
}

/// The text `new` in place of what is between `from` and `to`.
struct Edit {
    from: usize,
    to: usize,
    new: String,
}

/// Edits `text`, and sees that the list at `path` then holds what was added.
fn checked(
    dialect: Dialect,
    text: &str,
    edit: &Edit,
    path: &[&str],
    added: &Value,
) -> Option<String> {
    let Edit { from, to, new } = edit;
    let made = format!("{}{new}{}", text.get(..*from)?, text.get(*to..)?);
    let root = json::read(made.as_bytes(), dialect).ok()?;
    let list = path.iter().try_fold(&root, |place, key| place.get(key))?;
    let is_there = list.elements()?.iter().any(|found| plain(found) == plain(added));
    is_there.then_some(made)
}

/// A value without its place, for comparing.
fn plain(value: &Value) -> String {
    match &value.kind {
        Kind::Null => "null".into(),
        Kind::Bool(value) => value.to_string(),
        Kind::Number(digits) => digits.clone(),
        Kind::String(text) => format!("{text:?}"),
        Kind::Array(elements) => {
            format!("[{}]", elements.iter().map(plain).collect::<Vec<_>>().join(","))
        }
        Kind::Object(members) => {
            let members =
                members.iter().map(|member| format!("{:?}:{}", member.key, plain(&member.value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
    }
}

/// Returns the text of a member that leads along `path` to `value`.
fn nested(path: &[&str], value: &str) -> Option<String> {
    let (last, objects) = path.split_last()?;
    let innermost = format!("{}: {value}", serde_json::to_string(last).ok()?);
    objects.iter().rev().try_fold(innermost, |inner, key| {
        Some(format!("{}: {{ {inner} }}", serde_json::to_string(key).ok()?))
    })
}

/// Returns the edit with which a list ends with `value`, spaced as its other elements are. A
/// comment behind the last element stays behind it.
fn into_list(text: &str, list: &Value, elements: &[Value], value: &str) -> Option<Edit> {
    let start = list.span.start as usize + 1;
    let Some(last) = elements.last() else {
        let inside = text.get(start..list.span.end as usize - 1)?;
        let indent = inside.rsplit_once('\n').map(|(_, indent)| indent);
        let new = indent.map_or(value.into(), |indent| format!("\n{indent}  {value}"));
        return Some(Edit { from: start, to: start, new });
    };
    let before = text.get(..last.span.start as usize)?;
    let blank = before.len() - before.trim_end().len();
    let spacing = before.get(before.len() - blank..)?;
    let spacing = if elements.len() == 1 && spacing.is_empty() { " " } else { spacing };
    let end = last.span.end as usize;
    let line = text.get(end..list.span.end as usize)?.split('\n').next()?;
    if line.trim_start().starts_with("//") {
        let spacing = if spacing.contains('\n') { spacing } else { "\n" };
        let new = format!(",{line}{spacing}{value}");
        return Some(Edit { from: end, to: end + line.len(), new });
    }
    Some(Edit { from: end, to: end, new: format!(",{spacing}{value}") })
}

/// Returns where and what to insert so that an object begins with `member`.
fn into_object(text: &str, object: &Value, member: &str) -> Option<(usize, String)> {
    let Kind::Object(members) = &object.kind else { return None };
    let start = object.span.start as usize + 1;
    let Some(first) = members.first() else { return Some((start, format!(" {member} "))) };
    let spacing = text.get(start..first.key_span.start as usize)?;
    // A comment there is the next member's.
    let blank = spacing.len() - spacing.trim_end().len();
    let spacing =
        if spacing.contains('/') { spacing.get(spacing.len() - blank..)? } else { spacing };
    Some((start, format!("{spacing}{member},")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_joins_its_list_and_all_else_stays() {
        let check = |before: &str, after: &str| {
            assert_eq!(
                append(before, &["a", "b"], r#"{"c":1}"#).as_deref(),
                Some(after),
                "{before}"
            );
        };
        check("{}", r#"{ "a": { "b": [{"c":1}] } }"#);
        check("{ \"x\" : 0 }\n", "{ \"a\": { \"b\": [{\"c\":1}] }, \"x\" : 0 }\n");
        check(r#"{"a":{"z":2}}"#, r#"{"a":{"b": [{"c":1}],"z":2}}"#);
        check(r#"{"a":{"b":[]}}"#, r#"{"a":{"b":[{"c":1}]}}"#);
        check("{\"a\":{\"b\":[\n  1\n]}}", "{\"a\":{\"b\":[\n  1,\n  {\"c\":1}\n]}}");
        for wrong in ["", "[]", "{", r#"{"a":1}"#, r#"{"a":{"b":{}}}"#, "// c\n{}"] {
            assert_eq!(append(wrong, &["a", "b"], "1"), None, "{wrong}");
        }
    }

    #[test]
    fn comments_stay_where_they_were() {
        let check = |before: &str, after: &str| {
            let made = append_commented(before, &["a", "b"], "1");
            assert_eq!(made.as_deref(), Some(after), "{before}");
            assert_eq!(append(before, &["a", "b"], "1"), None, "{before}");
        };
        check("// c\n{}", "// c\n{ \"a\": { \"b\": [1] } }");
        check("{ // c\n}", "{ \"a\": { \"b\": [1] }  // c\n}");
        check("{\n  // c\n  \"x\": 0\n}", "{\n  \"a\": { \"b\": [1] },\n  // c\n  \"x\": 0\n}");
        check("{\"a\": {\"b\": [\n  0 // c\n]}}", "{\"a\": {\"b\": [\n  0, // c\n  1\n]}}");
        check("{\"a\": {\"b\": [0] /* c */}}", "{\"a\": {\"b\": [0, 1] /* c */}}");
        check("{\"a\": {\"b\": [\n  // c\n]}}", "{\"a\": {\"b\": [\n  1\n  // c\n]}}");
    }

    #[test]
    fn a_member_is_put_and_taken_and_all_else_stays() {
        let check = |before: &str, after: &str, again: &str| {
            assert_eq!(put(before, &["e", "k"], "\"v\"").as_deref(), Some(after), "{before}");
            assert_eq!(take(after, &["e", "k"]).as_deref(), Some(again), "{after}");
        };
        check("{}", r#"{ "e": { "k": "v" } }"#, r#"{ "e": {  } }"#);
        check(r#"{"e":{"z":1}}"#, r#"{"e":{"k": "v","z":1}}"#, r#"{"e":{"z":1}}"#);
        check(
            "{\n  \"e\": {\n    \"z\": 1\n  }\n}",
            "{\n  \"e\": {\n    \"k\": \"v\",\n    \"z\": 1\n  }\n}",
            "{\n  \"e\": {\n    \"z\": 1\n  }\n}",
        );
        let there = r#"{"e":{"z":1, "k":"v"}}"#;
        check(there, there, r#"{"e":{"z":1}}"#);
        for wrong in ["[]", r#"{"e":1}"#, r#"{"e":{"k":"other"}}"#, "{"] {
            assert_eq!(put(wrong, &["e", "k"], "\"v\""), None, "{wrong}");
        }
        assert_eq!(take(r#"{"e":1}"#, &["e", "k"]).as_deref(), Some(r#"{"e":1}"#));
    }

    #[test]
    fn what_is_ours_goes_with_one_comma() {
        let ours = |value: &Value| value.text() == Some("x");
        let check = |before: &str, after: &str| {
            assert_eq!(remove(before, &["a"], ours).as_deref(), Some(after), "{before}");
        };
        check(r#"{"a":["x"]}"#, r#"{"a":[]}"#);
        check(r#"{"a":["x", 1]}"#, r#"{"a":[1]}"#);
        check(r#"{"a":[1, "x", 2]}"#, r#"{"a":[1, 2]}"#);
        check(r#"{"a":["x", 1, "x"]}"#, r#"{"a":[1]}"#);
        check(r#"{"a":[1]}"#, r#"{"a":[1]}"#);
        check(r#"{"b":["x"]}"#, r#"{"b":["x"]}"#);
        assert_eq!(remove("{", &["a"], ours), None);
    }
}
