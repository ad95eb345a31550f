//! A nats-server with JetStream of one's own.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::place;
use crate::process::{Process, scratch, wait_until};

pub struct Nats {
    process: Process,
    port: u16,
    monitor: u16,
    dir: PathBuf,
}

impl Nats {
    /// On a free port, with a store that vanishes.
    pub async fn start() -> Nats {
        Self::start_at(place::free_port(), place::free_port(), &scratch("nats")).await
    }

    pub async fn start_at(port: u16, monitor: u16, dir: &Path) -> Nats {
        let process = Self::spawn(port, monitor, dir);
        let nats = Nats { process, port, monitor, dir: dir.to_owned() };
        nats.ready().await;
        nats
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Where its monitoring pages are, e.g. `/jsz`.
    pub fn monitor_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.monitor)
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub async fn client(&self) -> async_nats::Client {
        async_nats::connect(self.url()).await.unwrap()
    }

    /// Starts it again on the same port and store.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = Self::spawn(self.port, self.monitor, &self.dir);
        self.ready().await;
    }

    fn spawn(port: u16, monitor: u16, dir: &Path) -> Process {
        std::fs::create_dir_all(dir).unwrap();
        let mut command = Command::new(place::nats_server());
        command.args([
            "-a",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-m",
            &monitor.to_string(),
            "-js",
            "-sd",
        ]);
        command.arg(dir);
        Process::start("nats", command, &dir.join("nats.log"))
    }

    async fn ready(&self) {
        let http = place::http();
        let url = format!("http://127.0.0.1:{}/healthz", self.monitor);
        let healthy = || async {
            http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success())
        };
        wait_until("nats-server healthy", Duration::from_secs(20), healthy).await;
    }
}
