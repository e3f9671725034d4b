use std::os::unix::ffi::OsStrExt;

use super::*;
use stockade_spec::{Fallback, Files, Limits, Mediation, Program};

fn spec(rules: &[(&str, Access)], network: Network) -> SandboxSpec {
    let rule = |(path, access): &(&str, Access)| FileRule {
        path: path.into(),
        access: *access,
        origin: "test".to_owned(),
    };
    SandboxSpec {
        program: Program {
            path: "/bin/bash".into(),
            argv: vec!["bash".into()],
            environment: Vec::new(),
            cwd: "/".into(),
        },
        files: Files { rules: rules.iter().map(rule).collect(), ..Files::default() },
        network,
        limits: Limits::default(),
        terminal: None,
        required: BTreeSet::new(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: Fallback::Refuse,
    }
}

/// Returns what stands behind the part that is the same for all.
fn own_part(text: &str) -> String {
    let (_, own) = text.split_once("(allow file-read*)\n").unwrap();
    format!("(allow file-read*)\n{own}")
}

/// The devices, which every profile grants.
const DEVICES_TEXT: &str = "(allow file-write*\n  (literal \"/dev/null\")\n  (literal \"/dev/zero\")\n  (literal \"/dev/tty\")\n  \
     (literal \"/dev/stdout\")\n  (literal \"/dev/stderr\")\n  (literal \"/dev/ptmx\")\n)\n";

#[test]
fn a_profile_denies_by_default_and_imports_nothing() {
    let text = profile(&spec(&[], Network::Off));
    assert!(text.starts_with("(version 1)\n(deny default (with message \"stockade: default\"))\n"));
    assert!(
        !text.contains("import") && !text.contains("appleevent") && !text.contains("allow default")
    );
    assert_eq!(own_part(&text), format!("(allow file-read*)\n{DEVICES_TEXT}"));
    let depth =
        text.chars().fold(0_i32, |depth, it| depth + i32::from(it == '(') - i32::from(it == ')'));
    assert_eq!(depth, 0);
}

#[test]
fn the_more_specific_path_wins_for_reading_and_refusals_win_for_writing() {
    let rules = [
        ("/Users/u/p", Access::Write),
        ("/Users/u/p/.git/config", Access::Protected),
        ("/Users/u", Access::None),
    ];
    let refused = |operation: &str, path: &str, pattern: &str, number| {
        format!(
            "(deny {operation} (subpath \"{path}\") (with message \"stockade: rule {number}\"))\n\
             (deny {operation} (regex #\"^{pattern}(/|$)\") (with message \"stockade: rule {number}\"))\n"
        )
    };
    let home = "/[uU][sS][eE][rR][sS]/[uU]";
    let config = format!("{home}/[pP]/[.][gG][iI][tT]/[cC][oO][nN][fF][iI][gG]");
    let expected = [
        "(allow file-read*)\n".to_owned(),
        refused("file-read*", "/Users/u", home, 2),
        refused("file-read-metadata", "/Users/u", home, 2),
        refused("process-exec", "/Users/u", home, 2),
        "(allow file-read* (subpath \"/Users/u/p\"))\n(allow process-exec (subpath \"/Users/u/p\"))\n".to_owned(),
        DEVICES_TEXT.to_owned(),
        "(allow file-write* (subpath \"/Users/u/p\"))\n".to_owned(),
        refused("file-write*", "/Users/u/p/.git/config", &config, 1),
        "(deny file-write-unlink (literal \"/Users/u/p/.git\") (with message \"stockade: rule 1\"))\n".to_owned(),
        "(deny file-write-unlink (literal \"/Users/u/p\") (with message \"stockade: rule 1\"))\n".to_owned(),
        "(allow network-outbound (remote unix-socket (subpath \"/Users/u/p\")))\n\
         (allow network-bind (local unix-socket (subpath \"/Users/u/p\")))\n"
            .to_owned(),
    ]
    .concat();
    assert_eq!(own_part(&profile(&spec(&rules, Network::Off))), expected);
}

#[test]
fn guarded_names_are_refused_at_any_depth_and_in_any_case() {
    let mut spec = spec(&[], Network::Off);
    spec.files.guarded_names = vec![".mcp.json".into(), ".a/b".into()];
    let text = profile(&spec);
    for pattern in ["/[.][mM][cC][pP][.][jJ][sS][oO][nN](/|$)", "/[.][aA]/[bB](/|$)"] {
        let line = format!(
            "(deny file-write* (regex #\"{pattern}\") (with message \"stockade: guarded name\"))\n"
        );
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn patterns_are_refused_whenever_what_they_name_comes_to_be() {
    let mut spec = spec(&[], Network::Off);
    let rule = |path: &str| FileRule {
        path: path.into(),
        access: Access::ReadOnly,
        origin: "test".to_owned(),
    };
    spec.files.patterns =
        ["/tmp/p/*.x", "/p/**/a?", "/p/[!]a]b", "/p/[a-c", "/p/\"[\"]"].map(rule).into();
    let text = profile(&spec);
    for pattern in [
        "^/[pP][rR][iI][vV][aA][tT][eE]/[tT][mM][pP]/[pP]/[^/]*[.][xX](/|$)",
        "^/[pP](/[^/]+)*/[aA][^/](/|$)",
        "^/[pP]/[^/][bB](/|$)",
        "^/[pP]/[^/](/|$)",
        "^/[pP]/.*[^/](/|$)",
    ] {
        let line = format!(
            "(deny file-write* (regex #\"{pattern}\") (with message \"stockade: pattern\"))\n"
        );
        assert!(text.contains(&line), "{pattern}: {text}");
    }
}

#[test]
fn links_of_the_system_are_followed() {
    let text =
        profile(&spec(&[("/tmp/p", Access::Write), ("/variable", Access::Write)], Network::Off));
    assert!(text.contains("(allow file-write* (subpath \"/private/tmp/p\"))"));
    assert!(text.contains("(allow file-write* (subpath \"/variable\"))"));
}

#[test]
fn the_proxy_is_the_only_way_out() {
    let network = |network| {
        let text = profile(&spec(&[], network));
        text.lines().filter(|line| line.contains("network")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(network(Network::Off), Vec::<String>::new());
    assert_eq!(
        network(Network::Proxy { http: 3128, socks: 1080 }),
        [
            "(allow network-outbound (remote tcp \"localhost:3128\"))",
            "(allow network-outbound (remote tcp \"localhost:1080\"))",
        ]
    );
    assert_eq!(network(Network::Host), ["(allow network*)"]);
}

/// Reads a string of the profile language back.
fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut rest = text.strip_prefix('"')?.strip_suffix('"')?.bytes();
    let mut bytes = Vec::new();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return None,
            b'\\' => match rest.next()? {
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                }
                escaped => bytes.push(escaped),
            },
            b' '..=b'~' => bytes.push(byte),
            _ => return None,
        }
    }
    Some(bytes)
}

#[test]
fn every_byte_survives_quoting_and_none_ends_the_string() {
    // All pairs of bytes: what one byte does to the next is all that quoting could get wrong.
    for first in 0..=u8::MAX {
        for second in 0..=u8::MAX {
            let bytes = [b'/', first, second, b'x'];
            assert_eq!(unquoted(&quoted(&bytes)).as_deref(), Some(&bytes[..]));
            let pattern = any_case(&bytes);
            assert!(
                pattern.bytes().all(|it| matches!(it, b' '..=b'~') && it != b'"' && it != b'\\')
            );
        }
    }
}

#[test]
fn a_path_cannot_add_rules() {
    let path = Path::new(std::ffi::OsStr::from_bytes(b"/p\")) (allow default) ((\"\n\xFF\xC3\xA9"));
    let text = profile(&spec(
        &[(path.to_str().unwrap_or("/p\")) (allow default) ((\""), Access::None)],
        Network::Off,
    ));
    assert!(!text.lines().any(|line| line.trim_start().starts_with("(allow default")));
    let line = format!(
        "(deny file-read* (subpath {}) ",
        path_text(Path::new("/p\")) (allow default) ((\""))
    );
    assert!(text.contains(&line), "{text}");
}

#[test]
fn a_run_that_was_let_out_has_an_open_profile() {
    let mut spec = spec(&[], Network::Off);
    spec.confine = false;
    assert_eq!(profile(&spec), "(version 1)\n(allow default)\n");
}
