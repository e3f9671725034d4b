//! A decision as people read it: the same words at every front door.
//!
//! States the decision, the part of the command that it is about, the rule with its file and line, and what the person
//! can do. Text from outside is escaped, so that it can neither move the cursor nor change the direction of what is
//! read.

use std::ffi::OsString;

use super::errors::Failure;
use super::types::{
    Answer, ConnectionAsked, DecisionView, PartView, Question, RunResult, WiderRule,
};

/// Longest piece of a command that is shown on one line, in characters.
const SHOWN: usize = 240;

/// Has a terminal show what follows as it is and where it is, whatever was printed before (ECMA-48, the VT510 manual, xterm's
/// control sequences, console_codes(4)).
const PLAIN: &str = concat!(
    // CAN ends an unfinished sequence, ST an unfinished string.
    "\u{18}\u{1b}\\",
    // The whole screen scrolls, without margins. Each of these moves the cursor to the corner, so its place is kept around
    // them: what stands on the screen stays.
    "\u{1b}7\u{1b}[?6l\u{1b}[?69l\u{1b}[r\u{1b}8",
    // The usual characters, without attributes, and what else DECSTR knows.
    "\u{f}\u{1b}(B\u{1b}[0m\u{1b}[!p",
    // The same one by one: nothing is shifted, lines are wrapped, the cursor is seen.
    "\u{1b}[4l\u{1b}[?7h\u{1b}[?25h",
    // Nothing stands behind the text or below it.
    "\u{1b}[J",
    // White on black, not what the colours of the terminal were changed to. Who does not know this sees the reset at its end.
    "\u{1b}]R\u{1b}\\\u{1b}[38;2;255;255;255;48;2;0;0;0m",
);

/// Takes pictures off the screen, which would lie on the text (kitty's graphics protocol).
const NO_PICTURES: &str = "\u{1b}_Ga=d,q=2\u{1b}\\";
/// The same for the terminal around tmux, which takes it for a title otherwise (tmux(1), `allow-passthrough`).
const NO_PICTURES_AROUND: &str = "\u{1b}Ptmux;\u{1b}\u{1b}_Ga=d,q=2\u{1b}\u{1b}\\\u{1b}\\";

/// Returns what has a terminal show what follows as it is, whatever was printed before; `variable` tells which terminal
/// that is.
pub fn plain(variable: impl Fn(&str) -> Option<OsString>) -> String {
    let term = variable("TERM").unwrap_or_default();
    let is = |name: &str| term.as_encoded_bytes().starts_with(name.as_bytes());
    let pictures = match variable("TMUX") {
        Some(_) => NO_PICTURES_AROUND,
        // They know no pictures, and screen and the console show this.
        None if is("screen") || is("linux") => "",
        None => NO_PICTURES,
    };
    format!("{PLAIN}{pictures}")
}

/// Ends what [`plain`] began.
pub const PLAIN_END: &str = "\u{1b}[0m";

/// Columns of a line of a command that is shown whole, without the mark in front.
const COLUMNS: usize = 72;

/// Returns the lines that tell `decision` about `command`, without a line end behind the last.
///
/// `here` is the working directory: files beneath it are named relative to it.
pub fn verdict(decision: &DecisionView, command: &str, here: &str) -> String {
    let mut lines = vec![format!("stockade: {} {}", verb(decision), subject(decision, command))];
    lines.push(format!("  {}", because(decision, here)));
    if !decision.help.is_empty() {
        lines.push(format!("  try: {}", one_line(&decision.help)));
    }
    lines.join("\n")
}

