//! The child process: limits itself, reads one file from standard input, tells pieces on standard output.
use std::io::{BufRead as _, Read as _, Stdout, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::limits::FILE_BYTES;

use crate::confine::{Own, cpu_time};
use crate::extract::extract;
use crate::extracted::Piece;
use crate::failure::{Failure, Why};
use crate::limits::Limits;
use crate::wire::{Line, Request};

/// Parsers recurse; the rest of the memory is for what they read.
const STACK_BYTES: usize = 16 << 20;
/// How often the processor's time is looked at.
const WATCH: Duration = Duration::from_millis(10);
const REQUEST_BYTES: u64 = 64 * 1024;

type Ended = Result<Option<Why>, Failure>;

/// Takes from this process what [`main`] takes from itself, for tests of what is left.
pub fn confine(limits: &Limits) -> std::io::Result<()> {
    Own::begin()?.confine(limits)
}

/// To be called before a program does anything else, when it is started as the child of a
/// [`crate::parent::Reader`]. Threads started earlier would not be limited as this one is.
pub fn main() -> ExitCode {
    // What a parser says when it panics is made of the file: it goes nowhere.
    std::panic::set_hook(Box::new(|_| {}));
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("extract-document: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> std::io::Result<()> {
    let mut own = Own::begin()?;
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    input.by_ref().take(REQUEST_BYTES).read_until(b'\n', &mut line)?;
    let request: Request = serde_json::from_slice(&line)?;
    let (size, limits) = (request.size, request.limits.clone());
    let said = Said::default();
    let (give, given) = channel::<Vec<u8>>();
    let (ready, started) = channel();
    let (done, ended) = channel();
    let parser = said.clone();
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let _ = ready.send(());
        if let Ok(bytes) = given.recv() {
            parse(&request.name, &bytes, &request.limits, &parser, &done);
        }
    })?;
    // A thread that is just starting asks for more than one that runs.
    let _ = started.recv();
    own.confine(&limits)?;
    let mut bytes = Vec::with_capacity(size.min(usize::try_from(FILE_BYTES).unwrap_or(0)));
    input.take(FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() != size {
        return Err(std::io::Error::other("the parent broke off"));
    }
    let _ = give.send(bytes);
    let end = watch(&limits, &said, &ended);
    let line = Line::End { end, usage: own.usage() };
    said.end(&line);
    // Not by returning: the parser's thread may be anywhere.
    std::process::exit(0);
}

fn parse(name: &str, bytes: &[u8], limits: &Limits, said: &Said, done: &Sender<Ended>) {
    let mut emit = |piece| said.piece(piece);
    let ended = catch_unwind(AssertUnwindSafe(|| extract(name, bytes, limits, &mut emit)));
    let _ = done.send(ended.unwrap_or(Err(Failure::Crashed)));
}

/// Waits for the parser until its time is over. What it has said until then stays.
fn watch(limits: &Limits, said: &Said, ended: &std::sync::mpsc::Receiver<Ended>) -> Ended {
    let allowed = Duration::from_millis(limits.cpu_ms);
    loop {
        match ended.recv_timeout(WATCH) {
            Ok(ended) => return ended,
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::Crashed),
            Err(RecvTimeoutError::Timeout) if cpu_time() >= allowed => {
                said.piece(Piece::SectionCut);
                return Ok(Some(Why::Time));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Standard output, a line at a time, until the last one.
#[derive(Clone)]
struct Said(Arc<Mutex<Option<Stdout>>>);

impl Default for Said {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(std::io::stdout()))))
    }
}

impl Said {
    fn piece(&self, piece: Piece) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(out) = out.as_mut() {
            say(out, &Line::Piece(piece));
        }
    }

    fn end(&self, line: &Line) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut out) = out.take() {
            say(&mut out, line);
        }
    }
}

/// A parent that has gone away has killed this process, or is about to.
fn say(out: &mut Stdout, line: &Line) {
    let Ok(mut bytes) = serde_json::to_vec(line) else { return };
    bytes.push(b'\n');
    let _ = out.write_all(&bytes).and_then(|()| out.flush());
}
