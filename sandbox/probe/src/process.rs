//! Runs a trial in a separate process: its inheritable descriptor and the threads that it signals are never those of the caller.

use std::path::Path;
use std::process::{Command, Stdio};

use stockade_spec::Start;
use stockade_spec::codec::Wire;

use super::trial::{self, Sandbox};
use super::{Host, Probe, ROLE, Trial, inside};

impl Trial {
    const ALL: [Trial; 2] = [Trial::Everything, Trial::Start];

    /// The second argument of the process; without one it tries the acts.
    fn word(self) -> &'static str {
        match self {
            Trial::Everything => "all",
            Trial::Start => "start",
        }
    }
}

/// Runs a trial with `launcher`, and returns why there is no result.
#[expect(
    clippy::disallowed_methods,
    reason = "this executable, for a trial of what the machine can enforce"
)]
pub(crate) fn run(launcher: &Path, trial: Trial) -> Result<Host, String> {
    let mut command = Command::new(launcher);
    command.args([ROLE, trial.word()]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command
        .output()
        .map_err(|error| format!("cannot start `{}` for a trial: {error}", launcher.display()))?;
    match Host::from_bytes(&output.stdout) {
        Ok(host) if output.status.success() => Ok(host),
        Ok(_) | Err(_) => {
            Err(format!("the trial of this machine ended without a result: {}", output.status))
        }
    }
}

/// Runs as [`ROLE`]: the process of a trial, or the one that tries the acts.
pub(crate) fn main(start: Start) -> i32 {
    let Some(word) = std::env::args().nth(2) else { return inside::run() };
    let trial = Trial::ALL.into_iter().find(|trial| trial.word() == word);
    let (Some(trial), Ok(launcher)) = (trial, std::env::current_exe()) else { return 1 };
    let sandbox = Sandbox { launcher: &launcher, start };
    let host = match trial {
        Trial::Everything => trial::probe(sandbox),
        Trial::Start => trial::start(sandbox),
    };
    let told = std::io::Write::write_all(&mut std::io::stdout(), &host.to_bytes());
    i32::from(told.is_err())
}

impl Wire for Probe {
    fn put(&self, out: &mut Vec<u8>) {
        let Probe { name, works, detail, help } = self;
        name.put(out);
        works.put(out);
        detail.put(out);
        help.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Probe> {
        Some(Probe {
            name: Wire::take(from)?,
            works: Wire::take(from)?,
            detail: Wire::take(from)?,
            help: Wire::take(from)?,
        })
    }
}

impl Wire for Host {
    fn put(&self, out: &mut Vec<u8>) {
        let Host { probes, surroundings, enforced, lacks_namespaces, kernel, landlock_abi } = self;
        probes.put(out);
        surroundings.put(out);
        enforced.put(out);
        lacks_namespaces.put(out);
        kernel.put(out);
        landlock_abi.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Host> {
        Some(Host {
            probes: Wire::take(from)?,
            surroundings: Wire::take(from)?,
            enforced: Wire::take(from)?,
            lacks_namespaces: Wire::take(from)?,
            kernel: Wire::take(from)?,
            landlock_abi: Wire::take(from)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use stockade_spec::{Enforced, Protection, State};

    use super::*;

    #[test]
    fn a_result_is_read_as_it_was_written_and_no_other_bytes_are_one() {
        let probe = |works: bool, help: &str| Probe {
            name: "cannot write outside".into(),
            works,
            detail: "seen".into(),
            help: help.into(),
        };
        let host = Host {
            probes: vec![probe(true, ""), probe(false, "do this")],
            surroundings: vec!["in a container".into(), String::new()],
            enforced: Enforced {
                states: [(Protection::Network, State::Missing("why".into()))].into(),
                notes: vec!["a note".into()],
            },
            lacks_namespaces: true,
            kernel: "6.1.0".into(),
            landlock_abi: 3,
        };
        let bytes = host.to_bytes();
        assert_eq!(Host::from_bytes(&bytes).unwrap(), host);
        for length in 0..bytes.len() {
            assert!(Host::from_bytes(&bytes[..length]).is_err(), "{length}");
        }
        assert!(Host::from_bytes(&[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn a_trial_without_a_result_says_why_and_claims_nothing() {
        let run = |program: &str| run(Path::new(program), Trial::Start).unwrap_err();
        let ended = "the trial of this machine ended without a result: exit status: ";
        assert_eq!(run("/bin/true"), format!("{ended}0"));
        assert_eq!(run("/bin/false"), format!("{ended}1"));
        let missing =
            "cannot start `/no/program` for a trial: No such file or directory (os error 2)";
        assert_eq!(run("/no/program"), missing);
        let host = Host::probe_with(Path::new("/bin/true"));
        let missing = |it: &Protection| (*it, State::Missing(format!("{ended}0")));
        assert_eq!(host.enforced.states, Protection::ALL.iter().map(missing).collect());
    }
}
