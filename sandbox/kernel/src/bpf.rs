//! A system-call filter as a table, and the classic BPF program made from it.

use std::collections::BTreeMap;

/// Verdict on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// Refused with this error number: what programs try and can do without.
    Errno(i32),
    /// Refused with this error number, and told: by the supervisor where there is one.
    Refuse(i32),
    /// The whole process is killed.
    Kill,
    /// The supervisor answers.
    Notify,
}

/// A test of 32 bits of an argument: the low ones, the width of every argument tested in our tables but pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// The masked argument has this value.
    Is { argument: u32, mask: u32, value: u32 },
    /// One of these bits is set.
    Any { argument: u32, bits: u32 },
    /// The high 32 bits are zero. With the low ones it says that a pointer is null.
    HighIsZero { argument: u32 },
}

/// Tests that must all hold, and what follows then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub tests: Vec<Test>,
    pub verdict: Verdict,
}

/// Verdict on one system call: that of the first case that holds, else `otherwise`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub cases: Vec<Case>,
    pub otherwise: Verdict,
}

/// A whole filter.
#[derive(Debug, Clone)]
pub struct Table {
    pub rows: BTreeMap<u32, Row>,
    /// For numbers without a row.
    pub otherwise: Verdict,
    /// For numbers above this one, which the table's author did not know.
    pub newest: u32,
    pub unknown: Verdict,
    /// A supervisor hears of what is refused, and answers in the kernel's place.
    pub told: bool,
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Set in the number of a call made through the x32 entry.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

// Offsets in `struct seccomp_data`; both architectures are little-endian.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const EQUAL: u16 = 0x15;
const GREATER: u16 = 0x25;
const AT_LEAST: u16 = 0x35;
const BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

type Instruction = libc::sock_filter;

impl Verdict {
    pub fn value(self, told: bool) -> u32 {
        match self {
            Verdict::Refuse(_) if told => libc::SECCOMP_RET_USER_NOTIF,
            Verdict::Allow => libc::SECCOMP_RET_ALLOW,
            Verdict::Errno(number) | Verdict::Refuse(number) => {
                libc::SECCOMP_RET_ERRNO | (u32::try_from(number).unwrap_or(0) & 0xFFFF)
            }
            Verdict::Kill => libc::SECCOMP_RET_KILL_PROCESS,
            Verdict::Notify => libc::SECCOMP_RET_USER_NOTIF,
        }
    }
}

impl Table {
    /// Returns the program.
    pub fn compile(&self) -> Vec<Instruction> {
        let mut builder = Builder { told: self.told, ..Builder::default() };
        let known = self.search(&mut builder, &self.runs());
        let (kill, unknown) = (builder.give(Verdict::Kill), builder.give(self.unknown));
        let mut entry = builder.jump(GREATER, self.newest, unknown, known);
        #[cfg(target_arch = "x86_64")]
        {
            entry = builder.jump(AT_LEAST, X32_BIT, kill, entry);
        }
        entry = builder.before(LOAD, NUMBER, entry);
        entry = builder.jump(EQUAL, ARCHITECTURE, entry, kill);
        builder.before(LOAD, ARCH, entry);
        builder.finish()
    }

    /// Returns the numbers that have rows of their own, neighbours with equal rows as one run: first, last, row.
    fn runs(&self) -> Vec<(u32, u32, &Row)> {
        let mut runs: Vec<(u32, u32, &Row)> = Vec::new();
        for (number, row) in &self.rows {
            match runs.last_mut() {
                Some((_, last, known)) if last.checked_add(1) == Some(*number) && *known == row => {
                    *last = *number;
                }
                Some(_) | None => runs.push((*number, *number, row)),
            }
        }
        runs
    }

