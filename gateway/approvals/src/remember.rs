//! Writes what a person allowed into the local settings of a project, leaving the rest of the file as it is, and
//! keeps git from carrying the file.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use stockade_base::json_text;
use stockade_settings::trust;

/// The local settings of a project, for rules that a person allows for good.
#[derive(Debug)]
pub struct LocalSettings {
    /// The project.
    pub project: PathBuf,
    /// The state directory.
    pub state: PathBuf,
}

impl stockade_egress::Saving for LocalSettings {
    fn file(&self) -> PathBuf {
        local_file(&self.project)
    }

    fn save(&self, keys: &[&str], rule: &str) -> io::Result<PathBuf> {
        remember(&self.project, &self.state, keys, rule)
    }
}

/// Largest file that is edited, in bytes.
const MAX_BYTES: u64 = 1 << 20;
const EMPTY: &str = "{\n  \"permissions\": {\n    \"allow\": [\n    ]\n  }\n}\n";

/// Returns the file into which a lasting permission goes.
pub fn local_file(project: &Path) -> PathBuf {
    project.join(".stockade/settings.local.json")
}

/// Adds `rule` to the list at `keys` of the local settings of `project`; blocks on the file system.
pub fn remember(project: &Path, state: &Path, keys: &[&str], rule: &str) -> io::Result<PathBuf> {
    let file = local_file(project);
    let folder = project.join(".stockade");
    match folder.symlink_metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(io::Error::other("`.stockade` is not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&folder)?,
        Err(error) => return Err(error),
    }
    let before = read(&file)?;
    if before.as_ref().is_some_and(|text| !trust::is_trusted(state, &file, text.as_bytes())) {
        return Err(io::Error::other(
            "its content is not trusted, so nothing is written to it; see `stockade policy trust`",
        ));
    }
    let text = match &before {
        None if keys == ["permissions", "allow"] => with_rule(EMPTY, keys, rule),
        None => with_rule("{}\n", keys, rule),
        Some(text) => with_rule(text, keys, rule),
    };
    let text = text.ok_or_else(|| io::Error::other("the file is not a settings file"))?;
    replace(&file, &text)?;
    trust::trust(state, &file, text.as_bytes())?;
    ignore(project)?;
    Ok(file)
}

fn read(file: &Path) -> io::Result<Option<String>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = File::options();
    let opened = options.read(true).custom_flags(flags.bits().cast_signed()).open(file);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    opened.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    Ok(Some(text))
}

/// Writes a file whole or not at all.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let new = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let mode = file.metadata().map_or(0o644, |found| {
        use std::os::unix::fs::PermissionsExt as _;
        found.permissions().mode() & 0o777
    });
    let written = File::options().write(true).create_new(true).mode(mode).open(&new).and_then(
        |mut opened| {
            opened.write_all(text.as_bytes())?;
            opened.sync_all()
        },
    );
    let renamed = written.and_then(|()| fs::rename(&new, file));
    if renamed.is_err() {
        let _ = fs::remove_file(&new); // the error that counts is the first
    }
    renamed?;
    File::open(folder)?.sync_all()
}

/// Returns `text` with `rule` in its list at `keys`; every other byte stays as it is. None when the text is no
/// settings object.
fn with_rule(text: &str, keys: &[&str], rule: &str) -> Option<String> {
    json_text::append_commented(text, keys, &serde_json::to_string(rule).ok()?)
}

