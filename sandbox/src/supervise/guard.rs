//! Names that may not come into being: a function of paths.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::part::{Name, parts};
use stockade_spec::Access;
use stockade_spec::violation::AT_TOP;
use stockade_spec::{FileRule, Network, SandboxSpec, Violation};
use stockade_spec::{Match, Pattern};

/// Act of a call at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Makes an empty object there, or writes one.
    Make,
    /// Puts there what exists already, with all that lies beneath: rename, link, symbolic link.
    Place,
}

/// Verdict of the guard on an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing against it.
    Free,
    /// Forbidden by the rule named here.
    Forbidden(String),
    /// The path is in no writable region; the kernel refuses the act as well.
    Outside,
}

/// The names and paths that are guarded inside the writable regions.
#[derive(Debug)]
pub(crate) struct Guard {
    regions: Vec<PathBuf>,
    names: Vec<Name>,
    /// Names that are guarded where a region begins.
    top: Vec<Name>,
    /// Paths that are free although a name of these covers them.
    opened: Vec<PathBuf>,
    /// Paths that rules refuse and that may be removed.
    removable: Vec<PathBuf>,
    rules: Vec<FileRule>,
    /// Links and directories that stay where they are.
    kept: Vec<FileRule>,
    /// Each with where it comes from.
    patterns: Vec<(Pattern, String)>,
    sockets: Vec<PathBuf>,
    /// Configurations of git that may be replaced by others of which some keys differ.
    configurations: Vec<PathBuf>,
    /// Objects of the host that are shown inside of the run's own directories.
    shown: Vec<PathBuf>,
    /// Caches whose changes are the run's own: names are free there, and sockets of the host are not the run's.
    caches: Vec<PathBuf>,
    /// Directories of the run's own, where names are free and its sockets may lie.
    own: Vec<PathBuf>,
    /// No mount covers what rules refuse.
    is_alone: bool,
    /// The run has a loopback interface and no other.
    only_loopback: bool,
}

/// Directories of the run's own where it has mounts.
const OWN: &[&str] = &["/tmp", "/var/tmp", "/dev"];

impl Guard {
    pub(crate) fn new(spec: &SandboxSpec) -> Guard {
        let rules = &spec.files.rules;
        let regions: Vec<PathBuf> = rules
            .iter()
            .filter(|rule| rule.access == Access::Write)
            .map(|rule| rule.path.clone())
            .collect();
        let refusing = rules.iter().filter(|rule| match rule.access {
            Access::ReadOnly | Access::None | Access::Protected => true,
            Access::Write | Access::Read | Access::Kept => false,
        });
        let kept = rules.iter().filter(|rule| rule.access == Access::Kept).cloned().collect();
        let sockets = spec.files.sockets.clone();
        let is_own = |rule: &&FileRule| OWN.iter().any(|own| rule.path.starts_with(own));
        let shown = rules.iter().filter(is_own).map(|rule| rule.path.clone()).collect();
        // One that cannot be read covers everything. Who makes the spec refuses it before.
        let pattern =
            |rule: &FileRule| (Pattern::parse(&rule.path).unwrap_or_default(), rule.origin.clone());
        let names = |names: &[OsString]| names.iter().map(|it| Name::new(Path::new(it))).collect();
        Guard {
            regions,
            patterns: spec.files.patterns.iter().map(pattern).collect(),
            names: names(&spec.files.guarded_names),
            top: names(&spec.files.guarded_at_top),
            opened: spec.files.opened.clone(),
            removable: spec.files.removable.clone(),
            rules: refusing.cloned().collect(),
            kept,
            sockets,
            configurations: spec.files.git_configurations.clone(),
            shown,
            caches: Vec::new(),
            own: OWN.iter().map(PathBuf::from).collect(),
            is_alone: false,
            only_loopback: spec.network != Network::Host,
        }
    }

    /// Returns one for which nothing lies in a writable region.
    pub(super) fn nothing() -> Guard {
        let (regions, names, rules, kept) = Default::default();
        let (patterns, sockets, configurations) = Default::default();
        let (top, opened, removable) = Default::default();
        let (shown, caches, own, only_loopback) = (Vec::new(), Vec::new(), Vec::new(), true);
        Guard {
            regions,
            names,
            top,
            opened,
            removable,
            rules,
            kept,
            patterns,
            sockets,
            configurations,
            shown,
            caches,
            own,
            is_alone: false,
            only_loopback,
        }
    }

