//! The merged rules of all layers.

use super::Settings;
use crate::decision::Decision;
use crate::index::{Index, RuleId};
use crate::rule::Rule;

/// The merged rules of all layers, with the settings that go with them.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    settings: Settings,
    rules: Vec<Rule>,
    deny: Index,
    ask: Index,
    allow: Index,
    about_commands: bool,
}

impl Rules {
    /// Takes the rules in the order in which they are named: strongest layer first, then file order.
    pub(crate) fn new(settings: Settings, rules: Vec<Rule>) -> Rules {
        let mut merged = Rules { settings, ..Rules::default() };
        for (id, rule) in rules.iter().enumerate() {
            let index = match rule.effect {
                Decision::Deny => &mut merged.deny,
                Decision::Ask => &mut merged.ask,
                Decision::Allow => &mut merged.allow,
            };
            index.add(id, rule);
            merged.about_commands |= rule.effect != Decision::Allow && rule.is_about_commands();
        }
        merged.rules = rules;
        merged
    }

    /// Returns the same settings with other rules: an explanation asks what they would decide.
    pub fn with(&self, rules: Vec<Rule>) -> Rules {
        Rules::new(self.settings.clone(), rules)
    }

    /// The merged settings besides rules.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Every rule that counts, strongest layer first, then in the order of the files.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the rule with this number.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id)
    }

    /// Returns the rules with this effect, by the calls that they may be about.
    pub fn by_effect(&self, effect: Decision) -> &Index {
        match effect {
            Decision::Deny => &self.deny,
            Decision::Ask => &self.ask,
            Decision::Allow => &self.allow,
        }
    }

    /// Says whether a deny or ask rule about particular commands exists, which only a text that is
    /// understood can be held against.
    pub fn has_command_specifier(&self) -> bool {
        self.about_commands
    }
}
