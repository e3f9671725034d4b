//! The worker process: started once and kept, replaced when it dies or stalls.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest, Sha256};
use stockade_parser::{Absence, Node, NodeKind, Witness};
use stockade_witness::{Refusal, Seen, SeenNode, frames};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use stockade_kernel::ForkedWorker;

/// How long a worker may take until it says hello.
const START_DEADLINE: Duration = Duration::from_secs(2);

/// How long a text may take, besides [`DEADLINE_EACH_KIB`]. An answer takes well below a millisecond; the limit is for a
/// worker that never answers, and a busy machine is no reason to doubt a text and ask a person.
const DEADLINE: Duration = Duration::from_secs(2);

/// How much longer it may take for each KiB of the text.
const DEADLINE_EACH_KIB: Duration = Duration::from_millis(1);

/// Texts that killed a worker and are remembered.
const FATAL_TEXTS: usize = 4_096;

/// How a worker is started.
#[derive(Debug, Clone)]
pub enum Start {
    /// The worker that this process forked; without one this executable as `stockade scan`, without environment.
    Executable(PathBuf, crate::Prefork),
    /// A thread of the test, unconfined.
    #[cfg(test)]
    Thread(fn(std::os::unix::net::UnixStream)),
}

/// The one place that talks to a worker.
pub(super) struct Desk {
    start: Start,
    worker: Option<Worker>,
    /// A worker that was told to end and is waited for at last.
    leaving: Option<Process>,
    /// Digests of texts that a worker died of, oldest first.
    fatal: VecDeque<[u8; 32]>,
}

type Input = Box<dyn AsyncWrite + Send + Unpin>;
type Output = Box<dyn AsyncRead + Send + Unpin>;

/// A worker that was started.
struct Worker {
    input: Input,
    output: BufReader<Output>,
    /// Kinds that the worker's numbers stand for, as its hello says; none before that was heard.
    kinds: Option<Vec<NodeKind>>,
    process: Process,
}

/// Process or thread of a worker; killed when dropped.
enum Process {
    Executed(Child),
    Forked(ForkedWorker),
    #[cfg(test)]
    Thread,
}

/// Why a worker gave no answer.
enum Failure {
    /// The worker did not say hello, so that no text was read.
    Unready,
    /// The worker died or closed its end.
    Dead,
    /// The deadline passed.
    Slow,
    /// The worker sent an invalid answer.
    Nonsense,
}

impl Desk {
    pub(super) fn new(start: Start) -> Desk {
        Desk { start, worker: None, leaving: None, fatal: VecDeque::new() }
    }

    #[cfg(test)]
    pub(super) fn starting_with(self, start: Start) -> Desk {
        Desk { start, worker: None, ..self }
    }

    /// Has the worker end, which it does meanwhile; a later text starts another.
    pub(super) fn rest(&mut self) {
        let Some(Worker { process, .. }) = self.worker.take() else { return };
        if let Process::Forked(worker) = &process {
            worker.dismiss();
        }
        self.leaving = Some(process);
    }

    /// Makes sure that a worker is there, or on its way.
    pub(super) fn warm(&mut self) {
        let alive = self.worker.as_mut().is_some_and(Worker::is_alive);
        if !alive {
            self.worker = Worker::start(&self.start);
        }
    }