/// Returns a question as a person reads it, with a line end behind the last line.
pub fn question(question: &Question) -> String {
    if let Some(connection) = &question.connection {
        return connection_question(question, connection);
    }
    let command = question.command.as_str();
    let is_long = command.chars().count() > SHOWN;
    // The question is printed right above the place of the answer, however long the command is.
    let mut lines = if is_long { whole(command) } else { Vec::new() };
    lines.push(verdict(&question.decision, command, ""));
    let is_shown = match question.decision.commands.as_slice() {
        [part] => part.text == command.trim(),
        _ => false,
    };
    if !is_long && !is_shown {
        lines.push(format!("  whole command: {}", quoted(command)));
    }
    if let Some(always) = &question.always {
        let (rule, file) = (one_line(&always.rule), one_line(&always.file));
        if question.session.is_some() {
            lines.push(format!("  session allows `{rule}` until this session ends"));
        }
        lines.push(format!("  always writes the allow rule `{rule}` to {file}"));
        lines.extend(always.wider.as_ref().map(wider));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the line that offers a wider rule, with what else it would have matched.
fn wider(wider: &WiderRule) -> String {
    let others = match (wider.others, wider.examples.as_slice()) {
        (0, _) | (_, []) => "it matches no other command in the newest records".to_owned(),
        (count, examples) => {
            let shown: Vec<String> = examples.iter().map(|it| quoted(it)).collect();
            let commands = if count == 1 { "command" } else { "commands" };
            format!(
                "it also matches {count} {commands} in the newest records: {}",
                shown.join(", ")
            )
        }
    };
    format!("  wider writes `{}` instead; {others}", one_line(&wider.rule))
}

fn connection_question(question: &Question, connection: &ConnectionAsked) -> String {
    // The end of a host name shows its owner, so nothing is cut off.
    let (host, port) = (one_line(&connection.host), connection.port);
    let command = quoted(&question.command);
    let mut lines = vec![
        // The command may stand in the middle of a line.
        String::new(),
        format!("stockade: needs a person: {command} wants to reach `{host}:{port}`"),
        "  because no rule matches this host".to_owned(),
    ];
    if let Some(always) = &question.always {
        let (rule, file) = (one_line(&always.rule), one_line(&always.file));
        lines.push(format!("  always adds `{rule}` to `sandbox.network.allowedDomains` in {file}"));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the lines of a long command: each behind a mark, and another one where it goes on, so that nothing of it looks
/// like a line of ours.
fn whole(command: &str) -> Vec<String> {
    let mut shown = vec![format!("stockade: a command of {} characters:", command.chars().count())];
    for line in command.split('\n') {
        let (mut text, mut columns, mut mark) = (String::new(), 0, '|');
        for character in one_line(line).chars() {
            // Other characters may take two.
            let width = if character.is_ascii() { 1 } else { 2 };
            if columns + width > COLUMNS {
                shown.push(format!("  {mark} {}", std::mem::take(&mut text)));
                (columns, mark) = (0, ':');
            }
            text.push(character);
            columns += width;
        }
        shown.push(format!("  {mark} {text}"));
    }
    shown
}

/// Returns the text in front of the place where a person answers.
pub fn prompt(question: &Question) -> String {
    let asked = match question.connection {
        Some(_) => "allow for this run?",
        None => "run it?",
    };
    let always = question.always.as_ref();
    let wider = always.is_some_and(|always| always.wider.is_some());
    let words: Vec<&str> = [
        ("once", true),
        ("session", question.session.is_some() && always.is_some()),
        ("always", always.is_some()),
        ("wider", wider),
        ("deny", true),
    ]
    .iter()
    .filter_map(|(word, is_offered)| is_offered.then_some(*word))
    .collect();
    format!("  {asked} {}: ", words.join(", "))
}

/// Returns the message about a line that is not an answer.
pub fn not_an_answer(line: &str, question: &Question) -> String {
    let mut forms = vec!["`deny REASON` tells the caller the reason"];
    if question.connection.is_none() {
        if question.always.is_some() {
            forms.insert(0, "`always RULE` writes your own rule");
        }
        forms.push("`mode MODE` judges the command in another permission mode");
    }
    let line = line.trim();
    let head = match line {
        "" | "?" | "help" => String::new(),
        _ => format!("invalid answer {}; ", quoted(line)),
    };
    format!("  {head}{}\n", forms.join("; "))
}

/// Meaning of what a person typed at a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// An answer.
    Answer(Answer),
    /// The command is to be judged in this permission mode.
    Mode(String),
}

/// Reads a person's answer; none when it is not clear.
pub fn answer(line: &str, question: &Question) -> Option<Typed> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let is_call = question.connection.is_none();
    let always = question.always.as_ref();
    let answer = match (word, rest) {
        ("once" | "o" | "yes" | "y", "") => Answer::Once,
        ("session" | "s", "") if question.session.is_some() && always.is_some() => Answer::Session,
        ("always" | "a", "") if always.is_some() => Answer::Always,
        ("always" | "a", rule) if always.is_some() && is_call => {
            Answer::AlwaysRule(rule.to_owned())
        }
        ("wider" | "w", "") => Answer::AlwaysRule(always?.wider.as_ref()?.rule.clone()),
        ("deny" | "d" | "no" | "n", "") => Answer::Deny,
        ("deny" | "d" | "no" | "n", why) => Answer::DenyWith(why.to_owned()),
        ("mode" | "m", mode) if is_call => {
            return MODES.contains(&mode).then(|| Typed::Mode(mode.to_owned()));
        }
        (_, _) => return None,
    };
    Some(Typed::Answer(answer))
}

/// The permission modes that a person can choose.
pub const MODES: [&str; 5] = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];

/// Returns the two lines that tell that stockade itself could not, and what to do.
pub fn failure(failure: &Failure) -> String {
    format!("stockade: {}\n  try: {}", one_line(&failure.message), one_line(&failure.help))
}

/// The lines for Ctrl-B where no gateway stays to run the command.
pub const NO_BACKGROUND: &str = "stockade: the command cannot go to the background: no gateway is running\n  \
     try: `stockade run --background`, or start a gateway with `stockade serve --detach` before the next command";

/// Returns the lines that tell that a command was ended because its time was over.
pub fn timed_out(result: &RunResult) -> String {
    let took = result.duration_ms as f64 / 1000.0;
    format!(
        "stockade: timed out after {took:.1} s; all its processes were stopped\n  \
         try: a longer time limit"
    )
}

/// Returns `text` so that a terminal shows it and nothing else happens: control characters, marks of
/// direction and other invisible characters are written as `\u{…}`, line feed and tab as `\n` and `\t`.
pub fn one_line(text: &str) -> String {
    stockade_text::visible(text)
}

/// Returns `text` like [`one_line`], but with its line feeds and tabs.
pub fn lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(one_line).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Returns `text` in backticks on one line, cut where it is too long to be read.
pub fn quoted(text: &str) -> String {
    let count = text.chars().count();
    if count <= SHOWN {
        return format!("`{}`", one_line(text));
    }
    let head: String = text.chars().take(SHOWN).collect();
    format!("`{}…` ({count} characters)", one_line(&head))
}

/// Returns the first part that is as strict as the whole decision.
pub fn deciding_part(decision: &DecisionView) -> Option<(usize, &PartView)> {
    decision.commands.iter().enumerate().find(|(_, part)| part.decision == decision.decision)
}

fn verb(decision: &DecisionView) -> &'static str {
    match decision.decision.as_str() {
        "allow" => "allowed",
        "ask" => "needs a person:",
        _ => "denied",
    }
}

