//! Required approvers of a question, from the managed settings, and the users of the machine.

use stockade_policy::{Decision, Layer, Rules, Verdict};
use stockade_text::json::Value;
use stockade_wire::errors::{Code, Failure};

/// Most persons that a question can need.
const MOST: u64 = 5;
/// Longest time for which an answer in an emergency holds.
const LONGEST_MINUTES: u64 = 24 * 60;

/// Required approvers of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Required {
    /// How many persons.
    pub persons: u64,
    /// Whether the person who asks may be one of them.
    pub self_approval: bool,
    /// Each person is in a group of each list.
    pub groups: Vec<Vec<String>>,
    /// Delegations: who approves for whom, and until when.
    pub delegations: Vec<Delegation>,
    /// Groups whose members may allow alone in an emergency.
    pub break_glass: Vec<String>,
    /// The longest time for which that holds; 0 means one call.
    pub break_glass_minutes: u64,
}

/// Somebody approves in the place of another person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    from: String,
    to: String,
    /// RFC 3339 in UTC, without a fraction.
    until: String,
}

/// A person of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The user.
    pub uid: u32,
    /// The name.
    pub name: String,
    /// The names of the groups.
    pub groups: Vec<String>,
}

/// Returns who has to approve a call that needs a question; none where any answer will do.
///
/// # Errors
///
/// The managed settings cannot be understood: nothing runs then.
pub fn required(rules: &Rules, verdict: &Verdict) -> Result<Option<Required>, Failure> {
    let value = |key: &str| rules.settings().values.get(&format!("approvals.{key}"));
    let read = Read(value("rules").or(value("require")).or(value("groups")).map_or_else(
        || "the managed settings".to_owned(),
        |(_, origin)| format!("{}:{}", origin.file.display(), origin.line),
    ));
    let whole = |key: &str, most: u64| -> Result<Option<u64>, Failure> {
        value(key).map(|(value, _)| read.whole(key, value, most)).transpose()
    };
    let names = |key: &str| -> Result<Option<Vec<String>>, Failure> {
        value(key).map(|(value, _)| read.names(key, value)).transpose()
    };
    let mut required = Required {
        persons: whole("require", MOST)?.unwrap_or(1),
        self_approval: match value("selfApproval") {
            Some((value, _)) => value.boolean().ok_or_else(|| read.invalid("selfApproval"))?,
            None => true,
        },
        groups: names("groups")?.into_iter().collect(),
        delegations: match value("delegations") {
            Some((value, _)) => read.delegations(value)?,
            None => Vec::new(),
        },
        break_glass: names("breakGlass.groups")?.unwrap_or_default(),
        break_glass_minutes: whole("breakGlass.minutes", LONGEST_MINUTES)?.unwrap_or(0),
    };
    if let Some((value, _)) = value("rules") {
        let entries = value.elements().ok_or_else(|| read.invalid("rules"))?;
        for entry in entries {
            read.entry(entry, rules, verdict, &mut required)?;
        }
    }
    required.self_approval &= required.persons == 1;
    let is_strict = required.persons > 1 || !required.self_approval || !required.groups.is_empty();
    Ok(is_strict.then_some(required))
}

/// Where the settings stand.
struct Read(String);

impl Read {
    fn invalid(&self, key: &str) -> Failure {
        let message = format!("invalid `approvals.{key}` in {}", self.0);
        let help = "`stockade settings` describes the key";
        Failure::new(Code::SettingsRejected, message, help)
    }

    fn whole(&self, key: &str, value: &Value, most: u64) -> Result<u64, Failure> {
        value.whole().filter(|found| (1..=most).contains(found)).ok_or_else(|| self.invalid(key))
    }

    fn names(&self, key: &str, value: &Value) -> Result<Vec<String>, Failure> {
        let names: Option<Vec<String>> = value
            .elements()
            .and_then(|all| all.iter().map(|it| Some(it.text()?.to_owned())).collect());
        // A list without a name would keep everybody out, and nobody means that.
        names.filter(|names| !names.is_empty()).ok_or_else(|| self.invalid(key))
    }

    /// Adds what one entry of `approvals.rules` demands, if its rule asks about the call.
    fn entry(
        &self,
        entry: &Value,
        rules: &Rules,
        verdict: &Verdict,
        required: &mut Required,
    ) -> Result<(), Failure> {
        let members = entry.members().ok_or_else(|| self.invalid("rules"))?;
        let known = ["rule", "require", "selfApproval", "groups"];
        if members.iter().any(|member| !known.contains(&member.key.as_str())) {
            return Err(self.invalid("rules"));
        }
        let rule = entry.get("rule").and_then(Value::text).ok_or_else(|| self.invalid("rules"))?;
        let is_asked = rules.rules().iter().any(|it| {
            it.text == rule && it.effect == Decision::Ask && it.origin.layer == Layer::Policy
        });
        if !is_asked {
            // Spelled another way, it would demand nothing, and nobody would notice.
            let message = format!(
                "`approvals.rules` in {} names `{}`, which is not an ask rule of the managed settings",
                self.0,
                rule.escape_debug()
            );
            let help = "write the rule into `permissions.ask` of the same file, in the same words";
            return Err(Failure::new(Code::SettingsRejected, message, help));
        }
        let mut demanded = (1, true, None);
        if let Some(value) = entry.get("require") {
            demanded.0 = self.whole("rules", value, MOST)?;
        }
        if let Some(value) = entry.get("selfApproval") {
            demanded.1 = value.boolean().ok_or_else(|| self.invalid("rules"))?;
        }
        if let Some(value) = entry.get("groups") {
            demanded.2 = Some(self.names("rules", value)?);
        }
        // Where not every rule is listed, each may be one of them.
        if verdict.unlisted > 0 || verdict.rules.iter().any(|it| it.text == rule) {
            required.persons = required.persons.max(demanded.0);
            required.self_approval &= demanded.1;
            required.groups.extend(demanded.2);
        }
        Ok(())
    }

