//! A system-call filter as a table, and the classic BPF program made from it.

use std::collections::BTreeMap;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
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

/// A test of the low 32 bits of an argument: the width of every argument tested in our tables.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Test {
    /// The masked argument has this value.
    Is { argument: u32, mask: u32, value: u32 },
    /// One of these bits is set.
    Any { argument: u32, bits: u32 },
}

/// Tests that must all hold, and what follows then.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) tests: Vec<Test>,
    pub(crate) verdict: Verdict,
}

/// What happens to one system call: the first case that holds, else `otherwise`.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) cases: Vec<Case>,
    pub(crate) otherwise: Verdict,
}

/// A whole filter.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<u32, Row>,
    /// For numbers without a row.
    pub(crate) otherwise: Verdict,
    /// For numbers above this one, which the table's author did not know.
    pub(crate) newest: u32,
    pub(crate) unknown: Verdict,
    /// A supervisor hears of what is refused, and answers in the kernel's place.
    pub(crate) told: bool,
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
    fn value(self, told: bool) -> u32 {
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
    pub(crate) fn compile(&self) -> Vec<Instruction> {
        let mut program = vec![
            instruction(LOAD, ARCH, 0, 0),
            instruction(EQUAL, ARCHITECTURE, 1, 0),
            self.give(Verdict::Kill),
            instruction(LOAD, NUMBER, 0, 0),
        ];
        #[cfg(target_arch = "x86_64")]
        program.extend([instruction(AT_LEAST, X32_BIT, 0, 1), self.give(Verdict::Kill)]);
        program.extend([instruction(GREATER, self.newest, 0, 1), self.give(self.unknown)]);
        program.extend(self.search(&self.ranges()));
        program
    }

    /// Splits all numbers into ranges that share one body: (first number, body).
    fn ranges(&self) -> Vec<(u32, Vec<Instruction>)> {
        let otherwise = vec![self.give(self.otherwise)];
        let mut ranges: Vec<(u32, Vec<Instruction>)> = vec![(0, otherwise.clone())];
        for (number, row) in &self.rows {
            ranges.push((*number, self.body(row)));
            ranges.push((number.saturating_add(1), otherwise.clone()));
        }
        let mut kept: Vec<(u32, Vec<Instruction>)> = Vec::new();
        for (first, body) in ranges {
            if kept.last().is_some_and(|last| last.0 == first) {
                kept.pop();
            }
            if kept.last().is_none_or(|last| !same(&last.1, &body)) {
                kept.push((first, body));
            }
        }
        kept
    }

    /// Binary search over the ranges; as deep as the logarithm of our own table.
    fn search(&self, ranges: &[(u32, Vec<Instruction>)]) -> Vec<Instruction> {
        let (below, above) = ranges.split_at(ranges.len() / 2);
        let (Some(first), false) = (above.first(), below.is_empty()) else {
            return above
                .first()
                .map_or_else(|| vec![self.give(Verdict::Kill)], |only| only.1.clone());
        };
        let (left, right) = (self.search(below), self.search(above));
        let distance = u32::try_from(left.len()).unwrap_or(u32::MAX);
        // A conditional jump reaches 255 instructions; the unconditional one reaches all.
        let mut program = match u8::try_from(distance) {
            Ok(near) => vec![instruction(AT_LEAST, first.0, near, 0)],
            Err(_) => vec![instruction(AT_LEAST, first.0, 0, 1), instruction(JUMP, distance, 0, 0)],
        };
        program.extend(left);
        program.extend(right);
        program
    }

    fn body(&self, row: &Row) -> Vec<Instruction> {
        let mut program: Vec<Instruction> = Vec::new();
        for case in &row.cases {
            let mut length =
                case.tests.iter().map(|test| test.length()).sum::<u8>().saturating_add(1);
            for test in &case.tests {
                length = length.saturating_sub(test.length());
                program.extend(test.instructions(length));
            }
            program.push(self.give(case.verdict));
        }
        program.push(self.give(row.otherwise));
        program
    }

    fn give(&self, verdict: Verdict) -> Instruction {
        instruction(RETURN, verdict.value(self.told), 0, 0)
    }

    /// Returns what the program says of a call by the native entry: the same rows, read instead of run.
    pub(crate) fn decide(&self, number: u32, arguments: [u64; 6]) -> Verdict {
        if number > self.newest {
            return self.unknown;
        }
        let Some(row) = self.rows.get(&number) else { return self.otherwise };
        let holds = |case: &&Case| case.tests.iter().all(|test| test.holds(&arguments));
        row.cases.iter().find(holds).map_or(row.otherwise, |case| case.verdict)
    }
}

impl Test {
    fn length(&self) -> u8 {
        match self {
            Test::Is { mask: u32::MAX, .. } | Test::Any { .. } => 2,
            Test::Is { .. } => 3,
        }
    }

    fn holds(&self, arguments: &[u64; 6]) -> bool {
        let low = |argument: u32| {
            let whole = usize::try_from(argument).ok().and_then(|index| arguments.get(index));
            u32::try_from(whole.copied().unwrap_or(0) & u64::from(u32::MAX)).unwrap_or(0)
        };
        match *self {
            Test::Is { argument, mask, value } => low(argument) & mask == value,
            Test::Any { argument, bits } => low(argument) & bits != 0,
        }
    }

    /// Goes on if it holds, else skips `rest` instructions.
    fn instructions(&self, rest: u8) -> Vec<Instruction> {
        let load = |argument: u32| instruction(LOAD, ARGUMENTS.saturating_add(argument * 8), 0, 0);
        match *self {
            Test::Is { argument, mask: u32::MAX, value } => {
                vec![load(argument), instruction(EQUAL, value, 0, rest)]
            }
            Test::Is { argument, mask, value } => vec![
                load(argument),
                instruction(AND, mask, 0, 0),
                instruction(EQUAL, value, 0, rest),
            ],
            Test::Any { argument, bits } => {
                vec![load(argument), instruction(BITS, bits, 0, rest)]
            }
        }
    }
}

fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn same(one: &[Instruction], other: &[Instruction]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(a, b)| (a.code, a.jt, a.jf, a.k) == (b.code, b.jt, b.jf, b.k))
}

#[cfg(test)]
mod tests;
