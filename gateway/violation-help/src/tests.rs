//! Remedies of each kind of refusal.

use expect_test::{Expect, expect};

use super::*;

fn around() -> Around<'static> {
    Around { home: Path::new("/h/me"), project: Path::new("/h/other/p") }
}

fn check(kind: &str, call: &str, object: &str, rule: &str, expected: Expect) {
    let found = Violation {
        kind: kind.to_owned(),
        call: call.to_owned(),
        object: object.to_owned(),
        rule: rule.to_owned(),
        program: "ssh".to_owned(),
        count: 1,
        ..Violation::default()
    };
    expected.assert_eq(&notice(&found, &[], around()));
    let viewed = view(&found, around());
    let is_told = viewed["remedy"].is_object() != viewed["why_not"].is_string();
    assert!(is_told, "{viewed}");
}

#[test]
fn a_name_that_is_a_pattern_has_no_remedy() {
    let (outside, sockets) =
        ("builtin: outside of the writable directories", "builtin: sockets of others");
    let link = |name: &str| format!("builtin: symbolic link to /h/me/other/{name}/file");
    for name in ["a*", "a?b", "[a-z]", "{a,b}", "a\\b", "!a", "a\nb"] {
        for (kind, call, object, rule) in [
            ("write", "open", format!("/srv/x/{name}/file"), outside),
            ("write", "mkdir", format!("/srv/{name}"), outside),
            ("unix-socket", "connect", format!("/srv/{name}/s"), sockets),
            ("write", "symlink", "/p/x".to_owned(), link(name).as_str()),
        ] {
            let (kind, call, rule) = (kind.to_owned(), call.to_owned(), rule.to_owned());
            let found = Violation { kind, call, object, rule, ..Violation::default() };
            let viewed = view(&found, around());
            assert_eq!(viewed["remedy"], Value::Null, "{name:?}: {viewed}");
            assert!(!notice(&found, &[], around()).contains("to allow:"), "{name:?}: {viewed}");
        }
    }
}

