//! Plants a command in a text and damages the text.

use super::corpus::Sample;
use super::damage::{Numbers, damage};

/// The planted command; stands for one that must not get past.
pub const MARKER: &str = "planted";

/// Ways to plant the marker, as what is put in at some place.
const PLANTS: &[&str] = &[
    "; planted x;",
    "\nplanted x\n",
    "&& planted",
    "| planted x",
    "$(planted x)",
    "`planted x`",
    "\"$(planted \"x\")\"",
    "\"`planted \\\"x\\\"`\"",
    "${y:-$(planted x)}",
    "${y:-`planted x`}",
    "\"${y:-$(planted 'x')}\"",
    "${y:-${z:-$(planted)}}",
    "$((1+$(planted x)))",
    "<(planted x)",
    ">(planted x)",
    "<<E\n$(planted x)\nE\n",
    "<<-E\n\t`planted x`\n\tE\n",
    "<<'E'\n$(planted x)\nE\nplanted y\n",
    "\\\n; planted x",
    "pla\\\nnted x",
    "$'a\\'' ; planted x",
    "$\"$(planted x)\"",
    "a[$(planted x)]=1",
    "\"a\"planted",
    "{ planted x; }",
    "(planted x)",
    "! planted x",
    "if planted x; then y; fi",
    "case x in x) planted;; esac",
    ">f planted x",
    "2>&1 planted",
    "a=b planted x",
    "#planted\nplanted",
    " #planted x\n",
    "\r; planted x",
    "eval 'planted x'",
    "bash -c 'planted x'",
    "env planted x",
    "xargs planted x",
    "{planted,x}",
    "{x,$(planted)}",
    "[[ x == $(planted) ]]",
    "f() { planted x; }; f",
];

/// Makes one mutant of a text of `corpus`.
pub fn mutant(corpus: &[Sample], numbers: &mut Numbers) -> Vec<u8> {
    let mut text = numbers.one_of(corpus).text.clone();
    text.truncate(600);
    let at = place(&text, numbers);
    let plant = numbers.one_of(PLANTS).as_bytes();
    text.splice(at..at, plant.iter().copied());
    for _ in 0..numbers.below(3) {
        damage(&mut text, numbers);
    }
    // An argument cannot hold NUL.
    text.retain(|byte| *byte != 0);
    text
}

/// A place in `text`: half of the time between words.
fn place(text: &[u8], numbers: &mut Numbers) -> usize {
    let at = numbers.below(text.len() + 1);
    if numbers.below(2) == 0 {
        return at;
    }
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b' ').map_or(text.len(), |blank| at + blank)
}