    /// Guards a run without mounts: nothing but `private` is its own, and nothing else keeps what rules refuse.
    pub(super) fn guard_alone(&mut self, private: Option<PathBuf>) {
        self.own = private.into_iter().collect();
        self.is_alone = true;
    }

    /// Returns the rule against changing the attributes of the object at `path`, if no mount refuses that.
    pub(super) fn keeps_attributes(&self, path: &Path) -> Option<String> {
        match self.judge(Act::Make, path) {
            Word::Forbidden(rule) if self.is_alone => Some(rule),
            Word::Forbidden(_) | Word::Free | Word::Outside => None,
        }
    }

    /// Takes `caches` for directories whose changes are the run's own.
    pub(super) fn add_caches(&mut self, mut caches: Vec<PathBuf>) {
        self.caches.append(&mut caches);
    }

    /// Says whether `spec` guards anything that mounts cannot guard, when these of its rules name what is not there.
    pub(crate) fn is_needed(spec: &SandboxSpec, absent: &[FileRule]) -> bool {
        let rules = &spec.files.rules;
        let within = |rule: &FileRule| {
            let regions = rules.iter().filter(|it| it.access == Access::Write);
            regions.map(|it| &it.path).any(|region| rule.path.starts_with(region))
        };
        let refuses = |rule: &&FileRule| !matches!(rule.access, Access::Write | Access::Read);
        let keeps = |rule: &&FileRule| rule.access == Access::Kept;
        let is_named = !spec.files.guarded_names.is_empty()
            || !spec.files.guarded_at_top.is_empty()
            || !spec.files.patterns.is_empty();
        let is_alone = rules.iter().any(|rule| spec.leaves_to_supervisor(rule));
        let is_kept = rules.iter().filter(keeps).any(within);
        is_named || is_alone || is_kept || absent.iter().filter(refuses).any(within)
    }

    /// Returns what is to be said of `act` at `path`.
    pub(super) fn judge(&self, act: Act, path: &Path) -> Word {
        self.judge_by(act, path, |_| true)
    }

    /// Says whether a configuration of git that only this keeps lies beneath `path`.
    pub(super) fn is_above_configuration(&self, path: &Path) -> bool {
        self.configurations.iter().any(|it| it != path && it.starts_with(path))
    }

    /// Returns where the rule comes from that keeps something beneath `path`, which would lose its name with it.
    pub(super) fn keeps_beneath(&self, path: &Path) -> Option<&String> {
        let refused = self.rules.iter().filter(|_| self.is_alone);
        let mut kept = self.kept.iter().chain(refused);
        kept.find(|rule| rule.path.starts_with(path)).map(|rule| &rule.origin)
    }

    /// Returns what is to be said of writing the file at `path`, if it were not protected itself.
    pub(super) fn judge_unprotected(&self, path: &Path) -> Word {
        let counts = |rule: &FileRule| rule.access != Access::Protected || rule.path != path;
        self.judge_by(Act::Make, path, counts)
    }

    /// Returns what is to be said of removing the file at `path`.
    pub(super) fn judge_removal(&self, path: &Path) -> Word {
        match self.removable.iter().any(|it| it == path) {
            true => self.judge_unprotected(path),
            false => self.judge(Act::Make, path),
        }
    }

    fn judge_by(&self, act: Act, path: &Path, counts: impl Fn(&FileRule) -> bool) -> Word {
        let Some(region) = self.region(path) else {
            let is_cache = self.caches.iter().any(|cache| path.starts_with(cache));
            return if is_cache || self.is_own(path) { Word::Free } else { Word::Outside };
        };
        // A name may begin above the region.
        let (whole, above) = (parts(path), parts(region).len());
        if let Some(name) = self.names.iter().find(|name| is_guarded(act, &whole, above, name)) {
            return Word::Forbidden(format!("builtin: guarded name `{}`", name.path().display()));
        }
        let is_opened = || self.opened.iter().any(|it| path.starts_with(it));
        let top = self.top.iter().find(|name| is_guarded_at_top(act, &whole, above, name));
        if let Some(name) = top.filter(|_| !is_opened()) {
            return Word::Forbidden(format!("{AT_TOP}`{}`", name.path().display()));
        }
        let rule = self.rules.iter().filter(|rule| counts(rule)).find(|rule| {
            let beneath = path.starts_with(&rule.path)
                && (rule.access != Access::None || rule.path.starts_with(region));
            beneath || act == Act::Place && rule.path.starts_with(path) && rule.path != *region
        });
        let kept = || {
            let is_it = |it: &&FileRule| {
                it.path == path || act == Act::Place && it.path.starts_with(path) && path != region
            };
            self.kept.iter().find(is_it)
        };
        let rule = rule.or_else(kept);
        let origin = rule.map(|rule| &rule.origin).or_else(|| self.covering(path));
        origin.map_or(Word::Free, |origin| Word::Forbidden(origin.clone()))
    }

