//! Rules sorted so that a decision looks only at those that could match.

use std::collections::HashMap;

use crate::rule::{Rule, Specifier};

/// A place in the list of all rules; a lower one is named first.
pub type RuleId = usize;

/// The rules of one effect.
#[derive(Debug, Clone, Default)]
pub struct Index {
    every: HashMap<String, Vec<RuleId>>,
    every_glob: Vec<RuleId>,
    by_word: HashMap<Vec<u8>, Vec<RuleId>>,
    by_any_word: Vec<RuleId>,
    separated: Vec<RuleId>,
    commands: Vec<RuleId>,
    read: PathIndex,
    edit: PathIndex,
    named: HashMap<String, Vec<RuleId>>,
}

/// Path rules by a segment that each of their paths must hold.
#[derive(Debug, Clone, Default)]
pub struct PathIndex {
    by_segment: HashMap<Vec<u8>, Vec<RuleId>>,
    rest: Vec<RuleId>,
    all: Vec<RuleId>,
}

impl Index {
    /// Sorts one rule in.
    pub fn add(&mut self, id: RuleId, rule: &Rule) {
        match &rule.specifier {
            Specifier::Every => self.every.entry(rule.tool.clone()).or_default().push(id),
            Specifier::EveryOf(_) => self.every_glob.push(id),
            Specifier::Malformed if rule.tool.is_empty() || rule.tool.contains('*') => {
                self.every_glob.push(id);
            }
            Specifier::Malformed => self.every.entry(rule.tool.clone()).or_default().push(id),
            Specifier::Command(pattern) if rule.tool == "Bash" => {
                self.commands.push(id);
                if pattern.is_compound() {
                    self.separated.push(id);
                }
                match pattern.first_words() {
                    Some(words) => {
                        for word in words {
                            self.by_word.entry(word).or_default().push(id);
                        }
                    }
                    None => self.by_any_word.push(id),
                }
            }
            Specifier::Read(pattern) => self.read.add(id, pattern.key()),
            Specifier::Edit(pattern) => self.edit.add(id, pattern.key()),
            Specifier::Command(_)
            | Specifier::Domain(_)
            | Specifier::Name(_)
            | Specifier::Parameter(..) => self.named.entry(rule.tool.clone()).or_default().push(id),
        }
    }

    /// Returns the rules about every call of a tool.
    pub fn every(&self, tool: &str) -> impl Iterator<Item = RuleId> + '_ {
        self.every.get(tool).into_iter().flatten().chain(&self.every_glob).copied()
    }

    /// Returns the rules with a specifier that is neither a command nor a path.
    pub fn named(&self, tool: &str) -> impl Iterator<Item = RuleId> + '_ {
        self.named.get(tool).into_iter().flatten().copied()
    }

    /// Returns the command rules that could match a command with one of these first words.
    pub fn commands(&self, first_words: &[Option<Vec<u8>>]) -> Vec<RuleId> {
        if first_words.iter().any(Option::is_none) {
            return self.commands.clone();
        }
        let mut found = self.by_any_word.clone();
        for word in first_words.iter().flatten() {
            found.extend(self.by_word.get(word).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the command rules that name a separator, which only the whole text can match.
    pub fn separated(&self) -> &[RuleId] {
        &self.separated
    }

    /// Returns all command rules.
    pub fn all_commands(&self) -> &[RuleId] {
        &self.commands
    }

    /// Returns the rules about paths that are read.
    pub fn read(&self) -> &PathIndex {
        &self.read
    }

    /// Returns the rules about paths that are written.
    pub fn edit(&self) -> &PathIndex {
        &self.edit
    }
}

impl PathIndex {
    fn add(&mut self, id: RuleId, key: Option<&[u8]>) {
        self.all.push(id);
        match key {
            Some(segment) => self.by_segment.entry(segment.to_vec()).or_default().push(id),
            None => self.rest.push(id),
        }
    }

    /// Says whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns all rules.
    pub fn all(&self) -> &[RuleId] {
        &self.all
    }

    /// Returns the rules that could match one of the paths.
    pub fn candidates(&self, paths: &[std::path::PathBuf]) -> Vec<RuleId> {
        let mut found = self.rest.clone();
        for segment in paths.iter().flat_map(|path| path.iter()) {
            found.extend(self.by_segment.get(segment.as_encoded_bytes()).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
