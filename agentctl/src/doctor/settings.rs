//! What the services are told here, as far as it must agree.
use std::time::Duration;

use contract::limits;
use shared::bus::topology;
use shared::runtime::env::Env;

use crate::args::Doctor;

#[derive(Clone, Debug)]
pub struct Settings {
    /// `NATS_REPLICAS` (1), `ACK_WAIT_MS` (15000).
    pub topology: topology::Options,
    /// `LEASE_MS` (15000), `HEARTBEAT_MS` (4000).
    pub lease: Duration,
    pub heartbeat: Duration,
    /// `DRAIN_S` (25).
    pub drain: Duration,
    /// `TERMINATION_GRACE_S`: what the orchestrator gives a worker between SIGTERM and SIGKILL.
    pub termination_grace: Option<Duration>,
    /// `DATABASE_CONNECTIONS` (10): of a gateway.
    pub gateway_connections: u32,
    pub gateways: u32,
    /// Jobs may wait so long.
    pub waiting_over: Duration,
}

impl Settings {
    pub fn load(env: &Env, how: &Doctor) -> Self {
        let default = topology::Options::default();
        let grace = "TERMINATION_GRACE_S";
        Self {
            topology: topology::Options {
                replicas: env.number("NATS_REPLICAS", default.replicas),
                ack_wait: env.millis("ACK_WAIT_MS", default.ack_wait),
            },
            lease: env.millis("LEASE_MS", limits::LEASE),
            heartbeat: env.millis("HEARTBEAT_MS", limits::HEARTBEAT),
            drain: env.seconds("DRAIN_S", limits::DRAIN),
            termination_grace: env.optional(grace).map(|_| env.seconds(grace, Duration::ZERO)),
            gateway_connections: env.number("DATABASE_CONNECTIONS", limits::GATEWAY_CONNECTIONS),
            gateways: how.gateways,
            waiting_over: how.waiting_over,
        }
    }
}
