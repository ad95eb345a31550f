//! The program itself: exit codes, `migrate` by several starters, an orderly stop.
use std::process::{Command, Output};
use std::time::Duration;

use tests::database::Server;
use tests::nats::Nats;
use tests::process::{Process, scratch, wait_until};
use tests::{place, token};

#[test]
fn a_bad_configuration_is_named_as_a_whole_and_exits_64() {
    let output = gateway(&[]).env("JWT_SECRET", "short").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let log = log(&output);
    for name in ["JWT_SECRET", "SEAL_KEY", "NATS_URL", "DATABASE_URL"] {
        assert!(log.contains(name), "{name} is not named in:\n{log}");
    }
    let output = gateway(&["migrate"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}

#[tokio::test]
async fn several_starters_migrate_at_once_and_the_server_stops_on_sigterm() {
    let nats = Nats::start().await;
    let data = scratch("gateway").join("data");
    let postgres = Server::start(&data, place::free_port(), false).await;
    let (nats_url, database_url) = (nats.url(), postgres.url("postgres"));
    let configured = |arguments: &[&str]| {
        let mut command = gateway(arguments);
        command.env("NATS_URL", &nats_url).env("DATABASE_URL", &database_url);
        command
    };
    for _ in 0..2 {
        let starters: Vec<_> = (0..3)
            .map(|_| {
                let mut command = configured(&["migrate"]);
                std::thread::spawn(move || command.output().unwrap())
            })
            .collect();
        for starter in starters {
            let output = starter.join().unwrap();
            assert!(output.status.success(), "{}", log(&output));
        }
    }

    let port = place::free_port();
    let mut command = configured(&[]);
    command.env("GATEWAY_LISTEN", format!("127.0.0.1:{port}"));
    command.env("JWT_SECRET", token::SECRET).env("LOG", "info");
    command.env("SEAL_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let mut serving = Process::start("gateway", command, &data.with_extension("log"));
    let (http, base) = (place::http(), format!("http://127.0.0.1:{port}"));
    let ready = || async {
        let answer = http.get(format!("{base}/healthz/ready")).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    };
    wait_until("gateway ready", Duration::from_secs(20), ready).await;
    let secret_query = format!("{base}/api/assistant/conversations?search=hush");
    let listed = http.get(secret_query).bearer_auth(token::user("anna")).send().await.unwrap();
    assert_eq!(listed.status(), 200);
    assert!(serving.terminate(Duration::from_secs(10)));
    assert_eq!(serving.exited().and_then(|status| status.code()), Some(0));

    let log = serving.log_tail(100);
    assert!(log.contains("GET /api/assistant/conversations 200"), "{log}");
    assert!(log.contains("\"user\":\"anna\""), "{log}");
    assert!(!log.contains("hush") && !log.contains("eyJ"), "{log}");
}

fn gateway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    command.args(arguments).env_clear();
    command
}

fn log(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
