//! Whether a job is left on the queue, asked of nats-server's monitoring page without a runtime.
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use contract::subject;
use serde_json::Value;

/// Acknowledgements may still be under way when a test has seen its answer.
const WITHIN: Duration = Duration::from_secs(5);

pub fn wait_for_none(monitor_url: &str) -> Result<(), String> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let left = left(monitor_url)?;
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{left} jobs are left on {}", subject::STREAM_JOBS));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn left(monitor_url: &str) -> Result<u64, String> {
    let page = get(monitor_url, "/jsz?accounts=true&streams=true")
        .map_err(|e| format!("asking nats-server: {e}"))?;
    let page: Value =
        serde_json::from_str(&page).map_err(|e| format!("nats-server's page: {e}"))?;
    let accounts = page["account_details"].as_array().into_iter().flatten();
    let streams =
        accounts.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
    let jobs = streams.filter(|stream| stream["name"] == subject::STREAM_JOBS);
    Ok(jobs.filter_map(|stream| stream["state"]["messages"].as_u64()).sum())
}

fn get(base: &str, path: &str) -> std::io::Result<String> {
    let host = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
