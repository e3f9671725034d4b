//! Hooks for which nothing waits. They decide nothing; what they have to tell reaches the next call of the session.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stockade_policy::HookEvent;

use super::process::{self, Job};
use super::{HookAnswer, Means, answer};
use stockade_base::directories::private_directory;
use stockade_base::hex;
use stockade_wire::types::Context;

/// Most outcomes that wait for one session; what further hooks have to tell is lost.
const MOST_WAITING: usize = 64;
/// Longest outcome that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Starts a hook. What it answers at once is nothing, or that it could not be started.
pub(super) async fn start(
    job: &Job,
    event: HookEvent,
    means: &Means,
    context: &Context,
) -> Result<HookAnswer, String> {
    let report = report(means, context, event);
    process::start_beside(job, report.as_deref()).await.map(|()| HookAnswer::default())
}

/// Returns the file for the outcome of a hook; none when nobody is to be told of it, or too many wait.
fn report(means: &Means, context: &Context, event: HookEvent) -> Option<PathBuf> {
    let folder = folder(means, context)?;
    private_directory(&folder).ok()?;
    if std::fs::read_dir(&folder).ok()?.count() >= MOST_WAITING {
        return None;
    }
    let mut name = [0; 8];
    stockade_base::random::fill(&mut name).ok()?;
    Some(folder.join(format!("{}-{}.json", event.name(), hex(&name))))
}

/// Returns the folder of a session. Its name is a digest: what a front end calls its session names no path.
fn folder(means: &Means, context: &Context) -> Option<PathBuf> {
    // Of a command of an agent's session the agent's hook tells: the same hooks ran there.
    let session = context.session.as_ref().filter(|_| context.hook_session.is_none())?;
    let name: String = hex(&Sha256::digest(session)).chars().take(32).collect();
    Some(means.places.state.join("hooks").join(name))
}

/// Takes what hooks of a session have told since: texts for the agent, and texts for the person.
pub(super) async fn collect(means: &Means, context: &Context) -> (Vec<String>, Vec<String>) {
    let Some(folder) = folder(means, context) else { return (Vec::new(), Vec::new()) };
    // For most sessions there is none.
    if folder.symlink_metadata().is_err() {
        return (Vec::new(), Vec::new());
    }
    let taken = tokio::task::spawn_blocking(move || take(&folder)).await;
    let answers = taken.unwrap_or_default();
    let contexts = answers.iter().filter_map(|answer| answer.context.clone()).collect();
    (contexts, answers.into_iter().filter_map(|answer| answer.message).collect())
}

fn take(folder: &Path) -> Vec<HookAnswer> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    let mut answers = Vec::new();
    for file in files {
        let small = file.symlink_metadata().is_ok_and(|it| it.is_file() && it.len() <= LONGEST);
        let text = if small { std::fs::read(&file).ok() } else { None };
        // Answers in a file that cannot be removed would be told again with each call.
        if std::fs::remove_file(&file).is_ok() {
            answers.extend(text.and_then(|text| read(&file, &text)));
        }
    }
    if !answers.is_empty() {
        let _ = std::fs::remove_dir(folder); // one that is not empty is still needed
    }
    answers
}

/// Reads an outcome. A hook that failed has nothing to tell; nothing hung on it.
fn read(file: &Path, text: &[u8]) -> Option<HookAnswer> {
    let (event, _) = file.file_stem()?.to_str()?.split_once('-')?;
    let report: Value = serde_json::from_slice(text).ok()?;
    let bytes = |key: &str| STANDARD.decode(report.get(key)?.as_str()?).ok();
    let exit = report.get("exit")?.as_i64().and_then(|exit| i32::try_from(exit).ok());
    let (stdout, stderr) = (bytes("stdout")?, bytes("stderr")?);
    let mut answer = answer::read(HookEvent::named(event)?, exit, &stdout, &stderr).ok()?;
    if exit == Some(2) && answer.context.is_none() && !answer.reason.is_empty() {
        answer.context = Some(answer.reason.clone());
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_base::places::Places;

    #[test]
    fn what_a_hook_tells_about_a_command_of_an_agents_session_is_told_once() {
        let places = Places {
            state: "/state".into(),
            audit: "/state".into(),
            audit_state: "/state".into(),
            usual: None,
            socket: None,
            given: Vec::new(),
        };
        let start: stockade_spec::Start =
            |_, _, _| Err(stockade_spec::Error::Spec { reason: "nothing starts here".into() });
        let means = Means { executable: "/gate".into(), start, places };
        let named = |session: Option<&str>, hook_session: Option<&str>| {
            let (session, hook_session) =
                (session.map(str::to_owned), hook_session.map(str::to_owned));
            folder(&means, &Context { session, hook_session, ..Context::default() })
        };
        assert!(named(Some("s"), None).is_some_and(|path| path.starts_with("/state/hooks")));
        // The call by which the agent's hook asked has run the same hooks, and its next one tells what they say.
        assert_eq!(named(Some("s"), Some("s")), None);
        assert_eq!(named(None, Some("s")), None);
        assert_eq!(named(None, None), None);
    }
}
