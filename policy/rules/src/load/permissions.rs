//! `permissions`: rules, modes and further directories.

use std::path::{Path, PathBuf};

use stockade_text::json::Value;

use super::source::{Source, join};
use super::{Merging, disables, texts};
use crate::decision::Decision;
use crate::layer::Layer;
use crate::mode::Mode;
use crate::rule::{self, Complaint, Reading, Specifier};
use crate::settings::{Severity, unknown_key};
use crate::spelling::{instead, instead_of_key};

impl Merging {
    pub(super) fn permissions(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        let Some(members) = value.members() else {
            self.refuse_type(source, value, pointer, "an object");
            return;
        };
        for member in members {
            let pointer = join(pointer, &member.key);
            match member.key.as_str() {
                "allow" => self.rule_list(source, &member.value, &pointer, Decision::Allow),
                "ask" => self.rule_list(source, &member.value, &pointer, Decision::Ask),
                "deny" => self.rule_list(source, &member.value, &pointer, Decision::Deny),
                "additionalDirectories" => self.directories(source, &member.value, &pointer),
                "defaultMode" => self.default_mode(source, &member.value, &pointer),
                "disableBypassPermissionsMode" => {
                    self.settings.disable_bypass |= disables(source, &member.value);
                }
                "disableAutoMode" => self.settings.disable_auto |= disables(source, &member.value),
                "skipDangerousModePermissionPrompt" => {}
                key => {
                    let message = unknown_key(key);
                    let help = instead_of_key(&format!("permissions.{key}"));
                    self.problems.warn(source, member.key_span, &pointer, &message, &help);
                }
            }
        }
    }

    fn rule_list(&mut self, source: &Source<'_>, value: &Value, pointer: &str, effect: Decision) {
        let Some(elements) = value.elements() else {
            self.refuse_type(source, value, pointer, "a list of rules");
            return;
        };
        let mut waiting = false;
        for (index, element) in elements.iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let origin = source.origin(element.span, &pointer);
            let text = element.text().unwrap_or_default();
            let (reading, alternatives) = rule::read_all(text, effect, &origin, source.anchor());
            self.rules.extend(alternatives);
            match reading {
                _ if effect == Decision::Allow && !source.widens() => waiting = true,
                Reading::Good(rule) => {
                    self.anchor_warning(source, element, &pointer, &rule);
                    self.rules.push(rule);
                }
                Reading::Odd(rule, complaint) => {
                    self.complain(Severity::Warning, source, element, &pointer, &complaint);
                    self.rules.push(rule);
                }
                Reading::Void(complaint) => {
                    self.complain(Severity::Warning, source, element, &pointer, &complaint);
                }
                Reading::Malformed(rule, complaint) => {
                    let severity = if source.layer() == Layer::Policy {
                        Severity::Refusal
                    } else {
                        Severity::Error
                    };
                    self.complain(severity, source, element, &pointer, &complaint);
                    self.rules.push(rule);
                }
            }
        }
        if waiting {
            self.waits_for_trust(source, value, pointer);
        }
    }

    fn anchor_warning(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        rule: &rule::Rule,
    ) {
        let anchored = match &rule.specifier {
            Specifier::Read(pattern) | Specifier::Edit(pattern) => pattern.is_source_anchored(),
            Specifier::Every
            | Specifier::EveryOf(_)
            | Specifier::Command(_)
            | Specifier::Domain(_)
            | Specifier::Name(_)
            | Specifier::Parameter(..)
            | Specifier::Malformed => false,
        };
        if anchored && source.layer() == Layer::Policy {
            let message = "a single `/` begins at the directory of this file";
            self.warn(
                source,
                value,
                pointer,
                message,
                "write `//` for the root of the file system",
            );
        }
    }

    fn complain(
        &mut self,
        severity: Severity,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        complaint: &Complaint,
    ) {
        let Complaint { message, help } = complaint;
        self.problems.add(severity, source, value.span, pointer, message, help);
    }

    fn directories(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        let mut bad = Vec::new();
        let Some(paths) = texts(value, |element, index| bad.push((element, index))) else {
            self.refuse_type(source, value, pointer, "a list of paths");
            return;
        };
        if !source.widens() {
            self.waits_for_trust(source, value, pointer);
            return;
        }
        for (_, _, path) in &paths {
            let path = match path.strip_prefix("~/") {
                // The home directory is known when a call is decided.
                Some(_) => PathBuf::from(path),
                None => crate::normal::normal(&source.anchor().join(Path::new(path))),
            };
            if !self.settings.additional_directories.contains(&path) {
                self.settings.additional_directories.push(path);
            }
        }
        for (element, index) in bad {
            let pointer = format!("{pointer}/{index}");
            self.warn(source, element, &pointer, "expected a path", "put it in quotes");
        }
    }

    fn default_mode(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        if source.is_above() {
            return self.mode_of_above(source, value.text().and_then(Mode::named));
        }
        let Some(mode) = value.text().and_then(Mode::named) else {
            let help = instead(value.text().unwrap_or_default(), &Mode::NAMES);
            self.warn(source, value, pointer, "invalid mode; `default` is used", &help);
            self.set_mode(source, Mode::Default);
            return;
        };
        let risky = matches!(mode, Mode::Auto | Mode::BypassPermissions);
        if source.is_shared() && risky {
            let message = "project and local settings cannot set this mode; `default` is used";
            self.warn(source, value, pointer, message, "put it into the user settings");
            self.set_mode(source, Mode::Default);
        } else if !source.widens() && !matches!(mode, Mode::Default | Mode::Plan) {
            self.waits_for_trust(source, value, pointer);
        } else {
            self.set_mode(source, mode);
        }
    }
}

#[cfg(test)]
mod tests;
