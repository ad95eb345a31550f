//! A file to text, in a child process: whatever the parser does, this process lives.
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use contract::file_type::{HEAD_BYTES, judge};
use contract::limits::FILE_BYTES;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Semaphore;
use tracing::warn;

use crate::extracted::{Extracted, Gathered, Usage};
use crate::failure::{Failure, Why};
use crate::limits::Limits;
use crate::wire::{Line, Request};

/// Far beyond the child's processor time: for a machine that has none to give.
const WALL: Duration = Duration::from_secs(20);
/// JSON's escapes and the frames around pieces.
const OUTPUT_FACTOR: usize = 6;
const OUTPUT_FRAMES_BYTES: usize = 1 << 20;
const COMPLAINT_BYTES: u64 = 4_096;
/// Signals of the kernel's, as the shell counts them.
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// Starts children; clones share their number.
#[derive(Clone, Debug)]
pub struct Reader {
    program: PathBuf,
    arguments: Vec<String>,
    children: Arc<Semaphore>,
    limits: Limits,
    wall: Duration,
}

impl Reader {
    /// `program` with `arguments` calls [`crate::child::main`]. No more than `children` run at a time.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str], children: usize) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            children: Arc::new(Semaphore::new(children.max(1))),
            limits: Limits::default(),
            wall: WALL,
        }
    }

    /// This program itself, even if its file was replaced since it started.
    pub fn of_this_program(argument: &str, children: usize) -> Self {
        Self::new("/proc/self/exe", &[argument], children)
    }

    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    #[must_use]
    pub fn with_wall(self, wall: Duration) -> Self {
        Self { wall, ..self }
    }

    /// What is in a file. `name` counts for its extension only. Waits until a child may run; dropping the future
    /// kills the child.
    pub async fn read(&self, name: &str, bytes: &[u8]) -> Result<Extracted, Failure> {
        judge(name, bytes.get(..HEAD_BYTES).unwrap_or(bytes)).map_err(Failure::WrongType)?;
        if bytes.len() as u64 > FILE_BYTES {
            return Err(Failure::TooLarge);
        }
        let _permit = self.children.acquire().await.map_err(|_| Failure::Crashed)?;
        let mut child = self.start().map_err(|error| {
            warn!(%error, "A document reader could not be started: {error}");
            Failure::Crashed
        })?;
        let mut heard = Heard::default();
        let talk = self.talk(&mut child, name, bytes, &mut heard);
        let in_time = tokio::time::timeout(self.wall, talk).await;
        let _ = child.start_kill();
        let status = child.wait().await.ok();
        let end = match (heard.end, in_time) {
            (Some(end), _) => end,
            (None, Err(_)) => Err(Failure::TimedOut),
            (None, Ok(complaint)) => Err(cause_of_death(status, &complaint)),
        };
        heard.gathered.finish(end, heard.usage)
    }

    fn start(&self) -> std::io::Result<Child> {
        Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            // A second arena for a second thread would only eat of the limit.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }

    /// Returns what the child said on standard error, when it has closed its output.
    async fn talk(&self, child: &mut Child, name: &str, bytes: &[u8], heard: &mut Heard) -> String {
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let request =
            Request { name: name.to_owned(), size: bytes.len(), limits: self.limits.clone() };
        let most = self.limits.text_bytes * OUTPUT_FACTOR
            + self.limits.image_out_base64
            + OUTPUT_FRAMES_BYTES;
        let write = async {
            if let Some(input) = input {
                // It may die before it has read everything.
                let _ = send(input, &request, bytes).await;
            }
        };
        let listen = async {
            if let Some(output) = output {
                heard.listen(output, most).await;
            }
        };
        let complain = async {
            let mut said = Vec::new();
            if let Some(errors) = errors {
                let _ = errors.take(COMPLAINT_BYTES).read_to_end(&mut said).await;
            }
            String::from_utf8_lossy(&said).into_owned()
        };
        let ((), (), complaint) = tokio::join!(write, listen, complain);
        complaint
    }
}

async fn send(mut input: ChildStdin, request: &Request, bytes: &[u8]) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    input.write_all(&line).await?;
    input.write_all(bytes).await?;
    input.shutdown().await
}

#[derive(Default)]
struct Heard {
    gathered: Gathered,
    usage: Usage,
    end: Option<Result<Option<Why>, Failure>>,
}

impl Heard {
    /// Up to the last line, the end of the stream, or `most` bytes.
    async fn listen(&mut self, output: impl AsyncRead + Unpin, most: usize) {
        let mut lines = BufReader::new(output.take(most as u64));
        let mut line = Vec::new();
        while self.end.is_none() {
            line.clear();
            match lines.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            match serde_json::from_slice(&line) {
                Ok(Line::Piece(piece)) => self.gathered.push(piece),
                Ok(Line::End { end, usage }) => {
                    self.usage = usage;
                    self.end = Some(end);
                }
                // The child was cut off in the middle of a line.
                Err(_) => return,
            }
        }
    }
}

fn cause_of_death(status: Option<ExitStatus>, complaint: &str) -> Failure {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.and_then(|status| status.signal());
    let failure = if signal == Some(SIGXCPU) {
        Failure::TimedOut
    } else if complaint.contains("memory allocation of") || signal == Some(SIGKILL) {
        // Nobody else kills it: this process does only when it has its answer or its time is over.
        Failure::OutOfMemory
    } else {
        Failure::Crashed
    };
    warn!(signal, complaint = complaint.trim(), "A document reader died: {failure:?}");
    failure
}
