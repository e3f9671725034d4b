//! A disk that fills up: refused in words, the result of what runs still fits, and it clears by itself.

use std::fs;
use std::process::Command;

use super::sample::{Scratch, decision, result};
use crate::{GatewayMode, Log, Places};
use stockade_scratch::skip;

const FOLDER: &str = "STOCKADE_TEST_FULL";

const FULL: &str = "a_full_disk_refuses_but_keeps_the_result_of_what_runs";

#[test]
fn a_full_disk_refuses_but_keeps_the_result_of_what_runs() {
    let scratch = Scratch::new("full");
    let script = "mount -t tmpfs -o size=2m,mode=700 none \"$1\" || exit 77; exec \"$2\" --exact \
                  tests::full::a_child_lives_on_a_small_disk --nocapture";
    let done = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(&scratch.folder)
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, &scratch.folder)
        .output();
    match done {
        Ok(done) if done.status.success() => {
            let told = String::from_utf8_lossy(&done.stdout);
            assert!(told.contains("1 passed"), "the child did not run: {told}");
        }
        Ok(done)
            if done.status.code() == Some(77)
                || done.status.code() == Some(1) && done.stdout.is_empty() =>
        {
            skip(FULL, &format!("no small disk: {}", String::from_utf8_lossy(&done.stderr)));
        }
        Ok(done) => panic!(
            "{}\n{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        ),
        Err(error) => skip(FULL, &format!("no `unshare`: {error}")),
    }
}

/// Returns the commands that are marked as running.
fn marks(places: &Places) -> Vec<String> {
    let entries = fs::read_dir(places.state.join("open")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.split('.').next().unwrap().to_owned()).collect()
}

/// Is the child. Does nothing when it is not started by the test above.
#[tokio::test]
async fn a_child_lives_on_a_small_disk() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else {
        eprintln!("only a part of a_full_disk_refuses_but_keeps_the_result_of_what_runs");
        return;
    };
    let places = Places { directory: folder.join("audit"), state: folder.join("state") };
    let log = Log::open(&places, GatewayMode::Embedded).unwrap();
    let running = log.record(decision("sleep 1")).await.unwrap();
    let filler = folder.join("filler");
    let mut size = 4 << 20;
    while size > 512 {
        let mut content = fs::read(&filler).unwrap_or_default();
        content.resize(content.len() + size, b'x');
        // Writing until it does not fit, in ever smaller steps.
        if fs::write(&filler, content).is_err() {
            size /= 2;
        }
    }
    let mut granted = vec![running];
    let refused = loop {
        match log.record(decision("ls")).await {
            Ok(receipt) => granted.push(receipt),
            Err(refused) => break refused,
        }
        assert!(granted.len() < 50, "the disk does not fill up");
    };
    // A command that was refused leaves no mark of one that runs.
    let mut marked = marks(&places);
    marked.sort();
    let mut ids: Vec<String> = granted.iter().map(|receipt| receipt.id.clone()).collect();
    ids.sort();
    assert_eq!(marked, ids);
    for receipt in &granted {
        log.record(result(&receipt.id)).await.expect("room was reserved");
    }
    assert_eq!(
        refused.to_string(),
        format!(
            "audit log {} cannot be written: No space left on device (ENOSPC); nothing was run",
            places.directory.display()
        )
    );
    assert_eq!(marks(&places), Vec::<String>::new(), "every command ended");
    fs::remove_file(&filler).unwrap();
    let after = log.record(decision("ls")).await.unwrap();
    let before = 2 * granted.len() as u64;
    assert!(after.sequence > before + 1, "the refusal is named in between");
    log.record(result(&after.id)).await.unwrap();
    drop(log);
    let scratch = Scratch { folder, places };
    let report = super::crash::check(&scratch);
    std::mem::forget(scratch);
    assert_eq!((report.exit_code(), report.records), (0, before + 4), "{report:?}");
}
