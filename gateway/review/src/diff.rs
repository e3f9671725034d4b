//! The lines in which two texts differ.

/// Lines around a change that are shown as well.
const AROUND: usize = 3;

/// Most lines, once both ends that are alike are left out, that are compared with each other; longer texts are told as replaced.
const MOST_LINES: usize = 2_000;

/// One line of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
    /// The next lines begin at these lines of the two texts, from 1.
    At(usize, usize),
}

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Line::Same(text) => write!(formatter, " {text}"),
            Line::Gone(text) => write!(formatter, "-{text}"),
            Line::New(text) => write!(formatter, "+{text}"),
            Line::At(before, after) => write!(formatter, "@@ -{before} +{after} @@"),
        }
    }
}

/// Returns the lines in which `after` differs from `before`, with some around them.
pub fn lines<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let whole = whole(before, after);
    let is_change = |line: &Line<'_>| matches!(line, Line::Gone(_) | Line::New(_));
    let mut shown = vec![false; whole.len()];
    for (number, _) in whole.iter().enumerate().filter(|(_, line)| is_change(line)) {
        let around = number.saturating_sub(AROUND)..whole.len().min(number + AROUND + 1);
        shown.get_mut(around).into_iter().for_each(|around| around.fill(true));
    }
    let (mut told, mut old, mut new, mut goes_on) = (Vec::new(), 1, 1, false);
    for (line, is_shown) in whole.into_iter().zip(shown) {
        if is_shown && !goes_on {
            told.push(Line::At(old, new));
        }
        goes_on = is_shown;
        match line {
            Line::Same(_) => (old, new) = (old + 1, new + 1),
            Line::Gone(_) => old += 1,
            Line::New(_) => new += 1,
            Line::At(..) => {}
        }
        if is_shown {
            told.push(line);
        }
    }
    told
}

fn whole<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - start;
    let ends = old.iter().rev().zip(new.iter().rev()).take(rest);
    let end = ends.take_while(|(one, other)| one == other).count();
    let part = |all: &[&'a str]| all.get(start..all.len() - end).unwrap_or_default().to_vec();
    let (changed_old, changed_new) = (part(&old), part(&new));
    let mut lines: Vec<Line<'a>> = old.iter().take(start).map(|it| Line::Same(it)).collect();
    lines.extend(between(&changed_old, &changed_new));
    lines.extend(old.iter().skip(old.len() - end).map(|it| Line::Same(it)));
    // Texts may differ by the end of the last line alone.
    if before != after && lines.iter().all(|line| matches!(line, Line::Same(_))) {
        let last = |text: &'a str| text.lines().last().unwrap_or_default();
        lines.pop();
        lines.extend([Line::Gone(last(before)), Line::New(last(after))]);
    }
    lines
}

/// Compares by the longest common sequence of lines.
fn between<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let gone = || old.iter().map(|it| Line::Gone(it));
    if old.len() > MOST_LINES || new.len() > MOST_LINES {
        return gone().chain(new.iter().map(|it| Line::New(it))).collect();
    }
    // `longest[i][j]`: of the lines from `i` and from `j` on.
    let width = new.len() + 1;
    let mut longest = vec![0_u16; (old.len() + 1) * width];
    let get = |table: &[u16], i: usize, j: usize| table.get(i * width + j).copied().unwrap_or(0);
    for (i, one) in old.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            let length = match one == other {
                true => get(&longest, i + 1, j + 1).saturating_add(1),
                false => get(&longest, i + 1, j).max(get(&longest, i, j + 1)),
            };
            if let Some(place) = longest.get_mut(i * width + j) {
                *place = length;
            }
        }
    }
    let (mut lines, mut i, mut j) = (Vec::new(), 0, 0);
    loop {
        match (old.get(i), new.get(j)) {
            (None, None) => return lines,
            (Some(one), Some(other)) if one == other => {
                lines.push(Line::Same(one));
                (i, j) = (i + 1, j + 1);
            }
            (Some(one), Some(_)) if get(&longest, i + 1, j) >= get(&longest, i, j + 1) => {
                lines.push(Line::Gone(one));
                i += 1;
            }
            (Some(one), None) => {
                lines.push(Line::Gone(one));
                i += 1;
            }
            (_, Some(other)) => {
                lines.push(Line::New(other));
                j += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(before: &str, after: &str) -> String {
        lines(before, after).iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn changes_are_told_with_the_lines_around_them() {
        assert_eq!(told("a\nb\nc\n", "a\nb\nc\n"), "");
        assert_eq!(told("", "x\ny\n"), "@@ -1 +1 @@\n+x\n+y\n");
        assert_eq!(told("a\nb\nc\n", "a\nB\nc\n"), "@@ -1 +1 @@\n a\n-b\n+B\n c\n");
        assert_eq!(told("a", "a\n"), "@@ -1 +1 @@\n-a\n+a\n");
        let long: String = (1..=20).map(|number| format!("{number}\n")).collect();
        let changed = long.replace("\n2\n", "\ntwo\n").replace("\n19\n", "\n19\nmore\n");
        let expected =
            "@@ -1 +1 @@\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -17 +17 @@\n 17\n 18\n 19\n+more\n 20\n";
        assert_eq!(told(&long, &changed), expected);
    }

    #[test]
    fn long_texts_are_told_as_replaced() {
        let old = "o\n".repeat(MOST_LINES + 1);
        let new = "n\n".repeat(MOST_LINES + 1);
        assert_eq!(lines(&old, &new).len(), 2 * (MOST_LINES + 1) + 1);
    }
}
