//! Does one thing that a reader of documents has no business with, confined as that or free, for the tests of this
//! package: `attempt-in-child confined|free ATTEMPT ARGUMENT`. Says what came of it on standard output.
use std::fs::{self, File};
use std::io::{Error, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, ExitCode};

use documents::limits::Limits;
use rustix::process::{Pid, Resource, Rlimit, Signal, getppid, kill_process, setrlimit};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [how, what, argument] = arguments.as_slice() else { return ExitCode::FAILURE };
    let known = Known { inherited: File::open("/etc/passwd"), parent: getppid() };
    if how == "confined"
        && let Err(error) = documents::child::confine(&Limits::default())
    {
        eprintln!("attempt-in-child: {error}");
        return ExitCode::FAILURE;
    }
    let said = match attempt(what, argument, known) {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("refused: {:?}", error.kind()),
    };
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{said}").and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// From before it was confined.
struct Known {
    /// As left open by whoever started the worker.
    inherited: Result<File, Error>,
    parent: Option<Pid>,
}

fn attempt(what: &str, argument: &str, known: Known) -> Result<(), Error> {
    match what {
        "read a file" => fs::read("/etc/passwd").map(drop),
        "read what is open" => known.inherited?.read_exact(&mut [0; 16]),
        "list a folder" => fs::read_dir("/").map(drop),
        "ask about a file" => fs::metadata("/etc/passwd").map(drop),
        "write a file" => fs::write(format!("{argument}.new"), "x"),
        "remove a file" => fs::remove_file(argument),
        "rename a file" => fs::rename(argument, format!("{argument}.moved")),
        "link a file" => fs::hard_link(argument, format!("{argument}.link")),
        "make a folder" => fs::create_dir(format!("{argument}.folder")),
        "connect" => TcpStream::connect(argument).map(drop),
        "listen" => TcpListener::bind("127.0.0.1:0").map(drop),
        "send a datagram" => UdpSocket::bind("127.0.0.1:0").map(drop),
        "start a program" => Command::new("/bin/true").status().map(drop),
        "start a thread" => std::thread::Builder::new().spawn(|| ()).map(drop),
        "signal the parent" => {
            Ok(kill_process(known.parent.ok_or_else(|| Error::other("no parent"))?, Signal::CONT)?)
        }
        "lift a limit" => {
            let more = Rlimit { current: Some(1 << 40), maximum: Some(1 << 40) };
            Ok(setrlimit(Resource::Data, more)?)
        }
        "take memory" => {
            let mut block: Vec<u8> = Vec::new();
            block.try_reserve_exact(400 << 20).map_err(Error::other)?;
            block.resize(400 << 20, 1);
            Ok(())
        }
        other => Err(Error::other(format!("no such attempt: {other}"))),
    }
}
