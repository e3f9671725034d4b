//! Files that a person's tools execute, by their names: those of `policies/review.jsonc`, and those of
//! `policies/paths/protected.jsonc` that are protected in the root alone.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use stockade_policy::Unwritable;
use stockade_programs::tables::{Table, view};
use stockade_spec::{Pattern, Wild};
use stockade_text::json::view::View;

/// One name with its reason.
#[derive(Debug)]
pub struct Row {
    /// The end of a path.
    pub name: Cow<'static, str>,
    parts: Vec<Part>,
    /// True if paths beneath count as well.
    pub tree: bool,
    /// True if the name counts in excepted directories, too.
    pub everywhere: bool,
    /// Text that tells who executes it.
    pub why: &'static str,
}

#[derive(Debug)]
enum Part {
    Plain(String),
    Wild(Wild),
}

/// The table.
#[derive(Debug, Default)]
pub struct Names {
    pub rows: Vec<Row>,
    pub except: Vec<&'static str>,
}

/// Returns the table.
pub fn names() -> &'static Names {
    static NAMES: LazyLock<Names> = LazyLock::new(|| read().unwrap_or_default());
    &NAMES
}

/// Returns the row for the file at `inside`, a path below a directory in which commands write.
pub fn row(inside: &Path) -> Option<&'static Row> {
    let parts = inside.iter().map(|part| part.to_string_lossy().to_ascii_lowercase());
    let parts: Vec<String> = parts.collect();
    names().rows.iter().find(|row| row.covers(&parts))
}

impl Row {
    fn covers(&self, inside: &[String]) -> bool {
        let last = inside.len().saturating_sub(self.parts.len());
        let first = if self.tree { 0 } else { last };
        let except = |part: &String| names().except.iter().any(|name| name == part);
        (first..=last).any(|start| {
            let found = inside.get(start..).unwrap_or_default();
            found.len() >= self.parts.len()
                && found.iter().zip(&self.parts).all(|(name, part)| part.is(name))
                && (self.everywhere || !inside.iter().take(start).any(except))
        })
    }
}

impl Part {
    fn new(text: &str) -> Option<Part> {
        let text = text.to_ascii_lowercase();
        match Pattern::is(&text) {
            true => Wild::parse(&text).ok().map(Part::Wild),
            false => Some(Part::Plain(text)),
        }
    }

    fn is(&self, name: &str) -> bool {
        match self {
            Part::Plain(plain) => plain == name,
            Part::Wild(wild) => wild.fits(name),
        }
    }
}

fn read() -> Option<Names> {
    let table = view(Table::Review).members()?;
    let mut rows = Vec::new();
    for row in table.get("files")?.elements()? {
        let row = row.members()?;
        let why = row.get("why")?.text()?;
        let tree = match row.get("covers").map(View::text) {
            None => false,
            Some(Some("tree")) => true,
            Some(_) => return None,
        };
        for name in row.get("names")?.texts()? {
            let parts = name.split('/').map(Part::new).collect::<Option<_>>()?;
            rows.push(Row { name: name.into(), parts, tree, everywhere: false, why });
        }
    }
    let protected = stockade_policy::protected_names().iter();
    for it in protected.filter(|it| it.kernel == Unwritable::AtTop) {
        let parts = it.segments.iter().map(|part| Part::new(part)).collect::<Option<_>>()?;
        let (name, why) = (it.segments.join("/").into(), it.why);
        rows.push(Row { name, parts, tree: it.tree, everywhere: true, why });
    }
    Some(Names { rows, except: table.get("except")?.texts()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_at_its_depth_and_not_in_what_is_installed() {
        let found = |path: &str| row(Path::new(path)).map(|row| &*row.name);
        for (path, name) in [
            ("package.json", Some("package.json")),
            ("a/b/MAKEFILE", Some("Makefile")),
            ("a/settings.gradle.kts", Some("*.gradle.kts")),
            (".github/workflows/deep/ci.yml", Some(".github/workflows")),
            ("node_modules/x/package.json", None),
            ("a/node_modules/.bin/tsc", Some("node_modules/.bin")),
            ("node_modules/a/node_modules/.bin/tsc", None),
            ("venv/lib/python3/site-packages/x.pth", Some("site-packages/*.pth")),
            ("venv/lib/python3/site-packages/x/setup.py", None),
            (".npmrc", Some(".npmrc")),
            ("node_modules/x/.npmrc", Some(".npmrc")),
            ("a/node_modules/x/.vscode/tasks.json", Some(".vscode")),
            ("src/main.rs", None),
            ("", None),
        ] {
            assert_eq!(found(path), name, "{path}");
        }
    }

    #[test]
    fn each_name_has_a_reason_and_stands_there_once() {
        let names = names();
        assert!(names.rows.len() > 200, "{}", names.rows.len());
        let mut seen = std::collections::BTreeSet::new();
        for row in &names.rows {
            assert!(!row.why.is_empty() && !row.why.ends_with('.'), "{}", row.name);
            assert!(seen.insert(&row.name), "twice: {}", row.name);
        }
    }
}
