//! Directories of tools and packages, from `policies/paths/toolchains.jsonc`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use stockade_programs::tables::{Table, view};
use stockade_text::json::view::View;

/// Content of `policies/paths/toolchains.jsonc`.
#[derive(Debug, Default)]
pub struct Known {
    /// Folders of the home directory.
    pub home: Vec<&'static str>,
    /// Those of the system.
    pub system: Vec<&'static str>,
    /// Variables, and the folder of the home directory that each of them puts elsewhere.
    moved: Vec<(&'static str, &'static str)>,
}

/// Returns what the table says.
pub fn known() -> &'static Known {
    // A table that cannot be read names nothing; a test reads it.
    static KNOWN: LazyLock<Known> = LazyLock::new(|| read().unwrap_or_default());
    &KNOWN
}

fn read() -> Option<Known> {
    let table = view(Table::Toolchains).members()?;
    let texts = |key: &str| table.get(key).and_then(View::texts);
    let moved = table.get("moved")?.members()?;
    let moved = moved.iter().map(|(name, folder)| Some((name, folder.text()?)));
    Some(Known {
        home: texts("home")?,
        system: texts("system")?,
        moved: moved.collect::<Option<_>>()?,
    })
}

/// Returns the directories of tools that variables of the caller name: the person set them before the call, and no
/// command sets them.
pub fn moved(caller: &[(String, String)]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (variable, value) in caller.iter().filter(|(_, value)| value.starts_with('/')) {
        for (_, folder) in known().moved.iter().filter(|(name, _)| name == variable) {
            let inside = |entry: &&str| match Path::new(entry).strip_prefix(folder) {
                Ok(rest) if rest.as_os_str().is_empty() => Some(PathBuf::from(value)),
                Ok(rest) => Some(Path::new(value).join(rest)),
                Err(_) => None,
            };
            found.extend(known().home.iter().filter_map(inside));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_names_nothing_wide() {
        let known = read().expect("the table");
        for folder in &known.home {
            let path = Path::new(folder);
            assert!(path.is_relative() && !folder.is_empty(), "{folder}");
            assert!(path.components().all(|it| matches!(it, std::path::Component::Normal(_))));
        }
        for path in &known.system {
            assert!(Path::new(path).is_absolute(), "{path}");
            assert!(
                !["/", "/home", "/root", "/tmp", "/var", "/etc", "/dev", "/opt"].contains(path)
            );
        }
        for (variable, folder) in &known.moved {
            let entries = known.home.iter().filter(|it| Path::new(it).starts_with(folder));
            assert!(entries.count() > 0, "{variable}: {folder}");
        }
        assert!(known.home.contains(&".pyenv/versions") && known.system.contains(&"/usr/bin"));
    }
    #[test]
    fn a_variable_moves_the_parts_of_a_folder_that_hold_tools() {
        let of = |name: &str, value: &str| moved(&[(name.to_owned(), value.to_owned())]);
        let expected = ["versions", "shims"].map(|it| Path::new("/opt/py").join(it));
        assert_eq!(of("PYENV_ROOT", "/opt/py"), expected);
        assert_eq!(of("UV_CACHE_DIR", "/var/uv"), [PathBuf::from("/var/uv")]);
        for (name, value) in [("PYENV_ROOT", "py"), ("PYENV_ROOT", ""), ("HOME", "/opt")] {
            assert!(of(name, value).is_empty(), "{name}={value}");
        }
    }
}
