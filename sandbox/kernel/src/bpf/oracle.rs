//! Our filters against `seccompiler`, a compiler of others: every test of every case, for every system call.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::tests::run_whole;
use super::{Case, Instruction, Row, Table, Test};

/// Return value of the oracle where a case holds.
const HOLDS: u32 = libc::SECCOMP_RET_ERRNO | 1;

fn condition(argument: u32, length: SeccompCmpArgLen, mask: u64, value: u64) -> SeccompCondition {
    let argument = u8::try_from(argument).unwrap();
    SeccompCondition::new(argument, length, SeccompCmpOp::MaskedEq(mask), value).unwrap()
}

/// Returns the conditions of which one must hold. It has none for "one of these bits", so there is one for each bit.
fn conditions(test: &Test) -> Vec<SeccompCondition> {
    use SeccompCmpArgLen::{Dword, Qword};
    match *test {
        Test::Is { argument, mask, value } => {
            vec![condition(argument, Dword, mask.into(), value.into())]
        }
        Test::Any { argument, bits } => (0..32)
            .map(|number| 1 << number)
            .filter(|bit| bits & bit != 0)
            .map(|bit: u32| condition(argument, Dword, bit.into(), bit.into()))
            .collect(),
        Test::HighIsZero { argument } => {
            vec![condition(argument, Qword, u64::from(u32::MAX) << 32, 0)]
        }
    }
}

/// Returns a program that says [`HOLDS`] of this call where the case holds.
fn program(number: u32, case: &Case) -> Vec<Instruction> {
    let mut rules: Vec<Vec<SeccompCondition>> = vec![Vec::new()];
    for test in &case.tests {
        let more = |rule: &Vec<SeccompCondition>| {
            let with = |one: SeccompCondition| [rule.clone(), vec![one]].concat();
            conditions(test).into_iter().map(with).collect::<Vec<_>>()
        };
        rules = rules.iter().flat_map(more).collect();
    }
    let rules: Vec<SeccompRule> =
        rules.into_iter().map(|rule| SeccompRule::new(rule).unwrap()).collect();
    let filter = SeccompFilter::new(
        BTreeMap::from([(number.into(), rules)]),
        SeccompAction::Allow,
        SeccompAction::Errno(1),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    program.iter().map(|it| Instruction { code: it.code, jt: it.jt, jf: it.jf, k: it.k }).collect()
}

/// Returns arguments that make the tests of a row hold, each alone and all together, and some that do not.
pub fn telling_arguments(table: &Table, number: u32) -> Vec<[u32; 6]> {
    let mut all = vec![[0; 6], [1; 6], [u32::MAX; 6]];
    for case in table.rows.get(&number).map(|row| &*row.cases).unwrap_or_default() {
        let mut together = [0; 6];
        for test in &case.tests {
            let (argument, value) = match *test {
                Test::Is { argument, value, .. } => (argument, value),
                Test::Any { argument, bits } => (argument, bits & bits.wrapping_neg()),
                Test::HighIsZero { argument } => (argument, 0),
            };
            let mut alone = [0; 6];
            alone[argument as usize] = value;
            together[argument as usize] = value;
            all.extend([alone, together]);
            together[argument as usize] ^= 0x8000_0000;
            all.push(together);
            together[argument as usize] ^= 0x8000_0000;
        }
    }
    all
}

/// Asserts that our program says of every call what the other compiler's programs for its cases say.
fn check(name: &str, table: &Table) {
    let ours = table.compile();
    let newest = table.newest.min(500);
    for number in 0..=newest {
        let row = table.rows.get(&number);
        let cases = row.map(|Row { cases, .. }| &**cases).unwrap_or_default();
        let programs: Vec<_> = cases.iter().map(|case| program(number, case)).collect();
        for arguments in telling_arguments(table, number) {
            for high in [0, 1, 0x8000_0000] {
                let whole = arguments.map(|value| u64::from(value) | high << 32);
                let holds = |program: &Vec<_>| run_whole(program, number, whole) == HOLDS;
                let verdict = match programs.iter().position(holds) {
                    Some(first) => cases[first].verdict,
                    None => row.map_or(table.otherwise, |row| row.otherwise),
                };
                let found = run_whole(&ours, number, whole);
                assert_eq!(found, verdict.value(table.told), "{name}: call {number} {whole:x?}");
            }
        }
    }
}

#[test]
fn filters_decide_as_those_of_another_compiler() {
    use crate::service::{Role, table};
    check("worker", &crate::worker::table());
    check("listener", &crate::service::listener_table());
    for role in [Role::Keeper, Role::Gateway, Role::Recorder] {
        check(&format!("{role:?}"), &table(role));
    }
    check("egress", &crate::egress::table());
    check("process 1", &crate::seccomp::own_table());
    for (options, table) in crate::seccomp::all_tables() {
        check(&options, &table);
    }
}
