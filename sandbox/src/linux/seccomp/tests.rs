use std::fmt::Write;

use super::*;

/// Returns the program as text, one instruction a line.
fn disassembly(program: &[libc::sock_filter]) -> String {
    let mut text = String::new();
    for (number, step) in program.iter().enumerate() {
        let words = match step.code {
            0x20 => format!("load {}", step.k),
            0x54 => format!("and {:#x}", step.k),
            0x05 => format!("jump {}", number + 1 + step.k as usize),
            0x06 => match step.k & 0xFFFF_0000 {
                libc::SECCOMP_RET_ALLOW => "allow".to_owned(),
                libc::SECCOMP_RET_ERRNO => format!("errno {}", step.k & 0xFFFF),
                libc::SECCOMP_RET_USER_NOTIF => "notify".to_owned(),
                libc::SECCOMP_RET_KILL_PROCESS => "kill".to_owned(),
                other => panic!("{other:#x}"),
            },
            code => {
                let compare = match code {
                    0x15 => "==",
                    0x25 => ">",
                    0x35 => ">=",
                    0x45 => "&",
                    other => panic!("{other:#x}"),
                };
                let to = |offset: u8| number + 1 + usize::from(offset);
                format!("if {compare} {:#x} go {} else {}", step.k, to(step.jt), to(step.jf))
            }
        };
        writeln!(text, "{number}: {words}").unwrap();
    }
    text
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_filter_is_the_one_that_was_read() {
    let options = Options {
        internet: true,
        namespaces: true,
        truncates: false,
        supervised: true,
        guarded: true,
    };
    let text = disassembly(&table(options).compile());
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/linux/seccomp/x86_64.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    let expected = std::fs::read_to_string(golden).unwrap_or_default();
    for (number, (now, then)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(now, then, "line {}; UPDATE_EXPECT=1 writes the new text", number + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}

/// A call takes the depth of the search and no more; the kernel's own limit is 4096 instructions.
#[test]
fn the_filter_is_short_and_its_search_is_shallow() {
    let options = Options {
        internet: true,
        namespaces: true,
        truncates: false,
        supervised: true,
        guarded: true,
    };
    let program = table(options).compile();
    assert!(program.len() <= 700, "{} instructions", program.len());
}

#[test]
fn every_call_of_the_lists_is_refused_and_has_a_name() {
    let options = Options {
        internet: false,
        namespaces: false,
        truncates: true,
        supervised: false,
        guarded: false,
    };
    let table = table(options);
    for (number, name) in REFUSED.iter().chain(WITHOUT_NAMESPACES) {
        let verdict = table.decide(u32::try_from(*number).unwrap(), [0; 6]);
        assert_eq!(verdict, Verdict::Refuse(libc::EPERM), "{name}");
        let shown = super::name(i32::try_from(*number).unwrap());
        assert_eq!(shown, name.trim_start_matches("SYS_"));
    }
}
