//! The whole system under least privilege: nkeys, TLS, and the permissions of docs/nats.conf.
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use tests::cluster::{Builder, Cluster};
use tests::gradio::Submission;
use tests::llm::reply::Reply;
use tests::nats::{Keys, Nats};
use tests::place;
use tests::process::{scratch, wait_until};

const WITHIN: Duration = Duration::from_secs(10);

fn restricted(keys: &Keys, ca: &str) -> Builder {
    Cluster::builder()
        .gateways(2)
        .migrate_env("NATS_NKEY", &keys.seed("MIGRATE"))
        .migrate_env("NATS_CA", ca)
        .gateway_env("NATS_NKEY", &keys.seed("GATEWAY"))
        .gateway_env("NATS_CA", ca)
        .worker_env("NATS_NKEY", &keys.seed("WORKER"))
        .worker_env("NATS_CA", ca)
}

fn ca_file(keys: &Keys) -> String {
    let file = scratch("ca").join("ca.pem");
    std::fs::write(&file, keys.ca()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_with_no_more_rights_than_documented() {
    let keys = Keys::new();
    let ca = ca_file(&keys);
    let mut cluster = restricted(&keys, &ca).start_with(Nats::restricted(&keys).await).await;
    let deploy =
        Reply::call("deploy_dashboard", json!({"dashboard_id": "42", "environment_id": "prod"}));
    let slow = || Reply::text("one two three four five").every_ms(100).then_hang();
    cluster.model.on("deploy", [deploy, Reply::text("Done.")]);
    cluster.model.on("slow", [slow(), Reply::text("Again."), slow()]);
    cluster.model.on("file", [Reply::text("Seen.")]);

    // Message, card, decision; each gateway has its part in the session.
    let mut alice = cluster.client("alice");
    assert!(alice.say("c1", "deploy 42").await.card().is_some());
    assert_eq!(alice.act("c1", "confirm", "").await.text(), "Done.");
    // A cancel; an attach from another session; a job that comes back after its worker's death.
    let event = alice.submit(Submission::new("slow", Some("c2"), None)).await;
    alice.until(&event, "stream_token").await;
    let mut tab = alice.another_tab();
    let attached = tab.submit(Submission::new("", Some("c2"), Some("attach"))).await;
    tab.until(&attached, "stream_token").await;
    cluster.restart_worker(0).await;
    assert_eq!(alice.finish(&event).await.text(), "Again.");
    assert_eq!(tab.finish(&attached).await.text(), "Again.");
    let event = alice.submit(Submission::new("slow", Some("c2"), None)).await;
    alice.until(&event, "stream_token").await;
    alice.cancel(&event).await;
    assert_eq!(alice.finish(&event).await.status(), Some("cancelled"));
    a_file_goes_there_and_back(&cluster).await;

    // Operators and figures.
    let agentctl =
        cluster.agentctl().with("NATS_NKEY", &keys.seed("AGENTCTL")).with("NATS_CA", &ca);
    assert_eq!(agentctl.json(&["workers"]).await["workers"].as_array().unwrap().len(), 1);
    assert!(
        agentctl.json(&["dead-letters", "list"]).await["dead_letters"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    agentctl.json(&["turns"]).await;
    assert!(cluster.gateway_metrics(1).await.contains("agentchat_jobs_waiting 0\n"));

    for entry in std::fs::read_dir(cluster.log_dir()).unwrap().flatten() {
        let log = std::fs::read_to_string(entry.path()).unwrap();
        let denied = log.lines().find(|line| line.to_lowercase().contains("permissions violation"));
        assert_eq!(denied, None, "{}", entry.path().display());
    }
}

async fn a_file_goes_there_and_back(cluster: &Cluster) {
    let token = tests::token::user("alice");
    let text = "a,b\r\n1,2\r\n";
    let body = format!(
        "--B\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.csv\"\r\n\r\n{text}\r\n--B--\r\n"
    );
    let url = format!("{}/gradio_api", cluster.gateway_url(0));
    let request = place::http().post(format!("{url}/upload")).bearer_auth(&token);
    let request = request.header("content-type", "multipart/form-data; boundary=B").body(body);
    let paths: Vec<String> = request.send().await.unwrap().json().await.unwrap();
    let other = format!("{}/gradio_api", cluster.gateway_url(1));
    let back = place::http().get(format!("{other}/file={}", paths[0])).bearer_auth(&token);
    assert_eq!(back.send().await.unwrap().text().await.unwrap(), text);
    let file = json!({"path": paths[0], "meta": {"_type": "gradio.FileData"}});
    let message = json!({"text": "file", "files": [file]});
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::raw(json!([message, "c3"]))).await;
    let turn = alice.finish(&event).await;
    assert_eq!(turn.text(), "Seen.", "{:#?}", turn.values);
}

/// What each role must not do, by subject.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    (
        "GATEWAY",
        &[
            "$JS.API.CONSUMER.MSG.NEXT.AGENT_JOBS.workers",
            "$JS.ACK.AGENT_JOBS.workers.1.1.1.1.0",
            "$JS.API.STREAM.DELETE.AGENT_EVENTS",
            "$JS.API.STREAM.PURGE.AGENT_JOBS",
            "$JS.API.STREAM.UPDATE.AGENT_JOBS",
            "$JS.API.STREAM.MSG.DELETE.AGENT_DLQ",
            "agent.v1.dlq.x",
            "agent.v1.live.a.b.c",
            "_INBOX_wk.x",
        ],
    ),
    (
        "WORKER",
        &[
            "agent.v1.job.x",
            "agent.v1.ctl.cancel.x",
            "agent.v1.live.a.b.c",
            "$O.agent_uploads.C.x",
            "$JS.API.STREAM.PURGE.OBJ_agent_uploads",
            "$JS.API.STREAM.DELETE.AGENT_JOBS",
            "$JS.API.CONSUMER.CREATE.AGENT_JOBS.mine",
            "$JS.API.CONSUMER.DELETE.AGENT_JOBS.workers",
            "_INBOX_gw.x",
        ],
    ),
    (
        "AGENTCTL",
        &[
            "$JS.API.STREAM.DELETE.AGENT_DLQ",
            "$JS.API.STREAM.UPDATE.AGENT_JOBS",
            "$JS.API.CONSUMER.MSG.NEXT.AGENT_JOBS.workers",
            "agent.v1.ctl.cancel.x",
            "_INBOX_gw.x",
        ],
    ),
    ("MIGRATE", &["agent.v1.job.x", "agent.v1.ev.a.b.c", "_INBOX_gw.x"]),
];

/// What each role must not hear: above all the answers to others.
const UNHEARD: [(&str, &[&str]); 4] = [
    ("GATEWAY", &[">", "_INBOX.>", "_INBOX_wk.>", "agent.v1.job.*", "$JS.>"]),
    ("WORKER", &[">", "_INBOX.>", "_INBOX_gw.>", "agent.v1.live.>", "agent.v1.job.*"]),
    ("AGENTCTL", &[">", "_INBOX_gw.>", "_INBOX_wk.>", "agent.v1.live.>"]),
    ("MIGRATE", &[">", "_INBOX_gw.>", "agent.v1.live.>"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_role_can_do_and_hear_nothing_else() {
    let keys = Keys::new();
    let ca = ca_file(&keys);
    let nats = Nats::restricted(&keys).await;
    for ((role, forbidden), (_, unheard)) in FORBIDDEN.iter().zip(UNHEARD) {
        let errors: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&errors);
        let client = async_nats::ConnectOptions::new()
            .nkey(keys.seed(role))
            .add_root_certificates(ca.clone().into())
            .require_tls(true)
            .event_callback(move |event| {
                heard.lock().unwrap().push(event.to_string());
                std::future::ready(())
            })
            .connect(nats.url())
            .await
            .unwrap();
        let denied = async |what: &str| {
            let said = || async { errors.lock().unwrap().iter().any(|e| e.contains(what)) };
            wait_until(&format!("{role} denied: {what}"), WITHIN, said).await;
        };
        for subject in *forbidden {
            client.publish((*subject).to_owned(), "".into()).await.unwrap();
            client.flush().await.unwrap();
            denied(&format!("Publish to \"{subject}\"")).await;
        }
        for subject in unheard {
            let mut messages = client.subscribe((*subject).to_owned()).await.unwrap();
            client.flush().await.unwrap();
            denied(&format!("Subscription to \"{subject}\"")).await;
            drop(messages.next());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_in_without_a_key_or_in_the_clear() {
    let keys = Keys::new();
    let ca = ca_file(&keys);
    let nats = Nats::restricted(&keys).await;
    assert!(async_nats::connect(nats.url()).await.is_err());
    let stranger = async_nats::ConnectOptions::new()
        .nkey(nkeys::KeyPair::new_user().seed().unwrap())
        .add_root_certificates(ca.into());
    assert!(stranger.connect(nats.url()).await.is_err());
}
