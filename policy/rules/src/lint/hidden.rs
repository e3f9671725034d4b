//! Rules that say nothing new beside a wider one.

use std::cell::Cell;
use std::collections::HashMap;

use super::{pattern, place, problem};
use crate::decision::Decision;
use crate::knowledge::{knowledge, listed};
use crate::pattern::command::{CommandPattern, TypedText};
use crate::rule::{Rule, Specifier};
use crate::settings::Problem;
use crate::settings::merged::Rules;

/// How many comparisons with patterns that have a star in the middle are made.
const MOST_COMPARED: usize = 400_000;

/// The rules that others could be hidden by, found by what they begin with.
pub(super) struct Wider<'r> {
    /// Rules for every call of a tool.
    bare: HashMap<&'r str, Vec<&'r Rule>>,
    /// Deny rules for every tool whose name matches.
    globs: Vec<&'r Rule>,
    /// Wildcard rules with a star at the end alone, by effect and the words that they spell out.
    spelled: HashMap<(Decision, String), &'r Rule>,
    /// Wildcard rules with a star elsewhere, by effect and first word; none for one that has a star.
    starred: HashMap<(Decision, Option<Vec<u8>>), Vec<&'r Rule>>,
    /// Deny rules about paths, hosts and names, by tool and what stands in parentheses.
    refused: HashMap<(&'r str, &'r str), &'r Rule>,
    /// How many comparisons are left.
    left: Cell<usize>,
}

impl<'r> Wider<'r> {
    pub fn new(rules: &'r Rules) -> Wider<'r> {
        let mut wider = Wider {
            bare: HashMap::new(),
            globs: Vec::new(),
            spelled: HashMap::new(),
            starred: HashMap::new(),
            refused: HashMap::new(),
            left: Cell::new(MOST_COMPARED),
        };
        for rule in rules.rules() {
            wider.take(rule);
        }
        wider
    }

    fn take(&mut self, rule: &'r Rule) {
        match &rule.specifier {
            Specifier::Every => self.bare.entry(&rule.tool).or_default().push(rule),
            Specifier::EveryOf(_) if rule.effect == Decision::Deny => self.globs.push(rule),
            Specifier::Command(pattern) if rule.tool == "Bash" && !pattern.is_exact() => {
                match pattern.spelled() {
                    Some(words) => {
                        self.spelled.entry((rule.effect, words)).or_insert(rule);
                    }
                    None => {
                        let first =
                            pattern.first_words().and_then(|words| words.into_iter().next());
                        self.starred.entry((rule.effect, first)).or_default().push(rule);
                    }
                }
            }
            Specifier::Read(_) | Specifier::Edit(_) | Specifier::Domain(_) | Specifier::Name(_)
                if rule.effect == Decision::Deny =>
            {
                if let Some(inside) = inside(rule) {
                    self.refused.entry((&rule.tool, inside)).or_insert(rule);
                }
            }
            Specifier::EveryOf(_)
            | Specifier::Command(_)
            | Specifier::Read(_)
            | Specifier::Edit(_)
            | Specifier::Domain(_)
            | Specifier::Name(_)
            | Specifier::Parameter(..)
            | Specifier::Malformed => {}
        }
    }

    /// A rule beside one for every call of the tool.
    pub fn whole(&self, rule: &Rule) -> Option<Problem> {
        let bare = self.bare.get(rule.tool.as_str()).into_iter().flatten().copied();
        let bare = bare.filter(|wide| {
            let scoped = rule.specifier != Specifier::Every;
            (scoped && wide.effect == rule.effect)
                || (wide.effect == Decision::Deny && rule.effect != Decision::Deny)
        });
        let globs = self.globs.iter().copied().filter(|wide| {
            let names = match &wide.specifier {
                Specifier::EveryOf(names) => names.matches(&rule.tool),
                Specifier::Every
                | Specifier::Command(_)
                | Specifier::Read(_)
                | Specifier::Edit(_)
                | Specifier::Domain(_)
                | Specifier::Name(_)
                | Specifier::Parameter(..)
                | Specifier::Malformed => false,
            };
            !std::ptr::eq(*wide, rule) && names && self.may_compare()
        });
        let wider = bare.chain(globs).next()?;
        let message = format!("`{}` in {} already matches every call", wider.text, place(wider));
        Some(problem(rule, message, "remove one of the two".to_owned()))
    }

    /// An allow or ask rule that a deny rule refuses altogether.
    pub fn denied(&self, rule: &Rule) -> Option<Problem> {
        if rule.effect == Decision::Deny {
            return None;
        }
        let refused = || {
            let inside = inside(rule)?;
            // A rule that refuses reading refuses writing as well.
            let reading = (rule.tool == "Edit").then(|| self.refused.get(&("Read", inside)));
            let own = self.refused.get(&(rule.tool.as_str(), inside));
            own.or_else(|| reading.flatten()).copied().or_else(|| self.host(rule, inside))
        };
        let winner = self.of_commands(rule, Decision::Deny).or_else(refused)?;
        let message = format!(
            "`{}` in {} refuses everything that this rule matches",
            winner.text,
            place(winner)
        );
        Some(problem(rule, message, "remove one of the two".to_owned()))
    }

    /// A host that a wider deny rule refuses.
    fn host(&self, rule: &Rule, inside: &str) -> Option<&'r Rule> {
        let host = inside.trim().strip_prefix("domain:")?.trim();
        let parents = host.match_indices('.').filter_map(|(at, _)| host.get(at + 1..));
        let wide = std::iter::once("domain:*".to_owned())
            .chain(parents.map(|parent| format!("domain:*.{parent}")));
        wide.filter_map(|text| self.refused.get(&(rule.tool.as_str(), text.as_str())).copied())
            .next()
    }

