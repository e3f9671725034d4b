//! Paths without `.` and `..`, by text alone.

use std::path::{Component, Path, PathBuf};

/// Returns the path without `.` and `..`, by text alone.
pub fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                result.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                result.push(component)
            }
        }
    }
    result
}
