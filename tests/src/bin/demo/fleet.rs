//! Starts the demo's parts in order, watches them, stops them.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tests::backend::{self, Backend};
use tests::cluster::{self, Settings};
use tests::database::{self, Server};
use tests::llm::{self, Model};
use tests::nats::Nats;
use tests::process::Process;
use tests::{place, token};

use crate::page::Page;
use crate::ports::{Ports, must_be_free};

const DATABASE: &str = "agentchat";
const READY_WITHIN: Duration = Duration::from_secs(60);

pub struct Fleet {
    /// Addresses and secrets, as they go into `.demo/env`.
    pub facts: BTreeMap<&'static str, String>,
    pub is_model_scripted: bool,
    services: Vec<Process>,
    page: Option<Page>,
    postgres: Option<Server>,
    nats: Option<Nats>,
    backend: Option<Backend>,
    model: Option<Model>,
}

fn step(what: &str) {
    println!("demo: {what}");
}

fn given(name: &'static str) -> Option<String> {
    let value = place::variable(name)?;
    step(&format!("uses {name} of the environment"));
    Some(value)
}

impl Fleet {
    pub async fn start(home: &Path) -> Result<Fleet, String> {
        let ports = Ports::load()?;
        must_be_free(ports.gateway, "GATEWAY_PORT", "the gateway")?;
        let mut fleet = Fleet {
            facts: BTreeMap::new(),
            is_model_scripted: false,
            services: Vec::new(),
            page: None,
            postgres: None,
            nats: None,
            backend: None,
            model: None,
        };
        fleet.fact("GATEWAY_URL", format!("http://127.0.0.1:{}", ports.gateway));
        fleet.secrets();
        fleet.start_nats(home, &ports).await?;
        fleet.start_postgres(home, &ports).await?;
        fleet.migrate()?;
        fleet.start_backend(&ports).await?;
        fleet.start_model(&ports).await?;
        fleet.start_services(home, &ports).await?;
        fleet.start_page(home, &ports).await?;
        Ok(fleet)
    }

    pub fn get(&self, name: &str) -> &str {
        self.facts.get(name).map_or("", String::as_str)
    }

    fn fact(&mut self, name: &'static str, value: String) {
        self.facts.insert(name, value);
    }

    fn secrets(&mut self) {
        let or = |name, default: &str| place::variable(name).unwrap_or_else(|| default.to_owned());
        self.fact("JWT_SECRET", or("JWT_SECRET", token::SECRET));
        self.fact("SEAL_KEY", or("SEAL_KEY", cluster::SEAL_KEY));
        self.fact("SERVICE_CLIENT_ID", or("SERVICE_CLIENT_ID", backend::CLIENT_ID));
        self.fact("SERVICE_CLIENT_SECRET", or("SERVICE_CLIENT_SECRET", backend::CLIENT_SECRET));
        let week = Duration::from_secs(7 * 24 * 3_600);
        let secret = self.get("JWT_SECRET").to_owned();
        self.fact("USER_TOKEN", token::user_with("alice", week, &secret));
        self.fact("READER_TOKEN", token::user_with("bob", week, &secret));
    }

    async fn start_nats(&mut self, home: &Path, ports: &Ports) -> Result<(), String> {
        let url = match given("NATS_URL") {
            Some(url) => url,
            None => {
                must_be_free(ports.nats, "NATS_PORT", "nats-server")?;
                must_be_free(ports.nats_monitor, "NATS_MONITOR_PORT", "nats-server's monitoring")?;
                step("starts nats-server");
                let nats = Nats::start_at(ports.nats, ports.nats_monitor, &home.join("nats")).await;
                let url = nats.url();
                self.nats = Some(nats);
                url
            }
        };
        self.fact("NATS_URL", url);
        Ok(())
    }

    async fn start_postgres(&mut self, home: &Path, ports: &Ports) -> Result<(), String> {
        let url = match given("DATABASE_URL") {
            Some(url) => url,
            None => {
                must_be_free(ports.postgres, "POSTGRES_PORT", "PostgreSQL")?;
                step("starts PostgreSQL");
                let server = Server::start(&home.join("postgres"), ports.postgres, true).await;
                // Fails when it is there from last time; migrating shows whether it can be used.
                let create = format!("CREATE DATABASE {DATABASE}");
                let _ = database::execute(&server.url("postgres"), &create).await;
                let url = server.url(DATABASE);
                self.postgres = Some(server);
                url
            }
        };
        self.fact("DATABASE_URL", url);
        Ok(())
    }