    /// A rule beside a wider one of the same list.
    pub fn narrower(&self, rule: &Rule) -> Option<Problem> {
        let wider = self.of_commands(rule, rule.effect)?;
        if rule.effect == Decision::Allow && pattern(rule).is_some_and(CommandPattern::is_exact) {
            // An exact rule covers what a wildcard does not: options that start, load or write.
            return None;
        }
        if rule.effect == Decision::Allow && spells_out_more(rule, wider) {
            return None;
        }
        let message = format!("`{}` in {} already covers all of this", wider.text, place(wider));
        Some(problem(rule, message, "remove this one".to_owned()))
    }

    /// Says where comparing was given up, if it was.
    pub fn given_up(&self, rules: &Rules) -> Option<Problem> {
        let starred = |rule: &&Rule| {
            pattern(rule).is_some_and(|own| !own.is_exact() && own.spelled().is_none())
        };
        let rule = rules.rules().iter().find(starred).filter(|_| self.left.get() == 0)?;
        let message =
            "there are too many rules with a star in the middle to compare each with all others";
        Some(problem(rule, message.to_owned(), "write fewer of them".to_owned()))
    }

    fn may_compare(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// Returns another wildcard rule of this effect that matches all that the rule matches.
    fn of_commands(&self, rule: &Rule, effect: Decision) -> Option<&'r Rule> {
        let own = pattern(rule).filter(|_| rule.tool == "Bash")?;
        let words = own.spelled()?;
        let ends = words.match_indices(' ').map(|(at, _)| at).chain([words.len()]);
        let by_words = ends.filter_map(|end| {
            let key = (effect, words.get(..end)?.to_owned());
            self.spelled.get(&key).copied().filter(|wide| !std::ptr::eq(*wide, rule))
        });
        let first = own.first_words()?.into_iter().next()?;
        let by_stars = [Some(first), None].into_iter().flat_map(|first| {
            let starred = self.starred.get(&(effect, first)).into_iter().flatten().copied();
            starred.filter(|wide| {
                !std::ptr::eq(*wide, rule)
                    && self.may_compare()
                    && pattern(wide).is_some_and(|pattern| {
                        pattern.strikes_raw(&TypedText::new(words.as_bytes()))
                    })
            })
        });
        by_words.chain(by_stars).next()
    }
}

/// Says whether the longer rule covers a sub-command that counts only where it is spelled out.
fn spells_out_more(rule: &Rule, wider: &Rule) -> bool {
    let (Some(own), Some(wide)) = (pattern(rule), pattern(wider)) else { return false };
    let first = own.first_words().and_then(|words| words.into_iter().next()).unwrap_or_default();
    let tables = knowledge();
    own.literal_words() > wide.literal_words()
        && (listed(&tables.spelled_out, &first) || listed(&tables.executors, &first))
}

/// Returns what stands in the parentheses of a rule.
fn inside(rule: &Rule) -> Option<&str> {
    rule.text.trim().split_once('(')?.1.strip_suffix(')')
}
