//! `workspace.yaml`: where a session works, for people and for lists that need not read the log.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::Error;
use crate::event::now;

/// Name of the file.
pub(crate) const FILE: &str = "workspace.yaml";

/// Where a session works.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Identity of the session.
    pub id: String,
    /// Directory in which it works.
    pub cwd: String,
    /// Root of the repository around it.
    pub git_root: Option<String>,
    /// Address of the repository's `origin`.
    pub repository: Option<String>,
    /// Branch when the session was last open.
    pub branch: Option<String>,
    /// Name, or the first words.
    pub name: Option<String>,
    /// A person gave the name.
    pub user_named: bool,
    /// When it was made, as RFC 3339 has it.
    pub created_at: String,
    /// When it was last open.
    pub updated_at: String,
}

impl Workspace {
    /// Reads the file of the session in `folder`. A member that is not known is skipped.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read(folder: &Path) -> Result<Workspace, Error> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path, "read"))?;
        Ok(Workspace::parse(&text))
    }

    fn parse(text: &str) -> Workspace {
        let mut found = Workspace::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(": ") else { continue };
            // Each value is a JSON string, which is a YAML string as well (YAML 1.2, section 1.3), or a plain word.
            let text = serde_json::from_str::<String>(value).unwrap_or_else(|_| value.to_owned());
            match key {
                "id" => found.id = text,
                "cwd" => found.cwd = text,
                "git_root" => found.git_root = Some(text),
                "repository" => found.repository = Some(text),
                "branch" => found.branch = Some(text),
                "name" => found.name = Some(text),
                "user_named" => found.user_named = text == "true",
                "created_at" => found.created_at = text,
                "updated_at" => found.updated_at = text,
                _ => {}
            }
        }
        found
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: &str| {
            let value = serde_json::to_string(value).unwrap_or_default();
            let _ = writeln!(text, "{key}: {value}"); // a string takes everything
        };
        line("id", &self.id);
        line("cwd", &self.cwd);
        for (key, value) in [
            ("git_root", &self.git_root),
            ("repository", &self.repository),
            ("branch", &self.branch),
            ("name", &self.name),
        ] {
            if let Some(value) = value {
                line(key, value);
            }
        }
        line("created_at", &self.created_at);
        line("updated_at", &self.updated_at);
        let _ = writeln!(text, "user_named: {}", self.user_named);
        text
    }

    /// Writes the file of the session in `folder`, in one step. `updated_at` is now.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&mut self, folder: &Path) -> Result<(), Error> {
        self.updated_at = now();
        if self.created_at.is_empty() {
            self.created_at.clone_from(&self.updated_at);
        }
        let (path, new) = (folder.join(FILE), folder.join("workspace.yaml.new"));
        std::fs::write(&new, self.text()).map_err(Error::file(&new, "written"))?;
        std::fs::rename(&new, &path).map_err(Error::file(&path, "written"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_whatever_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let mut workspace = Workspace {
            id: "a".into(),
            cwd: "/p: \"x\"\n#y".into(),
            branch: Some("true".into()),
            name: Some("a: b".into()),
            user_named: true,
            ..Workspace::default()
        };
        workspace.write(folder.path()).unwrap();
        assert_eq!(Workspace::read(folder.path()).unwrap(), workspace);
        let more = format!("later: 1\n{}", workspace.text());
        assert_eq!(Workspace::parse(&more), workspace);
    }
}
