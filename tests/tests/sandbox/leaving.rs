//! A run leaves the host's tree in one of two ways: early, as Linux allows from 6.15, or when its spec is there.

use std::process::Command;

use crate::place::OLDER;

/// The tests of what the way out of the host's tree could spoil: what is shown, writable, hidden, private.
const TESTS: [&str; 6] = [
    "files::",
    "elsewhere::",
    "root::",
    "foreign::",
    "kernel::kernel_settings",
    "guard::a_protected_path",
];

#[test]
fn the_older_way_to_leave_the_host_confines_alike() {
    let own = std::env::current_exe().expect("this test");
    let output = Command::new(own)
        .args(TESTS)
        .env(OLDER, "no-detached-copies")
        .output()
        .expect("the tests start");
    let text = String::from_utf8_lossy(&output.stdout);
    let more = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{more}");
    let passed = text.split(" passed").next().and_then(|it| it.rsplit(' ').next()?.parse().ok());
    assert!(passed.is_some_and(|count: u32| count > 20), "{text}");
}
