//! What others notice while files made to do harm are read.
use std::time::Duration;

use futures_util::future::join_all;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::llm::reply::Reply;

use super::reading::slow_pdf;
use super::workbook::Workbook;
use super::{message, upload};

const PACE_MS: u64 = 20;
const TOKENS: usize = 200;
const CHATS: usize = 4;
/// What docs/operations.md says that a worker's container needs besides its readers.
const WORKER_BYTES: u64 = 256 << 20;
/// Readers stand behind everything else that wants the processor.
const NOTICED: Duration = Duration::from_millis(250);

#[tokio::test(flavor = "multi_thread")]
async fn other_conversations_keep_their_pace() {
    let mut cluster = Cluster::start().await;
    let words = "word ".repeat(TOKENS);
    cluster.model.on("tell", (0..2 * CHATS).map(|_| Reply::text(&words).every_ms(PACE_MS)));
    let quiet = chat(&cluster, "quiet").await;

    let texts = [
        ("loop.pdf", slow_pdf()),
        ("deep.json", "[".repeat(9 << 20).into_bytes()),
        ("wide.csv", "1;2;3;4;5;6;7;8;9\n".repeat(500_000).into_bytes()),
        ("huge.png", huge_png()),
    ];
    let archives = [("zeros.xlsx", zip_bomb()), ("corners.xlsx", billion_cells())];
    let texts = stored(&cluster, "mallory", &texts).await;
    let archives = stored(&cluster, "trudy", &archives).await;
    let bombed = async {
        // What is read as a whole, corners and all, needs no warning.
        tokio::join!(
            drop_bombs(&cluster, "mallory", &texts, 4),
            drop_bombs(&cluster, "trudy", &archives, 1)
        )
    };
    let (beside, _) = tokio::join!(chat(&cluster, "beside"), bombed);
    for (name, gaps) in [("quiet", &quiet), ("beside bombs", &beside)] {
        let [median, most, worst] = [50, 99, 100].map(|percent| share(gaps, percent));
        println!("token gaps, {name}: p50 {median:?}, p99 {most:?}, worst {worst:?}");
    }
    assert!(share(&beside, 99) < share(&quiet, 99) + NOTICED);
    let peak = cluster.worker(0).peak_bytes();
    println!("the worker without its readers: {} MiB at most", peak >> 20);
    assert!(peak < WORKER_BYTES);
}

async fn stored(cluster: &Cluster, user: &str, files: &[(&str, Vec<u8>)]) -> Vec<String> {
    let mut paths = Vec::new();
    for (name, content) in files {
        paths.push(upload(cluster, user, name, content).await);
    }
    paths
}

/// Three turns at a time, each with all of them.
async fn drop_bombs(cluster: &Cluster, user: &str, paths: &[String], warnings: usize) {
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut clients: Vec<_> = (0..3).map(|_| cluster.client(user)).collect();
    let turns = clients.iter_mut().enumerate().map(|(n, client)| {
        let bombs = message(&format!("bombs-{n}"), "read them", &paths);
        async move {
            let event = client.submit(bombs).await;
            client.finish(&event).await
        }
    });
    for turn in join_all(turns).await {
        let told = turn.all("warning").len();
        assert_eq!((turn.text(), told), ("Done.", warnings), "{:#?}", turn.values);
    }
}

/// The pauses between the tokens of some answers that stream at the same time, shortest first.
async fn chat(cluster: &Cluster, who: &str) -> Vec<Duration> {
    let mut clients: Vec<_> = (0..CHATS).map(|n| cluster.client(&format!("{who}-{n}"))).collect();
    let answers = join_all(clients.iter_mut().map(|client| async {
        let event = client.submit(Submission::new("tell", Some("c1"), None)).await;
        client.finish(&event).await
    }));
    let mut gaps = Vec::new();
    for turn in answers.await {
        assert_eq!(turn.status(), Some("completed"), "{:#?}", turn.values);
        gaps.extend(turn.times.windows(2).map(|pair| pair[1] - pair[0]));
    }
    gaps.sort();
    gaps
}

fn share(gaps: &[Duration], percent: usize) -> Duration {
    gaps[(gaps.len() * percent / 100).min(gaps.len() - 1)]
}

/// A quarter of a gigabyte of zeros.
fn zip_bomb() -> Vec<u8> {
    let one_cell = Workbook::of(r#"<row r="1"><c r="A1"><v>7</v></c></row>"#);
    one_cell.with_filled_part("xl/media/zeros.bin", ("", ""), "\0", 256 << 20)
}

/// Two kilobytes, two cells, and all that would be between them.
fn billion_cells() -> Vec<u8> {
    let rows = r#"<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>"#;
    let inside = format!("<dimension ref=\"A1:XFD1048576\"/><sheetData>{rows}</sheetData>");
    Workbook::default().part("S", "visible", inside).bytes()
}

/// The head of a picture of 60,000 by 60,000 pixels.
fn huge_png() -> Vec<u8> {
    let side = 60_000_u32.to_be_bytes();
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    file.extend([side, side].concat());
    file.extend([8, 6, 0, 0, 0]);
    let checksum = crc32(&file[12..]);
    file.extend(checksum.to_be_bytes());
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(u32::MAX, byte)
}
