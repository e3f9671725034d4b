//! Protected names: which of them a path falls under.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use crate::knowledge::{ProtectedName, Unwritable, protected_names};
use crate::pattern::tool::NameGlob;

/// The places in the table of protected names, by the first segment.
struct ByFirstSegment {
    literal: HashMap<&'static str, Vec<usize>>,
    /// Those whose first segment holds a wildcard.
    wild: Vec<usize>,
}

static BY_FIRST_SEGMENT: LazyLock<ByFirstSegment> = LazyLock::new(|| {
    let mut sorted = ByFirstSegment { literal: HashMap::new(), wild: Vec::new() };
    for (place, name) in protected_names().iter().enumerate() {
        match name.segments.first() {
            Some(first) if !first.contains('*') => {
                sorted.literal.entry(first).or_default().push(place);
            }
            Some(_) | None => sorted.wild.push(place),
        }
    }
    sorted
});

/// Returns the protected name that one of the names falls under; of several the first of the table. `is_top` says where
/// those begin that are asked about only there.
pub fn protected(
    names: &[PathBuf],
    is_top: impl Fn(&Path) -> bool,
) -> Option<&'static ProtectedName> {
    names.iter().find_map(|name| {
        let segments: Vec<Cow<'_, str>> =
            normal_parts(name).map(|part| part.to_string_lossy()).collect();
        let starts = 0..segments.len();
        let counts = |start: usize, place: &usize| {
            protected_names()
                .get(*place)
                .is_some_and(|name_of| !name_of.asked_at_top || is_top(&beginning(name, start)))
        };
        let found = starts.filter_map(|start| {
            protected_from(start, segments.get(start..)?, |place| counts(start, place))
        });
        protected_names().get(found.min()?)
    })
}

/// Returns the first of `names` that the sandbox keeps unwritable because a directory begins there for which `is_top`
/// holds, and that is free further down.
pub fn kept_at_top(names: &[PathBuf], is_top: impl Fn(&Path) -> bool) -> Option<&PathBuf> {
    let at_top = || protected_names().iter().filter(|name| name.kernel == Unwritable::AtTop);
    names.iter().find(|path| {
        let segments: Vec<Cow<'_, str>> = normal_parts(path)
            .map(|part| part.to_string_lossy().to_ascii_lowercase().into())
            .collect();
        (0..segments.len()).any(|start| {
            let rest = segments.get(start..).unwrap_or_default();
            at_top().any(|name| begins_with(start, rest, name)) && is_top(&beginning(path, start))
        })
    })
}

fn normal_parts(path: &Path) -> impl Iterator<Item = &std::ffi::OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(part) => Some(part),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    })
}

/// Returns the first `count` parts of an absolute path.
fn beginning(path: &Path, count: usize) -> PathBuf {
    Path::new("/").join(normal_parts(path).take(count).collect::<PathBuf>())
}

/// Returns the part of `path` that bears a name which the sandbox keeps unwritable, with that name, whatever lies above.
pub fn protected_part(path: &Path) -> Option<(PathBuf, &'static ProtectedName)> {
    part_kept(path, 0, |_| true)
}

/// The same for a path in the writable directory `root`, below which some names are free but where it begins.
pub fn protected_part_in(root: &Path, path: &Path) -> Option<(PathBuf, &'static ProtectedName)> {
    let above = normal_parts(root).count();
    part_kept(path, above, |start| start <= above)
}

/// Returns the first part that ends below the first `least` ones and bears such a name.
fn part_kept(
    path: &Path,
    least: usize,
    is_top: impl Fn(usize) -> bool,
) -> Option<(PathBuf, &'static ProtectedName)> {
    let above = path.components().count() - normal_parts(path).count();
    let segments: Vec<Cow<'_, str>> =
        normal_parts(path).map(|part| part.to_string_lossy().to_ascii_lowercase().into()).collect();
    let counts = |start: usize, name: &ProtectedName| match name.kernel {
        Unwritable::Everywhere => true,
        Unwritable::AtTop => is_top(start),
        Unwritable::Nowhere => false,
    };
    (0..segments.len()).find_map(|start| {
        let rest = segments.get(start..)?;
        let mut names = protected_names().iter();
        let name = names.find(|it| {
            start + it.segments.len() > least && counts(start, it) && begins_with(start, rest, it)
        })?;
        let end = above + start + name.segments.len();
        Some((path.components().take(end).collect(), name))
    })
}

/// Returns the first place in the table whose name the segments of a path begin with, `start` segments below
/// the root.
fn protected_from(
    start: usize,
    rest: &[Cow<'_, str>],
    counts: impl Fn(&usize) -> bool,
) -> Option<usize> {
    let sorted = &*BY_FIRST_SEGMENT;
    let literal = sorted.literal.get(rest.first()?.as_ref()).into_iter().flatten();
    let fits = |place: &usize| {
        protected_names().get(*place).is_some_and(|name| begins_with(start, rest, name))
    };
    literal.chain(&sorted.wild).copied().filter(fits).filter(counts).min()
}

fn begins_with(start: usize, rest: &[Cow<'_, str>], name: &ProtectedName) -> bool {
    let fits = (!name.root || start == 0)
        && rest.len() >= name.segments.len()
        && rest.iter().zip(&name.segments).all(|(found, wanted)| equal(found, wanted));
    let behind = rest.get(name.segments.len()..).unwrap_or_default();
    let excepted = name.except.iter().any(|one| match one.strip_prefix("**/") {
        Some(deep) => behind.last().is_some_and(|last| equal(last, deep)),
        None => behind.first().is_some_and(|first| first == one),
    });
    fits && !excepted && (name.tree || behind.is_empty())
}

/// Says whether a segment of a path is `wanted`, which may hold wildcards.
pub fn equal(found: &str, wanted: &str) -> bool {
    if wanted.contains('*') { NameGlob::new(wanted).matches(found) } else { found == wanted }
}
