//! Settings that change while a gateway stays: hooks of ConfigChange are told, and may keep a change from counting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use stockade_policy::{HookEvent, HookVerdict, Layer, SettingsText};

use super::Gateway;
use super::calling::Calling;
use crate::hooks::Call;
use crate::judge::Scene;
use crate::protocol::errors::Failure;
use crate::protocol::types::Context;
use crate::settings::{self, Snapshot};
use stockade_base::place::variable;

/// Most sets of settings files that are remembered. Of further ones no change is told.
const MOST_KNOWN: usize = 256;

/// The settings that counted last, by where they are read from.
#[derive(Debug, Default)]
pub(super) struct Changes {
    known: Mutex<BTreeMap<String, Known>>,
}

/// Settings as they were read last, and as they count.
#[derive(Debug, Clone)]
struct Known {
    /// Digest of what the files held.
    seen: String,
    counts: Arc<Snapshot>,
}

/// A file that is not as it was.
struct Change {
    source: &'static str,
    layer: Layer,
    file: std::path::PathBuf,
}

impl Gateway {
    /// Returns the scene with the settings that count, after hooks were told of what changed since the last call.
    pub(super) async fn settled(
        &self,
        caller: &Calling,
        scene: Scene,
        context: &Context,
    ) -> Result<Scene, Failure> {
        let Some(changes) = &self.changes else { return Ok(scene) };
        let key = key(&scene, context);
        let seen = scene.snapshot.sha256.clone();
        let known = changes.of(&key);
        let counts = match known {
            None => scene.snapshot.clone(),
            Some(known) if known.seen == seen => known.counts,
            Some(known) => self.change(caller, &known.counts, &scene, context).await?,
        };
        changes.keep(key, Known { seen, counts: counts.clone() });
        if counts.sha256 == scene.snapshot.sha256 {
            return Ok(scene);
        }
        Scene::with(scene.place, counts, context, &self.places)
    }

    /// Tells the hooks that counted so far of each changed file, and returns the settings that count from now on.
    async fn change(
        &self,
        caller: &Calling,
        old: &Arc<Snapshot>,
        scene: &Scene,
        context: &Context,
    ) -> Result<Arc<Snapshot>, Failure> {
        let heard =
            old.rules.settings().hooks.iter().any(|hook| hook.event == HookEvent::ConfigChange);
        if !heard {
            return Ok(scene.snapshot.clone());
        }
        let before = Scene { snapshot: old.clone(), ..scene.clone() };
        let (mut texts, mut told) = (scene.snapshot.texts.clone(), Vec::new());
        let id = crate::random::call_id()?;
        for change in changed(&old.texts, &scene.snapshot.texts) {
            let further = json!({ "file_path": change.file });
            let call = Call {
                event: HookEvent::ConfigChange,
                subject: change.source,
                input: &serde_json::Value::Null,
                further: &further,
                id: &id,
                mode: scene.mode.name(),
                place: &scene.place,
                context,
                covers: &|hook| hook.condition.is_none(),
            };
            let said = self.tell(&before, &call, caller, None, None).await?;
            told.extend(said.notices);
            // Changes of managed settings count even if a hook denies them.
            let outcome = said.outcome.filter(|it| it.verdict == HookVerdict::Deny);
            if let Some(outcome) = outcome.filter(|_| change.layer != Layer::Policy) {
                put_back(&mut texts, &old.texts, &change);
                let (file, reason) = (change.file.display(), outcome.reason);
                told.push(format!("the change of {file} is ignored: a hook blocked it: {reason}"));
            }
        }
        let mut counts = Snapshot::clone(&*settings::merge(texts)?);
        counts.warnings.extend(told);
        Ok(Arc::new(counts))
    }
}

impl Changes {
    fn of(&self, key: &str) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: String, value: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST_KNOWN || known.contains_key(&key) {
            known.insert(key, value);
        }
    }
}

/// Names where the settings of a call are read from.
fn key(scene: &Scene, context: &Context) -> String {
    let place = &scene.place;
    json!([
        place.project,
        place.home,
        place.anchor(),
        variable(context, "XDG_CONFIG_HOME"),
        context.setting_sources,
        context.settings,
        context.managed,
        context.plugins,
        context.allowed_tools,
        context.disallowed_tools,
        context.import,
        context.profile,
    ])
    .to_string()
}

/// Returns the files that were added, removed or are not as they were.
fn changed(old: &[SettingsText], new: &[SettingsText]) -> Vec<Change> {
    let same = |a: &SettingsText, b: &SettingsText| {
        is_of(a, b.layer, &b.file) && a.text == b.text && a.trusted == b.trusted
    };
    let of = |text: &SettingsText| {
        let source = match text.layer {
            Layer::User => "user_settings",
            Layer::Project => "project_settings",
            Layer::Local => "local_settings",
            Layer::Policy => "policy_settings",
            Layer::Builtin | Layer::Flag => return None,
        };
        Some(Change { source, layer: text.layer, file: text.file.clone() })
    };
    let differs = |text: &&SettingsText| !old.iter().any(|known| same(known, text));
    let is_gone =
        |text: &&SettingsText| !new.iter().any(|found| is_of(found, text.layer, &text.file));
    let changed = new.iter().filter(differs).chain(old.iter().filter(is_gone));
    changed.filter_map(of).collect()
}

/// Puts a file back as it was, or takes it out when it was not there.
fn put_back(texts: &mut Vec<SettingsText>, old: &[SettingsText], change: &Change) {
    let was = old.iter().find(|text| is_of(text, change.layer, &change.file));
    let place = texts.iter().position(|text| is_of(text, change.layer, &change.file));
    match (was, place.and_then(|place| texts.get_mut(place))) {
        (Some(was), Some(place)) => *place = was.clone(),
        (Some(was), None) => texts.push(was.clone()),
        (None, _) => texts.retain(|text| !is_of(text, change.layer, &change.file)),
    }
}

fn is_of(text: &SettingsText, layer: Layer, file: &std::path::Path) -> bool {
    text.layer == layer && text.file == file
}