    /// Binary search over the runs, as deep as the logarithm of our own table, and a short list at its end.
    fn search(&self, builder: &mut Builder, runs: &[(u32, u32, &Row)]) -> Target {
        let (below, above) = runs.split_at(runs.len() / 2);
        if let (Some((first, ..)), true) = (above.first(), runs.len() > LISTED) {
            let (above, below) = (self.search(builder, above), self.search(builder, below));
            return builder.jump(AT_LEAST, *first, above, below);
        }
        let otherwise = builder.give(self.otherwise);
        runs.iter().rev().fold(otherwise, |others, (first, last, row)| {
            let body = builder.row(row);
            if first == last {
                return builder.jump(EQUAL, *first, body, others);
            }
            let up_to = builder.jump(GREATER, *last, others, body);
            builder.jump(AT_LEAST, *first, up_to, others)
        })
    }

    /// Returns what the program says of a call by the native entry: the same rows, read instead of run.
    pub fn decide(&self, number: u32, arguments: [u64; 6]) -> Verdict {
        if number > self.newest {
            return self.unknown;
        }
        let Some(row) = self.rows.get(&number) else { return self.otherwise };
        let holds = |case: &&Case| case.tests.iter().all(|test| test.holds(&arguments));
        row.cases.iter().find(holds).map_or(row.otherwise, |case| case.verdict)
    }
}

impl Test {
    /// Returns which 32 bits of all arguments it looks at.
    fn word(&self) -> u32 {
        match *self {
            Test::Is { argument, .. } | Test::Any { argument, .. } => argument.saturating_mul(2),
            Test::HighIsZero { argument } => argument.saturating_mul(2).saturating_add(1),
        }
    }

    /// Says whether the word is still whole when the test did not hold.
    fn leaves_whole(&self) -> bool {
        match *self {
            Test::Is { mask, .. } => mask == u32::MAX,
            Test::Any { .. } | Test::HighIsZero { .. } => true,
        }
    }

    fn holds(&self, arguments: &[u64; 6]) -> bool {
        let whole = |argument: u32| {
            let found = usize::try_from(argument).ok().and_then(|index| arguments.get(index));
            found.copied().unwrap_or(0)
        };
        let low = |argument: u32| u32::try_from(whole(argument) & u64::from(u32::MAX)).unwrap_or(0);
        match *self {
            Test::Is { argument, mask, value } => low(argument) & mask == value,
            Test::Any { argument, bits } => low(argument) & bits != 0,
            Test::HighIsZero { argument } => whole(argument) >> 32 == 0,
        }
    }
}

/// Longest list of numbers that is gone through one by one.
const LISTED: usize = 3;

/// Farthest that a conditional jump reaches.
const REACH: usize = 255;

/// Where a jump leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// To an end of the program with this value.
    Return(u32),
    /// To the instruction at this place, counted from the end.
    At(usize),
}

/// Where the tests of a case begin.
#[derive(Debug, Clone, Copy)]
enum Entry {
    /// There, whatever is loaded.
    Anywhere(Target),
    /// There, when this word of the arguments is loaded.
    Loaded(u32, Target),
}

/// A program, put together from its end: jumps only lead forward, so what they lead to is there already.
#[derive(Debug, Default)]
struct Builder {
    /// The last instruction first.
    backwards: Vec<Instruction>,
    /// Where each return stands that was made last.
    returns: BTreeMap<u32, usize>,
    told: bool,
    /// A jump did not reach, which [`Builder::near`] rules out.
    is_broken: bool,
}

impl Builder {
    fn give(&self, verdict: Verdict) -> Target {
        Target::Return(verdict.value(self.told))
    }

    fn row(&mut self, row: &Row) -> Target {
        let last = Entry::Anywhere(self.give(row.otherwise));
        let first = row.cases.iter().rev().fold(last, |next, case| self.case(case, next));
        self.load(first)
    }