/// Lists the file in `info/exclude` of the repository, which no commit carries.
fn ignore(project: &Path) -> io::Result<()> {
    let Some(info) = trust::common_directory(project).map(|common| common.join("info")) else {
        return Ok(());
    };
    match info.symlink_metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(io::Error::other("`info` of the repository is not a directory")),
        Err(_) => fs::create_dir(&info)?,
    }
    const LINE: &str = "/.stockade/settings.local.json";
    let exclude = info.join("exclude");
    let before = read(&exclude)?.unwrap_or_default();
    if before.lines().any(|line| line.trim() == LINE) {
        return Ok(());
    }
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    replace(&exclude, &format!("{before}{end}{LINE}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    const ALLOW: [&str; 2] = ["permissions", "allow"];

    fn check(before: &str, after: &str) {
        assert_eq!(with_rule(before, &ALLOW, "Bash(x \"y\")").as_deref(), Some(after));
    }

    #[test]
    fn a_rule_joins_the_list_and_all_else_stays() {
        let rule = r#""Bash(x \"y\")""#;
        check("{}", &format!("{{ \"permissions\": {{ \"allow\": [{rule}] }} }}"));
        check(
            "{\n\t\"env\": {\"a\":  \"b\"}\n}\n",
            &format!(
                "{{\n\t\"permissions\": {{ \"allow\": [{rule}] }},\n\t\"env\": {{\"a\":  \"b\"}}\n}}\n"
            ),
        );
        check(
            r#"{"permissions":{"deny":["a"]}}"#,
            &format!(r#"{{"permissions":{{"allow": [{rule}],"deny":["a"]}}}}"#),
        );
        check(
            r#"{"permissions":{"allow":[]}}"#,
            &format!(r#"{{"permissions":{{"allow":[{rule}]}}}}"#),
        );
        check(
            "{\"permissions\":{\"allow\":[\n  \"a\",\n  \"b\"\n]}}",
            &format!("{{\"permissions\":{{\"allow\":[\n  \"a\",\n  \"b\",\n  {rule}\n]}}}}"),
        );
        check(
            EMPTY,
            &format!(
                "{{\n  \"permissions\": {{\n    \"allow\": [\n      {rule}\n    ]\n  }}\n}}\n"
            ),
        );
        let there = format!(r#"{{"permissions":{{"allow":[{rule}]}}}}"#);
        check(&there, &there);
    }

    #[test]
    fn what_is_no_settings_file_is_left_alone() {
        for text in ["", "[]", "{", r#"{"permissions":[]}"#, r#"{"permissions":{"allow":"a"}}"#] {
            assert_eq!(with_rule(text, &ALLOW, "a"), None, "{text}");
        }
    }

    #[test]
    fn the_file_is_written_trusted_and_ignored() {
        let folder = Folder::new();
        let project = folder.path().join("p");
        fs::create_dir_all(project.join(".git")).unwrap();
        let state = folder.path().join("state");
        for _ in 0..2 {
            let file = remember(&project, &state, &ALLOW, "Bash(make:*)").unwrap();
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(
                text,
                "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(make:*)\"\n    ]\n  }\n}\n"
            );
            assert!(trust::is_trusted(&state, &file, text.as_bytes()));
        }
        let exclude = fs::read_to_string(project.join(".git/info/exclude")).unwrap();
        assert_eq!(exclude, "/.stockade/settings.local.json\n");
        let entries = fs::read_dir(project.join(".stockade")).unwrap().count();
        assert_eq!(entries, 1);
    }

    #[test]
    fn a_file_whose_content_is_not_trusted_is_not_written() {
        let folder = Folder::new();
        folder.write(".stockade/settings.local.json", "{}");
        assert!(remember(folder.path(), &folder.path().join("state"), &ALLOW, "a").is_err());
        let text = fs::read_to_string(super::local_file(folder.path())).unwrap();
        assert_eq!(text, "{}");
    }

    #[test]
    fn a_host_goes_to_its_own_list() {
        let folder = Folder::new();
        let keys = ["sandbox", "network", "allowedDomains"];
        let state = folder.path().join("state");
        for host in ["a.example", "b.example:22"] {
            remember(folder.path(), &state, &keys, host).unwrap();
        }
        let text = fs::read_to_string(super::local_file(folder.path())).unwrap();
        let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({"sandbox": {"network": {"allowedDomains": ["a.example", "b.example:22"]}}});
        assert_eq!(settings, expected);
    }
}
