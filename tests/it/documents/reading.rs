//! A file that takes long to read, while leases run out, people cancel, workers stop and die.
use std::time::{Duration, Instant};

use tests::cluster::Cluster;
use tests::event_log::EventLog;
use tests::gradio::Client;
use tests::gradio::turn::Turn;
use tests::process::{is_running, signal, wait_until};

use super::{message, newest_request, upload};

/// The harness runs workers with this.
const LEASE: Duration = Duration::from_secs(2);
/// What ends at once ends before a reader has used its processor time.
const AT_ONCE: Duration = Duration::from_millis(1_500);
const SOON: Duration = Duration::from_secs(15);
const UNPROVED: &str = "can't prove that the turn is its own";

#[tokio::test(flavor = "multi_thread")]
async fn a_reading_longer_than_the_lease_keeps_it() {
    let cluster = Cluster::builder().workers(2).start().await;
    let log = EventLog::open(&cluster.nats).await;
    let mut paths = Vec::new();
    for n in 0..3 {
        paths.push(upload(&cluster, "alice", &format!("{n}.pdf"), &slow_pdf()).await);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut alice = cluster.client("alice");
    let begun = Instant::now();
    let event = alice.submit(message("c1", "what is in them?", &paths)).await;
    let turn = alice.finish(&event).await;
    assert!(begun.elapsed() > 2 * LEASE, "it was read too fast: {:?}", begun.elapsed());
    assert_eq!((turn.text(), codes(&turn)), ("Done.", vec!["FILE_CUT"; 3]), "{:#?}", turn.values);
    assert!(log.of(&event).iter().all(|seen| seen.envelope.attempt <= 1));
    log.check(&event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_a_reading_with_its_reader() {
    let mut cluster = Cluster::start().await;
    let (mut alice, event) = reading(&cluster).await;
    let reader = reader_of(&mut cluster, 0).await;
    let cancelled = Instant::now();
    alice.cancel(&event).await;
    let turn = alice.finish(&event).await;
    assert_eq!(turn.status(), Some("cancelled"), "{:#?}", turn.values);
    assert!(cancelled.elapsed() < AT_ONCE, "{:?}", cancelled.elapsed());
    gone(reader).await;
    assert!(cluster.model.requests().is_empty());
    // The file is not forgotten with the turn.
    let turn = alice.say("c1", "and what is in it?").await;
    assert_eq!((turn.text(), codes(&turn)), ("Done.", vec![]), "{:#?}", turn.values);
    assert!(newest_request(&cluster).contains(" name=\"slow.pdf\" attached=\"earlier\">\n"));
    assert_eq!(outcomes(&cluster).await, ["read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_hands_a_reading_over() {
    let mut cluster = Cluster::builder().workers(2).worker_env("DRAIN_S", "0").start().await;
    let log = EventLog::open(&cluster.nats).await;
    let (alice, event) = reading(&cluster).await;
    let (stopping, other) = whoever_reads(&mut cluster).await;
    let reader = reader_of(&mut cluster, stopping).await;
    let told = Instant::now();
    cluster.worker(stopping).ask_to_stop();
    let took = log.attempt(&event, 2).await - told;
    assert!(took < AT_ONCE, "{took:?}");
    let turn = alice.finish(&event).await;
    assert_eq!((turn.text(), codes(&turn)), ("Done.", vec!["FILE_CUT"]), "{:#?}", turn.values);
    gone(reader).await;
    let status = cluster.worker(stopping).ends_within(SOON).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert!(cluster.worker(other).descendants().is_empty());
    log.check(&event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_no_reader_behind() {
    let mut cluster = Cluster::builder().workers(2).start().await;
    let log = EventLog::open(&cluster.nats).await;
    let (alice, event) = reading(&cluster).await;
    let (dying, _) = whoever_reads(&mut cluster).await;
    let reader = reader_of(&mut cluster, dying).await;
    cluster.kill_worker(dying);
    gone(reader).await;
    let turn = alice.finish(&event).await;
    assert_eq!((turn.text(), codes(&turn)), ("Done.", vec!["FILE_CUT"]), "{:#?}", turn.values);
    assert!(log.of(&event).iter().any(|seen| seen.envelope.attempt == 2));
    log.check(&event).await;
}

/// The first one lies frozen until the second has stored the text and ended the turn.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_workers_that_read_a_file_one_stores_it() {
    let mut cluster = Cluster::builder().workers(2).start().await;
    let (mut alice, event) = reading(&cluster).await;
    let (frozen, _) = whoever_reads(&mut cluster).await;
    cluster.worker(frozen).freeze_family();
    let turn = alice.finish(&event).await;
    assert_eq!((turn.text(), codes(&turn)), ("Done.", vec!["FILE_CUT"]), "{:#?}", turn.values);
    cluster.worker(frozen).thaw_family();
    cluster.worker(frozen).logs(UNPROVED, 1).await;
    assert_eq!(outcomes(&cluster).await, ["read"]);
    assert_eq!(alice.say("c1", "and?").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_reader_died_is_read_when_it_is_sent_again() {
    let mut cluster = Cluster::start().await;
    let path = upload(&cluster, "alice", "slow.pdf", &slow_pdf()).await;
    let mut alice = cluster.client("alice");
    let event = alice.submit(message("c1", "what is in it?", &[&path])).await;
    let reader = reader_of(&mut cluster, 0).await;
    signal(reader, "ABRT");
    let turn = alice.finish(&event).await;
    let told = codes(&turn);
    assert_eq!((turn.text(), told), ("Done.", vec!["FILE_UNREADABLE"]), "{:#?}", turn.values);
    assert_eq!(outcomes(&cluster).await, ["failed"]);

    let again = alice.submit(message("c1", "try again", &[&path])).await;
    let turn = alice.finish(&again).await;
    assert_eq!((turn.text(), codes(&turn)), ("Done.", vec!["FILE_CUT"]), "{:#?}", turn.values);
    assert_eq!(outcomes(&cluster).await, ["read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_reader_died_is_read_in_the_next_turn() {
    let mut cluster = Cluster::start().await;
    for (death, code) in [("XCPU", "FILE_TOO_SLOW"), ("KILL", "FILE_TOO_COMPLEX")] {
        let path = upload(&cluster, "alice", "slow.pdf", &slow_pdf()).await;
        let mut alice = cluster.client("alice");
        let event = alice.submit(message(death, "what is in it?", &[&path])).await;
        let reader = reader_of(&mut cluster, 0).await;
        signal(reader, death);
        let turn = alice.finish(&event).await;
        assert_eq!((turn.text(), codes(&turn)), ("Done.", vec![code]), "{:#?}", turn.values);
        for _ in 0..2 {
            let turn = alice.say(death, "try again").await;
            assert_eq!((turn.text(), codes(&turn)), ("Done.", vec![]), "{:#?}", turn.values);
            assert!(!newest_request(&cluster).contains("Nothing of this file is known"));
        }
    }
    assert_eq!(outcomes(&cluster).await, ["read"; 2]);
    assert_eq!(logged(&mut cluster, "Read a PDF"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_file_is_to_blame_for_is_found_once() {
    let mut cluster = Cluster::start().await;
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let protected = [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".as_slice(), &[0; 600], &name].concat();
    let files = [
        ("password.xlsx", protected, "FILE_ENCRYPTED"),
        ("broken.pdf", b"%PDF-1.7\nnothing of a document".to_vec(), "FILE_CORRUPT"),
        ("scan.pdf", pdf_of("", 2), "PDF_NO_TEXT"),
    ];
    let mut paths = Vec::new();
    for (name, content, _) in &files {
        paths.push(upload(&cluster, "alice", name, content).await);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut alice = cluster.client("alice");
    for _ in 0..2 {
        let event = alice.submit(message("c1", "what is in them?", &paths)).await;
        let turn = alice.finish(&event).await;
        let expected = files.each_ref().map(|(_, _, code)| *code);
        assert_eq!((turn.text(), codes(&turn)), ("Done.", expected.to_vec()), "{:#?}", turn.values);
    }
    assert_eq!(outcomes(&cluster).await, ["failed"; 3]);
    assert_eq!(logged(&mut cluster, "A file could not be read"), 3);
}

/// A turn that has a file to read for a while.
async fn reading(cluster: &Cluster) -> (Client, String) {
    let path = upload(cluster, "alice", "slow.pdf", &slow_pdf()).await;
    let mut alice = cluster.client("alice");
    let event = alice.submit(message("c1", "what is in it?", &[&path])).await;
    (alice, event)
}

async fn reader_of(cluster: &mut Cluster, worker: usize) -> u32 {
    let worker = cluster.worker(worker);
    let has_one = || {
        let readers = worker.descendants();
        async move { !readers.is_empty() }
    };
    wait_until("a reader", SOON, has_one).await;
    worker.descendants()[0]
}

/// Which of two workers has a reader, and which has none.
async fn whoever_reads(cluster: &mut Cluster) -> (usize, usize) {
    let begun = Instant::now();
    loop {
        for (one, other) in [(0, 1), (1, 0)] {
            if !cluster.worker(one).descendants().is_empty() {
                return (one, other);
            }
        }
        assert!(begun.elapsed() < SOON, "nobody reads");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Long before its processor time is over.
async fn gone(reader: u32) {
    let is_gone = || async move { !is_running(reader) };
    wait_until("the reader's end", AT_ONCE, is_gone).await;
}

fn codes(turn: &Turn) -> Vec<&str> {
    turn.all("warning").iter().filter_map(|warning| warning["code"].as_str()).collect()
}

fn logged(cluster: &mut Cluster, words: &str) -> usize {
    std::fs::read_to_string(cluster.worker(0).log()).unwrap().matches(words).count()
}

async fn outcomes(cluster: &Cluster) -> Vec<String> {
    let stored = "SELECT extraction ->> 'outcome' FROM attachments";
    sqlx::query_scalar(stored).fetch_all(&cluster.database.pool().await).await.unwrap()
}

/// 130 kB that take all the processor time that a file may have: 300 pages that show the same 2,000 words.
pub fn slow_pdf() -> Vec<u8> {
    pdf_of(&"BT /F 12 Tf 1 0 0 1 50 700 Tm (word) Tj ET\n".repeat(2_000), 300)
}

/// All pages have this content.
fn pdf_of(words: &str, pages: usize) -> Vec<u8> {
    let pages = 5..5 + pages;
    let kids: String = pages.clone().map(|page| format!("{page} 0 R ")).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [ {kids}] /Count {} >>", pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
        format!("<< /Length {} >>\nstream\n{words}\nendstream", words.len()),
    ];
    objects.extend(pages.map(|_| {
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F 3 0 R >> >> /Contents 4 0 R >>"
            .to_owned()
    }));
    let mut file = "%PDF-1.7\n".to_owned();
    let mut table = "0000000000 65535 f \n".to_owned();
    for (index, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", file.len());
        file += &format!("{} 0 obj\n{object}\nendobj\n", index + 1);
    }
    let (size, start) = (objects.len() + 1, file.len());
    file += &format!("xref\n0 {size}\n{table}trailer << /Size {size} /Root 1 0 R >>\n");
    file += &format!("startxref\n{start}\n%%EOF");
    file.into_bytes()
}
