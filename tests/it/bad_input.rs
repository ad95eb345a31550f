//! Input that has no meaning: a clear refusal, nothing stored, nothing leaked.
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::gradio::Submission;

const JOIN: &str = "/gradio_api/queue/join";

/// Every refusal is JSON with a string that stock clients can show.
#[track_caller]
fn is_shown(status: u16, answer: &Value, what: &str) {
    assert!((400..500).contains(&status) && status != 422, "{what}: {status} {answer}");
    let detail = answer["detail"].as_str().unwrap_or_default();
    assert!(!detail.is_empty(), "{what}: {status} {answer}");
    for leak in ["panicked", "src/", "sqlx", "nats", "postgres", "127.0.0.1"] {
        assert!(!detail.contains(leak), "{what}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_no_submission_are_refused() {
    let cluster = Cluster::start().await;
    let alice = cluster.client("alice");
    let bodies: [(&str, &[u8]); 10] = [
        ("nothing", b""),
        ("cut JSON", b"{\"data\": ["),
        ("not UTF-8", b"{\"data\": [\"\xff\xfe\"], \"session_hash\": \"x\"}"),
        ("an array", b"[]"),
        ("a number", b"7"),
        ("data is a number", br#"{"data": 7, "fn_index": 0, "session_hash": "x"}"#),
        ("unknown function", br#"{"data": ["x"], "fn_index": 5, "session_hash": "x"}"#),
        ("no session", br#"{"data": ["x"], "fn_index": 0}"#),
        ("empty session", br#"{"data": ["x"], "fn_index": 0, "session_hash": ""}"#),
        ("session is an object", br#"{"data": ["x"], "fn_index": 0, "session_hash": {}}"#),
    ];
    for (what, body) in bodies {
        let (status, answer) = alice.post_bytes(JOIN, body.to_vec()).await;
        is_shown(status, &answer, what);
    }
    let (status, answer) = alice.post("/gradio_api/call/nonsense", &json!({"data": []})).await;
    is_shown(status, &answer, "unknown api name");
    assert_eq!(cluster.model.requests().len(), 0);
}

/// Either refused at the door or answered in the stream; never accepted as something it is not.
async fn is_refused(cluster: &Cluster, submission: Submission) {
    let shown = format!("{submission:?}");
    let mut alice = cluster.client("alice");
    let (status, answer) = alice.join(submission).await;
    if status != 200 {
        is_shown(status, &answer, &shown);
        return;
    }
    alice.open_stream();
    let turn = alice.finish(answer["event_id"].as_str().unwrap()).await;
    assert!(turn.error_code().is_some(), "{shown}: {:#?}", turn.values);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_wrong_kind_are_refused() {
    let cluster = Cluster::start().await;
    let wrong = [
        Submission::raw(json!([7, "c1", null])),
        Submission::raw(json!([{"text": 7}, "c1", null])),
        Submission::raw(json!([{"text": "x"}, {"id": 1}, null])),
        Submission::raw(json!([{"text": "x"}, "c1", "confirm:"])),
        Submission::raw(json!([{"text": "", "files": []}, "c1", null])),
        Submission::raw(json!([{"text": "  \n ", "files": []}, "c1", null])),
        Submission::raw(json!([null, "c1", null])),
        Submission::raw(json!([{"text": "x", "files": [{}]}, "c1", null])),
        Submission::raw(
            json!([{"text": "x", "files": [{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}]}, "c1", null]),
        ),
        Submission::new("x", Some(&"long".repeat(100)), None),
        Submission::new("x", Some("a\u{7}b"), None),
        Submission::new("", Some("c1"), Some("attach:not-a-cursor")),
    ];
    for submission in wrong {
        is_refused(&cluster, submission).await;
    }
    assert_eq!(cluster.model.requests().len(), 0);
    let (_, list) = cluster.rest("alice").get("/api/assistant/conversations").await;
    assert_eq!(list["total"], 0, "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_action_is_no_decision_and_the_user_is_told() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    for action in ["explode", "Confirm", "confirmed", "yes"] {
        crate::approval::card(&cluster, &mut alice, action).await;
        let turn = alice.act(action, action, "confirm").await;
        let told = turn.error_code().is_some() || !turn.all("warning").is_empty();
        assert!(told, "{action}: {:#?}", turn.values);
        assert_eq!(cluster.backend.effects().len(), 0, "{action}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_wildcards_are_only_names() {
    let cluster = Cluster::start().await;
    let names = [
        "*",
        ">",
        "agent.v1.>",
        "a.b.c",
        "имя с пробелом",
        "'; DROP TABLE agent_messages; --",
        "../../etc/passwd",
    ];
    for name in names {
        let mut alice = cluster.client("alice");
        let turn = alice.say(name, "hello").await;
        assert_eq!(turn.text(), "Done.", "{name}: {:#?}", turn.values);
        assert_eq!(turn.values[0]["metadata"]["conversation_id"], name);
    }
    let (_, list) = cluster.rest("alice").get("/api/assistant/conversations?limit=50").await;
    assert_eq!(list["total"], names.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_sessions_do_no_harm() {
    let cluster = Cluster::start().await;
    for session in ["*", ">", "a.b", "\u{0}", &"x".repeat(2_000)] {
        let submission =
            Submission::new("hello", Some("c1"), None).with("session_hash", json!(session));
        let (status, answer) = cluster.client("alice").join(submission).await;
        if status != 200 {
            is_shown(status, &answer, session);
        }
        tests::process::wait_until(
            "the gate to open",
            std::time::Duration::from_secs(5),
            || async {
                let (status, gate) =
                    cluster.rest("alice").get("/api/agent/conversations/c1/active").await;
                status == 404 || gate["active"] == false
            },
        )
        .await;
    }
    assert_eq!(cluster.client("alice").say("c1", "hello").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_in_a_message_reaches_nobody_as_an_error() {
    let cluster = Cluster::start().await;
    let turn = cluster.client("alice").say("c1", "before\u{0}after").await;
    assert_eq!(turn.text(), "Done.", "{:#?}", turn.values);
    assert_eq!(cluster.rest("alice").history("c1").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_answer_as_gradio_does() {
    let cluster = Cluster::start().await;
    let alice = cluster.client("alice");
    assert_eq!(
        alice.post("/gradio_api/nothing", &json!({})).await,
        (404, json!({"detail": "Not Found"}))
    );
    let answer = cluster.rest("alice").get(JOIN).await;
    assert_eq!(answer, (405, json!({"detail": "Method Not Allowed"})));
}
