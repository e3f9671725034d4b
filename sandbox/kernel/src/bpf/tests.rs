use std::collections::BTreeSet;

use super::*;

/// Runs a program as the kernel would, on the words of `struct seccomp_data`.
fn run(program: &[Instruction], number: u32, arguments: [u32; 6]) -> u32 {
    run_whole(program, number, arguments.map(u64::from))
}

/// The same with all 64 bits of the arguments.
pub fn run_whole(program: &[Instruction], number: u32, arguments: [u64; 6]) -> u32 {
    walk(program, number, arguments).0
}

/// Returns how many instructions a call takes.
pub fn steps(program: &[Instruction], number: u32, arguments: [u32; 6]) -> u32 {
    walk(program, number, arguments.map(u64::from)).1
}

/// Returns the numbers up to `newest` to which the program answers `verdict` for these arguments.
pub fn answered(
    table: &Table,
    newest: u32,
    (verdict, arguments): (Verdict, [u64; 6]),
) -> BTreeSet<u32> {
    let program = table.compile();
    let is_answered =
        |number: &u32| run_whole(&program, *number, arguments) == verdict.value(table.told);
    (0..=newest).filter(is_answered).collect()
}

/// Returns the numbers of calls in the form of [`answered`].
pub fn calls(lists: &[&[libc::c_long]]) -> BTreeSet<u32> {
    lists.iter().copied().flatten().map(|it| u32::try_from(*it).unwrap()).collect()
}

fn walk(program: &[Instruction], number: u32, arguments: [u64; 6]) -> (u32, u32) {
    let words = arguments.map(|it| [it as u32, (it >> 32) as u32]);
    let (mut accumulator, mut at, mut steps) = (0_u32, 0_usize, 0);
    loop {
        let step = program[at];
        at += 1;
        steps += 1;
        let jump = |taken: bool| usize::from(if taken { step.jt } else { step.jf });
        match step.code {
            LOAD => {
                accumulator = match step.k {
                    NUMBER => number,
                    ARCH => ARCHITECTURE,
                    offset => words.as_flattened()[(offset - ARGUMENTS) as usize / 4],
                }
            }
            AND => accumulator &= step.k,
            JUMP => at += step.k as usize,
            EQUAL => at += jump(accumulator == step.k),
            GREATER => at += jump(accumulator > step.k),
            AT_LEAST => at += jump(accumulator >= step.k),
            BITS => at += jump(accumulator & step.k != 0),
            RETURN => return (step.k, steps),
            code => panic!("unknown instruction {code:#x}"),
        }
    }
}

fn table() -> Table {
    let row = |cases| Row { cases, otherwise: Verdict::Errno(1) };
    let mut rows: BTreeMap<u32, Row> =
        (100..300).step_by(3).map(|n| (n, row(Vec::new()))).collect();
    rows.insert(
        5,
        row(vec![Case {
            tests: vec![
                Test::Is { argument: 0, mask: 0xF, value: 2 },
                Test::Any { argument: 1, bits: 0x30 },
            ],
            verdict: Verdict::Notify,
        }]),
    );
    Table { rows, otherwise: Verdict::Allow, newest: 400, unknown: Verdict::Errno(38), told: false }
}

#[test]
fn every_number_gets_the_verdict_of_its_row() {
    let program = table().compile();
    for number in 0..400 {
        let refused = number == 5 || ((100..300).contains(&number) && (number - 100) % 3 == 0);
        let expected = if refused { Verdict::Errno(1) } else { Verdict::Allow };
        assert_eq!(run(&program, number, [0; 6]), expected.value(false), "call {number}");
    }
}

#[test]
fn unknown_numbers_get_their_own_verdict() {
    assert_eq!(run(&table().compile(), 401, [0; 6]), Verdict::Errno(38).value(false));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_second_entry_kills() {
    assert_eq!(run(&table().compile(), X32_BIT | 5, [0; 6]), Verdict::Kill.value(false));
}

#[test]
fn a_case_needs_all_its_tests() {
    let program = table().compile();
    let verdict = |first, second| run(&program, 5, [first, second, 0, 0, 0, 0]);
    assert_eq!(verdict(0x12, 0x10), Verdict::Notify.value(false));
    assert_eq!(verdict(0x12, 0x40), Verdict::Errno(1).value(false));
    assert_eq!(verdict(0x13, 0x10), Verdict::Errno(1).value(false));
}

#[test]
fn reading_the_rows_and_running_the_program_agree() {
    let table = table();
    let program = table.compile();
    for number in (0..420).chain([u32::MAX >> 2]) {
        for first in [0_u32, 2, 0x12] {
            for second in [0_u32, 0x10, 0x40] {
                let wide = u64::from(first) | 1 << 40;
                let read = table.decide(number, [wide, u64::from(second), 0, 0, 0, 0]);
                let ran = run(&program, number, [first, second, 0, 0, 0, 0]);
                assert_eq!(ran, read.value(false), "call {number} {first} {second}");
            }
        }
    }
}

#[test]
fn a_refusal_is_told_only_where_somebody_listens() {
    let row = Row { cases: Vec::new(), otherwise: Verdict::Refuse(1) };
    let mut table = Table { rows: BTreeMap::from([(7, row)]), ..table() };
    assert_eq!(run(&table.compile(), 7, [0; 6]), Verdict::Errno(1).value(false));
    table.told = true;
    assert_eq!(run(&table.compile(), 7, [0; 6]), Verdict::Notify.value(false));
}

/// A conditional jump reaches 255 instructions, so this program has others between them.
#[test]
fn a_program_longer_than_a_jump_says_what_its_rows_say() {
    let is = |argument, mask, value| Test::Is { argument, mask, value };
    let verdict = |number: u32| Verdict::Errno(i32::try_from(1 + number % 40).unwrap());
    let rows = (0..900).filter(|number| number % 3 != 1).map(|number| {
        let cases = vec![
            Case { tests: vec![is(0, 0xFF, number & 0xFF)], verdict: Verdict::Notify },
            Case { tests: vec![is(0, u32::MAX, number), is(1, 0xF, 3)], verdict: Verdict::Kill },
            // The word of the last test is loaded where the next case begins, and that of the one before is not.
            Case { tests: vec![is(0, 0xFF, 3), is(1, u32::MAX, 5)], verdict: Verdict::Errno(77) },
            Case { tests: vec![is(1, u32::MAX, 4)], verdict: Verdict::Errno(78) },
        ];
        (number, Row { cases, otherwise: verdict(number) })
    });
    let rows = rows.collect();
    let table = Table { rows, newest: 1_000, ..table() };
    let program = table.compile();
    assert!(program.len() > 2_000 && program.iter().any(|it| it.code == JUMP));
    for number in 0..=1_001 {
        for first in [number, number & 0xFF, number ^ 1, 3] {
            for second in [0, 3, 4, 5, 0x13] {
                let words = [first.into(), second, 0, 0, 0, 0];
                let ran = run_whole(&program, number, words);
                assert_eq!(ran, table.decide(number, words).value(false), "{number} {words:?}");
            }
        }
    }
}
