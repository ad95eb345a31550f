//! Probes: alive, and ready for traffic.
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use shared::bus::topology;
use shared::store::migrate;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::app::App;

const CHECK_WITHIN: Duration = Duration::from_secs(2);
/// Probes within this time get the same report.
const READY_FOR: Duration = Duration::from_secs(1);
const MISSING_FOR: Duration = Duration::from_millis(500);

/// `{"ready": bool, "missing": [string]}`
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub ready: bool,
    /// What to do something about, in words.
    pub missing: Vec<String>,
}

/// The last report, so that probes cost little.
#[derive(Default)]
pub struct Readiness(Mutex<Option<(Instant, Report)>>);

/// `GET /healthz/live` -> 200 while the process serves requests.
pub async fn live() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// `GET /healthz/ready` -> [`Report`], 200 or 503: NATS is connected and has the streams, Postgres has the
/// schema, the process isn't stopping.
pub async fn ready(State(app): State<Arc<App>>) -> (StatusCode, Json<Report>) {
    let report = report(&app).await;
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(report))
}

async fn report(app: &App) -> Report {
    if app.stopping.token().is_cancelled() || app.shutdown.token().is_cancelled() {
        return Report { ready: false, missing: vec!["the gateway is stopping".to_owned()] };
    }
    if !app.bus.is_connected() {
        return Report { ready: false, missing: vec!["NATS is not connected".to_owned()] };
    }
    let mut last = app.readiness.0.lock().await;
    if let Some((at, report)) = last.as_ref() {
        let fresh = if report.ready { READY_FOR } else { MISSING_FOR };
        if at.elapsed() < fresh {
            return report.clone();
        }
    }
    let report = check(app).await;
    *last = Some((Instant::now(), report.clone()));
    report
}

async fn check(app: &App) -> Report {
    let topology =
        tokio::time::timeout(CHECK_WITHIN, topology::verify(&app.bus, &app.config.topology));
    let migrations = tokio::time::timeout(CHECK_WITHIN, migrate::verify(&app.rows));
    let (topology, migrations) = tokio::join!(topology, migrations);
    let mut missing = Vec::new();
    match topology {
        Ok(Ok(mismatches)) => missing.extend(mismatches.iter().map(ToString::to_string)),
        Ok(Err(error)) => missing.push(unverified("the NATS streams", &format!("{error:#}"))),
        Err(_) => missing.push(unverified("the NATS streams", "no answer in time")),
    }
    match migrations {
        Ok(Ok(())) => {}
        Ok(Err(error)) => missing.push(unverified("the database schema", &format!("{error:#}"))),
        Err(_) => missing.push(unverified("the database schema", "no answer in time")),
    }
    Report { ready: missing.is_empty(), missing }
}

/// The reason may name hosts, so that it goes to the log only.
fn unverified(what: &str, reason: &str) -> String {
    tracing::warn!(reason, "Can't verify {what}: {reason}");
    format!("{what} can't be verified; has `gateway migrate` run?")
}
