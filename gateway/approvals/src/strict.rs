//! A question for which the managed settings say who approves: each answer is weighed here, wherever it comes from.

use std::time::SystemTime;

use stockade_settings::approvers::{Person, Required, everybody};
use stockade_wire::approvals::{RequiredView, Said};
use stockade_wire::conversation::ByWhom;

use stockade_log::apart::board::Known;
use stockade_log::{Log, clock};
use stockade_wire::types::{Answer, Lasting};

/// Longest reason of who allows alone in an emergency.
const LONGEST_REASON: usize = 1000;

/// Required approvers, and those who have approved.
#[derive(Debug)]
pub struct Strict {
    required: Required,
    requester: Person,
    by: ByWhom,
    /// The log of the machine, by whose recorder others are asked; none where there are no others.
    pub board: Option<Log>,
}

impl Strict {
    /// Begins with nobody; none if nobody knows who asks.
    pub fn new(required: Required, requester: u32, board: Option<Log>) -> Option<Strict> {
        let known = board.as_ref().and_then(Log::known);
        let requester = person(requester, known)?;
        Some(Strict { required, requester, by: ByWhom::default(), board })
    }

    /// Returns the users who can answer.
    pub fn audience(&self) -> Vec<u32> {
        let now = now();
        let may = |person: &Person| {
            self.required.counts_as(person, &self.requester, &now).is_ok()
                || self.required.breaks_glass(person)
        };
        let others = everybody().into_iter().filter(|it| it.uid != self.requester.uid);
        others.filter(may).map(|person| person.uid).collect()
    }

    /// Returns the groups in which a user can answer whom no file names: one of each list, or one for an emergency.
    pub fn groups(&self) -> (Vec<Vec<String>>, Vec<String>) {
        (self.required.groups.clone(), self.required.break_glass.clone())
    }

    /// Returns the message about it.
    pub fn view(&self) -> RequiredView {
        let Required { persons, self_approval, groups, .. } = &self.required;
        let approved = self.by.approvers.iter().map(|(_, name, _)| name.clone()).collect();
        let (persons, self_approval, groups) = (*persons, *self_approval, groups.clone());
        RequiredView { persons, self_approval, groups, approved }
    }

    /// Takes the answer of a user, of whom the recorder `known` more where no file names it: the one that counts for the question, with who gave it, or none while more persons are
    /// needed.
    ///
    /// # Errors
    ///
    /// Why that user cannot answer so.
    pub fn take(
        &mut self,
        uid: u32,
        known: Option<Known>,
        said: Said,
    ) -> Result<Option<(Answer, ByWhom)>, String> {
        let Said { answer, break_glass, claimed } = said;
        let asks = Some(&self.requester).filter(|it| it.uid == uid);
        let person = person(uid, known).or_else(|| asks.cloned());
        let person = person.ok_or_else(|| format!("uid {uid} is not a user of this machine"))?;
        let counts_as = self.required.counts_as(&person, &self.requester, &now());
        if matches!(answer, Answer::Deny | Answer::DenyWith(_) | Answer::Withdrawn) {
            let may = counts_as.is_ok() || uid == self.requester.uid;
            if !may && !self.required.breaks_glass(&person) {
                return Err(format!("`{}` cannot answer it", person.name));
            }
            return Ok(Some((answer, ByWhom { claimed, ..ByWhom::default() })));
        }
        if let Some(reason) = break_glass {
            return self.broken_glass(&person, answer, reason).map(Some);
        }
        let name = counts_as?;
        if answer != Answer::Once {
            return Err("a question that needs approval is allowed once".to_owned());
        }
        let in_place_of = (name != person.name).then_some(name.clone());
        let is_known = self.by.approvers.iter().any(|(known, known_name, known_for)| {
            *known == uid || known_for.as_ref().unwrap_or(known_name) == &name
        });
        if is_known {
            return Err(format!("`{name}` has approved it already"));
        }
        self.by.approvers.push((uid, person.name, in_place_of));
        self.by.claimed = claimed.or_else(|| self.by.claimed.take());
        let is_enough = self.by.approvers.len() as u64 >= self.required.persons;
        Ok(is_enough.then(|| (Answer::Once, self.by.clone())))
    }

    fn broken_glass(
        &self,
        person: &Person,
        answer: Answer,
        reason: String,
    ) -> Result<(Answer, ByWhom), String> {
        if !self.required.breaks_glass(person) {
            return Err(format!("`{}` is in no group that may break the glass", person.name));
        }
        let length = reason.chars().count();
        if reason.trim().is_empty()
            || length > LONGEST_REASON
            || reason.chars().any(char::is_control)
        {
            return Err("break-glass needs a reason of one line".to_owned());
        }
        let most = self.required.break_glass_minutes;
        match answer {
            Answer::Once => {}
            Answer::For(Lasting::Minutes(minutes)) if u64::from(minutes) <= most => {}
            Answer::Session
            | Answer::For(_)
            | Answer::Always
            | Answer::AlwaysRule(_)
            | Answer::Deny
            | Answer::DenyWith(_)
            | Answer::Withdrawn => {
                let most =
                    if most == 0 { "one call".to_owned() } else { format!("{most} minutes") };
                return Err(format!("break-glass holds for {most} at most"));
            }
        }
        let approvers = vec![(person.uid, person.name.clone(), None)];
        let by = ByWhom { approvers, break_glass: Some(reason), ..ByWhom::default() };
        Ok((answer, by))
    }
}

/// Returns a person of the machine: as its files have it, else as the keeper found it. A name that a file has for another user is
/// nobody's.
fn person(uid: u32, known: Option<Known>) -> Option<Person> {
    let everybody = everybody();
    if let Some(person) = everybody.iter().find(|person| person.uid == uid) {
        return Some(person.clone());
    }
    let Known { name, groups } = known?;
    everybody.iter().all(|it| it.name != name).then_some(Person { uid, name, groups })
}

/// Says whether `by` is what `required` demands: looked at once more where a yes is used.
pub fn suffices(required: &Required, by: &ByWhom) -> bool {
    by.break_glass.is_some() || by.approvers.len() as u64 >= required.persons
}

/// Returns the time as delegations spell it.
fn now() -> String {
    let now = clock::at(SystemTime::now());
    format!("{}Z", now.get(..19).unwrap_or("9999-12-31T23:59:59"))
}
