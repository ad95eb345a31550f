//! Ports of the demo, each from its variable.
use tests::place;

pub struct Ports {
    pub gateway: u16,
    pub page: u16,
    pub workers: [u16; 2],
    pub nats: u16,
    pub nats_monitor: u16,
    pub postgres: u16,
    pub backend: u16,
    pub model: u16,
}

impl Ports {
    pub fn load() -> Result<Ports, String> {
        Ok(Ports {
            gateway: port("GATEWAY_PORT", 8080)?,
            page: port("WEB_PORT", 8090)?,
            workers: [port("WORKER_1_PORT", 18081)?, port("WORKER_2_PORT", 18082)?],
            nats: port("NATS_PORT", 14222)?,
            nats_monitor: port("NATS_MONITOR_PORT", 18222)?,
            postgres: port("POSTGRES_PORT", 15432)?,
            backend: port("BACKEND_PORT", 18000)?,
            model: port("LLM_PORT", 18001)?,
        })
    }
}

fn port(variable: &'static str, default: u16) -> Result<u16, String> {
    match place::variable(variable) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("{variable}={text} is not a port")),
    }
}

/// Says plainly which variable to set when somebody else has the port.
pub fn must_be_free(port: u16, variable: &str, who: &str) -> Result<(), String> {
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).is_err();
    if taken {
        Err(format!("port {port} for {who} is taken; choose another with {variable}=PORT"))
    } else {
        Ok(())
    }
}
