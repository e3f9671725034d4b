//! Calls that are only judged: with the settings of this machine, or with the inputs of a written case.

use std::path::{Path, PathBuf};

use serde_json::Value;
use stockade_policy::{HookEvent, Layer, Origin, SandboxState, SettingsText};

use crate::hooks::{self, Ran, Report, merge};
use crate::judge::{Hooks, Judged, Recorded, Scene};
use crate::places::Places;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Case, CheckRequest, DecisionView};
use crate::settings;
use crate::view;
use stockade_base::place::Place;

/// Returns the scene of a call that is only judged; blocks on the file system.
pub fn scene(request: &CheckRequest, places: &Places) -> Result<Scene, Failure> {
    let none = Case::default();
    let case = request.case.as_ref().unwrap_or(&none);
    let mut scene = match &case.layers {
        None => Scene::find(&request.cwd, &request.context, places)?,
        Some(layers) => {
            let home = case.home.as_deref().unwrap_or("/nonexistent");
            let cwd = absolute(&request.cwd)?;
            let project = match &request.context.project {
                Some(project) => absolute(project)?,
                None => cwd.clone(),
            };
            let (home, additional) = (absolute(home)?, Vec::new());
            let (roots, homes) = (Vec::new(), Vec::new());
            let place = Place { cwd, session: None, project, roots, home, homes, additional };
            let trusted = case.trusted.unwrap_or(true);
            let snapshot = settings::merge(texts(layers, &place, trusted)?)?;
            let scene = Scene::with(place, snapshot, &request.context, places)?;
            // A written case has the same answer whoever asks.
            Scene { root: false, is_written: true, ..scene }
        }
    };
    if request.caller_runs {
        scene.sandbox = SandboxState::Off;
        scene = scene.run_by_caller(&request.context);
    } else if case.sandbox_available == Some(false) && scene.sandbox == SandboxState::Enforced {
        scene.sandbox = SandboxState::Unavailable;
    }
    Ok(scene)
}

fn absolute(path: &str) -> Result<PathBuf, Failure> {
    Some(PathBuf::from(path)).filter(|path| path.is_absolute()).ok_or_else(|| {
        let message = format!("the path `{}` is not absolute", path.escape_debug());
        Failure::new(Code::InvalidRequest, message, "give an absolute path")
    })
}

/// Returns the settings texts of a written case.
fn texts(layers: &Value, place: &Place, trusted: bool) -> Result<Vec<SettingsText>, Failure> {
    let mut texts = Vec::new();
    for (name, layer, file, anchor) in [
        ("user", Layer::User, "<user>", place.home.join(".claude")),
        ("project", Layer::Project, "<project>", place.project.clone()),
        ("local", Layer::Local, "<local>", place.cwd.clone()),
        ("flag", Layer::Flag, "<flag>", place.cwd.clone()),
        ("policy", Layer::Policy, "<policy>", Path::new(crate::places::MANAGED).into()),
    ] {
        let Some(value) = layers.get(name) else { continue };
        let trusted = trusted || layer != Layer::Project;
        let (file, text) = (file.into(), value.to_string().into_bytes());
        texts.push(SettingsText { layer, file, text, anchor, trusted, above: false });
    }
    Ok(texts)
}

/// Returns what the hooks of a call that is only judged do.
pub fn hooks(request: &CheckRequest, scene: &Scene, means: hooks::Means) -> Hooks {
    let recorded = request.case.as_ref().and_then(|case| case.hooks_inline.as_ref());
    match (recorded, request.run_hooks) {
        (Some(outcomes), _) => Hooks::Recorded(Box::new(inline(outcomes))),
        (None, true) => Hooks::Run(means),
        (None, false) => {
            let hooks = &scene.snapshot.rules.settings().hooks;
            let matching = hooks::matching(hooks, HookEvent::PreToolUse, &request.tool);
            let notice = |index: usize| {
                let hook = hooks.get(index)?;
                Some(format!("the hook {} matches and was not run", hooks::describe(&hook.origin)))
            };
            let notices = matching.into_iter().filter_map(notice).collect();
            let before = Report { notices, ..Report::default() };
            Hooks::Recorded(Box::new(Recorded { before, requests: Vec::new() }))
        }
    }
}

/// Returns what recorded outcomes of hooks come to.
fn inline(outcomes: &[Value]) -> Recorded {
    let (mut before, mut requests) = (Vec::new(), Vec::new());
    for (index, outcome) in outcomes.iter().enumerate() {
        let text = |key: &str| outcome.get(key).and_then(Value::as_str);
        if outcome.get("async") == Some(&Value::Bool(true)) {
            continue;
        }
        let (event, ran) = match text("event") {
            None | Some("PreToolUse") => (HookEvent::PreToolUse, &mut before),
            Some("PermissionRequest") => (HookEvent::PermissionRequest, &mut requests),
            Some(_) => continue,
        };
        let layer = match text("source") {
            Some("policy") => Layer::Policy,
            Some("project") => Layer::Project,
            Some("local") => Layer::Local,
            Some("flag") => Layer::Flag,
            Some(_) | None => Layer::User,
        };
        let origin = Origin {
            layer,
            file: format!("<{}>", layer.name()).into(),
            line: 1,
            column: 1,
            pointer: format!("/hooks_inline/{index}"),
        };
        ran.push(hooks::recorded(event, index, origin, outcome));
    }
    // As in settings, those of the strongest layer come first.
    before.sort_by_key(|run: &Ran| std::cmp::Reverse(run.origin.layer));
    for (index, run) in before.iter_mut().enumerate() {
        run.index = index;
    }
    Recorded { before: merge::before(before), requests }
}

/// Returns the answer to a call that was only judged.
pub fn answer(request: &CheckRequest, scene: &Scene, judged: Judged) -> DecisionView {
    let evidence = request.explain.then(|| judged.evidence(scene)).flatten();
    let mut view = view::decision(&judged.verdict, &scene.snapshot, judged.input);
    if let Some(evidence) = evidence {
        view.explanation = evidence.text(&judged.verdict, &scene.place.cwd);
        view.explanation.push_str(&hooks::explain(&judged.hooks.ran));
        view.evidence = view::evidence(&evidence, &judged.verdict);
    }
    view::add_hooks(&mut view, judged.hooks);
    view
}
