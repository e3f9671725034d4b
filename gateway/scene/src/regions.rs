//! Where commands may write. What lies there is never believed: it may be what a command of a former call put there.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use stockade_policy::SandboxSettings;
use stockade_spec::Pattern;

use stockade_base::names::Names;
use stockade_base::place::Place;
use stockade_settings::bounds;
use stockade_shell::environment::DEFAULT_PATH;

/// Links that one path may go through, as in the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Directories in which no path means the same to two processes.
const OF_EACH_PROCESS: [&str; 2] = ["/proc", "/dev/fd"];

/// The places where commands of a call may write.
#[derive(Debug, Clone, Default)]
pub struct Regions {
    /// Their real paths.
    paths: Vec<PathBuf>,
    /// Device and inode of each that is there: the same place may be shown at a second one.
    objects: Vec<(u64, u64)>,
}

/// A search path, as an unconfined program gets it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    /// Search path that is left.
    pub kept: String,
    /// Entries that were taken out.
    pub dropped: Vec<String>,
}

impl Regions {
    /// Returns the regions of a call; blocks on the file system. The settings have every path absolute.
    pub fn of(place: &Place, sandbox: &SandboxSettings, state: &Path) -> Regions {
        let mut found: Vec<PathBuf> = place.additional.clone();
        // A project that is too wide is not writable.
        found.extend((!place.project_is_too_wide()).then(|| place.project.clone()));
        // Calls of a project around wrote there.
        found.extend(place.roots.iter().cloned());
        let plain = |path: &&(String, _)| !Pattern::is(&path.0);
        found.extend(sandbox.allow_write.iter().filter(plain).map(|(path, _)| path.into()));
        // Commands have their temporary files there.
        found.push(state.to_path_buf());
        // Commands of another project wrote there.
        found.extend(bounds::remembered(state));
        let mut names = Names::default();
        let paths: Vec<PathBuf> = found.iter().map(|path| names.real(path)).collect();
        let object = |path: &PathBuf| path.metadata().ok().map(|it| (it.dev(), it.ino()));
        let objects = paths.iter().filter_map(object).collect();
        Regions { paths, objects }
    }

    /// Returns them with one more.
    pub fn with(mut self, directory: Option<&Path>) -> Regions {
        if let Some(directory) = directory {
            let real = Names::default().real(directory);
            self.objects.extend(real.metadata().ok().map(|it| (it.dev(), it.ino())));
            self.paths.push(real);
        }
        self
    }

    /// Says whether an absolute path lies in a region, or goes through one; blocks on the file system.
    pub fn hold(&self, path: &Path) -> bool {
        let mut real = PathBuf::from("/");
        let mut rest = pieces(path);
        let mut links = 0;
        while let Some(piece) = rest.pop_front() {
            if piece == ".." {
                real.pop();
                continue;
            }
            real.push(&piece);
            let found = real.symlink_metadata().ok();
            let object = found.as_ref().map(|it| (it.dev(), it.ino()));
            let is_region = self.paths.iter().any(|region| real.starts_with(region))
                || object.is_some_and(|object| self.objects.contains(&object));
            if is_region || OF_EACH_PROCESS.iter().any(|it| real.starts_with(it)) {
                return true;
            }
            if !found.is_some_and(|it| it.is_symlink()) {
                continue;
            }
            let Ok(target) = std::fs::read_link(&real) else { return true };
            links += 1;
            if links > MAX_LINKS {
                return true;
            }
            real.pop();
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            for piece in pieces(&target).into_iter().rev() {
                rest.push_front(piece);
            }
        }
        false
    }

    /// Says whether an entry of a search path leads where commands may write: a relative one may lead anywhere.
    pub fn hold_entry(&self, entry: &str) -> bool {
        !entry.starts_with('/') || self.hold(Path::new(entry))
    }

    /// Takes out of a search path what leads where commands may write; blocks on the file system.
    pub fn clean(&self, search: &str) -> Search {
        let held = |entry: &&str| self.hold_entry(entry);
        let (dropped, kept): (Vec<&str>, Vec<&str>) = search.split(':').partition(held);
        // To programs an empty one is the working directory.
        let kept = if kept.is_empty() { DEFAULT_PATH.to_owned() } else { kept.join(":") };
        Search { kept, dropped: dropped.into_iter().map(str::to_owned).collect() }
    }

    /// Says whether a region, or what is in one, is named in a text.
    pub fn are_named_in(&self, text: &str) -> bool {
        self.paths.iter().any(|path| {
            let path = path.to_string_lossy();
            text.match_indices(&*path).any(|(at, _)| {
                let behind = text.get(at + path.len()..).unwrap_or_default();
                !behind.starts_with(|it: char| it.is_alphanumeric() || "_-.".contains(it))
            })
        })
    }
}

fn pieces(path: &Path) -> VecDeque<OsString> {
    let piece = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(piece).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use stockade_scratch::Folder;

    fn regions(folder: &Folder) -> Regions {
        let project = folder.path().join("project");
        std::fs::create_dir_all(project.join("bin")).unwrap();
        std::fs::create_dir_all(folder.path().join("tools")).unwrap();
        let place = Place {
            cwd: project.clone(),
            session: None,
            project,
            roots: Vec::new(),
            home: "/nonexistent".into(),
            homes: Vec::new(),
            additional: Vec::new(),
        };
        Regions::of(&place, &SandboxSettings::default(), Path::new("/nonexistent/state"))
    }

    #[test]
    fn what_lies_in_a_region_or_goes_through_one_is_held() {
        let folder = Folder::new();
        let regions = regions(&folder);
        let root = folder.path();
        symlink("/usr", root.join("project/out")).unwrap();
        symlink("project/bin", root.join("in")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        for held in [
            "project",
            "project/bin/ls",
            "project/missing/x",
            "project/out/bin",
            "tools/../project/out/bin",
            "in/ls",
            "loop/x",
        ] {
            assert!(regions.hold(&root.join(held)), "{held}");
        }
        assert!(regions.hold(Path::new("/proc/self/cwd/x")));
        for free in ["tools/ls", "project/../tools", "projects"] {
            let held = regions.hold(&root.join(free));
            // A way that leaves a region again went through it.
            assert_eq!(held, free.starts_with("project/"), "{free}");
        }
    }

    #[test]
    fn an_unconfined_program_searches_in_no_region() {
        let folder = Folder::new();
        let regions = regions(&folder);
        let root = folder.path().display().to_string();
        let search = format!("{root}/project/bin::.:bin:~/bin:{root}/tools:/usr/bin");
        let cleaned = regions.clean(&search);
        assert_eq!(cleaned.kept, format!("{root}/tools:/usr/bin"));
        assert_eq!(cleaned.dropped, [&format!("{root}/project/bin"), "", ".", "bin", "~/bin"]);
        assert_eq!(regions.clean("").kept, DEFAULT_PATH);
    }

    #[test]
    fn a_text_names_a_region_and_not_its_neighbour() {
        let folder = Folder::new();
        let regions = regions(&folder);
        let project = folder.path().join("project").display().to_string();
        for (text, named) in [
            (format!("-f{project}"), true),
            (format!("open('{project}/x')"), true),
            (format!("{project}-hooks/x"), false),
            ("project".to_owned(), false),
        ] {
            assert_eq!(regions.are_named_in(&text), named, "{text}");
        }
    }
}