    /// Returns where the rule comes from that keeps the file with this identity under another name than the one it is written by.
    pub(super) fn keeps_by_another_name(&self, found: &Metadata) -> Option<&String> {
        if found.nlink() < 2 {
            return None;
        }
        let is_it = |rule: &&FileRule| {
            let there = rule.path.symlink_metadata();
            there.is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()))
        };
        self.rules.iter().find(is_it).map(|rule| &rule.origin)
    }

    /// Says whether there are patterns.
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Returns where the pattern comes from that covers `path`.
    pub(super) fn covering(&self, path: &Path) -> Option<&String> {
        let mut patterns = self.patterns.iter();
        patterns.find(|it| it.0.matches(path) == Match::Whole).map(|it| &it.1)
    }

    /// Says whether a pattern covers something that could lie beneath `path`.
    pub(super) fn reaches_beneath(&self, path: &Path) -> bool {
        self.is_in_region(path)
            && self.patterns.iter().any(|it| it.0.matches(path) == Match::Beneath)
    }

    /// Returns the origin of the pattern that covers something beneath a link at `path`, and not beneath its `target`,
    /// where this run may write. `target` is `None` for a link whose text alone does not say where it leads.
    pub(super) fn leads_past(&self, path: &Path, target: Option<&Path>) -> Option<&String> {
        if target.is_some_and(|target| !self.is_in_region(target)) || !self.is_in_region(path) {
            return None;
        }
        let target = target.unwrap_or(Path::new("/"));
        self.patterns.iter().find(|it| it.0.covers_more(path, target)).map(|it| &it.1)
    }

    /// Returns the innermost writable region of the host that `path` lies in.
    pub(super) fn region(&self, path: &Path) -> Option<&PathBuf> {
        let around = self.regions.iter().filter(|region| path.starts_with(region));
        around.max_by_key(|region| region.components().count())
    }

    /// Says whether `path` lies in a writable region of the host.
    pub(super) fn is_in_region(&self, path: &Path) -> bool {
        self.regions.iter().any(|region| path.starts_with(region))
    }

    /// Says whether nothing but the loopback interface is there.
    pub(super) fn only_loopback(&self) -> bool {
        self.only_loopback
    }

    /// Says whether a socket at `path` may be connected to whoever made it.
    pub(super) fn allows_socket(&self, path: &Path) -> bool {
        self.sockets.iter().any(|region| path.starts_with(region)) || self.is_own(path)
    }

    /// Says whether `path` lies in a directory of the run's own, and not in a part of it that is the host's.
    fn is_own(&self, path: &Path) -> bool {
        self.own.iter().any(|own| path.starts_with(own))
            && !self.shown.iter().any(|shown| path.starts_with(shown))
    }
}

/// Says whether `name` ends on the way of `path` below its first `above` parts, or could be put together there. Folded whether
/// the file system folds or not: the stricter reading.
fn is_guarded(act: Act, path: &[OsString], above: usize, name: &Name) -> bool {
    let is_below = |start: usize| start + name.len() > above;
    path.len() > above
        && (name.places(path).any(is_below) || act == Act::Place && name.begins_at_the_end_of(path))
}

/// The same for a name that is guarded where the region begins whose path has the first `above` parts.
fn is_guarded_at_top(act: Act, path: &[OsString], above: usize, name: &Name) -> bool {
    let mut starts = above.saturating_sub(name.len().saturating_sub(1))..=above;
    path.len() > above
        && starts.any(|start| {
            name.stands_at(path, start) || act == Act::Place && name.goes_on_from(path, start)
        })
}

