//! Files with secrets that a confined command does not see, or sees without them. Which ones is data: `denyRead` of the
//! default settings, and `policies/credentials.jsonc`.

mod copy;
mod hcl;
mod lines;
mod project;
mod sieve;
mod toml;
mod xml;
mod yaml;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use stockade_policy::{Facts, Layer, Origin, Rules as Settings, SandboxSettings};
use stockade_programs::tables::{Table, view};
use stockade_spec::{Access, FileRule, Files, Match, Pattern, Shown, Wild};
use stockade_text::json::view::{Members, View};

use self::copy::Row;
use super::{Around, Rules, globs};
use stockade_base::names::Names;
use stockade_scene::scene::Scene;
use stockade_shell::elsewhere::holds_work;

/// Where the rule stands that hides what variables name.
const TABLE: &str = "<credentials.jsonc>";
/// Origin of the rule for a file of which a copy is shown.
pub const COPIED: &str = "builtin: shown without its secrets";
/// Origin of the rule for a file of the project that is asked for.
pub const ASKED: &str = "builtin: asked for";

/// Content of the table.
#[derive(Debug, Default)]
struct Known {
    copied: Vec<Row>,
    asked: Asked,
}

/// Files of the project that are asked for.
#[derive(Debug, Default)]
struct Asked {
    names: Vec<&'static str>,
    except: Vec<&'static str>,
    passed: Vec<&'static str>,
    depth: usize,
    most: usize,
}

fn known() -> &'static Known {
    // A test reads the table.
    static KNOWN: LazyLock<Known> = LazyLock::new(|| read().unwrap_or_default());
    &KNOWN
}

fn read() -> Option<Known> {
    let table = view(Table::Credentials).members()?;
    let texts = |of: &Members<'static>, key: &str| of.get(key).and_then(View::texts);
    let asked = table.get("asked")?.members()?;
    Some(Known {
        copied: table
            .get("copied")?
            .elements()?
            .into_iter()
            .map(Row::read)
            .collect::<Option<_>>()?,
        asked: Asked {
            names: texts(&asked, "names")?,
            except: texts(&asked, "except")?,
            passed: texts(&asked, "passed")?,
            depth: asked.get("depth")?.number()?.parse().ok()?,
            most: asked.get("most")?.number()?.parse().ok()?,
        },
    })
}

/// Returns the sandbox settings of a call: what is hidden by default is hidden wherever it lies, unless somebody allows
/// exactly that. What is not there needs no rule where nothing can be written.
pub fn settings(scene: &Scene, facts: &Facts) -> SandboxSettings {
    let Scene { elsewhere, place, .. } = scene;
    let rules = &scene.snapshot.rules;
    let mut sandbox = stockade_policy::sandbox_settings(rules, facts);
    let mut more: Vec<(String, Origin)> = Vec::new();
    for (name, origin) in &rules.settings().sandbox.deny_read {
        let Some(name) = name.strip_prefix("~/").filter(|_| origin.layer == Layer::Builtin) else {
            continue;
        };
        let paths = elsewhere.places_of(name, place).into_iter();
        more.extend(paths.map(|path| (verbatim(&path), origin.clone())));
    }
    let named = elsewhere.named.iter().filter(|path| !holds_work(path, place));
    more.extend(named.map(|path| (verbatim(path), table_origin())));
    for (path, origin) in more {
        if !sandbox.deny_read.iter().any(|(known, _)| *known == path) {
            sandbox.deny_read.push((path, origin));
        }
    }
    let allowed = Allowed::of(&sandbox);
    let regions: Vec<PathBuf> = std::iter::once(&place.project)
        .chain(&place.additional)
        .cloned()
        .chain(sandbox.allow_write.iter().map(|(path, _)| PathBuf::from(path)))
        .collect();
    sandbox.deny_read.retain(|(text, origin)| {
        if origin.layer != Layer::Builtin || Pattern::is(text) && plain(text).is_none() {
            return true;
        }
        let path = plain(text).unwrap_or_else(|| PathBuf::from(text));
        let counts =
            path.symlink_metadata().is_ok() || regions.iter().any(|it| path.starts_with(it));
        counts && !allowed.names(&path)
    });
    sandbox
}

fn table_origin() -> Origin {
    Origin {
        layer: Layer::Builtin,
        file: TABLE.into(),
        line: 1,
        column: 1,
        pointer: "/sandbox/filesystem/denyRead".to_owned(),
    }
}

fn verbatim(path: &Path) -> String {
    stockade_policy::verbatim(&path.to_string_lossy())
}

/// Returns the path that a pattern without wildcards stands for.
fn plain(pattern: &str) -> Option<PathBuf> {
    let wild = |part: &std::ffi::OsStr| {
        let text = part.to_str()?;
        match Pattern::is(text) {
            true => stockade_spec::Wild::parse(text).ok()?.name().map(Into::into),
            false => Some(part.to_owned()),
        }
    };
    Path::new(pattern).iter().map(wild).collect()
}

/// Paths and patterns that `allowRead` names.
struct Allowed {
    paths: Vec<PathBuf>,
    patterns: Vec<Pattern>,
}

