//! How near a session is to where somebody works now.

use crate::workspace::Workspace;

/// Where somebody works now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Here {
    /// Working directory.
    pub cwd: String,
    /// Root of the repository around it.
    pub git_root: Option<String>,
    /// Address of the repository's `origin`.
    pub repository: Option<String>,
    /// Branch.
    pub branch: Option<String>,
}

/// How near a session is, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// The same repository and branch.
    Branch,
    /// The same repository.
    Repository,
    /// The same root of a repository without an address.
    Root,
    /// The same directory.
    Directory,
    /// Elsewhere.
    Other,
}

/// Returns how near a session is.
#[must_use]
pub fn nearness(session: &Workspace, here: &Here) -> Nearness {
    let same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    if same(&session.repository, &here.repository) {
        return match same(&session.branch, &here.branch) {
            true => Nearness::Branch,
            false => Nearness::Repository,
        };
    }
    if same(&session.git_root, &here.git_root) {
        return match same(&session.branch, &here.branch) {
            true => Nearness::Branch,
            false => Nearness::Root,
        };
    }
    match session.cwd == here.cwd {
        true => Nearness::Directory,
        false => Nearness::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_counts_most_and_elsewhere_least() {
        let some = |text: &str| Some(text.to_owned());
        let here = Here {
            cwd: "/p/sub".into(),
            git_root: some("/p"),
            repository: some("git@h:p"),
            branch: some("main"),
        };
        let session = |cwd: &str, root: &str, repository: Option<&str>, branch: &str| {
            let session = Workspace {
                cwd: cwd.into(),
                git_root: some(root),
                repository: repository.map(str::to_owned),
                branch: some(branch),
                ..Workspace::default()
            };
            nearness(&session, &here)
        };
        assert_eq!(session("/q", "/q", Some("git@h:p"), "main"), Nearness::Branch);
        assert_eq!(session("/p/sub", "/p", Some("git@h:p"), "other"), Nearness::Repository);
        assert_eq!(session("/p", "/p", None, "other"), Nearness::Root);
        assert_eq!(session("/p/sub", "/q", None, "main"), Nearness::Directory);
        assert_eq!(session("/q", "/q", None, "main"), Nearness::Other);
    }
}
