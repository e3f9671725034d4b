//! The working directory of a session: a `cd` counts for its next call, as long as it leads to where its calls may work.

use std::path::Path;

use super::Gateway;
use super::calling::Calling;
use super::steps::Beside;
use crate::judge::Scene;
use crate::plan::carried::{self, Carried};
use crate::protocol::errors::Failure;
use crate::protocol::types::CommandRequest;
use crate::response::Ended;

impl Gateway {
    /// Finds the scene of a call, and what its command may get, which another thread goes on to find. A call goes on where the
    /// last one of its session ended, if it wants to; also returns what is told where it cannot.
    pub(super) async fn scene_of_session(
        &self,
        caller: &Calling,
        request: &mut CommandRequest,
    ) -> Result<(Scene, Option<Beside>, Option<String>), Failure> {
        let Some(to) = self.carried(request).await? else {
            let (scene, beside) = self.scene_and_more(caller, request).await?;
            return Ok((scene, beside, None));
        };
        // Project, settings and the `./` of rules stay those of where the caller is.
        let from = std::mem::replace(&mut request.cwd, to);
        request.context.session_directory = Some(from.clone());
        match self.scene_and_more(caller, request).await {
            Ok((scene, beside)) if may_work(&scene, &scene.place.cwd) => {
                return Ok((scene, beside, None));
            }
            // Any other fault of the call is found again below.
            Ok(_) | Err(_) => {}
        }
        let to = std::mem::replace(&mut request.cwd, from);
        request.context.session_directory = None;
        let (scene, beside) = self.scene_and_more(caller, request).await?;
        let note = format!(
            "the command runs in `{}`: the last command of the session ended in `{}`, which is gone or outside of the \
             project now",
            scene.place.cwd.display(),
            to.escape_debug()
        );
        Ok((scene, beside, Some(note)))
    }

    /// Returns the directory in which a call goes on, if that is not its own.
    async fn carried(&self, request: &CommandRequest) -> Result<Option<String>, Failure> {
        let session = request.context.session.clone();
        let wants = request.carry_cwd && request.context.session_directory.is_none();
        let Some(session) = session.filter(|_| wants) else { return Ok(None) };
        let (state, cwd) = (self.places.state.clone(), request.cwd.clone());
        self.blocking(move || {
            let carried = carried::read(&state, &session).filter(|it| it.from == cwd);
            Ok(carried.map(|it| it.to))
        })
        .await
    }

    /// Keeps for the next call of a session where the shell of this one ended.
    pub(super) async fn ended_in(
        &self,
        request: &CommandRequest,
        scene: &Scene,
        cwd: Option<String>,
    ) -> Result<Ended, Failure> {
        let Some(cwd) = cwd else { return Ok(Ended::default()) };
        // Of a front end that names where its session works it is known that it goes on where a call ended.
        let carries = request.carry_cwd || request.context.session_directory.is_some();
        if !may_work(scene, Path::new(&cwd)) {
            let stays = scene.place.cwd.display();
            let note = format!(
                "stockade: the working directory stays `{stays}`: `{}` is outside of the project and of its additional \
                 directories",
                cwd.escape_debug()
            );
            return Ok(Ended { cwd: Some(cwd), is_outside: true, note: carries.then_some(note) });
        }
        if let Some(session) = request.context.session.clone().filter(|_| request.carry_cwd) {
            let from = request.context.session_directory.as_ref().unwrap_or(&request.cwd).clone();
            let is_back = Path::new(&cwd) == scene.place.anchor();
            let (state, carried) = (self.places.state.clone(), Carried { from, to: cwd.clone() });
            let keep = move || {
                match is_back {
                    true => carried::forget(&state, &session),
                    // A full disk is told elsewhere; the next call then begins where its caller is.
                    false => drop(carried::keep(&state, &session, &carried)),
                }
                Ok(())
            };
            self.blocking(keep).await?;
        }
        Ok(Ended { cwd: Some(cwd), is_outside: false, note: None })
    }
}

/// Says whether calls of a session may work in `directory`: where it began, in its project, and in directories that were added.
fn may_work(scene: &Scene, directory: &Path) -> bool {
    let place = &scene.place;
    let added = scene.facts().additional_directories;
    let mut around = place.regions().into_iter().chain(added);
    directory == place.anchor() || around.any(|it| directory.starts_with(it))
}
