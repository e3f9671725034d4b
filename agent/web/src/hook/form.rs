//! The forms of a message about a question: our own, and those of two chat services.

use serde_json::{Value, json};
use stockade_wire::approvals::ApprovalView;
use stockade_wire::words;

/// Most characters of a question in a chat. Slack refuses a block above 3,000.
const LONGEST: usize = 2000;

/// The form of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// The question as the socket tells it, signed.
    #[default]
    Plain,
    /// An incoming webhook of Slack, with buttons that its app sends back.
    Slack,
    /// An incoming webhook of Teams; an outgoing webhook sends `allow ID DIGEST` or `deny ID DIGEST` back.
    Teams,
}

impl Form {
    /// The path at which answers of this form are taken.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Form::Plain => "/answer",
            Form::Slack => "/slack",
            Form::Teams => "/teams",
        }
    }

    /// Returns the message about a question that was opened.
    pub(crate) fn opened(self, view: &ApprovalView) -> Value {
        match self {
            Form::Plain => json!({ "event": "question.opened", "question": view }),
            Form::Slack => slack(view),
            Form::Teams => teams(view),
        }
    }

    /// Returns the message about a question that one more person has approved, where the form has one.
    pub(crate) fn approved(self, view: &ApprovalView) -> Option<Value> {
        match self {
            Form::Plain => Some(json!({ "event": "question.approved", "question": view })),
            Form::Slack | Form::Teams => None,
        }
    }

    /// Returns the message about a question that is no longer open, where the form has one.
    pub(crate) fn closed(self, id: &str, how: &str) -> Option<Value> {
        match self {
            Form::Plain => Some(json!({ "event": "question.closed", "id": id, "how": how })),
            Form::Slack | Form::Teams => None,
        }
    }
}

/// Returns the question as a terminal shows it, and whether that is all of it.
fn text(view: &ApprovalView) -> (String, bool) {
    let text = words::question(&view.question);
    let text = text.trim_end();
    match text.chars().count() > LONGEST {
        true => (format!("{}…", text.chars().take(LONGEST).collect::<String>()), false),
        false => (text.to_owned(), true),
    }
}

fn whose(view: &ApprovalView) -> String {
    let front = words::one_line(view.agent.as_ref().unwrap_or(&view.door));
    let whose = format!("{front} in {}", words::one_line(&view.cwd));
    match &view.required {
        Some(required) => format!("{whose}; needs {}", required.sentence()),
        None => whose,
    }
}

/// Blocks of plain text, so nothing in them is markup. Source: <https://docs.slack.dev/reference/block-kit/blocks>.
fn slack(view: &ApprovalView) -> Value {
    let plain = |text: String| json!({ "type": "plain_text", "text": text, "emoji": false });
    let value = |act: &str| format!("{act} {} {}", view.id, view.digest);
    let button = |act: &str, text: &str| json!({ "type": "button", "action_id": act, "text": plain(text.to_owned()), "value": value(act) });
    let (text, is_whole) = text(view);
    // Nobody allows what they were not shown.
    let mut buttons = vec![button("deny", "Deny")];
    if is_whole {
        let text = if view.required.is_some() { "Approve once" } else { "Allow once" };
        buttons.insert(0, button("allow", text));
    }
    json!({
        "text": "stockade asks",
        "blocks": [
            { "type": "section", "text": plain(text) },
            { "type": "context", "elements": [plain(whose(view))] },
            { "type": "actions", "elements": buttons },
        ],
    })
}

/// An Adaptive Card. Text blocks read Markdown, so the question is a text run, which reads none.
/// Source: <https://adaptivecards.microsoft.com/?topic=RichTextBlock>.
fn teams(view: &ApprovalView) -> Value {
    let run = |text: String| json!({ "type": "RichTextBlock", "inlines": [{ "type": "TextRun", "text": text }] });
    let (text, is_whole) = text(view);
    let help = match is_whole {
        true => format!("allow {0} {1} or deny {0} {1}", view.id, view.digest),
        false => format!("too long to be allowed here; deny {} {}", view.id, view.digest),
    };
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": [run(text), run(whose(view)), run(help)],
            },
        }],
    })
}

#[cfg(test)]
mod tests {
    use stockade_wire::approvals::RequiredView;
    use stockade_wire::types::{DecisionView, Question};

    use super::*;

    fn view(command: &str) -> ApprovalView {
        let decision = DecisionView { decision: "ask".to_owned(), ..DecisionView::default() };
        let question = Question {
            decision,
            command: command.to_owned(),
            always: None,
            connection: None,
            session: None,
            mode: String::new(),
        };
        ApprovalView {
            id: "1f".to_owned(),
            digest: "d1".to_owned(),
            question,
            cwd: "/p".to_owned(),
            door: "run".to_owned(),
            agent: None,
            session: None,
            pid: 1,
            uid: 2,
            asked_ms: 3,
            expires_ms: 4,
            required: None,
        }
    }

    #[test]
    fn a_command_that_is_not_shown_whole_has_no_button_that_allows_it() {
        let buttons = |command: &str| {
            let told = Form::Slack.opened(&view(command));
            let buttons = told["blocks"][2]["elements"].as_array().unwrap().clone();
            buttons.iter().map(|it| it["value"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(buttons("make"), ["allow 1f d1", "deny 1f d1"]);
        assert_eq!(buttons(&"x".repeat(2001)), ["deny 1f d1"]);
        let told = Form::Teams.opened(&view(&"x".repeat(2001))).to_string();
        assert!(!told.contains("allow 1f") && told.contains("deny 1f d1"), "{told}");
    }

    #[test]
    fn a_message_says_who_has_to_approve_and_who_has() {
        let required = RequiredView {
            persons: 2,
            self_approval: false,
            groups: vec![vec!["ops".to_owned(), "oncall".to_owned()], vec!["release".to_owned()]],
            approved: vec!["bob".to_owned()],
        };
        let needs = "2 persons of ops or oncall of release, not the one who asks; approved by bob";
        let view = ApprovalView { required: Some(required), ..view("deploy") };
        let whose = format!("run in /p; needs {needs}");
        let slack = Form::Slack.opened(&view);
        assert_eq!(slack["blocks"][1]["elements"][0]["text"], whose);
        assert_eq!(slack["blocks"][2]["elements"][0]["text"]["text"], "Approve once");
        let teams = Form::Teams.opened(&view);
        let card = &teams["attachments"][0]["content"]["body"][1];
        assert_eq!(card["inlines"][0]["text"], whose);
        let plain = Form::Plain.approved(&view).expect("a message");
        assert_eq!(plain["event"], "question.approved");
        assert_eq!(plain["question"]["required"]["approved"], json!(["bob"]));
        assert_eq!((Form::Slack.approved(&view), Form::Teams.approved(&view)), (None, None));
    }

    #[test]
    fn a_chat_shows_the_text_of_a_command_and_no_markup() {
        let told = Form::Slack.opened(&view("echo '<!channel>' \u{202e}x"));
        assert_eq!(told["blocks"][0]["text"]["type"], "plain_text");
        assert!(!told.to_string().contains('\u{202e}'), "{told}");
        let told = Form::Teams.opened(&view("echo **x**"));
        let run = &told["attachments"][0]["content"]["body"][0]["inlines"][0];
        assert_eq!(run["type"], "TextRun");
        assert!(run["text"].as_str().is_some_and(|it| it.contains("echo **x**")), "{run}");
    }
}
