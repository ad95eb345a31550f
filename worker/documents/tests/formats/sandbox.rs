//! The child process around the readers: what it can't do, and what it can't do to this process.
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use contract::file_type::FileType;
use documents::failure::{Failure, Why};
use documents::limits::Limits;
use documents::parent::Reader;

use crate::child::peak_of_this_process;
use crate::workbook::{Workbook, row};
use crate::{child, reader};

#[tokio::test]
async fn a_file_is_read_in_a_child() {
    let read = reader().read("a.csv", "город;сумма\nОмск;5\n".as_bytes()).await.unwrap();
    assert_eq!(read.kind, FileType::Csv);
    assert_eq!(read.sections[0].text, "город\tсумма\nОмск\t5\n");
    assert!(read.usage.start_bytes > 0 && read.usage.peak_bytes >= read.usage.start_bytes);
}

const ATTEMPTS: [&str; 17] = [
    "read a file",
    "read what is open",
    "list a folder",
    "ask about a file",
    "write a file",
    "rename a file",
    "link a file",
    "make a folder",
    "remove a file",
    "connect",
    "listen",
    "send a datagram",
    "start a program",
    "start a thread",
    "signal the parent",
    "lift a limit",
    "take memory",
];

/// Every attempt does what it says in a process that is not confined, so that a refusal means something.
#[test]
fn a_confined_process_reaches_nothing() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let folder = scratch("reach");
    let file = folder.join("file");
    for attempt in ATTEMPTS {
        std::fs::write(&file, "content").unwrap();
        let argument = if attempt == "connect" { address.as_str() } else { file.to_str().unwrap() };
        let said = try_it("confined", attempt, argument);
        assert!(said.starts_with("refused: "), "{attempt}: {said}");
        assert_eq!(std::fs::read(&file).unwrap(), b"content", "{attempt}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{attempt}");
        assert_eq!(try_it("free", attempt, argument), "done", "{attempt}");
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn try_it(how: &str, attempt: &str, argument: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_attempt-in-child"))
        .args([how, attempt, argument])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    format!("{}{}", said.trim(), String::from_utf8(output.stderr).unwrap())
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("documents-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The reader itself, stopped between the moment it knows its limits and the last byte of the file.
#[test]
fn the_reader_is_confined_before_it_sees_the_file() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_extract-document"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let request =
        serde_json::json!({ "name": "a.csv", "size": 4, "limits": Limits::default() }).to_string();
    input.write_all(format!("{request}\na,b").as_bytes()).unwrap();
    let of_child =
        |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !of_child("status").contains("Seccomp:\t2") {
        assert!(Instant::now() < deadline, "{}", of_child("status"));
        std::thread::yield_now();
    }
    assert!(of_child("status").contains("NoNewPrivs:\t1"));
    let limits = of_child("limits");
    let hard = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[26..].split_whitespace().nth(1).unwrap().to_owned()
    };
    for name in ["Max core file size", "Max file size", "Max open files"] {
        assert_eq!(hard(name), "0", "{name}");
    }
    assert_eq!(hard("Max cpu time"), "3");
    assert!(hard("Max data size").parse::<u64>().unwrap() < 300 << 20);
    assert!(hard("Max address space").parse::<u64>().unwrap() < 800 << 20);
    // Every thread: the one that parses too.
    for thread in std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap() {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        assert!(status.contains("Seccomp:\t2"), "{status}");
    }
    input.write_all(b"\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("a\\tb"));
}

/// Ten megabytes of rows against a limit of a tenth of a second: what was read stays.
#[tokio::test]
async fn processor_time_ends_a_reading_and_keeps_what_it_had() {
    let limits = Limits { cpu_ms: 100, text_bytes: 1 << 30, cells: 1 << 40, ..Limits::default() };
    let rows: String = (1..=60_000).map(|number| row(number, &["a", "b", "c", "d"])).collect();
    let bytes = Workbook::of(&rows).bytes();
    let (read, cost) = child::read(&reader().with_limits(limits), "a.xlsx", &bytes).await;
    let read = read.unwrap();
    assert_eq!((read.cut, read.sections[0].cut), (Some(Why::Time), true));
    assert!(read.sections[0].text.contains("\n2\ta\tb\tc\td\n"));
    assert!(cost.cpu < Duration::from_millis(400), "{cost:?}");
}

/// A child that neither works nor ends.
#[tokio::test]
async fn wall_time_ends_a_child_that_hangs() {
    let folder = scratch("hang");
    let written = folder.join("pid");
    let script = format!("echo $$ > {}; exec sleep 600", written.display());
    let hanging = Reader::new("/bin/sh", &["-c", &script], 1).with_wall(Duration::from_secs(2));
    assert_eq!(hanging.read("a.csv", b"a,b\n").await, Err(Failure::TimedOut));
    let pid = std::fs::read_to_string(&written).unwrap();
    assert!(!PathBuf::from(format!("/proc/{}", pid.trim())).exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Whoever stops waiting for a file stops the reader too.
#[tokio::test]
async fn a_reading_that_is_dropped_ends_its_child() {
    let folder = scratch("drop");
    let written = folder.join("pid");
    let script = format!("echo $$ > {}; exec sleep 600", written.display());
    let hanging = Reader::new("/bin/sh", &["-c", &script], 1);
    let pid = {
        let mut reading = Box::pin(hanging.read("a.csv", b"a,b\n"));
        loop {
            let turn = tokio::time::timeout(Duration::from_millis(5), &mut reading).await;
            assert!(turn.is_err(), "{turn:?}");
            let pid = std::fs::read_to_string(&written).unwrap_or_default();
            if pid.ends_with('\n') {
                break pid.trim().to_owned();
            }
        }
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
    {
        assert!(Instant::now() < deadline, "still there");
        tokio::task::yield_now().await;
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Nothing that a child says without end is kept.
#[tokio::test]
async fn a_child_that_floods_is_cut_off() {
    let before = peak_of_this_process();
    for flood in ["cat /dev/zero", "yes", "yes >&2", "cat /dev/zero >&2"] {
        let flooding = Reader::new("/bin/sh", &["-c", flood], 1).with_wall(Duration::from_secs(2));
        let read = flooding.read("a.csv", b"a,b\n").await;
        assert!(matches!(read, Err(Failure::Crashed | Failure::TimedOut)), "{flood}: {read:?}");
    }
    let grown = peak_of_this_process() - before;
    assert!(grown < 32 << 20, "{grown} bytes");
}

#[tokio::test]
async fn a_child_that_is_not_there_is_a_failure_of_the_file() {
    let missing = Reader::new("/nowhere/extract-document", &[], 1);
    assert_eq!(missing.read("a.csv", b"a,b\n").await, Err(Failure::Crashed));
}

/// More files than children: each waits for its turn, and all are read.
#[tokio::test]
async fn no_more_children_than_allowed_run_at_a_time() {
    let folder = scratch("turns");
    let script = format!(
        "mkdir {0}/lock || touch {0}/two-at-once; sleep 0.05; rmdir {0}/lock",
        folder.display()
    );
    let reader = Reader::new("/bin/sh", &["-c", &script], 1);
    let all = (0..6).map(|_| reader.read("a.csv", b"a,b\n"));
    for read in futures_util::future::join_all(all).await {
        assert_eq!(read, Err(Failure::Crashed));
    }
    assert!(!folder.join("two-at-once").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A shared string that fills the memory, and nothing of it reaches this process.
#[tokio::test]
async fn an_allocation_bomb_hurts_only_the_child() {
    let limits = Limits { unpacked_bytes: u64::MAX, unpacked_ratio: u64::MAX, ..Limits::default() };
    let bytes = Workbook::of(r#"<row r="1"><c r="A1" t="s"><v>0</v></c></row>"#).with_filled_part(
        "xl/sharedStrings.xml",
        (
            "<sst xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><si><t>",
            "</t></si></sst>",
        ),
        "x",
        1 << 30,
    );
    let before = peak_of_this_process();
    let (read, cost) = child::read(&reader().with_limits(limits), "a.xlsx", &bytes).await;
    assert_eq!(read, Err(Failure::OutOfMemory));
    cost.within_limits("allocation bomb");
    assert!(peak_of_this_process() - before < 32 << 20);
}