    /// Adds the tests of a case before `next`, which follows when one does not hold.
    fn case(&mut self, case: &Case, mut next: Entry) -> Entry {
        let verdict = Entry::Anywhere(self.give(case.verdict));
        case.tests.iter().rev().fold(verdict, |holds, test| {
            let fails = match next {
                Entry::Loaded(word, at) if word == test.word() && test.leaves_whole() => at,
                Entry::Loaded(..) | Entry::Anywhere(_) => {
                    let at = self.load(next);
                    next = Entry::Anywhere(at);
                    at
                }
            };
            let holds = self.load(holds);
            if holds == fails {
                return Entry::Anywhere(holds);
            }
            let at = match *test {
                Test::Is { mask: u32::MAX, value, .. } => self.jump(EQUAL, value, holds, fails),
                Test::Is { mask, value, .. } => {
                    let equal = self.jump(EQUAL, value, holds, fails);
                    self.before(AND, mask, equal)
                }
                Test::Any { bits, .. } => self.jump(BITS, bits, holds, fails),
                Test::HighIsZero { .. } => self.jump(EQUAL, 0, holds, fails),
            };
            Entry::Loaded(test.word(), at)
        })
    }

    /// Returns where an entry begins for whom nothing is loaded.
    fn load(&mut self, entry: Entry) -> Target {
        match entry {
            Entry::Anywhere(at) => at,
            Entry::Loaded(word, at) => {
                let offset = ARGUMENTS.saturating_add(word.saturating_mul(4));
                self.before(LOAD, offset, at)
            }
        }
    }

    /// Adds an instruction that goes on at `next`.
    fn before(&mut self, code: u16, k: u32, next: Target) -> Target {
        let follows = self.backwards.len().checked_sub(1).map(Target::At);
        match next {
            Target::Return(_) | Target::At(_) if follows == Some(next) => {}
            Target::Return(value) => drop(self.add_return(value)),
            Target::At(at) => drop(self.add_jump(at)),
        }
        self.push(instruction(code, k, 0, 0))
    }

    fn jump(&mut self, code: u16, k: u32, yes: Target, no: Target) -> Target {
        let (yes, no) = (self.near(yes), self.near(no));
        let (yes, no) = (self.distance(yes), self.distance(no));
        self.push(instruction(code, k, yes, no))
    }

    /// Returns a place that leads to `target` and that the next instruction but one still reaches.
    fn near(&mut self, target: Target) -> usize {
        let reached = |at: usize| self.backwards.len().saturating_sub(at) <= REACH;
        match target {
            Target::At(at) if reached(at) => at,
            Target::At(at) => self.add_jump(at),
            Target::Return(value) => match self.returns.get(&value) {
                Some(at) if reached(*at) => *at,
                Some(_) | None => self.add_return(value),
            },
        }
    }

    fn add_return(&mut self, value: u32) -> usize {
        self.returns.insert(value, self.backwards.len());
        self.push(instruction(RETURN, value, 0, 0));
        self.backwards.len().saturating_sub(1)
    }

    fn add_jump(&mut self, at: usize) -> usize {
        let distance = self.backwards.len().saturating_sub(at).saturating_sub(1);
        self.push(instruction(JUMP, u32::try_from(distance).unwrap_or(u32::MAX), 0, 0));
        self.backwards.len().saturating_sub(1)
    }

    fn distance(&mut self, at: usize) -> u8 {
        let distance = self.backwards.len().saturating_sub(at).saturating_sub(1);
        u8::try_from(distance).unwrap_or_else(|_| {
            self.is_broken = true;
            0
        })
    }

    fn push(&mut self, instruction: Instruction) -> Target {
        self.backwards.push(instruction);
        Target::At(self.backwards.len().saturating_sub(1))
    }

    fn finish(mut self) -> Vec<Instruction> {
        if self.is_broken {
            return vec![instruction(RETURN, Verdict::Kill.value(self.told), 0, 0)];
        }
        self.backwards.reverse();
        self.backwards
    }
}

fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

#[cfg(test)]
pub mod oracle;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub use tests::{answered, calls, run_whole, steps};
