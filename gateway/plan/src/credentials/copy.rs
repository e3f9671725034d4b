//! Copies of files in which settings and secrets stand together.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use stockade_text::json::view::View;

use stockade_base::place::Place;

use super::sieve::{Others, Sieve};
use stockade_shell::elsewhere::Elsewhere;

use super::{hcl, known, lines, toml, xml, yaml};

/// Longest file that is read.
const LONGEST: u64 = 128 << 10;

/// Files of one kind.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) home: Vec<&'static str>,
    pub(super) project: Vec<&'static str>,
    system: Vec<&'static str>,
    form: Form,
    kept: Vec<&'static str>,
    others: Others,
    style: lines::Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Yaml,
    Toml,
    Xml,
    Hcl,
}

/// Content of a file as the command sees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// The file itself: it holds no secret, or does not exist.
    AsItIs,
    /// Nothing: the file cannot be read here.
    Unreadable,
    /// This text.
    Text(String),
}

impl Row {
    pub(super) fn read(row: View<'static>) -> Option<Row> {
        let row = row.members()?;
        let texts = |key: &str| row.get(key).map_or(Some(Vec::new()), View::texts);
        Some(Row {
            home: texts("home")?,
            project: texts("project")?,
            system: texts("system")?,
            form: match row.get("form")?.text()? {
                "lines" => Form::Lines,
                "yaml" => Form::Yaml,
                "toml" => Form::Toml,
                "xml" => Form::Xml,
                "hcl" => Form::Hcl,
                _ => return None,
            },
            kept: texts("kept")?,
            others: match row.get("others")?.text()? {
                "plain" => Others::Plain,
                "kept" => Others::Kept,
                "blank" => Others::Blank,
                _ => return None,
            },
            style: lines::Style {
                marks: row.get("marks").map_or(Some("="), View::text)?,
                folds: row.get("folds").and_then(View::boolean) == Some(true),
            },
        })
    }

    fn show(&self, text: &str, is_project: bool) -> Option<String> {
        let others = if is_project { Others::Kept } else { self.others };
        let sieve = Sieve { kept: &self.kept, others };
        match self.form {
            Form::Lines => lines::show(text, self.style, sieve),
            Form::Yaml => yaml::show(text, sieve),
            Form::Toml => toml::show(text, sieve),
            Form::Xml => xml::show(text, sieve),
            Form::Hcl => hcl::show(text, &self.kept),
        }
    }
}

/// Returns where such files may lie, and whether that is in a project.
pub(super) fn candidates(
    elsewhere: &Elsewhere,
    place: &Place,
    found: &[PathBuf],
) -> Vec<(PathBuf, &'static Row, bool)> {
    let mut all: Vec<(PathBuf, &Row, bool)> = Vec::new();
    for row in &known().copied {
        for name in &row.home {
            all.push((place.home.join(name), row, false));
            let more = elsewhere.places_of(name, place).into_iter();
            all.extend(more.map(|path| (path, row, false)));
        }
        all.extend(row.system.iter().map(|path| (PathBuf::from(path), row, false)));
        // Most of these programs look in the directories above as well.
        let above = place.cwd.ancestors().chain([place.project.as_path()]);
        for directory in above.chain(place.additional.iter().map(PathBuf::as_path)) {
            let names = row.project.iter();
            all.extend(names.map(|name| (directory.join(name), row, true)));
        }
        let is_named = |path: &&PathBuf| row.project.iter().any(|name| path.ends_with(name));
        all.extend(found.iter().filter(is_named).map(|path| (path.clone(), row, true)));
    }
    // Where one is both, the stricter reading counts.
    all.sort_by(|a, b| (&a.0, a.2).cmp(&(&b.0, b.2)));
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

/// Returns what is seen of the file at a real path.
pub(super) fn of(path: &Path, row: &Row, is_project: bool) -> Copy {
    let text = match text(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Copy::AsItIs,
        Err(Unread) => return Copy::Unreadable,
    };
    match row.show(&text, is_project) {
        Some(shown) if shown == text => Copy::AsItIs,
        Some(shown) => Copy::Text(shown),
        None => Copy::Unreadable,
    }
}

/// The file holds what is not read here.
struct Unread;

/// Returns the text of a file; nothing where the command has none either.
fn text(path: &Path) -> Result<Option<String>, Unread> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let file = match opened {
        Ok(opened) => File::from(opened),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS) => {
            return Ok(None);
        }
        Err(_) => return Err(Unread),
    };
    let found = file.metadata().map_err(|_| Unread)?;
    if found.is_dir() {
        return Ok(None);
    }
    if !found.is_file() || found.len() > LONGEST {
        return Err(Unread);
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(|_| Unread)?;
    let is_odd = |it: char| it.is_control() && !matches!(it, '\n' | '\t' | '\r');
    let is_whole = text.len() as u64 <= LONGEST && !text.contains(is_odd);
    if is_whole { Ok(Some(text)) } else { Err(Unread) }
}
