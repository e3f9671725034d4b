//! Options and surroundings of a call, in the form that requests need.
//!
//! The environment is read here and handed on; nothing below reads it.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::Common;
use crate::prefork::{Prefork, Purpose};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CommandText, Context};
use crate::request::{quoted, remade};
use crate::route::{Options, Route};
use crate::serve::shell::inside::own_confinement;

/// Longest command text that is read from standard input, in bytes.
const LONGEST_TEXT: u64 = 4 << 20;

/// The options and surroundings of one call, checked.
#[derive(Debug)]
pub(crate) struct Call {
    /// The gateway to use.
    pub options: Options,
    /// Context for requests.
    pub context: Context,
    /// Working directory, absolute, as it was given.
    pub cwd: String,
}

impl Call {
    /// Returns the working directory without links, for messages.
    pub(crate) fn shown_directory(&self) -> String {
        let real = Path::new(&self.cwd).canonicalize().ok();
        real.and_then(|real| text_of(&real).ok()).unwrap_or_else(|| self.cwd.clone())
    }
}

/// Reads the surroundings of a call that comes through `door`.
pub(crate) fn call(common: &Common, door: &str) -> Result<Call, Failure> {
    let here = here(common)?;
    let cwd = match &common.cwd {
        Some(directory) => directory_of(&here.join(directory))?,
        None => text_of(&as_told(&here))?,
    };
    let context = Context {
        settings: common
            .settings
            .iter()
            .map(|source| settings_source(source, &here))
            .collect::<Result<_, _>>()?,
        setting_sources: common.setting_sources.as_deref().map(sources).transpose()?,
        mode: common.permission_mode.clone(),
        allowed_tools: common.allowed_tools.iter().flat_map(|text| rules(text)).collect(),
        disallowed_tools: common.disallowed_tools.iter().flat_map(|text| rules(text)).collect(),
        import: common.import.clone(),
        additional_directories: common
            .add_dir
            .iter()
            .map(|directory| directory_of(&here.join(directory)))
            .collect::<Result<_, _>>()?,
        managed: Vec::new(),
        plugins: Vec::new(),
        project: common.project.as_ref().map(|path| directory_of(&here.join(path))).transpose()?,
        session_directory: None,
        profile: common.profile.clone(),
        session: common.session.clone().or_else(|| variable("STOCKADE_SESSION")),
        hook_session: None,
        hook_question: None,
        interactive: false,
        environment: environment(),
        door: door.to_owned(),
        agent: variable("STOCKADE_AGENT"),
    };
    Ok(Call { options: options(common, &here), context, cwd })
}

/// Returns where relative paths of a call begin: a removed directory does not prevent work in another.
fn here(common: &Common) -> Result<PathBuf, Failure> {
    let named = common.cwd.as_ref().filter(|path| path.is_absolute());
    match (std::env::current_dir(), named) {
        (Ok(here), _) => Ok(here),
        (Err(_), Some(named)) => Ok(named.clone()),
        (Err(error), None) => Err(unusable_directory(error)),
    }
}

/// Returns which gateway the options name.
pub(crate) fn options(common: &Common, here: &Path) -> Options {
    let at = stockade_client::Options {
        socket: common.socket.as_ref().map(|path| here.join(path)),
        embedded: common.no_daemon,
        audit_directory: common.audit_dir.as_ref().map(|path| here.join(path)),
        state_directory: common.state_dir.as_ref().map(|path| here.join(path)),
        ..stockade_client::Options::from_environment()
    };
    Options { at, ..Options::default() }
}

/// Forks what this process will need if it is the gateway itself, or takes what was forked for it. First of all,
/// while there is one thread and nothing but the command line was read.
pub(crate) fn prefork(common: &Common, purpose: Purpose, foreseen: Option<Prefork>) -> Prefork {
    match may_run(common) {
        true => Prefork::default(),
        false => foreseen.unwrap_or_else(|| Prefork::fork(purpose)),
    }
}

/// Forks as [`prefork`] does before the command line is understood, where its words let expect that this process is the
/// gateway: the copies begin sooner, and hold less. What was forked in vain ends when it is dropped.
pub(crate) fn foreseen(words: &[OsString]) -> Option<Prefork> {
    let purpose = match words.get(1)?.to_str()? {
        "run" => Purpose::Run { is_read: true },
        "check" => Purpose::Judge,
        _ => return None,
    };
    let embedded = words.iter().take_while(|word| *word != "--").any(|word| word == "--no-daemon");
    let expected = embedded || stockade_client::Options::from_environment().stays_embedded();
    expected.then(|| Prefork::fork(purpose))
}

/// Says whether a gateway may run where the options say.
pub(crate) fn may_run(common: &Common) -> bool {
    // Only whether places are named matters here, not where they are.
    !options(common, Path::new("/")).stays_embedded()
}

/// How long a hook waits for a gateway that starts: it has to answer in time even without one.
const PATIENCE: Duration = Duration::from_secs(3);
/// With the value `manual`, no hook starts a gateway.
const GATEWAY: &str = "STOCKADE_GATEWAY";

/// Starts a gateway for an agent, whose sessions live there from call to call, and says whether one runs now. Where the
/// options name another place, or none can be started, each call is judged by itself.
pub(super) fn start_for_agent(common: &Common) -> bool {
    let at = options(common, Path::new("/")).at;
    let is_usual = at.socket.is_none()
        && !at.embedded
        && at.audit_directory.is_none()
        && at.state_directory.is_none();
    // There process 1 is confined as well, and cannot be compared with.
    is_usual
        && !own_confinement()
        && variable(GATEWAY).as_deref() != Some("manual")
        && stockade_client::start::gateway(&at, PATIENCE).is_ok()
}