    /// Has each text read. All are on their way at once; after a failure the rest go to a new worker.
    pub(super) async fn read(&mut self, texts: Vec<Vec<u8>>) -> Vec<Witness> {
        let mut answers: Vec<Option<Witness>> =
            texts.iter().map(|text| self.withheld(text)).collect();
        loop {
            let waiting: Vec<usize> = (0..texts.len())
                .filter(|index| answers.get(*index).is_some_and(Option::is_none))
                .collect();
            if waiting.is_empty() {
                break;
            }
            self.warm();
            let Some(worker) = &mut self.worker else { break };
            let batch: Vec<&[u8]> =
                waiting.iter().filter_map(|index| texts.get(*index)).map(Vec::as_slice).collect();
            let (seen, failure) = worker.read(&batch).await;
            let failed = waiting.get(seen.len()).copied();
            for (index, witness) in waiting.iter().zip(seen) {
                if let Some(answer) = answers.get_mut(*index) {
                    *answer = Some(witness);
                }
            }
            let Some(failure) = failure else { continue };
            self.worker = None;
            if matches!(failure, Failure::Unready) {
                break;
            }
            let Some((failed, text)) = failed.and_then(|at| Some((at, texts.get(at)?))) else {
                break;
            };
            if let Some(answer) = answers.get_mut(failed) {
                *answer = Some(Witness::Absent(self.blame(&failure, text)));
            }
        }
        let missing = || Witness::Absent(Absence::Dead);
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    /// Returns the answer to a text that is not sent at all.
    fn withheld(&self, text: &[u8]) -> Option<Witness> {
        if stockade_witness::refusal(text).is_some() {
            return Some(Witness::Absent(Absence::Guarded));
        }
        if self.fatal.is_empty() {
            return None;
        }
        let digest: [u8; 32] = Sha256::digest(text).into();
        self.fatal.contains(&digest).then_some(Witness::Absent(Absence::Dead))
    }

    /// Returns why there is no answer, and remembers a text that a worker died of.
    fn blame(&mut self, failure: &Failure, text: &[u8]) -> Absence {
        match failure {
            Failure::Slow => return Absence::Slow,
            Failure::Unready => return Absence::Dead,
            Failure::Dead | Failure::Nonsense => {}
        }
        if self.fatal.len() == FATAL_TEXTS {
            self.fatal.pop_front();
        }
        self.fatal.push_back(Sha256::digest(text).into());
        match failure {
            Failure::Nonsense => Absence::Nonsense,
            Failure::Dead | Failure::Slow | Failure::Unready => Absence::Dead,
        }
    }
}

impl Worker {
    /// Starts a worker and does not wait for its hello; none if it cannot be started.
    fn start(start: &Start) -> Option<Worker> {
        match start {
            Start::Executable(executable, prefork) => match (prefork.0)() {
                Some(worker) => {
                    let (input, output) = halves(worker.socket().ok()?)?;
                    Some(Worker::over(input, output, Process::Forked(worker)))
                }
                None => Worker::execute(executable),
            },
            #[cfg(test)]
            Start::Thread(body) => {
                let (ours, theirs) = UnixStream::pair().ok()?;
                let body = *body;
                std::thread::spawn(move || body(theirs));
                let (input, output) = halves(ours)?;
                Some(Worker::over(input, output, Process::Thread))
            }
        }
    }