#[test]
fn each_kind_names_what_would_allow_it() {
    check(
        "write",
        "open",
        "/etc/x/y",
        "builtin: outside of the writable directories",
        expect![[r#"
        stockade: refused open (write) /etc/x/y by builtin: outside of the writable directories; to allow: sandbox.filesystem.allowWrite: ["/etc/x"] (user settings)"#]],
    );
    check(
        "write",
        "rename",
        "/p/a b",
        "sandbox.filesystem.denyWrite /p/a (b) (/h/my settings.json:3, user)",
        expect![[r#"
        stockade: refused rename (write) /p/a b by sandbox.filesystem.denyWrite /p/a (b) (/h/my settings.json:3, user); to allow: remove ["/p/a (b)"] from sandbox.filesystem.denyWrite (user settings)"#]],
    );
    check(
        "write",
        "open",
        "/p/.mcp.json",
        "builtin: guarded name `.mcp.json`",
        expect![[r#"
        stockade: refused open (write) /p/.mcp.json by builtin: guarded name `.mcp.json`; no setting allows it: it is protected always, and only a call outside of the sandbox can"#]],
    );
    check(
        "write",
        "open",
        "/p/data.bin",
        "builtin: file with several names, and of more than 67108864 bytes",
        expect![[r#"
        stockade: refused open (write) /p/data.bin by builtin: file with several names, and of more than 67108864 bytes; its other names can be anywhere; to separate it: cp /p/data.bin /p/data.bin.own && mv /p/data.bin.own /p/data.bin"#]],
    );
    check(
        "write",
        "chmod",
        "/p/a $(b)",
        "builtin: file with several names, of which this one is gone",
        expect![[r#"
        stockade: refused chmod (write) /p/a $(b) by builtin: file with several names, of which this one is gone; its other names can be anywhere; to separate it, copy it and move the copy there"#]],
    );
    check(
        "write",
        "symlink",
        "/p/x",
        "builtin: symbolic link to /h/me/other/src/file",
        expect![[r#"
        stockade: refused symlink (write) /p/x by builtin: symbolic link to /h/me/other/src/file; to allow: sandbox.filesystem.allowRead: ["/h/me/other/src"] (user settings)"#]],
    );
    check(
        "write",
        "rename",
        "/p/x",
        "builtin: symbolic link to /h/me/file",
        expect![[r#"
        stockade: refused rename (write) /p/x by builtin: symbolic link to /h/me/file; allowing its directory would allow too much: copy its target, or make the link outside of the sandbox"#]],
    );
    check(
        "write",
        "symlink",
        "/p/x",
        "builtin: symbolic link to /tmp/x",
        expect![[r#"
        stockade: refused symlink (write) /p/x by builtin: symbolic link to /tmp/x; no setting allows it: the path is different outside of the sandbox; make the link there"#]],
    );
    check(
        "write",
        "symlink",
        "/p/x",
        "builtin: symbolic link to /p/a, by `..` behind a name that a command can replace",
        expect![[r#"
        stockade: refused symlink (write) /p/x by builtin: symbolic link to /p/a, by `..` behind a name that a command can replace; no setting allows it: write the path without `..` after a name"#]],
    );
    check(
        "write",
        "rename",
        "/p/x",
        "builtin: directory with unknown links: more than 100000 entries",
        expect![[r#"
        stockade: refused rename (write) /p/x by builtin: directory with unknown links: more than 100000 entries; no setting allows it: move its parts one by one, after `chmod u+rwx`"#]],
    );
    check(
        "unix-socket",
        "connect",
        "/s",
        "builtin: sockets of others",
        expect![[r#"
        stockade: refused connect (unix-socket) /s by builtin: sockets of others; to allow: sandbox.network.allowUnixSockets: ["/s"] (user settings)"#]],
    );
    check(
        "network",
        "connect",
        "127.70.1.2:29128",
        "builtin: proxies of other commands",
        expect![[r#"
        stockade: refused connect (network) 127.70.1.2:29128 by builtin: proxies of other commands; each command has its own proxy, at the address in `HTTP_PROXY`"#]],
    );
    check(
        "network",
        "connect",
        "192.0.2.1:22",
        DIRECT,
        expect![
            "stockade: refused a connection of `ssh` past the proxy, to 192.0.2.1:22; the proxy in `HTTP_PROXY` is the only way out, to hosts in `sandbox.network.allowedDomains`; a program without proxy support needs a helper (`ProxyCommand` of ssh)"
        ],
    );
    check(
        "network",
        "connect",
        "192.0.2.1:53",
        DIRECT,
        expect![
            "stockade: refused a connection of `ssh` past the proxy, to 192.0.2.1:53, a look-up of a host's name; the proxy in `HTTP_PROXY` is the only way out, to hosts in `sandbox.network.allowedDomains`; a program without proxy support needs a helper (`ProxyCommand` of ssh)"
        ],
    );
    check(
        "limit",
        "memory",
        "2147483648 bytes",
        "builtin: sandbox.limits.memory",
        expect![[r#"
        stockade: reached the limit memory of 2147483648 bytes by builtin: sandbox.limits.memory; to allow: sandbox.limits.memory: "4096MiB" (user settings)"#]],
    );
    check(
        "limit",
        "fileSize",
        "1048576 bytes",
        "sandbox.limits.fileSize 1048576 (/p/.stockade/settings.json:2, project)",
        expect![[r#"
        stockade: reached the limit fileSize of 1048576 bytes by sandbox.limits.fileSize 1048576 (/p/.stockade/settings.json:2, project); to allow: sandbox.limits.fileSize: "2MiB" (project settings)"#]],
    );
    check(
        "limit",
        "processes",
        "2048 processes",
        "builtin: sandbox.limits.processes",
        expect![[r#"
        stockade: reached the limit processes of 2048 processes by builtin: sandbox.limits.processes; to allow: sandbox.limits.processes: 4096 (user settings)"#]],
    );
    check(
        "syscall",
        "bpf",
        "",
        "builtin: system calls",
        expect![[r#"
        stockade: refused bpf (syscall) by builtin: system calls; no setting allows this system call"#]],
    );
    check(
        "planted",
        "core.fsmonitor",
        "/p/n/.git/config",
        "builtin: git configuration, put aside as `config.refused`",
        expect![[r#"
        stockade: found core.fsmonitor in /p/n/.git/config, set by builtin: git configuration, put aside as `config.refused`; no setting allows it: it would run programs when somebody uses git there"#]],
    );
}

#[test]
fn what_is_to_be_writable_is_small_and_what_is_not_there_is_made_first() {
    let rule = "builtin: outside of the writable directories";
    let told = |call: &str, object: &str| {
        let (kind, rule) = ("write".to_owned(), rule.to_owned());
        let (call, object) = (call.to_owned(), object.to_owned());
        text(&remedy(&Violation { kind, call, object, rule, ..Violation::default() }, around()))
    };
    let change = |first: &str, path: &str| {
        format!("to allow: {first}sandbox.filesystem.allowWrite: [\"{path}\"] (user settings)")
    };
    let (directory, file) = ("make that directory, then ", "make that file, then ");
    let too_much =
        "the directory contains too much to be writable: run the command outside of the sandbox";
    let all = [
        ("mkdir", "/h/me/.npm", change(directory, "/h/me/.npm")),
        ("mkdir", "/h/me/.npm/x", change(directory, "/h/me/.npm/x")),
        ("open", "/h/me/.npm/x", change("", "/h/me/.npm")),
        ("open", "/h/me/.viminfo", change(file, "/h/me/.viminfo")),
        ("open", "/h/x", change(file, "/h/x")),
        ("open", "/h/other/x", change(file, "/h/other/x")),
        ("open", "/x", change(file, "/x")),
        // A file that exists for a moment is not proposed.
        ("open", "/h/me/.gitconfig.lock", too_much.to_owned()),
        ("open", "/h/me/sedC5a3HP", too_much.to_owned()),
        ("open", "/h/me/.config.json.tmp", too_much.to_owned()),
        ("open", "/h/me/.foorc.new-4913aX", too_much.to_owned()),
        ("mkdir", "/h/me/tmp.X1b2C3d4", too_much.to_owned()),
        ("open", "/h/me/.npm/sedC5a3HP", change("", "/h/me/.npm")),
        ("mkdir", "/h/me/.npm/tmp.X1b2C3d4", change("", "/h/me/.npm")),
        ("open", "/h/me/.sedutil", change(file, "/h/me/.sedutil")),
        ("open", "/h/me/Makefile", change(file, "/h/me/Makefile")),
        ("open", "/etc/hostname", change("", "/etc/hostname")),
        ("unlink", "/h/me/.npm/x", change("", "/h/me/.npm")),
        ("unlink", "/h/me/x", too_much.to_owned()),
        ("rename", "/x", too_much.to_owned()),
        ("unlink", "/etc/hostname", too_much.to_owned()),
        ("open", "/sys/x/y", "no setting makes this directory writable".to_owned()),
    ];
    for (call, object, expected) in all {
        assert_eq!(told(call, object), expected, "{call} {object}");
    }
}

#[test]
fn what_a_program_writes_moves_no_cursor_and_has_an_end() {
    let name = "a\u{1b}[2J\u{202e}".to_owned() + &"x".repeat(10_000);
    let found = Violation {
        kind: "write".to_owned(),
        object: name.clone(),
        program: name,
        ..Violation::default()
    };
    let line = notice(&found, &[&found; 3], around());
    assert!(!line.contains('\u{1b}') && !line.contains('\u{202e}') && line.len() < 5_000);
    assert!(line.ends_with("(+3 more, see violations)"));
    assert!(view(&found, around())["program"].as_str().is_some_and(|text| text.len() < 5_000));
}
