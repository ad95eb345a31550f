//! Twenty people send files of 10 MiB while fifty others chat: what the others, and the gateway's memory, notice.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contract::limits::FILE_BYTES;
use futures_util::stream;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::{place, token};
use tokio_util::sync::CancellationToken;

use crate::figures::percentiles;
use crate::turns::Target;
use crate::{Plan, run};

const UPLOADING: usize = 20;
const CHATTING: u64 = 50;
const TURNS: u64 = 4;
/// A file takes four seconds: 20 Mbit/s for each, 400 Mbit/s together.
const CHUNKS: u64 = 160;
const CHUNK_EVERY: Duration = Duration::from_millis(25);
/// The bucket holds 2 GiB.
const FILES_EACH: usize = 8;

pub async fn measure(cluster: &mut Cluster, plan: &Plan) -> Value {
    let url = cluster.url();
    let fleet = Arc::new(Target::Gateway { url: url.clone() });
    let alone = run(&fleet, plan, CHATTING, TURNS).await;
    let before = cluster.gateway(0).resident_bytes();
    let (stop, most) = (CancellationToken::new(), Arc::new(AtomicU64::new(before)));
    let uploads: Vec<_> =
        (0..UPLOADING).map(|_| tokio::spawn(upload_on(url.clone(), stop.clone()))).collect();
    let watching = watch(cluster, &most, &stop);
    let chatting = async {
        let beside = run(&fleet, plan, CHATTING, TURNS).await;
        stop.cancel();
        beside
    };
    let (beside, ()) = tokio::join!(chatting, watching);
    let (mut times, mut failures) = (Vec::new(), Vec::new());
    for upload in uploads {
        let (took, failed) = upload.await.expect("an upload");
        times.extend(took);
        failures.extend(failed);
    }
    let (alone, beside) = (alone.sample.summary(alone.wall), beside.sample.summary(beside.wall));
    let p99 = |summary: &Value| summary["first_token_ms"]["p99"].as_f64().unwrap_or(f64::NAN);
    let mib = |bytes: u64| bytes / (1024 * 1024);
    json!({
        "chatting": CHATTING, "uploading": UPLOADING, "file_bytes": FILE_BYTES,
        "files": times.len(), "failed": failures.len(), "failures": failures.iter().take(3).collect::<Vec<_>>(),
        "upload_ms": percentiles(times),
        "alone": alone, "beside_uploads": beside,
        "first_token_p99_more_ms": ((p99(&beside) - p99(&alone)) * 100.0).round() / 100.0,
        "gateway_memory_mib": {"before": mib(before), "most": mib(most.load(Ordering::Relaxed))},
    })
}

async fn watch(cluster: &mut Cluster, most: &AtomicU64, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        most.fetch_max(cluster.gateway(0).resident_bytes(), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One person: file after file until it is enough. How long each took, and what went wrong.
async fn upload_on(url: String, stop: CancellationToken) -> (Vec<Duration>, Vec<String>) {
    let token = token::user(&format!("sender-{}", uuid::Uuid::new_v4().simple()));
    let (http, mut times, mut failures) = (place::http(), Vec::new(), Vec::new());
    for _ in 0..FILES_EACH {
        if stop.is_cancelled() {
            break;
        }
        let started = Instant::now();
        let request = http.post(format!("{url}/gradio_api/upload")).bearer_auth(&token);
        let request = request.header("content-type", "multipart/form-data; boundary=B");
        match request.body(body()).send().await {
            Ok(answer) if answer.status().is_success() => times.push(started.elapsed()),
            Ok(answer) => failures.push(answer.status().to_string()),
            Err(error) => failures.push(error.to_string()),
        }
    }
    (times, failures)
}

/// A table of exactly the largest size, paced.
fn body() -> reqwest::Body {
    const HEAD: &str =
        "--B\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.csv\"\r\n\r\n";
    let size = usize::try_from(FILE_BYTES / CHUNKS).expect("a chunk");
    let chunks = stream::unfold(0, move |number| async move {
        let chunk = match number {
            0 => HEAD.as_bytes().to_vec(),
            1..=CHUNKS => {
                tokio::time::sleep(CHUNK_EVERY).await;
                b"1,2,3,4\n".repeat(size / 8)
            }
            _ if number == CHUNKS + 1 => b"\r\n--B--\r\n".to_vec(),
            _ => return None,
        };
        Some((Ok::<_, std::io::Error>(chunk), number + 1))
    });
    reqwest::Body::wrap_stream(chunks)
}
