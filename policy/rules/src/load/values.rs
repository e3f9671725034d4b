//! Every value of settings texts besides rules and hooks, with the place where it stands.

use stockade_parser::Span;
use stockade_text::json::{Value, read};

use super::source::{Source, join};
use crate::layer::{Layer, Origin};
use crate::settings::SettingsText;

/// A value of a settings text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsValue {
    /// Its key with those above it, such as `sandbox.network.allowedDomains`.
    pub key: String,
    /// The value as it is written, in JSON.
    pub text: String,
    /// Where it stands.
    pub origin: Origin,
    /// True if the value is one of a list, which all layers add to.
    pub listed: bool,
}

/// A value that is still to be looked into.
struct Waiting<'v> {
    key: String,
    pointer: String,
    value: &'v Value,
    listed: bool,
}

/// Returns the values of settings texts besides rules and hooks, by key, strongest layer first. Of a single
/// value only that of the strongest layer is returned. A text that is not a JSON object has none.
pub fn settings_values(texts: &[SettingsText]) -> Vec<SettingsValue> {
    let mut found: Vec<SettingsValue> = Vec::new();
    for text in texts {
        let Ok(value) = read(&text.text, text.dialect()) else { continue };
        let source = Source::new(text);
        let top =
            Waiting { key: String::new(), pointer: String::new(), value: &value, listed: false };
        let mut waiting = vec![top];
        while let Some(next) = waiting.pop() {
            if !is_told_elsewhere(&next.key) {
                open(&next, &source, &text.text, &mut waiting, &mut found);
            }
        }
    }
    // The sort is stable: of one layer, the later text is the stronger one.
    found.reverse();
    found.sort_by(|a, b| {
        let layers: (Layer, Layer) = (a.origin.layer, b.origin.layer);
        a.key.cmp(&b.key).then(layers.1.cmp(&layers.0))
    });
    found.dedup_by(|later, kept| later.key == kept.key && !(later.listed && kept.listed));
    found
}

fn is_told_elsewhere(key: &str) -> bool {
    matches!(
        key,
        "hooks" | "permissions.allow" | "permissions.ask" | "permissions.deny" | "$schema"
    )
}

fn open<'v>(
    next: &Waiting<'v>,
    source: &Source<'_>,
    text: &[u8],
    waiting: &mut Vec<Waiting<'v>>,
    found: &mut Vec<SettingsValue>,
) {
    if let Some(members) = next.value.members() {
        waiting.extend(members.iter().map(|member| Waiting {
            key: match next.key.as_str() {
                "" => member.key.clone(),
                above => format!("{above}.{}", member.key),
            },
            pointer: join(&next.pointer, &member.key),
            value: &member.value,
            listed: next.listed,
        }));
    } else if let Some(elements) = next.value.elements() {
        waiting.extend(elements.iter().enumerate().map(|(index, value)| Waiting {
            key: next.key.clone(),
            pointer: format!("{}/{index}", next.pointer),
            value,
            listed: true,
        }));
    } else {
        found.push(SettingsValue {
            key: next.key.clone(),
            text: written(next.value.span, text),
            origin: source.origin(next.value.span, &next.pointer),
            listed: next.listed,
        });
    }
}

fn written(span: Span, text: &[u8]) -> String {
    String::from_utf8_lossy(span.of(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_values_are_those_of_the_strongest_layer_and_lists_join() {
        let text = |layer, text: &str| SettingsText {
            layer,
            file: "s.json".into(),
            text: text.as_bytes().to_vec(),
            anchor: "/".into(),
            trusted: true,
            above: false,
        };
        let texts = [
            text(
                Layer::User,
                r#"{"env": {"A": "1", "B": "2"}, "sandbox": {"excludedCommands": ["a"]}}"#,
            ),
            text(Layer::Policy, r#"{"env": {"A": "3"}, "sandbox": {"excludedCommands": ["b"]}}"#),
            text(Layer::Local, "no JSON"),
        ];
        let told: Vec<String> = settings_values(&texts)
            .into_iter()
            .map(|it| {
                format!("{} {} {}:{}", it.key, it.text, it.origin.layer.name(), it.origin.column)
            })
            .collect();
        assert_eq!(
            told,
            [
                "env.A \"3\" policy:15",
                "env.B \"2\" user:25",
                "sandbox.excludedCommands \"b\" policy:54",
                "sandbox.excludedCommands \"a\" user:64",
            ]
        );
    }
}
