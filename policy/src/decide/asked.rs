//! Files of the project that hold secrets as a rule: a call that names one is asked, unless a rule says otherwise.

use std::path::{Path, PathBuf};

use crate::Decision;

use super::context::Context;
use super::files::{self, Access};
use super::part::{Draft, Own};

/// Asks about the first file that is named and that no rule about such files allows.
pub(super) fn add(context: &Context<'_>, drafts: &mut [Draft]) {
    let Some(path) = context.facts.asked.iter().find(|path| !is_allowed(context, path)) else {
        return;
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let place = drafts.iter().position(|draft| draft.text.contains(&name)).unwrap_or_default();
    let Some(draft) = drafts.get_mut(place).filter(|draft| draft.own.is_none()) else { return };
    let shown = path.display();
    let reason = format!(
        "`{shown}` may contain secrets, so stockade asks; to allow: sandbox.filesystem.allowRead: [\"{shown}\"] (user settings)"
    );
    draft.own = Some(Own { code: "secrets", reason, protected: false });
}

/// Says whether an allow rule names this file: one for all files of a directory does not.
fn is_allowed(context: &Context<'_>, path: &Path) -> bool {
    let names: &[PathBuf] = &[path.to_path_buf()];
    let hits = files::hits(context, Decision::Allow, Access::Read, names);
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let patterns = hits.iter().filter_map(|hit| files::pattern(context, hit.rule));
    let places = patterns.flat_map(|it| it.absolute(context.anchors(Decision::Allow)));
    let lasts = places.filter_map(|it| it.rsplit('/').next().map(str::to_owned));
    { lasts }.any(|last| shares_start(&last, &name))
}

/// Says whether a pattern spells the first letters of a name, and not of a directory above it.
fn shares_start(pattern: &str, name: &str) -> bool {
    let spelled = pattern.split(['*', '?', '[']).next().unwrap_or_default();
    spelled.len() > 1 && name.starts_with(spelled)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

    use expect_test::expect;

    use super::super::tests::{Text, facts, rules, show, verdict};
    use crate::facts::Facts;
    use crate::verdict::Verdict;
    use crate::{Layer, Mode};

    fn of(allowed: &str, asked: &[&str], text: &str) -> Verdict {
        let settings = format!("{{'permissions':{{'allow':['Bash(cat:*)'{allowed}]}}}}");
        let facts = Facts { asked: asked.iter().map(Into::into).collect(), ..facts() };
        verdict(&rules(&[(Layer::User, &settings)]), &facts, &Text::new(text))
    }

    #[test]
    fn a_file_of_secrets_is_asked_about_unless_a_rule_spells_its_name() {
        let rows = [
            "",
            ",'Read(.env)'",
            ",'Read(.env*)'",
            ",'Read(.e?v)'",
            ",'Read(//p/sub/../.env)'",
            ",'Read(**/.[e]nv)'",
            ",'Read(.*)'",
            ",'Read(*)'",
            ",'Read(**)'",
            ",'Read(//p/**)'",
            ",'Read(.envrc)'",
            ",'Read'",
        ];
        let row = |it: &&str| format!("{it}  =>  {}", show(&of(it, &["/p/.env"], "cat .env")));
        expect![[r#"
              =>  ask builtin secrets -
            ,'Read(.env)'  =>  allow user rule_allow Bash(cat:*)
            ,'Read(.env*)'  =>  allow user rule_allow Bash(cat:*)
            ,'Read(.e?v)'  =>  allow user rule_allow Bash(cat:*)
            ,'Read(//p/sub/../.env)'  =>  ask builtin secrets -
            ,'Read(**/.[e]nv)'  =>  ask builtin secrets -
            ,'Read(.*)'  =>  ask builtin secrets -
            ,'Read(*)'  =>  ask builtin secrets -
            ,'Read(**)'  =>  ask builtin secrets -
            ,'Read(//p/**)'  =>  ask builtin secrets -
            ,'Read(.envrc)'  =>  ask builtin secrets -
            ,'Read'  =>  ask builtin secrets -"#]]
        .assert_eq(&rows.iter().map(row).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn the_part_that_names_the_file_carries_the_question() {
        let asked = ["/p/.env", "/p/key.pem"];
        let rows = [
            ("", "cat .env ; cat key.pem"),
            (",'Read(.env)'", "cat .env ; cat key.pem"),
            (",'Read(.env)'", "cat a ; cat $x"),
            (",'Read(.env)','Read(key.*)'", "cat .env ; cat key.pem"),
            (",'Read(.env)'", "cat key.pem > .git/config"),
            (",'Read(.env)'", "sort -o key.pem/.git/config"),
        ];
        let row = |(allowed, text): &(&str, &str)| {
            let verdict = of(allowed, &asked, text);
            let parts = verdict.parts.iter().map(|it| format!("\n  {}: {}", it.text, it.reason));
            format!("{allowed} {text}  =>  {}{}", show(&verdict), parts.collect::<String>())
        };
        expect![[r#"
             cat .env ; cat key.pem  =>  ask builtin secrets -
              cat .env: `/p/.env` may contain secrets, so stockade asks; to allow: sandbox.filesystem.allowRead: ["/p/.env"] (user settings)
              cat key.pem: allow rule `Bash(cat:*)` in user.json:1
            ,'Read(.env)' cat .env ; cat key.pem  =>  ask builtin secrets -
              cat .env: allow rule `Bash(cat:*)` in user.json:1
              cat key.pem: `/p/key.pem` may contain secrets, so stockade asks; to allow: sandbox.filesystem.allowRead: ["/p/key.pem"] (user settings)
            ,'Read(.env)' cat a ; cat $x  =>  ask builtin secrets -
              cat a: `/p/key.pem` may contain secrets, so stockade asks; to allow: sandbox.filesystem.allowRead: ["/p/key.pem"] (user settings)
              cat $x: allow rule `Bash(cat:*)` in user.json:1
            ,'Read(.env)','Read(key.*)' cat .env ; cat key.pem  =>  allow user rule_allow Bash(cat:*)
              cat .env: allow rule `Bash(cat:*)` in user.json:1
              cat key.pem: allow rule `Bash(cat:*)` in user.json:1
            ,'Read(.env)' cat key.pem > .git/config  =>  ask builtin secrets -
              cat key.pem > .git/config: `/p/key.pem` may contain secrets, so stockade asks; to allow: sandbox.filesystem.allowRead: ["/p/key.pem"] (user settings)
              .git/config: `.git` is a protected path
            ,'Read(.env)' sort -o key.pem/.git/config  =>  ask builtin protected_path -
              sort -o key.pem/.git/config: `.git` is a protected path"#]].assert_eq(&rows.iter().map(row).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn a_mode_without_questions_asks_none_about_secrets() {
        let rules = rules(&[(Layer::User, "{}")]);
        let facts =
            Facts { asked: vec!["/p/.env".into()], mode: Mode::BypassPermissions, ..facts() };
        let shown = show(&verdict(&rules, &facts, &Text::new("cat .env")));
        expect!["allow mode bypass -"].assert_eq(&shown);
    }
}