impl Allowed {
    fn of(sandbox: &SandboxSettings) -> Allowed {
        let mut allowed = Allowed { paths: Vec::new(), patterns: Vec::new() };
        for (text, _) in &sandbox.allow_read {
            match plain(text) {
                // Not where it leads: a command may have made a link there.
                Some(path) => allowed.paths.push(path),
                None => allowed.patterns.extend(Pattern::parse(Path::new(text))),
            }
        }
        allowed
    }

    /// Says whether exactly this path is allowed: a wider rule is not meant for what is hidden in it.
    fn names(&self, path: &Path) -> bool {
        !self.paths.is_empty()
            && (self.paths.iter().any(|it| it == path)
                || self.paths.contains(&Names::default().real(path)))
    }

    /// Says whether this path is allowed, by its name or by a pattern.
    fn covers(&self, path: &Path) -> bool {
        self.names(path) || self.patterns.iter().any(|it| it.matches(path) == Match::Whole)
    }
}

/// Returns the files that are asked for and that a call names; blocks on the file system.
pub fn asked(facts: &Facts, rules: &Settings) -> Vec<PathBuf> {
    let regions: Vec<&Path> = std::iter::once(&facts.project)
        .chain([&facts.cwd])
        .chain(&facts.session)
        .chain(&facts.roots)
        .chain(&facts.additional_directories)
        .map(PathBuf::as_path)
        .collect();
    let is_asked = |path: &Path| {
        known().asked.speaks_of_path(path) && regions.iter().any(|region| path.starts_with(region))
    };
    let mut found: Vec<PathBuf> = Vec::new();
    for (written, names) in &facts.real_paths {
        let real = names.last().unwrap_or(written);
        let is_named = is_asked(written) || names.iter().any(|name| is_asked(name));
        if is_named && real.metadata().is_ok_and(|it| !it.is_dir()) && !found.contains(real) {
            found.push(real.clone());
        }
    }
    if !found.is_empty() {
        let allowed = Allowed::of(&stockade_policy::sandbox_settings(rules, facts));
        found.retain(|path| !allowed.covers(path));
    }
    found
}

/// Returns the files that are asked for and that a tool would read that goes through a directory; blocks on the file
/// system. `include` bounds the names that it reads.
pub fn asked_below(
    scene: &Scene,
    facts: &Facts,
    directory: &Path,
    include: Option<&str>,
) -> Vec<PathBuf> {
    let real = Names::default().real(directory);
    let mut found = project::find(&scene.place).asked;
    let is_read = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        include.is_none_or(|include| may_include(include, name))
    };
    found.retain(|path| (path.starts_with(directory) || path.starts_with(&real)) && is_read(path));
    if !found.is_empty() {
        let allowed = Allowed::of(&stockade_policy::sandbox_settings(&scene.snapshot.rules, facts));
        found.retain(|path| !allowed.covers(path));
    }
    found
}

/// Says whether a pattern for the names of files may fit `name`. One that cannot be read may.
fn may_include(pattern: &str, name: &str) -> bool {
    if let Some(out) = pattern.strip_prefix('!') {
        // Of a name that is taken out everywhere nothing is read.
        let out = out.strip_prefix("**/").unwrap_or(out);
        let is_out = |wild: Wild| !out.contains(['/', '{', ',']) && wild.fits(name);
        return !Wild::parse(out).is_ok_and(is_out);
    }
    let last = pattern.rsplit('/').next().unwrap_or(pattern);
    if last == "**" || last.is_empty() {
        return true;
    }
    // `*.{ts,tsx}` stands for one pattern for each word in it.
    let each: Vec<String> = match last.split_once('{').zip(last.rsplit_once('}')) {
        Some(((before, _), (inner, after))) => {
            let inner = inner.get(before.len() + 1..).unwrap_or_default();
            inner.split(',').map(|word| format!("{before}{word}{after}")).collect()
        }
        None => vec![last.to_owned()],
    };
    let fits = |text: &String| {
        text.contains(['{', '}', ',']) || Wild::parse(text).map_or(true, |wild| wild.fits(name))
    };
    each.iter().any(fits)
}

impl Asked {
    fn speaks_of_path(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| self.speaks_of(name))
    }

    fn speaks_of(&self, name: &str) -> bool {
        self.names.iter().any(|it| sieve::fits(it, name))
            && !self.except.iter().any(|end| name.ends_with(end))
    }
}

