//! `stockade review`: what confined commands and agents changed of the files that a person's tools execute.

mod shown;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::review::Review;
use super::ask::Terminal;
use super::{context, failure};
use crate::audit::record::{Body, GrantRecord};
use crate::audit::{GatewayMode, Log};
use crate::cli::exit::ExitCode;
use crate::places::Places;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::response::unrecorded;
use crate::review::ledger::Ledger;
use crate::serve::shell::inside::own_confinement;
use shown::Shown;
use stockade_base::place::Place;

/// Something waits for a look.
const FOUND: u8 = 1;

/// Shows what waits for a look, and marks it as looked at if that is asked for.
pub(super) async fn review(options: Review) -> Result<ExitCode, Failure> {
    if own_confinement() {
        let message = "a sandboxed command cannot see the files to review";
        let help = "run `stockade review` in your own shell";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let call = context::call(&options.common, "review")?;
    let places = Places::find(&call.options, |name| std::env::var_os(name))?;
    let place = Place::find(&call.cwd, &call.context)?;
    let waiting = waiting(&places, &place, &options)?;
    if options.common.json {
        let files: Vec<_> = waiting.files.iter().map(Shown::json).collect();
        let told = json!({ "files": files, "more": waiting.more, "unwatched": waiting.unseen });
        failure::print(&told.to_string()).map_err(failure::unwritable)?;
    } else {
        let text = waiting.text(&place.project, &options);
        failure::print(text.trim_end()).map_err(failure::unwritable)?;
    }
    match (options.done, waiting.is_empty()) {
        (_, true) => Ok(ExitCode::SUCCESS),
        (false, false) => Ok(ExitCode::from(FOUND)),
        (true, false) => mark(&places, waiting).await,
    }
}

/// Changes that wait for a look.
struct Waiting {
    files: Vec<Shown>,
    /// Changes that found no room in the ledger.
    more: u64,
    /// Commands that nothing watched.
    unseen: u64,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.more == 0 && self.unseen == 0
    }

    fn text(&self, project: &Path, options: &Review) -> String {
        if self.is_empty() {
            return "stockade: no files to review".to_owned();
        }
        let whole = options.diff || options.done;
        let mut text: String =
            self.files.iter().map(|file| format!("{}\n", file.text(project, whole))).collect();
        if self.more > 0 {
            text.push_str(&format!("{} more changes\n", self.more));
        }
        if self.unseen > 0 {
            text.push_str(&format!(
                "{} commands ran without a record of their changes: check `git status` as well\n",
                self.unseen
            ));
        }
        if !options.done {
            text.push_str("to mark all as reviewed: stockade review --done");
        }
        text
    }
}

fn waiting(places: &Places, place: &Place, options: &Review) -> Result<Waiting, Failure> {
    let (ledger, journals) =
        Ledger::with_journals(&places.state).map_err(|it| lost(places, &it))?;
    let here = |path: &PathBuf| {
        let path = place.cwd.join(path);
        path.canonicalize().unwrap_or(path)
    };
    let wanted: Vec<PathBuf> = options.paths.iter().map(here).collect();
    let is_wanted = |path: &Path| wanted.is_empty() || wanted.iter().any(|it| path.starts_with(it));
    let concerned = ledger.files.iter().filter(|entry| {
        let is_here = entry.path().starts_with(&place.project)
            || entry.writers.iter().any(|writer| writer.project == place.project);
        (options.all || is_here || !wanted.is_empty()) && is_wanted(entry.path())
    });
    let mut files: Vec<Shown> = concerned
        .filter_map(|entry| Shown::of(entry, &ledger, &places.state, place, &journals))
        .collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let whole = wanted.is_empty();
    Ok(Waiting {
        files,
        more: if whole { ledger.more } else { 0 },
        unseen: if whole { ledger.unseen } else { 0 },
    })
}

/// Marks what was shown as looked at, if a person at the terminal says so.
async fn mark(places: &Places, waiting: Waiting) -> Result<ExitCode, Failure> {
    let count = waiting.files.len();
    let Some(terminal) = Terminal::open() else {
        failure::tell(&format!(
            "stockade: needs a person: mark {count} files as reviewed\n  try: `stockade review --done` at a terminal"
        ));
        return Ok(ExitCode::from(failure::NEEDS_PERSON));
    };
    let prompt = format!("stockade: mark {count} files as reviewed? yes, no: ");
    if !terminal.confirm("", &prompt) {
        failure::tell("stockade: nothing was marked");
        return Ok(ExitCode::from(failure::DENIED));
    }
    places.prepare()?;
    let log = Log::open(&places.of_log(), GatewayMode::Embedded).map_err(|it| unrecorded(&it))?;
    for file in &waiting.files {
        log.record(Body::Grant(grant(file))).await.map_err(|error| unrecorded(&error))?;
    }
    Ledger::change(&places.state, |ledger| {
        for file in &waiting.files {
            ledger.looked(&file.path, file.now.clone(), file.goes_on);
        }
        ledger.more = ledger.more.saturating_sub(waiting.more);
        ledger.unseen = ledger.unseen.saturating_sub(waiting.unseen);
        Ok(())
    })
    .map_err(|error| lost(places, &error))?;
    failure::tell(&format!("stockade: marked {count} files as reviewed"));
    Ok(ExitCode::SUCCESS)
}

fn grant(file: &Shown) -> GrantRecord {
    let digest = file.now.held.digest().unwrap_or("none");
    let rule = format!("reviewed {}, sha256 {digest}", file.path.display());
    GrantRecord {
        rule: rule.into(),
        layer: "user",
        action: "made",
        who: Some(crate::audit::record::who()),
        expires: None,
    }
}

fn lost(places: &Places, error: &io::Error) -> Failure {
    let place = words::one_line(&places.state.join("review").to_string_lossy());
    let message = format!("cannot read the files to review in `{place}`: {error}");
    Failure::new(
        Code::StateUnusable,
        message,
        "review all changes with `git diff`, then remove that directory",
    )
}
