//! Times and costs, and what is said about them.
use std::time::Duration;

use serde_json::{Value, json};
use tests::cluster::Cluster;

/// One turn.
#[derive(Clone, Debug)]
pub struct Measured {
    pub first_token: Duration,
    pub turn: Duration,
    pub tokens: u64,
    /// What went wrong, if anything did.
    pub failure: Option<String>,
}

#[derive(Default)]
pub struct Sample(Vec<Measured>);

impl Sample {
    pub fn add(&mut self, turn: Measured) {
        self.0.push(turn);
    }

    pub fn merge(&mut self, other: Sample) {
        self.0.extend(other.0);
    }

    pub fn tokens(&self) -> u64 {
        self.0.iter().map(|turn| turn.tokens).sum()
    }

    pub fn summary(&self, wall: Duration) -> Value {
        let good: Vec<&Measured> = self.0.iter().filter(|turn| turn.failure.is_none()).collect();
        let failures: Vec<&String> =
            self.0.iter().filter_map(|turn| turn.failure.as_ref()).take(3).collect();
        let rate = f64::from(u32::try_from(self.tokens()).unwrap_or(u32::MAX)) / wall.as_secs_f64();
        json!({
            "turns": good.len(),
            "failed": self.0.len() - good.len(),
            "failures": failures,
            "first_token_ms": percentiles(good.iter().map(|turn| turn.first_token).collect()),
            "turn_ms": percentiles(good.iter().map(|turn| turn.turn).collect()),
            "tokens_per_second": rate.round(),
        })
    }
}

/// In ms.
pub fn percentiles(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let at = |share: usize| {
        let index = (times.len() * share).div_ceil(100).max(1) - 1;
        times.get(index).map(|time| (time.as_secs_f64() * 100_000.0).round() / 100.0)
    };
    json!({"p50": at(50), "p90": at(90), "p95": at(95), "p99": at(99), "max": at(100)})
}

/// CPU time of the fleet's parts.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    gateway: Duration,
    worker: Duration,
    nats: Duration,
    postgres: Duration,
}

impl Cost {
    pub fn so_far(cluster: &mut Cluster) -> Cost {
        let worker = (0..cluster.workers()).map(|index| cluster.worker(index).cpu()).sum();
        Cost {
            gateway: cluster.gateway(0).cpu(),
            worker,
            nats: cluster.nats.process().cpu(),
            postgres: cluster
                .database
                .server()
                .map_or(Duration::ZERO, |server| server.process().cpu()),
        }
    }

    pub fn since(&self, before: &Cost) -> Cost {
        Cost {
            gateway: self.gateway.saturating_sub(before.gateway),
            worker: self.worker.saturating_sub(before.worker),
            nats: self.nats.saturating_sub(before.nats),
            postgres: self.postgres.saturating_sub(before.postgres),
        }
    }

    pub fn per_thousand(&self, tokens: u64) -> Value {
        let thousands = f64::from(u32::try_from(tokens).unwrap_or(u32::MAX)) / 1_000.0;
        let per = |cost: Duration| {
            (cost.as_secs_f64() * 1_000.0 / thousands.max(0.001) * 10.0).round() / 10.0
        };
        let all = self.gateway + self.worker + self.nats + self.postgres;
        json!({
            "gateway": per(self.gateway), "worker": per(self.worker),
            "nats": per(self.nats), "postgres": per(self.postgres), "all": per(all),
        })
    }
}
