//! What others notice while files made to do harm are read.
use std::time::Duration;

use futures_util::future::join_all;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::llm::reply::Reply;

use super::reading::slow_pdf;
use super::{message, upload};

const PACE_MS: u64 = 20;
const TOKENS: usize = 200;
const CHATS: usize = 4;
/// Readers stand behind everything else that wants the processor.
const NOTICED: Duration = Duration::from_millis(250);

#[tokio::test(flavor = "multi_thread")]
async fn other_conversations_keep_their_pace() {
    let cluster = Cluster::start().await;
    let words = "word ".repeat(TOKENS);
    cluster.model.on("tell", (0..2 * CHATS).map(|_| Reply::text(&words).every_ms(PACE_MS)));
    let quiet = chat(&cluster, "quiet").await;

    let bombs: [(&str, Vec<u8>); 4] = [
        ("loop.pdf", slow_pdf()),
        ("deep.json", "[".repeat(9 << 20).into_bytes()),
        ("wide.csv", "1;2;3;4;5;6;7;8;9\n".repeat(500_000).into_bytes()),
        ("huge.png", huge_png()),
    ];
    let mut paths = Vec::new();
    for (name, content) in &bombs {
        paths.push(upload(&cluster, "mallory", name, content).await);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut mallories: Vec<_> = (0..3).map(|_| cluster.client("mallory")).collect();
    let drop = mallories.iter_mut().enumerate().map(|(n, mallory)| {
        let bombs = message(&format!("bombs-{n}"), "read them", &paths);
        async move {
            let event = mallory.submit(bombs).await;
            mallory.finish(&event).await
        }
    });
    let (beside, bombed) = tokio::join!(chat(&cluster, "beside"), join_all(drop));
    for turn in bombed {
        assert_eq!((turn.text(), turn.all("warning").len()), ("Done.", 4), "{:#?}", turn.values);
    }
    for (name, gaps) in [("quiet", &quiet), ("beside bombs", &beside)] {
        let [median, most, worst] = [50, 99, 100].map(|percent| share(gaps, percent));
        println!("token gaps, {name}: p50 {median:?}, p99 {most:?}, worst {worst:?}");
    }
    assert!(share(&beside, 99) < share(&quiet, 99) + NOTICED);
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
