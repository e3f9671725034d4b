//! A copy of the repository in which mutants are built and tested.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A copy of the repository, with a build directory of its own.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    target: PathBuf,
    switch: PathBuf,
}

/// Test executables, each with the directory in which it runs.
pub type Tests = Vec<(PathBuf, PathBuf)>;

/// Result of a build.
#[derive(Debug)]
pub enum Outcome {
    /// All compiled.
    Built(Tests),
    /// Numbers of mutants that do not compile.
    Broken(Vec<usize>),
}

fn text(error: &std::io::Error, what: &str) -> String {
    format!("{what}: {error}")
}

impl Tree {
    /// Copies what git tracks of `root` to `target/mutants/tree`. Files that are equal keep their time, so that a second
    /// build is short.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be copied.
    pub fn copy(root: &Path) -> Result<Tree, String> {
        let root = &fs::canonicalize(root).map_err(|error| text(&error, "the repository"))?;
        let target = root.join("target/mutants");
        let tree = Tree {
            root: target.join("tree"),
            switch: target.join("number"),
            target: target.join("build"),
        };
        let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
        let listed = listed.map_err(|error| text(&error, "git ls-files"))?.stdout;
        for name in listed.split(|it| *it == 0).filter(|it| !it.is_empty()) {
            let name = String::from_utf8_lossy(name).into_owned();
            let from = root.join(&name);
            if from.is_symlink() || !from.is_file() {
                continue;
            }
            let content = fs::read(&from).map_err(|error| text(&error, &name))?;
            tree.put(&name, &content)?;
            let mode = fs::metadata(&from).map_err(|error| text(&error, &name))?.permissions();
            fs::set_permissions(tree.root.join(&name), mode)
                .map_err(|error| text(&error, &name))?;
        }
        Ok(tree)
    }

    fn put(&self, name: &str, content: &[u8]) -> Result<(), String> {
        let path = self.root.join(name);
        if fs::read(&path).is_ok_and(|it| it == content) {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).map_err(|error| text(&error, name))?;
        fs::write(&path, content).map_err(|error| text(&error, name))
    }

    /// Writes a source.
    ///
    /// # Errors
    ///
    /// The source cannot be written.
    pub fn write(&self, name: &str, source: &str) -> Result<(), String> {
        self.put(name, source.as_bytes())
    }

    /// Builds the tests that each of `targets` names.
    ///
    /// # Errors
    ///
    /// Something other than a mutant does not compile.
    pub fn build(&self, targets: &[Vec<String>]) -> Result<Outcome, String> {
        let mut executables = Vec::new();
        for target in targets {
            let output = Command::new("cargo")
                .args(["test", "--no-run", "--message-format=json", "--target-dir"])
                .arg(&self.target)
                .args(target)
                .current_dir(&self.root)
                .env("STOCKADE_MUTANT_FILE", &self.switch)
                .env("CARGO_TARGET_DIR", &self.target)
                .stderr(Stdio::inherit())
                .output();
            let output = output.map_err(|error| text(&error, "cargo"))?;
            let lines = String::from_utf8_lossy(&output.stdout).into_owned();
            let messages = lines.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
            let messages: Vec<Value> = messages.collect();
            if !output.status.success() {
                return self.broken(&messages);
            }
            for message in &messages {
                let Some(executable) = message["executable"].as_str() else { continue };
                if message["profile"]["test"] != true {
                    continue;
                }
                let manifest = message["manifest_path"].as_str().unwrap_or_default();
                let folder = Path::new(manifest).parent().unwrap_or(&self.root).to_owned();
                executables.push((executable.into(), folder));
            }
        }
        Ok(Outcome::Built(executables))
    }

    /// Returns the mutants at which the compiler stopped.
    fn broken(&self, messages: &[Value]) -> Result<Outcome, String> {
        let mut numbers = Vec::new();
        let mut shown = String::new();
        for message in messages {
            let message = &message["message"];
            if message["level"] != "error" {
                continue;
            }
            let rendered = message["rendered"].as_str().unwrap_or_default();
            shown.push_str(rendered);
            for span in message["spans"].as_array().into_iter().flatten() {
                let file = span["file_name"].as_str().unwrap_or_default();
                let first = span["line_start"].as_u64().unwrap_or(0) as usize;
                let last = span["line_end"].as_u64().unwrap_or(0) as usize;
                let source = fs::read_to_string(self.root.join(file)).unwrap_or_default();
                numbers.extend(around(&source, first, last));
            }
        }
        if numbers.is_empty() {
            return Err(format!("the tree does not compile:\n{shown}"));
        }
        Ok(Outcome::Broken(numbers))
    }

    /// Returns the first test executable that fails with the mutant `number`; 0 is none.
    pub fn fails(
        &self,
        (tests, filters): (&[(PathBuf, PathBuf)], &[String]),
        number: usize,
        limit: Duration,
    ) -> Option<String> {
        let _ = fs::write(&self.switch, number.to_string());
        for (executable, folder) in tests {
            let mut command = Command::new(executable);
            command.args(filters).current_dir(folder).process_group(0);
            command.env("STOCKADE_MUTANT", number.to_string());
            command.env("CARGO_MANIFEST_DIR", folder);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let is_good = command.spawn().is_ok_and(|child| ends_well(child, limit));
            if !is_good {
                return Some(executable.display().to_string());
            }
        }
        None
    }
}

/// Says whether a process ends in time and without a failure; one that takes longer is killed with its group.
fn ends_well(mut child: Child, limit: Duration) -> bool {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begun.elapsed() < limit => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => {
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-9", "--", &group]).status();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Returns the numbers of the mutants on these lines; of the nearest line above that has some where there are none.
fn around(source: &str, first: usize, last: usize) -> Vec<usize> {
    let lines: Vec<&str> = source.lines().collect();
    let of = |line: usize| -> Vec<usize> {
        let text = lines.get(line.wrapping_sub(1)).copied().unwrap_or_default();
        let calls = text.split("stockade_mutant(").skip(1);
        let digits =
            calls.map(|it| it.chars().take_while(char::is_ascii_digit).collect::<String>());
        digits.filter_map(|it| it.parse().ok()).collect()
    };
    let on: Vec<usize> = (first..=last).flat_map(of).collect();
    if !on.is_empty() {
        return on;
    }
    (1..first).rev().map(of).find(|it| !it.is_empty()).unwrap_or_default()
}