    fn migrate(&self) -> Result<(), String> {
        step("prepares streams and tables (gateway migrate)");
        let mut command = Command::new(place::target().join("gateway"));
        command
            .arg("migrate")
            .env("NATS_URL", self.get("NATS_URL"))
            .env("DATABASE_URL", self.get("DATABASE_URL"));
        let output = command.output().map_err(|e| {
            format!("gateway can't be run: {e}; run cargo build --workspace --bins")
        })?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("gateway migrate failed:\n{}", String::from_utf8_lossy(&output.stderr)))
    }

    async fn start_backend(&mut self, ports: &Ports) -> Result<(), String> {
        let url = match given("BACKEND_URL") {
            Some(url) => url,
            None => {
                must_be_free(ports.backend, "BACKEND_PORT", "the reference backend")?;
                step("starts the reference backend");
                let secret = self.get("JWT_SECRET").to_owned();
                let backend = Backend::start_at(&secret, ports.backend)
                    .await
                    .map_err(|e| format!("backend: {e}"))?;
                let url = backend.url().to_owned();
                self.backend = Some(backend);
                url
            }
        };
        self.fact("BACKEND_URL", url);
        Ok(())
    }

    async fn start_model(&mut self, ports: &Ports) -> Result<(), String> {
        let names = ["OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"];
        if names.iter().any(|name| place::variable(name).is_some()) {
            for name in names {
                if let Some(value) = given(name) {
                    self.fact(name, value);
                }
            }
            if self.get("OPENAI_MODEL").is_empty() {
                return Err("OPENAI_MODEL must name the model when OPENAI_BASE_URL or OPENAI_API_KEY is set".to_owned());
            }
            return Ok(());
        }
        must_be_free(ports.model, "LLM_PORT", "the scripted model")?;
        step(
            "starts the scripted model (set OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL for a real one)",
        );
        let model = Model::start_at(ports.model).await.map_err(|e| format!("model: {e}"))?;
        model.follow_demo_rules();
        self.fact("OPENAI_BASE_URL", model.url().to_owned());
        self.fact("OPENAI_API_KEY", llm::API_KEY.to_owned());
        self.fact("OPENAI_MODEL", llm::MODEL.to_owned());
        self.is_model_scripted = true;
        self.model = Some(model);
        Ok(())
    }

    async fn start_services(&mut self, home: &Path, ports: &Ports) -> Result<(), String> {
        for (index, port) in ports.workers.into_iter().enumerate() {
            let variable = format!("WORKER_{}_PORT", index + 1);
            must_be_free(port, &variable, "a worker's health page")?;
            let name = format!("worker-{}", index + 1);
            let mut env = self.settings();
            env.insert("WORKER_NAME".to_owned(), name.clone());
            env.insert("WORKER_HEALTH_LISTEN".to_owned(), format!("127.0.0.1:{port}"));
            self.spawn(home, "worker", &name, &env, port).await?;
        }
        let mut env = self.settings();
        env.insert("GATEWAY_LISTEN".to_owned(), format!("127.0.0.1:{}", ports.gateway));
        self.spawn(home, "gateway", "gateway", &env, ports.gateway).await
    }

    async fn start_page(&mut self, home: &Path, ports: &Ports) -> Result<(), String> {
        if !Page::is_built() {
            step(
                "has no page: it needs node 20.19 or newer with npm (tests/setup.sh demo says more)",
            );
            return Ok(());
        }
        must_be_free(ports.page, "WEB_PORT", "the page")?;
        step("serves the page");
        let page = Page::start(home, ports, self).await?;
        self.fact("PAGE_URL", page.url.clone());
        self.page = Some(page);
        Ok(())
    }

    /// Every fact, and what else of the environment the services know.
    fn settings(&self) -> Settings {
        let mut env: Settings =
            self.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        for name in [
            "LOG",
            "BACKEND_PATHS",
            "SERVICE_TOKEN_URL",
            "CONFIRM_TOOLS",
            "CONFIRMATION_TTL_S",
            "HISTORY_TOKENS",
            "WORKER_SLOTS",
        ] {
            if let Some(value) = place::variable(name) {
                env.insert(name.to_owned(), value);
            }
        }
        env
    }

    async fn spawn(
        &mut self,
        home: &Path,
        program: &str,
        name: &str,
        env: &Settings,
        port: u16,
    ) -> Result<(), String> {
        step(&format!("starts {name}"));
        let log: PathBuf = home.join(format!("{name}.log"));
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new(place::target().join(program));
        command.env_clear().envs(env);
        let mut process = Process::start(name, command, &log);
        let (http, url) = (place::http(), format!("http://127.0.0.1:{port}/healthz/ready"));
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = process.exited() {
                return Err(format!("{name} ended with {status}:\n{}", process.log_tail(20)));
            }
            if http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                self.services.push(process);
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{name} is not ready after {READY_WITHIN:?}:\n{}",
                    process.log_tail(20)
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns when a part has ended by itself.
    pub async fn watch(&mut self) -> String {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let nats = self.nats.iter_mut().map(Nats::process);
            let postgres = self.postgres.iter_mut().map(Server::process);
            let page = self.page.iter_mut().filter_map(Page::process);
            for process in self.services.iter_mut().chain(page).chain(nats).chain(postgres) {
                if let Some(status) = process.exited() {
                    return format!(
                        "{} ended with {status}:\n{}",
                        process.name(),
                        process.log_tail(20)
                    );
                }
            }
        }
    }

    /// Gateway first, then workers, then what they need.
    pub fn stop(&mut self) {
        if let Some(process) = self.page.as_mut().and_then(Page::process) {
            process.terminate(Duration::from_secs(2));
        }
        for process in self.services.iter_mut().rev() {
            process.terminate(Duration::from_secs(8));
        }
        if let Some(server) = &mut self.postgres {
            server.stop();
        }
        if let Some(nats) = &mut self.nats {
            nats.process().terminate(Duration::from_secs(5));
        }
        let seen_by_model = self.model.iter().flat_map(Model::take_violations);
        for violation in self.backend.iter().flat_map(Backend::take_violations).chain(seen_by_model)
        {
            eprintln!("demo: a malformed request: {violation}");
        }
    }
}
