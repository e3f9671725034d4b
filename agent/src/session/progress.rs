//! Steps of the session for the gateway's records: its beginning and end, its turns with what they used, and its completion.

use std::collections::BTreeMap;

use stockade_model::{Spent, Usage};
use stockade_turn::End;
use stockade_wire::progress::{Step, Used};

use super::Conversation;

/// How far the telling of steps has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steps {
    begun: bool,
    in_turn: bool,
    completed: bool,
}

impl Conversation {
    /// Tells that the session begins, or goes on; once.
    pub(super) async fn tell_start(&mut self, source: &str) {
        self.steps.begun = true;
        self.door.progress(Step::Start { source: source.to_owned() }).await;
    }

    /// Tells that a turn begins, once for each turn and in a session that has begun.
    pub(super) async fn tell_turn(&mut self) {
        if self.steps.begun && !self.steps.in_turn {
            self.steps.in_turn = true;
            self.door.progress(Step::Turn {}).await;
        }
    }

    /// Tells how the turn ended and what was used since the last one, and whether the model gave the result that was asked for.
    pub(super) async fn tell_turn_end(&mut self, end: &End) {
        if !std::mem::take(&mut self.steps.in_turn) {
            return;
        }
        if self.door.session().structured().is_some() && !self.steps.completed {
            self.steps.completed = true;
            self.door.progress(Step::Completed {}).await;
        }
        let used = self.ledger.since(&self.reported);
        self.reported = self.ledger.clone();
        let (outcome, usage) = (word(end).to_owned(), used_by_model(used.aggregate()));
        self.door.progress(Step::TurnEnd { outcome, usage }).await;
    }

    /// Tells that the session is over.
    pub(super) async fn tell_end(&self) {
        if self.steps.begun {
            self.door.progress(Step::End {}).await;
        }
    }
}

fn word(end: &End) -> &'static str {
    match end {
        End::Finished { .. } => "finished",
        End::Turns => "max_turns",
        End::Budget => "budget",
        End::Interrupted { .. } => "interrupted",
        End::Ended(_) => "ended",
        End::Full => "full",
        End::Failed(_) => "failed",
        End::Wrong(_) => "wrong_calls",
    }
}

fn used_by_model(spent: &BTreeMap<String, Spent>) -> Vec<Used> {
    let used = |(model, it): (&String, &Spent)| {
        let Usage { input, cache_write, cache_read, output } = it.usage;
        let (model, answers) = (model.clone(), it.answers);
        // The cast keeps within the type, and no session costs so much.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let micro_dollars = (it.dollars * 1e6).round() as u64;
        Used { model, answers, input, cache_write, cache_read, output, micro_dollars }
    };
    spent.iter().map(used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_told_in_millionths_of_a_dollar() {
        let spent = |dollars| Spent { answers: 2, usage: Usage::default(), dollars };
        let all = [("a", 0.000_000_4), ("b", 1.234_567_8), ("c", -1.0)];
        let all = all.map(|(model, dollars)| (model.to_owned(), spent(dollars))).into();
        let used = used_by_model(&all);
        let told: Vec<_> = used.iter().map(|it| (it.answers, it.micro_dollars)).collect();
        assert_eq!(told, [(2, 0), (2, 1_234_568), (2, 0)]);
    }
}
