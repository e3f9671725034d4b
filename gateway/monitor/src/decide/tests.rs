//! Every verdict with and without a reach, through a log on disk: what is granted, and what the record names.

use std::collections::{BTreeMap, BTreeSet};

use stockade_log::record::caller::Caller;
use stockade_log::record::decision::{Agent, Policy, Request, Runs, Sandbox, Stdin};
use stockade_log::record::{Approval, ApprovalAnswer, Decision as Record, Scope};
use stockade_log::{GatewayMode, Log, Places, Redactor};
use stockade_policy::{By, Verdict};
use stockade_spec::{Fallback, Files, Limits, Mediation, Network, Program};

use super::*;
use crate::testing::Folder;

/// Returns a reach whose command has these variables.
fn spec(environment: &[(&str, &str)]) -> SandboxSpec {
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let (argv, cwd) = (vec!["ls".into()], "/home/u/p".into());
    SandboxSpec {
        program: Program { path: "/bin/ls".into(), argv, environment, cwd },
        files: Files::default(),
        network: Network::Off,
        limits: Limits::default(),
        terminal: None,
        required: BTreeSet::new(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: Fallback::Refuse,
    }
}

fn request() -> Request {
    Request {
        tool: "Bash".into(),
        input: serde_json::json!({ "command": "ls" }),
        command: Some(b"ls".to_vec()),
        rewritten: None,
        cwd: "/home/u/p".into(),
        project: "/home/u/p".into(),
        home: "/home/u".into(),
        shell: None,
        env_names: Vec::new(),
        stdin: Stdin::NONE,
        timeout_ms: 1,
        background: false,
        pty: false,
        unsandboxed_asked: false,
        description: None,
    }
}

fn record(decision: Decision) -> Record {
    Record {
        repeats: None,
        caller: Caller::parent(),
        agent: Agent {
            name: "agent".into(),
            version: None,
            session: None,
            call_id: None,
            model: None,
            door: "run".into(),
            mode_asked: None,
            trace: None,
            mode: "default".into(),
        },
        request: request(),
        tree: None,
        paths: BTreeMap::new(),
        verdict: Verdict {
            decision,
            by: By::Default,
            code: "default",
            reason: "no rule matches".into(),
            parts: Vec::new(),
            unlisted: 0,
            rules: Vec::new(),
            suggestion: None,
            help: String::new(),
            auto_allowed: false,
            opens: Vec::new(),
        },
        eval_us: 1,
        file_digests: BTreeMap::new(),
        hooks: Vec::new(),
        policy: Policy {
            sha256: "00".repeat(32),
            reference: "01KAJ8P0000000000000000001".into(),
            source: "files",
        },
        grant: None,
        sandbox: Sandbox {
            wanted: true,
            profile_sha256: None,
            spec_hmac: None,
            landlock_abi: None,
            network: "off".into(),
            enforced: Vec::new(),
            missing: Vec::new(),
            excluded_by: None,
            auto_allow: false,
        },
        runs: Runs::Gateway,
    }
}

fn yes(decision: &str) -> Approval {
    Approval {
        reference: decision.to_owned(),
        // The log writes that it is a yes, whatever is said here.
        answer: ApprovalAnswer::Deny,
        who: None,
        channel: "terminal".into(),
        waited_ms: 1,
        shown_hmac: "00".repeat(32),
        scope: Scope::Once,
        expires: None,
        question: None,
        approvers: Vec::new(),
        break_glass: None,
        claimed: None,
        spec_hmac: None,
    }
}

fn log(folder: &Folder) -> Log {
    let (directory, state) = (folder.path().join("audit"), folder.path().join("state"));
    Log::open(&Places { directory, state }, GatewayMode::Embedded).unwrap()
}

/// Returns the record with this number, as it is on disk.
fn on_disk(folder: &Folder, sequence: u64) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.path().join("audit/00000001.jsonl")).unwrap();
    serde_json::from_str(text.lines().nth(usize::try_from(sequence).unwrap()).unwrap()).unwrap()
}

fn digest(redactor: &Redactor, spec: &SandboxSpec) -> serde_json::Value {
    redactor.digest(&spec.bytes()).into()
}

/// The digest is of the whole reach: [`stockade_spec`] has a test that its bytes hold all of it.
#[tokio::test]
async fn i1_the_record_on_disk_has_verdict_and_reach_and_an_allow_alone_is_granted() {
    let folder = Folder::new();
    let log = log(&folder);
    for (verdict, name) in
        [(Decision::Allow, "allow"), (Decision::Ask, "ask"), (Decision::Deny, "deny")]
    {
        for reach in [None, Some(spec(&[("A", "1"), ("STOCKADE_TASK_ID", "forged"), ("B", "2")]))] {
            let subject = reach.clone().map(Spec::from);
            let recorded = log.decision(record(verdict), subject).await.unwrap();
            assert_eq!(recorded.verdict(), verdict);
            let written = on_disk(&folder, recorded.receipt().sequence);
            assert_eq!(written["verdict"]["decision"], name);
            let expected = reach.as_ref().map(|it| digest(log.redactor(), it));
            assert_eq!(written["sandbox"].get("spec_hmac"), expected.as_ref(), "{written}");
            let (receipt, outcome) = decide(recorded);
            assert_eq!(written["id"], receipt.id.as_str());
            match (outcome, verdict, reach) {
                (Outcome::Granted(grant), Decision::Allow, Some(_)) => {
                    let granted = [("A", "1"), ("B", "2"), ("STOCKADE_TASK_ID", &receipt.id)];
                    assert_eq!(grant.into_spec(), spec(&granted));
                }
                (Outcome::Ask(pending), Decision::Ask, _) => {
                    assert_eq!(pending.decision, receipt.id);
                }
                (Outcome::Refused, Decision::Deny, _)
                | (Outcome::Refused, Decision::Allow, None) => {}
                (outcome, verdict, _) => panic!("{verdict:?} comes to {outcome:?}"),
            }
        }
    }
}

#[tokio::test]
async fn i4_a_yes_on_disk_lifts_the_question_that_it_names_and_no_other() {
    let folder = Folder::new();
    let log = log(&folder);
    let mut questions = Vec::new();
    for _ in 0..2 {
        let recorded = log.decision(record(Decision::Ask), None).await.unwrap();
        let (receipt, Outcome::Ask(pending)) = decide(recorded) else { panic!("it is a question") };
        questions.push((receipt.id, pending));
    }
    let [(first, one), (second, other)] = <[_; 2]>::try_from(questions).unwrap();
    let reach = spec(&[("A", "1")]);
    let approved = log.approval(yes(&first), Spec(reach.clone())).await.unwrap();
    let written = on_disk(&folder, 3);
    assert_eq!(
        [&written["kind"], &written["ref"], &written["answer"], &written["spec_hmac"]],
        [
            &"approval".into(),
            &first.clone().into(),
            &"allow".into(),
            &digest(log.redactor(), &reach)
        ],
        "{written}"
    );
    let granted = one.allowed(approved).map(Grant::into_spec);
    assert_eq!(granted, Some(spec(&[("A", "1"), ("STOCKADE_TASK_ID", &first)])));
    let approved = log.approval(yes(&first), Spec(reach)).await.unwrap();
    assert!(other.allowed(approved).is_none(), "the yes to {first} lifts {second}");
}