fn subject(decision: &DecisionView, command: &str) -> String {
    match deciding_part(decision) {
        Some((index, part)) if decision.decision != "allow" => {
            format!("{}{}", quoted(&part.text), place(decision, command, index))
        }
        Some(_) | None => quoted(command),
    }
}

/// Says where part `index` stands, such as ` (second part of a pipeline)`; empty for a lone part.
fn place(decision: &DecisionView, command: &str, index: usize) -> String {
    if decision.commands_unlisted > 0 {
        let count = decision.commands.len() as u64 + decision.commands_unlisted;
        return format!(" (one of {count} parts)");
    }
    if decision.commands.len() < 2 {
        return String::new();
    }
    let piped = |index: usize| is_piped(&decision.commands, command, index);
    let mut first = index;
    while first > 0 && piped(first) {
        first -= 1;
    }
    if first < index || piped(index + 1) {
        return format!(" ({} part of a pipeline)", ordinal(index - first));
    }
    format!(" ({} of {} parts)", ordinal(index), decision.commands.len())
}

/// Says whether only a pipe sign stands between part `index` and the one before it.
fn is_piped(parts: &[PartView], command: &str, index: usize) -> bool {
    let (Some(before), Some(part)) =
        (index.checked_sub(1).and_then(|index| parts.get(index)), parts.get(index))
    else {
        return false;
    };
    let between = command.get(before.span.1 as usize..part.span.0 as usize);
    between.is_some_and(|text| matches!(text.trim(), "|" | "|&"))
}