/// Adds rules for what is asked for and for what is shown without its secrets, and returns what is seen in its place.
pub(super) fn hide(rules: &mut Rules, around: &Around<'_>) -> Vec<Shown> {
    let allowed = Allowed::of(around.sandbox);
    let mut shown = Vec::new();
    let found = project::find(around.place);
    // Directories that hold the work cannot be hidden.
    for directory in found.unlisted.iter().filter(|it| !holds_work(it, around.place)) {
        rules.add(directory, Access::None, ASKED);
    }
    let mut names = Names::default();
    let mut hidden = Hidden::by(rules);
    let is_needed = |path: &Path| holds_work(path, around.place);
    let asked = found.asked.into_iter().filter(|path| !allowed.covers(path)).collect();
    for path in globs::gather(asked, &is_needed) {
        let real = names.real(&path);
        if hidden.holds(&real) {
            continue;
        }
        if real.is_file() {
            rules.follow(&path, Access::None, ASKED);
            hidden.0.insert(real.clone(), true);
            shown.push(Shown { path: real, text: Default::default() });
        } else if !known().asked.speaks_of_path(&path) {
            // A directory with more of them than are looked at one by one.
            rules.add(&path, Access::None, ASKED);
            hidden.0.insert(real, true);
        }
    }
    let candidates = copy::candidates(around.elsewhere, around.place, &found.copied);
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    for (path, row, is_project) in candidates.into_iter().filter(|it| is_there(&it.0)) {
        let real = names.real(&path);
        if allowed.names(&path) || allowed.names(&real) || hidden.holds(&real) {
            continue;
        }
        match copy::of(&real, row, is_project) {
            copy::Copy::AsItIs => {}
            copy::Copy::Unreadable => rules.follow(&path, Access::None, COPIED),
            copy::Copy::Text(text) => {
                rules.follow(&path, Access::None, COPIED);
                shown.push(Shown { path: real, text: text.into() });
            }
        }
    }
    shown
}

/// Says whether a command sees something else in the place of the file at a real path.
pub fn is_copied(path: &Path, scene: &Scene, sandbox: &SandboxSettings) -> bool {
    let rows = copy::candidates(&scene.elsewhere, &scene.place, &[]);
    let mut names = Names::default();
    let row = rows.into_iter().find(|(it, ..)| it == path || names.real(it) == path);
    row.is_some_and(|(_, row, is_project)| {
        !Allowed::of(sandbox).names(path) && copy::of(path, row, is_project) != copy::Copy::AsItIs
    })
}

/// Returns a file of the project that a command sees empty.
pub fn unseen(scene: &Scene, sandbox: &SandboxSettings, named: &[PathBuf]) -> Option<PathBuf> {
    let allowed = Allowed::of(sandbox);
    let real = |path: &PathBuf| Names::default().real(path);
    let hidden =
        |path: &PathBuf| !allowed.covers(path) && !named.contains(&real(path)) && path.is_file();
    project::find(&scene.place).asked.into_iter().find(hidden)
}

/// Paths that rules hide already: the longest rule decides, and of equal ones the one that hides.
struct Hidden(BTreeMap<PathBuf, bool>);

impl Hidden {
    fn by(rules: &Rules) -> Hidden {
        let mut paths = BTreeMap::new();
        let decides = |rule: &&FileRule| !matches!(rule.access, Access::Protected | Access::Kept);
        for rule in rules.all.iter().filter(decides) {
            *paths.entry(rule.path.clone()).or_default() |= rule.access == Access::None;
        }
        Hidden(paths)
    }

    fn holds(&self, path: &Path) -> bool {
        path.ancestors().find_map(|above| self.0.get(above)).copied().unwrap_or_default()
    }
}

/// Returns the names of files that are asked for: a run may not make so many of them that a later one could not hide
/// them all.
pub(super) fn numerous_names() -> Vec<OsString> {
    known().asked.names.iter().map(Into::into).collect()
}

/// Shows a command the files that its text names: it was asked about them.
pub(super) fn show(files: &mut Files, asked: &[PathBuf]) {
    let is_named = |path: &PathBuf| asked.contains(path);
    files.copies.retain(|copy| !is_named(&copy.path));
    files.rules.retain(|rule| rule.origin != ASKED || !is_named(&rule.path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let table = read().unwrap();
        assert!(!table.copied.is_empty() && table.asked.depth > 0 && table.asked.most > 0);
        let asked = [".env", ".env.local", ".env.production"];
        let free = [
            ".env.example",
            ".env.sample",
            ".env.template",
            ".env.dist",
            ".envrc",
            "env",
            ".env.local.example",
        ];
        assert!(asked.iter().all(|name| table.asked.speaks_of(name)));
        assert!(!free.iter().any(|name| table.asked.speaks_of(name)));
    }

    #[test]
    fn a_pattern_for_names_includes_what_it_may_fit() {
        for may in [
            "*",
            "**",
            ".*",
            ".env*",
            "!*.ts",
            "!src/.env*",
            "!{.env*}",
            "{.env*,x}",
            "src/**",
            "**/.env.local",
            "{a,{b,c}}",
            "[",
            ".e?v.local",
        ] {
            assert!(may_include(may, ".env.local"), "{may}");
        }
        for may_not in [
            "*.ts",
            "*.{ts,tsx}",
            "src/*.rs",
            "package.json",
            "!.env*",
            "!**/.env.*",
            "{Makefile,*.mk}",
            "env*",
        ] {
            assert!(!may_include(may_not, ".env.local"), "{may_not}");
        }
        assert!(may_include("{.env,x}", ".env") && !may_include("{.env,x}", ".env.local"));
    }
}