/// Returns a client of the gateway that runs where the options say; none when this process is to be the gateway.
pub(crate) fn running(common: &Common) -> Result<Option<Route>, Failure> {
    let here = here(common)?;
    Route::reach(&options(common, &here))
}

/// Returns a client of gateway `pid`, which left its place to one of a new executable; none where it did not.
pub(crate) fn left_by(common: &Common, pid: u32) -> Result<Option<Route>, Failure> {
    let here = here(common)?;
    Route::left_by(&options(common, &here), pid)
}

fn unusable_directory(error: std::io::Error) -> Failure {
    Failure::new(
        Code::DirectoryUnusable,
        format!("the working directory cannot be used: {error}"),
        "change to a directory that exists, or specify one by its absolute path with `--cwd`",
    )
}

/// Returns what is to run: one operand is shell text, several are literal words, a lone `-` stands for
/// shell text on standard input.
pub(crate) fn command_text(operands: Vec<String>) -> Result<CommandText, Failure> {
    match operands.as_slice() {
        [dash] if dash == "-" => Ok(CommandText::Shell(standard_input("the command text")?)),
        [text] => Ok(CommandText::Shell(text.clone())),
        _ => Ok(CommandText::Words(operands)),
    }
}

/// Reads all of standard input as text; `what` names it in messages.
pub(crate) fn standard_input(what: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(LONGEST_TEXT + 1).read_to_end(&mut bytes).map_err(|error| {
        Failure::new(
            Code::InvalidRequest,
            format!("{what} cannot be read from standard input: {error}"),
            "",
        )
    })?;
    if bytes.len() as u64 > LONGEST_TEXT {
        let message = format!("{what} on standard input is longer than {LONGEST_TEXT} bytes");
        return Err(Failure::new(
            Code::InvalidRequest,
            message,
            "put it into a script and run that",
        ));
    }
    String::from_utf8(bytes).map_err(|_| {
        Failure::new(
            Code::NotUtf8,
            format!("{what} on standard input is not UTF-8"),
            "write bytes above 127 as escapes, such as $'\\xff' in shell text",
        )
    })
}

/// Returns the command as one text: the one that is judged, here and when it is run.
pub(crate) fn shown(command: &CommandText) -> String {
    match command {
        CommandText::Shell(text) => text.clone(),
        CommandText::Words(words) => quoted(words),
        CommandText::Tool(call) => call.name.clone(),
    }
}

/// Returns variable `name` of the environment, if it is there, not empty and UTF-8.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the variables that are UTF-8, in order. One that is not cannot be handed on as JSON, and a
/// command starts without it.
pub(super) fn environment() -> Vec<(String, String)> {
    let text =
        |pair: (OsString, OsString)| Some((pair.0.into_string().ok()?, pair.1.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// A settings source: JSON text as it stands, or the absolute path of a file.
fn settings_source(source: &str, here: &Path) -> Result<String, Failure> {
    if source.trim_start().starts_with('{') {
        return Ok(source.to_owned());
    }
    text_of(&here.join(source))
}

fn sources(list: &str) -> Result<Vec<String>, Failure> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| match name {
            "user" | "project" | "local" => Ok(name.to_owned()),
            _ => Err(Failure::new(
                Code::InvalidRequest,
                format!("invalid layer `{name}` in `--setting-sources`"),
                "use user, project and local, separated by commas",
            )),
        })
        .collect()
}

/// Splits a list of rules at commas and white space outside parentheses.
fn rules(list: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let (mut depth, mut escaped) = (0usize, false);
    for character in list.chars() {
        let separates = depth == 0 && (character == ',' || character.is_whitespace());
        match (escaped, character) {
            (false, '(') => depth += 1,
            (false, ')') => depth = depth.saturating_sub(1),
            (false | true, _) => {}
        }
        escaped = character == '\\' && !escaped;
        match (separates, found.last_mut()) {
            (false, Some(rule)) => rule.push(character),
            (true, _) | (false, None) => found.push(String::new()),
        }
    }
    found.retain(|rule| !rule.is_empty());
    found
}

/// Returns the name by which the caller's shell came to the directory `here`, if it has told one: the links in it count.
fn as_told(here: &Path) -> PathBuf {
    let told = std::env::var_os("PWD").map(PathBuf::from).filter(|told| told.is_absolute());
    let told = told.filter(|told| told.canonicalize().is_ok_and(|real| real == here));
    told.unwrap_or_else(|| here.to_path_buf())
}

/// Returns the path of a directory as it was given: which links it goes over, the gateway looks at.
fn directory_of(path: &Path) -> Result<String, Failure> {
    let unusable = |error: std::io::Error| {
        let message = format!("the directory `{}` cannot be used: {error}", path.display());
        Failure::new(Code::DirectoryUnusable, message, remade(&path.to_string_lossy(), &error))
    };
    let real: PathBuf = path.canonicalize().map_err(unusable)?;
    if !real.is_dir() {
        return Err(unusable(std::io::ErrorKind::NotADirectory.into()));
    }
    text_of(path)
}

fn text_of(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(
            Code::NotUtf8,
            format!("the path `{}` is not UTF-8", path.display()),
            "rename it, or work elsewhere",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_lists_are_split_outside_parentheses() {
        assert_eq!(
            rules("Bash(git log:*), Read Bash(echo \\(,)"),
            ["Bash(git log:*)", "Read", "Bash(echo \\(,)"]
        );
    }
}