fn ordinal(index: usize) -> String {
    const NAMES: [&str; 9] =
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"];
    NAMES.get(index).map_or_else(|| format!("{}th", index + 1), |name| (*name).to_owned())
}

fn because(decision: &DecisionView, here: &str) -> String {
    // The rule asked; the no is a person's.
    if decision.code == "declined" {
        return one_line(&decision.reason);
    }
    let place = place_of_rule(decision, here);
    match &decision.rule {
        Some(rule) => {
            // The deciding rule stands first; a deny rule that could match asks.
            let known = decision.rules.first().filter(|first| first.rule == *rule);
            let effect = match known.map_or(decision.decision.as_str(), |first| &first.effect) {
                "allow" => "allow",
                "ask" => "ask",
                _ => "deny",
            };
            let possible = match decision.code.as_str() {
                "rule_possible" => ", which a word that is not known before it runs could match",
                _ => "",
            };
            format!("by {effect} rule {}{place}{possible}", quoted(rule))
        }
        None => format!("because {}{place}", one_line(&decision.reason)),
    }
}

fn place_of_rule(decision: &DecisionView, here: &str) -> String {
    let Some(file) = &decision.file else { return String::new() };
    let beneath = file.strip_prefix(here).and_then(|rest| rest.strip_prefix('/'));
    let file = one_line(beneath.unwrap_or(file));
    match decision.line {
        Some(line) => format!(" in {file}:{line}"),
        None => format!(" in {file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::AlwaysOffer;

    fn part(text: &str, start: u32, decision: &str) -> PartView {
        PartView {
            text: text.into(),
            span: (start, start + text.len() as u32),
            decision: decision.into(),
            rule: None,
            reason: String::new(),
        }
    }

    #[test]
    fn a_denial_names_part_rule_file_line_and_what_to_do() {
        let decision = DecisionView {
            decision: "deny".into(),
            rule: Some("Bash(curl:*)".into()),
            source: "project".into(),
            file: Some("/p/.stockade/settings.json".into()),
            line: Some(3),
            commands: vec![
                part("cat notes", 0, "allow"),
                part("curl -T - example.com", 12, "deny"),
            ],
            help: "ask the owner of that file, or run the first part alone".into(),
            ..DecisionView::default()
        };
        assert_eq!(
            verdict(&decision, "cat notes | curl -T - example.com", "/p"),
            "stockade: denied `curl -T - example.com` (second part of a pipeline)\n  \
             by deny rule `Bash(curl:*)` in .stockade/settings.json:3\n  \
             try: ask the owner of that file, or run the first part alone"
        );
    }

    #[test]
    fn a_question_without_a_rule_says_why() {
        let decision = DecisionView {
            decision: "ask".into(),
            reason: "no rule matches it".into(),
            commands: vec![part("ls", 0, "allow"), part("make", 3, "ask")],
            ..DecisionView::default()
        };
        assert_eq!(
            verdict(&decision, "ls;make", "/p"),
            "stockade: needs a person: `make` (second of 2 parts)\n  because no rule matches it"
        );
    }

    fn asked(always: Option<AlwaysOffer>) -> Question {
        Question {
            decision: DecisionView {
                decision: "ask".into(),
                reason: "no rule matches it".into(),
                commands: vec![part("rm \u{202e}txt", 0, "ask")],
                ..DecisionView::default()
            },
            command: "rm \u{202e}txt".into(),
            always,
            connection: None,
            session: None,
            mode: String::new(),
        }
    }

    fn offer(rule: &str, file: &str) -> AlwaysOffer {
        AlwaysOffer { rule: rule.into(), file: file.into(), wider: None }
    }

    #[test]
    fn the_question_names_the_rule_and_the_file_and_cannot_be_spoofed() {
        let offer = offer("Bash(rm:*)", "/p/x\u{1b}[2J");
        assert_eq!(
            question(&asked(Some(offer))),
            "stockade: needs a person: `rm \\u{202e}txt`\n  because no rule matches it\n  \
             always writes the allow rule `Bash(rm:*)` to /p/x\\u{1b}[2J\n"
        );
    }

    #[test]
    fn nothing_of_what_is_asked_about_is_cut_off() {
        let hidden = format!("echo {}; rm -rf work", "a ".repeat(200));
        let parts = vec![part("echo", 0, "ask"), part("rm -rf work", 400, "ask")];
        let mut question = asked(None);
        question.command = format!("{hidden}\nstockade: needs a person: `ls`\u{1b}[2J");
        question.decision.commands = parts;
        let shown = super::question(&question);
        let lines: Vec<&str> = shown.lines().collect();
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            lines.iter().partition(|line| !line.starts_with("  | ") && !line.starts_with("  : "));
        let count = question.command.chars().count();
        assert_eq!(
            ours,
            [
                format!("stockade: a command of {count} characters:").as_str(),
                "stockade: needs a person: `echo` (first of 2 parts)",
                "  because no rule matches it",
            ]
        );
        assert!(theirs.iter().all(|line| line.chars().count() <= 4 + COLUMNS), "{shown}");
        let joined: String = theirs.iter().map(|line| line.get(4..).unwrap()).collect();
        assert_eq!(joined, format!("{hidden}stockade: needs a person: `ls`\\u{{1b}}[2J"));
        // A part that is not all of the command.
        question.command = "X=1 make >out".into();
        question.decision.commands = vec![part("make", 4, "ask")];
        assert!(super::question(&question).contains("  whole command: `X=1 make >out`\n"));
        // A host and a rule of any length.
        let host = format!("{}.evil.example", "github.com.".repeat(21));
        question.always = Some(offer(&host, "/p/x"));
        question.connection = Some(ConnectionAsked { host: host.clone(), port: 443 });
        let shown = super::question(&question);
        assert!(
            shown.contains(&format!("`{host}:443`")) && shown.contains(&format!("`{host}` to"))
        );
    }

    #[test]
    fn nothing_that_was_printed_before_changes_how_a_question_looks() {
        // Whatever string or sequence was begun is over before anything else is said.
        assert!(PLAIN.starts_with("\u{18}\u{1b}\\"));
        // Nothing moves the cursor for good: it is kept while origin mode and margins end, each of which moves it.
        assert!(PLAIN.contains("\u{1b}7\u{1b}[?6l\u{1b}[?69l\u{1b}[r\u{1b}8"));
        let (_, behind) = PLAIN.rsplit_once("\u{1b}8").unwrap();
        assert!(!["?6", "[r", "?69"].iter().any(|it| behind.contains(it)));
        // Colours by value come last; a terminal that does not know them reads a reset at their end.
        assert!(PLAIN.ends_with("\u{1b}[38;2;255;255;255;48;2;0;0;0m"));
        assert_eq!(PLAIN_END, "\u{1b}[0m");
        // Pictures go, where that is understood.
        let behind = |set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|it| it.0 == name).map(|it| it.1.into());
            plain(value).strip_prefix(PLAIN).map(str::to_owned)
        };
        assert_eq!(behind(&[]).as_deref(), Some("\u{1b}_Ga=d,q=2\u{1b}\\"));
        assert_eq!(behind(&[("TERM", "xterm-kitty")]), behind(&[]));
        assert_eq!(behind(&[("TERM", "linux")]).as_deref(), Some(""));
        assert_eq!(
            behind(&[("TERM", "screen-256color"), ("TMUX", "/tmp/tmux-0/default,1,0")]).as_deref(),
            Some("\u{1b}Ptmux;\u{1b}\u{1b}_Ga=d,q=2\u{1b}\u{1b}\\\u{1b}\\")
        );
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let (without, with) = (asked(None), asked(Some(offer("Bash(rm:*)", "/p/x"))));
        let answer = |line: &str, question: &Question| match super::answer(line, question)? {
            Typed::Answer(answer) => Some(answer),
            Typed::Mode(mode) => Some(Answer::DenyWith(format!("mode {mode}"))),
        };
        assert_eq!(answer("once\n", &with), Some(Answer::Once));
        assert_eq!(answer("a\n", &with), Some(Answer::Always));
        assert_eq!(answer("a\n", &without), None);
        assert_eq!(answer("\n", &with), None);
        assert_eq!(answer("d\n", &with), Some(Answer::Deny));
        let own = Answer::AlwaysRule("Bash(rm x)".into());
        assert_eq!(answer("always Bash(rm x)\n", &with), Some(own));
        assert_eq!(answer("deny use git\n", &with), Some(Answer::DenyWith("use git".into())));
        assert_eq!(answer("mode plan\n", &with), Some(Answer::DenyWith("mode plan".into())));
        for unclear in ["once more\n", "yes please\n", "mode\n", "mode yolo\n", "w\n", "s\n"] {
            assert_eq!(answer(unclear, &with), None, "{unclear}");
        }
        assert_eq!(answer("always Bash(rm x)\n", &without), None);
        let mut wide = asked(Some(offer("Bash(rm x)", "/p/x")));
        wide.session = Some("s1".into());
        let rule = WiderRule {
            rule: "Bash(rm:*)".into(),
            others: 2,
            examples: vec!["rm a\u{1b}[2J".into()],
        };
        wide.always.as_mut().unwrap().wider = Some(rule);
        assert_eq!(answer("w\n", &wide), Some(Answer::AlwaysRule("Bash(rm:*)".into())));
        assert_eq!(answer("s\n", &wide), Some(Answer::Session));
        assert_eq!(prompt(&wide), "  run it? once, session, always, wider, deny: ");
        let told = "  wider writes `Bash(rm:*)` instead; it also matches 2 commands in the newest records: `rm a\\u{1b}[2J`\n";
        assert!(super::question(&wide).ends_with(told), "{}", super::question(&wide));
    }

    #[test]
    fn what_could_deceive_is_written_out() {
        assert_eq!(one_line("a\u{1b}[2J\u{202e}b\nc\r"), "a\\u{1b}[2J\\u{202e}b\\nc\\r");
        assert_eq!(lines("a\tb\n\u{7}"), "a\tb\n\\u{7}");
        assert_eq!(quoted(&"x".repeat(300)).chars().count(), 240 + 3 + " (300 characters)".len());
    }

    #[test]
    fn a_question_about_a_host_names_it_and_what_always_would_write() {
        let mut asked = asked(Some(offer("a.example", "/p/x")));
        asked.connection = Some(ConnectionAsked { host: "a.example".into(), port: 443 });
        assert_eq!(
            question(&asked),
            "\nstockade: needs a person: `rm \\u{202e}txt` wants to reach `a.example:443`\n  \
             because no rule matches this host\n  \
             always adds `a.example` to `sandbox.network.allowedDomains` in /p/x\n"
        );
        assert_eq!(prompt(&asked), "  allow for this run? once, always, deny: ");
    }
}
