//! A text that bash accepts must be no syntax error here, and the other way round is of interest.

use std::path::Path;
use std::process::{Command, Stdio};

use stockade_parser::{Limits, Programs, Reason, StartState, parse};

use super::corpus::Sample;

/// How the texts of one source were taken.
#[derive(Debug, Default)]
pub struct Accepted {
    /// Those that `bash -n` accepts.
    pub by_bash: usize,
    /// Those of them that are a syntax error here: the name, and what is said.
    pub refused: Vec<(String, String)>,
    /// Those that `bash -n` refuses and that are no syntax error here.
    pub more: usize,
    /// All of them.
    pub texts: usize,
}

/// Compares what `bash -n` and the parser say of each text.
///
/// # Errors
/// Bash could not be started.
pub fn compare(samples: &[Sample]) -> std::io::Result<Accepted> {
    let mut found = Accepted { texts: samples.len(), ..Accepted::default() };
    let folder = std::env::temp_dir().join(format!("stockade-accept-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("text");
    for sample in samples {
        std::fs::write(&file, &sample.text)?;
        let accepts = bash_accepts(&file)?;
        // Without program tables no nested text is read: `bash -n` does not look at those either.
        let (start, limits) = (StartState::default(), Limits::default());
        let tree = parse(&sample.text, &start, &Programs::default(), &limits).confirm(&[]);
        let mistake = tree.opaque_spans().iter().find(|it| it.reason == Reason::Syntax);
        match (accepts, mistake) {
            (true, Some(mistake)) => {
                let at = String::from_utf8_lossy(mistake.span.of(&sample.text));
                let line = at.lines().next().unwrap_or_default();
                found.refused.push((sample.id.clone(), format!("{}: {line}", mistake.detail)));
            }
            (false, None) => found.more += 1,
            (true, None) | (false, Some(_)) => {}
        }
        found.by_bash += usize::from(accepts);
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(found)
}

/// Reads the files of a folder, and of those in it, each as a text.
///
/// # Errors
/// The folder cannot be read.
pub fn scripts(folder: &Path) -> std::io::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let id = entry.path().display().to_string();
                samples.push(Sample { id, text: std::fs::read(entry.path())? });
            }
        }
    }
    samples.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(samples)
}

/// With `-n` bash reads commands and runs none.
fn bash_accepts(file: &Path) -> std::io::Result<bool> {
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-n"]).arg(file);
    bash.env_clear().env("LC_ALL", "C.UTF-8").env("PATH", "/usr/bin:/bin");
    bash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(bash.status()?.success())
}
