//! The list from which a person chooses: rows, a text that leaves some of them, and the row that is marked. It draws nothing
//! itself.

use super::keys::Key;

/// Most rows that are shown at once.
const PAGE: usize = 10;
/// Lines around the rows: the text, and a note.
const AROUND: usize = 3;
/// Most columns of a branch and of a place.
const LONGEST: usize = 24;
/// The keys that are of use.
const KEYS: &str = "arrows choose, letters filter, Enter goes on, Esc leaves";

/// One session. Its texts draw nothing on a terminal.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) name: String,
    pub(super) age: String,
    pub(super) branch: String,
    /// Where it works, if that is elsewhere.
    pub(super) place: String,
    pub(super) id: String,
}

/// Result of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stays,
    Left,
    /// The row of this number is chosen.
    Chosen(usize),
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct List {
    rows: Vec<Row>,
    text: String,
    /// The marked row among those that are left.
    marked: usize,
    note: String,
}

impl List {
    pub(super) fn new(rows: Vec<Row>) -> List {
        List { rows, ..List::default() }
    }

    /// Tells something until the next key.
    pub(super) fn note(&mut self, text: &str) {
        self.note = text.to_owned();
    }

    /// Returns the numbers of the rows in which each word of the text stands.
    fn left(&self) -> Vec<usize> {
        let words: Vec<String> = self.text.split_whitespace().map(str::to_lowercase).collect();
        let has = |row: &Row| {
            let Row { name, branch, place, id, .. } = row;
            let whole = format!("{name}\n{branch}\n{place}\n{id}").to_lowercase();
            words.iter().all(|word| whole.contains(word))
        };
        self.rows.iter().enumerate().filter(|(_, row)| has(row)).map(|(index, _)| index).collect()
    }

    /// Takes a key.
    pub(super) fn take(&mut self, key: Key) -> Step {
        self.note.clear();
        let left = self.left();
        let last = left.len().saturating_sub(1);
        match key {
            Key::Up => self.marked = self.marked.saturating_sub(1),
            Key::Down => self.marked = (self.marked + 1).min(last),
            Key::PageUp => self.marked = self.marked.saturating_sub(PAGE),
            Key::PageDown => self.marked = (self.marked + PAGE).min(last),
            Key::Enter => {
                return left.get(self.marked).map_or(Step::Stays, |index| Step::Chosen(*index));
            }
            Key::Leave => return Step::Left,
            Key::Erase => drop(self.text.pop()),
            Key::Clear => self.text.clear(),
            Key::Letter(letter) => self.text.push(letter),
            Key::Other => {}
        }
        if matches!(key, Key::Erase | Key::Clear | Key::Letter(_)) {
            self.marked = 0;
        }
        Step::Stays
    }

    /// Returns the lines for a terminal with so many columns and rows. `about` says how long the session of a row is.
    pub(super) fn lines(
        &self,
        (columns, rows): (u16, u16),
        about: &mut dyn FnMut(usize) -> String,
    ) -> Vec<String> {
        let (columns, rows) = (usize::from(columns).saturating_sub(1), usize::from(rows));
        let left = self.left();
        // Each row may have the name of its group above it.
        let page = (rows.saturating_sub(AROUND) / 2).clamp(1, PAGE);
        let first = self.marked.saturating_sub(page - 1);
        let mut lines = vec![cut(&format!("Resume a session: {}", self.text), columns)];
        let mut group = "";
        for (place, index) in left.iter().enumerate().skip(first).take(page) {
            let Some(row) = self.rows.get(*index) else { continue };
            if row.group != group {
                group = row.group;
                lines.push(cut(&format!("  {group}"), columns));
            }
            let mark = if place == self.marked { ">" } else { " " };
            lines.push(row.line(mark, &about(*index), columns));
        }
        if left.is_empty() {
            lines.push(cut("  No session has these words", columns));
        }
        let note = match self.note.is_empty() {
            true => format!("{} of {} sessions; {KEYS}", left.len(), self.rows.len()),
            false => self.note.clone(),
        };
        lines.push(cut(&note, columns));
        lines
    }
}

impl Row {
    fn line(&self, mark: &str, about: &str, columns: usize) -> String {
        let mut behind = format!("  {:>4}  {}  {about}", self.age, cut(&self.branch, LONGEST));
        if !self.place.is_empty() {
            behind.push_str(&format!("  {}", cut(&self.place, LONGEST)));
        }
        let room = columns.saturating_sub(width(&behind) + 4).max(10);
        let name = cut(&self.name, room);
        let gap = " ".repeat(room.saturating_sub(width(&name)).min(40));
        cut(&format!("  {mark} {name}{gap}{behind}"), columns)
    }
}

/// Returns the columns that a text takes at most: letters outside of ASCII may take two.
fn width(text: &str) -> usize {
    text.chars().map(|it| if it.is_ascii() { 1 } else { 2 }).sum()
}

/// Returns the beginning of a text that fits into so many columns.
fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for letter in text.chars() {
        used += if letter.is_ascii() { 1 } else { 2 };
        if used + 3 > columns {
            break;
        }
        kept.push(letter);
    }
    kept + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> List {
        let row = |group, name: &str, branch: &str| Row {
            group,
            name: name.into(),
            age: "2h".into(),
            branch: branch.into(),
            place: if group == "Elsewhere" { "/q".into() } else { String::new() },
            id: format!("id-{name}"),
        };
        List::new(vec![
            row("This branch", "fix the parser", "main"),
            row("This branch", "write docs", "main"),
            row("Elsewhere", "Fix the build", "topic"),
        ])
    }

    fn typed(list: &mut List, text: &str) {
        for letter in text.chars() {
            assert_eq!(list.take(Key::Letter(letter)), Step::Stays);
        }
    }

    #[test]
    fn arrows_mark_letters_filter_and_enter_chooses() {
        let mut list = list();
        assert_eq!(list.take(Key::Up), Step::Stays);
        assert_eq!(list.take(Key::Enter), Step::Chosen(0));
        for _ in 0..9 {
            assert_eq!(list.take(Key::Down), Step::Stays);
        }
        assert_eq!(list.take(Key::Enter), Step::Chosen(2));
        typed(&mut list, "fix main");
        assert_eq!(list.take(Key::Enter), Step::Chosen(0));
        assert_eq!(list.take(Key::Clear), Step::Stays);
        typed(&mut list, "FIX q");
        assert_eq!(list.take(Key::Enter), Step::Chosen(2));
        typed(&mut list, "none");
        assert_eq!(list.take(Key::Enter), Step::Stays);
        assert_eq!(list.take(Key::Leave), Step::Left);
    }

    #[test]
    fn rows_stand_in_their_groups_and_fit_the_terminal() {
        let list = list();
        let expected = [
            "Resume a session: ",
            "  This branch",
            "  > fix the parser                         2h  main  7 events",
            "    write docs                             2h  main  7 events",
            "  Elsewhere",
            "    Fix the build                     2h  topic  7 events  /q",
            "3 of 3 sessions; arrows choose, letters filter, Enter goes...",
        ];
        assert_eq!(list.lines((62, 24), &mut |_| "7 events".into()), expected);
        for columns in 1..120 {
            let lines = list.lines((columns, 5), &mut |_| "7 events".into());
            assert!(lines.len() <= 5, "{lines:?}");
            let most = usize::from(columns).max(4);
            assert!(lines.iter().all(|line| width(line) <= most), "{columns}: {lines:?}");
        }
        assert_eq!(cut("日本語の名前", 8), "日本...");
    }
}