    fn delegations(&self, value: &Value) -> Result<Vec<Delegation>, Failure> {
        let invalid = || self.invalid("delegations");
        let entries = value.elements().ok_or_else(invalid)?;
        let read = |entry: &Value| {
            let text = |key: &str| entry.get(key).and_then(Value::text).map(str::to_owned);
            let is_whole = entry.members().is_some_and(|members| members.len() == 3);
            let (from, to, until) = (text("from")?, text("to")?, text("until")?);
            (is_whole && is_time(&until)).then_some(Delegation { from, to, until })
        };
        entries.iter().map(|entry| read(entry).ok_or_else(invalid)).collect()
    }
}

/// Says whether a text is a time such as `2026-12-31T08:00:00Z`, which is compared as a text.
fn is_time(text: &str) -> bool {
    let shape = b"0000-00-00T00:00:00Z";
    text.len() == shape.len()
        && text.bytes().zip(shape).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == *shape,
        })
}

impl Required {
    /// Returns the name of the person as whom `person` approves a question of `requester`, or why `person` may not. `now`
    /// is the time as [`Delegation`] has it.
    ///
    /// # Errors
    ///
    /// The reason, for that person.
    pub fn counts_as(
        &self,
        person: &Person,
        requester: &Person,
        now: &str,
    ) -> Result<String, String> {
        if person.uid == requester.uid && !self.self_approval {
            return Err("the person who asks cannot approve it".to_owned());
        }
        if self.is_in_groups(&person.groups) {
            return Ok(person.name.clone());
        }
        let lent =
            self.delegations.iter().filter(|it| it.to == person.name && now < it.until.as_str());
        for delegation in lent {
            let Some(from) = everybody().into_iter().find(|it| it.name == delegation.from) else {
                continue;
            };
            let is_own = from.uid == requester.uid && !self.self_approval;
            if !is_own && self.is_in_groups(&from.groups) {
                return Ok(from.name);
            }
        }
        Err(format!("`{}` is in none of the groups that may approve it", person.name))
    }

    /// Says whether `person` may allow alone in an emergency.
    pub fn breaks_glass(&self, person: &Person) -> bool {
        person.groups.iter().any(|group| self.break_glass.contains(group))
    }

    fn is_in_groups(&self, groups: &[String]) -> bool {
        self.groups.iter().all(|list| list.iter().any(|it| groups.contains(it)))
    }
}

/// Returns the persons of the machine, as its files have them.
pub fn everybody() -> Vec<Person> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    persons(&read("/etc/passwd"), &read("/etc/group"))
}

fn persons(users: &str, groups: &str) -> Vec<Person> {
    let groups: Vec<Vec<&str>> = groups.lines().map(|line| line.split(':').collect()).collect();
    let person = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let (name, gid) = (*fields.first()?, *fields.get(3)?);
        let has = |group: &&Vec<&str>| {
            group.get(2) == Some(&gid)
                || group.get(3).is_some_and(|members| members.split(',').any(|it| it == name))
        };
        let names = groups.iter().filter(has).filter_map(|group| group.first());
        Some(Person {
            uid: fields.get(2)?.parse().ok()?,
            name: name.to_owned(),
            groups: names.map(|name| (*name).to_owned()).collect(),
        })
    };
    let mut found: Vec<Person> = Vec::new();
    for person in users.lines().filter_map(person) {
        // A second name of one user is the same person.
        if !found.iter().any(|known| known.uid == person.uid) {
            found.push(person);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "ada:x:1:10::/:/bin/sh\nbob:x:2:20::/:/bin/sh\ntwin:x:2:20::/:/bin/sh\ncay:x:3:30::/:/bin/sh\n";
    const GROUPS: &str = "ada:x:10:\nops:x:40:ada,bob\nbob:x:20:\ncay:x:30:\n";

    fn people() -> [Person; 3] {
        persons(USERS, GROUPS).try_into().unwrap()
    }

    fn required() -> Required {
        Required {
            persons: 1,
            self_approval: false,
            groups: vec![vec!["ops".to_owned()]],
            delegations: Vec::new(),
            break_glass: vec!["cay".to_owned()],
            break_glass_minutes: 0,
        }
    }

    #[test]
    fn groups_say_who_may_and_a_second_name_is_no_second_person() {
        let [ada, bob, cay] = people();
        assert_eq!(bob.groups, ["ops", "bob"]);
        let required = required();
        let now = "2026-01-01T00:00:00Z";
        assert_eq!(required.counts_as(&bob, &ada, now), Ok("bob".to_owned()));
        assert!(required.counts_as(&cay, &ada, now).is_err());
        assert!(required.counts_as(&ada, &ada, now).unwrap_err().contains("who asks"));
        assert!(required.breaks_glass(&cay) && !required.breaks_glass(&ada));
        let open = Required { self_approval: true, ..required };
        assert_eq!(open.counts_as(&ada, &ada, now), Ok("ada".to_owned()));
    }

    #[test]
    fn times_of_delegations_have_one_form() {
        assert!(is_time("2026-12-31T08:00:00Z"));
        for wrong in ["2026-12-31", "2026-12-31T08:00:00+02:00", "2026-12-31T08:00:00.5Z", "soon"] {
            assert!(!is_time(wrong), "{wrong}");
        }
    }
}