/// Returns the report of a refusal.
pub(super) fn violation(kind: &str, call: &str, path: &Path, rule: String) -> Box<Violation> {
    Box::new(Violation {
        kind: kind.to_owned(),
        call: call.to_owned(),
        object: path.to_string_lossy().into_owned(),
        rule,
        count: 1,
        errno: libc::EPERM,
        source: "supervisor".to_owned(),
        ..Violation::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        let rule = |path: &str, access| FileRule {
            path: path.into(),
            access,
            origin: format!("rule {path}"),
        };
        Guard {
            regions: ["/p", "/secret/p", "/x/.cargo", "/p/in", "/x/.yarn"].map(Into::into).into(),
            names: [".mcp.json", ".exrc.d", ".cargo/config.toml", "*.code-workspace", ".envrc*"]
                .map(|it| Name::new(Path::new(it)))
                .into(),
            top: [".npmrc", ".vscode", ".yarn/releases", "pylintrc*"]
                .map(|it| Name::new(Path::new(it)))
                .into(),
            opened: vec!["/p/.vscode/open.json".into(), "/secret/p/.npmrc".into()],
            removable: vec!["/p/.agent/settings.json".into(), "/p/.mcp.json".into()],
            rules: vec![
                rule("/p/.agent/settings.json", Access::Protected),
                rule("/secret", Access::None),
                rule("/p/.env", Access::None),
            ],
            kept: vec![rule("/p/conf", Access::Kept), rule("/p/a/b/link", Access::Kept)],
            patterns: Vec::new(),
            sockets: Vec::new(),
            configurations: Vec::new(),
            shown: vec!["/tmp/host".into()],
            caches: vec!["/home/.npm".into()],
            own: OWN.iter().map(PathBuf::from).collect(),
            is_alone: false,
            only_loopback: true,
        }
    }

    fn check(act: Act, path: &str, expected: Option<&str>) {
        let expected = expected.map_or(Word::Free, |rule| match rule {
            "outside" => Word::Outside,
            rule => Word::Forbidden(rule.to_owned()),
        });
        assert_eq!(guard().judge(act, Path::new(path)), expected, "{path}");
    }

    #[test]
    fn guarded_names_are_guarded_at_any_depth_and_in_any_case() {
        let name = Some("builtin: guarded name `.mcp.json`");
        check(Act::Make, "/p/.mcp.json", name);
        check(Act::Make, "/p/a/b/.MCP.json", name);
        check(Act::Make, "/p/a/.exrc.d/tasks.json", Some("builtin: guarded name `.exrc.d`"));
        check(Act::Make, "/p/.mcp.j\u{17F}on", name);
        check(Act::Make, "/p/.mcp.json. ", name);
        check(Act::Make, "/p/mcp.json", None);
    }

    #[test]
    fn a_guarded_name_may_hold_wildcards() {
        let name = Some("builtin: guarded name `*.code-workspace`");
        check(Act::Make, "/p/a/Team.Code-Workspace", name);
        check(Act::Place, "/p/.code-workspace", name);
        check(Act::Make, "/p/code-workspace", None);
        check(Act::Make, "/p/.ENVRC.local", Some("builtin: guarded name `.envrc*`"));
        check(Act::Make, "/p/x.envrc", None);
    }

    #[test]
    fn a_guarded_name_of_several_parts_is_guarded_as_a_whole() {
        let name = Some("builtin: guarded name `.cargo/config.toml`");
        check(Act::Make, "/p/a/.cargo/config.toml", name);
        check(Act::Make, "/p/a/.cargo/other", None);
        check(Act::Make, "/p/a/.cargo", None);
        check(Act::Make, "/p/config.toml", None);
        check(Act::Place, "/p/a/.cargo", name);
    }

    #[test]
    fn a_guarded_name_may_begin_above_its_region() {
        let name = Some("builtin: guarded name `.cargo/config.toml`");
        check(Act::Make, "/x/.cargo/config.toml", name);
        check(Act::Place, "/x/.cargo/config.toml", name);
        check(Act::Make, "/x/.cargo/a/config.toml", None);
        check(Act::Place, "/x/.cargo/a", None);
    }

    #[test]
    fn some_names_are_guarded_only_where_a_region_begins() {
        let rule = |name: &str| Some(format!("{AT_TOP}`{name}`"));
        let check = |act, path: &str, expected: Option<String>| {
            check(act, path, expected.as_deref());
        };
        for act in [Act::Make, Act::Place] {
            check(act, "/p/.npmrc", rule(".npmrc"));
            check(act, "/p/.NPMRC", rule(".npmrc"));
            check(act, "/p/.vscode/tasks.json", rule(".vscode"));
            check(act, "/p/.yarn/releases/y.cjs", rule(".yarn/releases"));
            check(act, "/p/pylintrc.toml", rule("pylintrc*"));
            check(act, "/p/in/.npmrc", rule(".npmrc"));
            // A name may begin above its region.
            check(act, "/x/.yarn/releases", rule(".yarn/releases"));
            check(act, "/p/a/.npmrc", None);
            check(act, "/p/a/.vscode/tasks.json", None);
            check(act, "/p/a/.yarn/releases/y.cjs", None);
            check(act, "/p/.yarn/cache", None);
            check(act, "/x/.yarn/a/releases", None);
        }
        check(Act::Make, "/p/.yarn", None);
        check(Act::Place, "/p/.yarn", rule(".yarn/releases"));
        check(Act::Place, "/p/a/.yarn", None);
    }

    #[test]
    fn what_was_opened_is_free_and_nothing_beside_it() {
        check(Act::Place, "/p/.vscode/open.json", None);
        check(Act::Place, "/secret/p/.npmrc", None);
        let rule = format!("{AT_TOP}`.vscode`");
        for path in ["/p/.vscode", "/p/.vscode/tasks.json", "/p/.vscode/open.json5"] {
            check(Act::Make, path, Some(&rule));
        }
    }

    #[test]
    fn what_may_be_removed_can_be_neither_written_nor_lose_another_guard() {
        let word = |path: &str| guard().judge_removal(Path::new(path));
        assert_eq!(word("/p/.agent/settings.json"), Word::Free);
        check(Act::Make, "/p/.agent/settings.json", Some("rule /p/.agent/settings.json"));
        let guarded = Word::Forbidden("builtin: guarded name `.mcp.json`".into());
        assert_eq!(word("/p/.mcp.json"), guarded);
        assert_eq!(word("/p/.env"), Word::Forbidden("rule /p/.env".into()));
    }

    #[test]
    fn what_leads_to_a_refusal_stays_where_it_is() {
        let (conf, link) = (Some("rule /p/conf"), Some("rule /p/a/b/link"));
        for act in [Act::Make, Act::Place] {
            check(act, "/p/conf", conf);
            check(act, "/p/conf/inside", None);
            check(act, "/p/a/b/link", link);
            check(act, "/p/a/b/other", None);
        }
        check(Act::Place, "/p/a", link);
        check(Act::Make, "/p/a", None);
        assert_eq!(guard().keeps_beneath(Path::new("/p/a")).map(String::as_str), link);
        assert_eq!(guard().keeps_beneath(Path::new("/p/b")), None);
    }

    #[test]
    fn outside_of_the_regions_nothing_is_performed() {
        check(Act::Make, "/elsewhere/.mcp.json", Some("outside"));
        check(Act::Make, "/tmp/.mcp.json", None);
        check(Act::Make, "/tmp/host/f", Some("outside"));
    }

    #[test]
    fn without_mounts_only_the_private_directory_is_the_runs_own() {
        let mut guard = guard();
        guard.guard_alone(Some("/tmp/private".into()));
        let word = |path: &str| guard.judge(Act::Make, Path::new(path));
        assert_eq!(word("/tmp/private/.mcp.json"), Word::Free);
        assert_eq!(word("/tmp/f"), Word::Outside);
        assert_eq!(word("/dev/shm/f"), Word::Outside);
        assert!(!guard.allows_socket(Path::new("/tmp/socket")));
    }

    #[test]
    fn in_a_cache_of_its_own_names_are_free_and_sockets_are_not() {
        check(Act::Make, "/home/.npm/a/.mcp.json", None);
        check(Act::Place, "/home/.npm", None);
        check(Act::Make, "/home/.npmrc", Some("outside"));
        assert!(!guard().allows_socket(Path::new("/home/.npm/socket")));
    }

    #[test]
    fn a_protected_path_cannot_be_made_nor_put_together_above() {
        let rule = Some("rule /p/.agent/settings.json");
        check(Act::Make, "/p/.agent/settings.json", rule);
        check(Act::Make, "/p/.agent", None);
        check(Act::Place, "/p/.agent", rule);
        check(Act::Place, "/p/.agent/other", None);
        check(Act::Make, "/p/.env", Some("rule /p/.env"));
    }

    #[test]
    fn a_region_inside_a_denied_directory_is_writable() {
        check(Act::Make, "/secret/p/f", None);
        check(Act::Place, "/secret/p/f", None);
    }
}
