//! Effects of options and operands of a command, and when a command only reads.
//!
//! The rules for whoever judges by effects:
//!
//! - [`Effect::word`] is the word that causes it: an option, an operand, the sub-command, or 0 for the program itself.
//! - [`Effect::object`] is what the effect is done to. An effect without object may be done to anything: the
//!   text does not tell, or the word could be an option of that kind.
//! - A command **only reads** if `effects_known` is true, it has an effect [`EffectKind::ReadOnly`] on word 0, and
//!   no effect of any other kind but [`EffectKind::Read`]. `ReadOnly` is given only if: the row or form says so; the
//!   first word is a plain name or lies in a system directory; every option and operand was recognised; nothing is
//!   doubtful. Its `Read` effects name the files that it reads besides those of the working directory.
//! - A wrapper with `strip` that was understood only reads by itself: what it starts is listed and judged by itself.
//!   A wrapper without `strip` has an effect `Execute`.
//! - `effects_known` false: there is no row, or an option or operand was not recognised. The effects that are
//!   present still hold; there may be others. Unless the row is `pure`, the word that was not recognised has the
//!   effect `Execute` and one of each kind that options of the row have, without object.

use crate::nested::{Reader, Reading};
use crate::options::Argument;
use crate::{Count, Effect, EffectKind, Object, Word};
use stockade_programs::row::Slot;

/// So far back an equal effect is looked for.
const NEAR: usize = 16;

/// Gives the effect `ReadOnly` if the command claims it and nothing speaks against it.
pub(crate) fn conclude(reading: &mut Reading, claimed: bool) {
    let reads = |effect: &Effect| effect.kind == EffectKind::Read;
    if claimed
        && reading.effects_known
        && reading.doubts.is_empty()
        && reading.effects.iter().all(reads)
    {
        reading
            .effects
            .insert(0, Effect { kind: EffectKind::ReadOnly, word: 0, object: Object::Unknown });
    }
    if !reading.doubts.is_empty() {
        reading.effects_known = false;
    }
}

impl Reader<'_> {
    /// Adds an effect.
    pub(crate) fn effect(&mut self, kind: EffectKind, index: u32, object: Option<Word>) {
        if kind == EffectKind::ReadOnly {
            return self.claim_read_only();
        }
        let object = match object {
            None => Object::Unknown,
            Some(word) if self.command.words.get(index as usize) == Some(&word) => Object::Cause,
            Some(word) => Object::Other(Box::new(word)),
        };
        let effect = Effect { kind, word: index, object };
        // Equal effects come from one word, and so one behind the other.
        if !self.reading.effects.iter().rev().take(NEAR).any(|near| *near == effect) {
            self.reading.effects.push(effect);
        }
    }

    /// Adds an effect on what `argument` names.
    pub(crate) fn effect_on(&mut self, kind: EffectKind, argument: &Argument) {
        let file = matches!(kind, EffectKind::Read | EffectKind::Write);
        if kind == EffectKind::Read && argument.word.exact() == Some(b"-") {
            // Standard input.
            return;
        }
        if file {
            // Programs differ on whether a file that an option names is in the new directory: both are listed.
            if let Some(word) = self.in_directory(&argument.word) {
                self.effect(kind, argument.index, Some(word));
            }
        }
        self.effect(kind, argument.index, Some(argument.word.clone()));
    }

    /// Adds the effects that the command has whatever its operands are.
    pub(crate) fn effect_of_command(&mut self, slot: &Slot) {
        let index = self.at;
        let program = Argument { word: self.word(index), index };
        self.apply_flag(slot, &program);
    }

    /// Returns the file that `word` names in the directory into which the program changes first.
    pub(crate) fn in_directory(&self, word: &Word) -> Option<Word> {
        let directory = self.directory.as_ref()?;
        match (directory.exact(), word.exact()) {
            (_, Some(file)) if file.starts_with(b"/") => None,
            (Some(directory), Some(file)) => {
                Some(Word::literal(word.span, [directory, b"/", file].concat()))
            }
            _ => Some(crate::options::unknown(word, Count::Any, b"", b"")),
        }
    }
}
