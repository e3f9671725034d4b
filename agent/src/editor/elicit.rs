//! Questions of the model to the person as a form of the editor (`elicitation/create`), where the editor has forms.

use serde_json::{Map, Value, json};

/// The tool whose questions become a form.
pub(super) const TOOL: &str = "AskUserQuestion";
/// End of the name of the field in which a person writes an answer that is none of the options.
const OTHER: &str = "_other";
/// Most questions, and options of each.
const MOST: usize = 16;

/// One question of the model.
#[derive(Debug, PartialEq)]
struct Question {
    words: String,
    title: String,
    /// Label and description of each option.
    options: Vec<(String, String)>,
    takes_many: bool,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Question {
    fn read(value: &Value) -> Option<Question> {
        let words = Some(text(value, "question")).filter(|it| !it.is_empty())?;
        let options = value.get("options").and_then(Value::as_array);
        let options = options.filter(|it| (1..=MOST).contains(&it.len()))?.iter();
        let option = |it: &Value| {
            let label = Some(text(it, "label")).filter(|it| !it.is_empty())?;
            Some((label.to_owned(), text(it, "description").to_owned()))
        };
        Some(Question {
            words: words.to_owned(),
            title: text(value, "header").to_owned(),
            options: options.map(option).collect::<Option<_>>()?,
            takes_many: value.get("multiSelect").and_then(Value::as_bool).unwrap_or_default(),
        })
    }

    fn all(input: &Value) -> Option<Vec<Question>> {
        let all = input.get("questions").and_then(Value::as_array);
        let all = all.filter(|it| (1..=MOST).contains(&it.len()))?;
        all.iter().map(Question::read).collect()
    }

    fn field(&self) -> Value {
        let options: Vec<Value> = self
            .options
            .iter()
            .map(|(label, about)| match about.is_empty() {
                true => json!({ "const": label, "title": label }),
                false => json!({ "const": label, "title": label, "description": about }),
            })
            .collect();
        let title = if self.title.is_empty() { &self.words } else { &self.title };
        match self.takes_many {
            true => json!({ "type": "array", "title": title, "description": self.words,
                "items": { "anyOf": options } }),
            false => {
                json!({ "type": "string", "title": title, "description": self.words, "oneOf": options })
            }
        }
    }

    /// Returns what a person chose or wrote. Only what was offered is a choice.
    fn answer(&self, content: &Value, name: &str) -> Option<String> {
        let chosen: Vec<&str> = match content.get(name) {
            Some(Value::String(one)) if !self.takes_many => vec![one],
            Some(Value::Array(many)) if self.takes_many => {
                many.iter().filter_map(Value::as_str).collect()
            }
            Some(_) | None => Vec::new(),
        };
        let is_offered = |it: &&str| self.options.iter().any(|(label, _)| label == it);
        let written = text(content, &format!("{name}{OTHER}")).trim();
        let mut all: Vec<&str> = chosen.into_iter().filter(is_offered).collect();
        match (self.takes_many, written) {
            (_, "") => {}
            (true, written) => all.push(written),
            (false, written) => all = vec![written],
        }
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// Returns the parameters of the request for a call that asks; none where its questions make no form.
pub(super) fn form(session: &str, call: &str, input: &Value) -> Option<Value> {
    let questions = Question::all(input)?;
    let mut fields = Map::new();
    for (at, question) in questions.iter().enumerate() {
        let name = format!("q{}", at + 1);
        fields.insert(name.clone(), question.field());
        let other =
            json!({ "type": "string", "title": "Another answer", "description": question.words });
        fields.insert(format!("{name}{OTHER}"), other);
    }
    let message = match questions.as_slice() {
        [one] => one.words.clone(),
        _ => "The agent has questions.".to_owned(),
    };
    Some(json!({ "sessionId": session, "toolCallId": call, "mode": "form", "message": message,
        "requestedSchema": { "type": "object", "properties": fields } }))
}

/// Returns the decision about a call that asked, from the editor's answer. Whatever is no clear answer is a no.
pub(super) fn decided(input: &Value, answer: &Value) -> Value {
    let deny = |words: &str, interrupt: bool| json!({ "behavior": "deny", "message": words, "interrupt": interrupt });
    match text(answer, "action") {
        "accept" => {
            let content = answer.get("content").unwrap_or(&Value::Null);
            let questions = Question::all(input).unwrap_or_default();
            let answers: Map<String, Value> = questions
                .iter()
                .enumerate()
                .filter_map(|(at, question)| {
                    let answer = question.answer(content, &format!("q{}", at + 1))?;
                    Some((question.words.clone(), json!(answer)))
                })
                .collect();
            let mut input = input.clone();
            if let Some(fields) = input.as_object_mut() {
                fields.insert("answers".into(), Value::Object(answers));
            }
            json!({ "behavior": "allow", "updatedInput": input })
        }
        "decline" => deny("The user does not answer these questions.", false),
        "cancel" => deny("The question was cancelled.", true),
        _ => deny("The editor could not ask the user.", false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> Value {
        let options = json!([{ "label": "red", "description": "warm" }, { "label": "blue" }]);
        json!({ "questions": [
            { "question": "Which one?", "header": "Color", "options": options },
            { "question": "Which ones?", "options": options, "multiSelect": true },
        ] })
    }

    #[test]
    fn questions_become_fields_and_choices_become_answers() {
        let form = form("s", "c", &input()).unwrap();
        let fields = &form["requestedSchema"]["properties"];
        let names: Vec<&String> = fields.as_object().unwrap().keys().collect();
        assert_eq!(names, ["q1", "q1_other", "q2", "q2_other"]);
        assert_eq!(
            fields["q1"],
            json!({ "type": "string", "title": "Color", "description": "Which one?", "oneOf": [
                { "const": "red", "title": "red", "description": "warm" }, { "const": "blue", "title": "blue" }] })
        );
        assert_eq!(fields["q2"]["type"], "array");
        let answers = |content: Value| {
            let answer = json!({ "action": "accept", "content": content });
            decided(&input(), &answer)["updatedInput"]["answers"].clone()
        };
        assert_eq!(
            answers(json!({ "q1": "red", "q2": ["blue", "red"], "q2_other": "green" })),
            json!({ "Which one?": "red", "Which ones?": "blue, red, green" })
        );
        assert_eq!(
            answers(json!({ "q1": "red", "q1_other": "my own" })),
            json!({ "Which one?": "my own" })
        );
        // An answer that was not offered, or has another form, is ignored.
        assert_eq!(answers(json!({ "q1": "violet", "q2": "blue", "q9": "red" })), json!({}));
    }

    #[test]
    fn what_is_no_answer_is_a_no() {
        for (answer, interrupts) in [
            (json!({ "action": "decline" }), false),
            (json!({ "action": "cancel" }), true),
            (json!({ "action": "_later" }), false),
            (Value::Null, false),
        ] {
            let decided = decided(&input(), &answer);
            assert_eq!(
                (&decided["behavior"], &decided["interrupt"]),
                (&json!("deny"), &json!(interrupts))
            );
        }
        for odd in
            [json!({}), json!({ "questions": [] }), json!({ "questions": [{ "question": "?" }] })]
        {
            assert_eq!(form("s", "c", &odd), None);
        }
    }
}