    /// Starts the executable once more.
    #[expect(
        clippy::disallowed_methods,
        reason = "this executable as the scan worker, which gives up all rights"
    )]
    fn execute(executable: &Path) -> Option<Worker> {
        let mut process = Command::new(executable)
            .arg("scan")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        let (input, output) = (process.stdin.take()?, process.stdout.take()?);
        Some(Worker::over(Box::new(input), Box::new(output), Process::Executed(process)))
    }

    fn over(input: Input, output: Output, process: Process) -> Worker {
        Worker { input, output: BufReader::new(output), kinds: None, process }
    }

    fn is_alive(&mut self) -> bool {
        match &mut self.process {
            Process::Executed(process) => matches!(process.try_wait(), Ok(None)),
            Process::Forked(worker) => worker.is_alive(),
            #[cfg(test)]
            Process::Thread => true,
        }
    }

    /// Sends all of `texts` and takes their answers, up to the first failure.
    async fn read(&mut self, texts: &[&[u8]]) -> (Vec<Witness>, Option<Failure>) {
        let mut requests = Vec::new();
        for text in texts {
            let Ok(prefix) = frames::prefix(text, frames::REQUEST_LIMIT_BYTES) else {
                return (Vec::new(), Some(Failure::Nonsense));
            };
            requests.extend_from_slice(&prefix);
            requests.extend_from_slice(text);
        }
        let Worker { input, output, kinds, .. } = self;
        // Both at once: a worker that waits to be read from does not read.
        let send = async {
            let sent = input.write_all(&requests).await;
            match sent {
                Ok(()) => input.flush().await,
                Err(error) => Err(error),
            }
        };
        let take = async {
            let known = match kinds.take() {
                Some(known) => Some(known),
                // The worker says hello without having looked at any text.
                None => timeout(START_DEADLINE, hello(output)).await.ok().flatten(),
            };
            let Some(known) = known else { return (Vec::new(), Some(Failure::Unready)) };
            let kinds = kinds.insert(known);
            let mut answers = Vec::with_capacity(texts.len());
            for text in texts {
                match timeout(deadline(text), answer(output, kinds)).await {
                    Ok(Ok(witness)) => answers.push(witness),
                    Ok(Err(failure)) => return (answers, Some(failure)),
                    Err(_) => return (answers, Some(Failure::Slow)),
                }
            }
            (answers, None)
        };
        tokio::pin!(send, take);
        let mut sending = true;
        loop {
            tokio::select! {
                taken = &mut take => return taken,
                // A failed write shows as a missing answer, which says more.
                _ = &mut send, if sending => sending = false,
            }
        }
    }
}

/// Returns the two directions of a socket.
fn halves(socket: UnixStream) -> Option<(Input, Output)> {
    socket.set_nonblocking(true).ok()?;
    let (output, input) = tokio::net::UnixStream::from_std(socket).ok()?.into_split();
    Some((Box::new(input), Box::new(output)))
}

/// How long the answer to `text` may take.
fn deadline(text: &[u8]) -> Duration {
    let kib = u32::try_from(text.len() / 1_024).unwrap_or(u32::MAX);
    DEADLINE.saturating_add(DEADLINE_EACH_KIB.saturating_mul(kib))
}

/// Takes one frame.
async fn frame(output: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, Failure> {
    let mut prefix = [0; 4];
    output.read_exact(&mut prefix).await.map_err(|_| Failure::Dead)?;
    let length =
        frames::body_length(prefix, frames::ANSWER_LIMIT_BYTES).map_err(|_| Failure::Nonsense)?;
    let mut body = vec![0; length];
    output.read_exact(&mut body).await.map_err(|_| Failure::Dead)?;
    Ok(body)
}

/// Takes the hello; none if it is none.
async fn hello(output: &mut (impl AsyncRead + Unpin)) -> Option<Vec<NodeKind>> {
    let hello = frame(output).await.ok()?;
    let kinds = frames::read_hello(&hello).ok()?;
    Some(kinds.iter().map(|kind| NodeKind::of(kind.name, kind.named)).collect())
}

/// Takes one answer.
async fn answer(
    output: &mut (impl AsyncRead + Unpin),
    kinds: &[NodeKind],
) -> Result<Witness, Failure> {
    let body = frame(output).await?;
    let seen = frames::read_answer(&body).map_err(|_| Failure::Nonsense)?;
    Ok(match seen {
        Seen::Nodes(nodes) => Witness::Nodes(nodes.iter().map(|it| node(it, kinds)).collect()),
        Seen::Refused(Refusal::Guard | Refusal::Nul | Refusal::Long) => {
            Witness::Absent(Absence::Guarded)
        }
        Seen::Refused(Refusal::NoTree) => Witness::Absent(Absence::Dead),
    })
}

fn node(seen: &SeenNode, kinds: &[NodeKind]) -> Node {
    Node {
        kind: kinds.get(usize::from(seen.kind)).copied().unwrap_or(NodeKind::Other),
        start: seen.start,
        end: seen.end,
        depth: seen.depth,
        broken: seen.broken,
    }
}
