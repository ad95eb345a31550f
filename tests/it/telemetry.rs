//! What operators see: one trace for a turn, through everything; and every figure that is documented.
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use serde_json::json;
use tests::backend::FaultKind;
use tests::cluster::{Builder, Cluster};
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;
use tests::otlp::{Collector, Span};
use tests::place;
use tests::process::wait_until;

const WITHIN: Duration = Duration::from_secs(15);
const DELIVER: &str = "deliver agent.v1.ev";
const JOIN: &str = "POST /gradio_api/queue/join";

fn traced(collector: &Collector) -> Builder {
    let mut builder = Cluster::builder();
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()), ("OTEL_BSP_SCHEDULE_DELAY", "100")];
    for (name, value) in variables {
        builder = builder.gateway_env(name, value).worker_env(name, value);
    }
    builder
}

/// All spans, once those that end last are there.
async fn delivered(collector: &Collector, turns: usize) -> Vec<Span> {
    let done = || async {
        let spans = collector.spans();
        let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
        count(DELIVER) == turns && count("process agent.v1.job") == turns && count(JOIN) >= turns
    };
    wait_until("all spans", WITHIN, done).await;
    collector.spans()
}

/// The trace that the turn belongs to, checked to be one tree.
fn tree(spans: &[Span], turn: &str) -> Vec<Span> {
    let of_turn = |span: &&Span| {
        span.name == "process agent.v1.job" && span.attributes["agentchat.turn.id"] == turn
    };
    let trace = spans.iter().find(of_turn).unwrap().trace.clone();
    // The stream is a request of its own, in the caller's trace if there is one.
    let belongs = |span: &&Span| span.trace == trace && !span.name.starts_with("GET ");
    let tree: Vec<Span> = spans.iter().filter(belongs).cloned().collect();
    let ids: HashSet<&str> = tree.iter().map(|span| span.id.as_str()).collect();
    let roots: Vec<&Span> =
        tree.iter().filter(|span| !ids.contains(span.parent.as_str())).collect();
    assert_eq!(roots.len(), 1, "{tree:#?}");
    assert_eq!(roots[0].name, JOIN);
    tree
}

/// Returns the turn's id when it has ended.
async fn ask(client: &mut Client, text: &str, action: Option<&str>) -> String {
    let turn = client.submit(Submission::new(text, Some("c1"), action)).await;
    assert!(client.finish(&turn).await.status().is_some());
    turn
}

fn named<'a>(tree: &'a [Span], name: &str) -> &'a Span {
    let found = tree.iter().find(|span| span.name == name);
    assert!(found.is_some(), "no {name}: {tree:#?}");
    found.unwrap()
}

fn parent<'a>(tree: &'a [Span], span: &Span) -> &'a str {
    let parent = tree.iter().find(|other| other.id == span.parent);
    parent.map_or("", |parent| parent.name.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_with_a_tool_is_one_trace() {
    let collector = Collector::start().await;
    let cluster = traced(&collector).start().await;
    let search = Reply::call("search_dashboards", json!({"search": "secretword"}));
    cluster.model.on("quarterly", [search, Reply::text("hiddenanswer")]);
    let turn = ask(&mut cluster.client("alice"), "quarterly secretquestion", None).await;

    let spans = delivered(&collector, 1).await;
    let tree = tree(&spans, &turn);
    let of = |name: &str| parent(&tree, named(&tree, name)).to_owned();
    assert_eq!(of("send agent.v1.job"), JOIN);
    assert_eq!(of("process agent.v1.job"), "send agent.v1.job");
    assert_eq!(of("execute_tool search_dashboards"), "process agent.v1.job");
    assert_eq!(of(DELIVER), "process agent.v1.job");
    let model = |span: &&Span| span.name.starts_with("chat ");
    assert_eq!(tree.iter().filter(model).count(), 2);
    let services: BTreeSet<&str> = tree.iter().map(|span| span.service.as_str()).collect();
    assert_eq!(services, BTreeSet::from(["agentchat-gateway", "agentchat-worker"]));

    let tool = named(&tree, "execute_tool search_dashboards");
    assert_eq!(tool.attributes["gen_ai.operation.name"], "execute_tool");
    assert_eq!(tool.attributes["gen_ai.tool.name"], "search_dashboards");
    assert!(!tool.attributes["gen_ai.tool.call.id"].is_empty());
    // The backend and the model were told where they stand.
    let place = |span: &Span| format!("00-{}-{}-01", span.trace, span.id);
    assert_eq!(cluster.backend.calls()[0].traceparent, place(tool));
    let asked: Vec<String> =
        cluster.model.exchanges().iter().map(|exchange| exchange.traceparent.clone()).collect();
    let chats: Vec<String> = tree.iter().filter(model).map(place).collect();
    assert_eq!(BTreeSet::from_iter(asked), BTreeSet::from_iter(chats));
    let chat = tree.iter().find(model).unwrap();
    assert_eq!(chat.attributes["gen_ai.operation.name"], "chat");
    for name in ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"] {
        assert!(chat.attributes[name].parse::<u64>().unwrap() > 0, "{name}");
    }
    let process = named(&tree, "process agent.v1.job");
    assert_eq!(process.attributes["agentchat.turn.outcome"], "completed");
    assert!(process.attributes.contains_key("gen_ai.conversation.id"));
    for content in ["secretquestion", "secretword", "hiddenanswer", "Sales overview", "alice"] {
        assert!(!collector.holds(content), "{content}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_turn_is_a_trace_with_a_link_to_the_one_that_asked() {
    let collector = Collector::start().await;
    let cluster = traced(&collector).start().await;
    let deploy =
        Reply::call("deploy_dashboard", json!({"dashboard_id": "42", "environment_id": "prod"}));
    cluster.model.on("deploy", [deploy, Reply::text("Done.")]);
    let mut alice = cluster.client("alice");
    let asked = ask(&mut alice, "deploy 42", None).await;
    let confirmed = ask(&mut alice, "", Some("confirm")).await;

    let spans = delivered(&collector, 2).await;
    let (first, second) = (tree(&spans, &asked), tree(&spans, &confirmed));
    let paused = named(&first, "process agent.v1.job");
    assert_eq!(paused.attributes["agentchat.turn.outcome"], "interrupted");
    let resumed = named(&second, "process agent.v1.job");
    assert_eq!(resumed.links, [(paused.trace.clone(), paused.id.clone())]);
    let tool = named(&second, "execute_tool deploy_dashboard");
    assert_eq!(parent(&second, tool), "process agent.v1.job");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_trace_goes_on_and_failures_are_marked() {
    let collector = Collector::start().await;
    let cluster = traced(&collector).start().await;
    cluster.backend.fault("*", FaultKind::Status(403), None);
    let search = Reply::call("search_dashboards", json!({"search": "x"}));
    cluster.model.on("look", [search, Reply::text("No.")]);
    let place = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut alice = cluster.client("alice");
    alice.set_trace(place);
    let turn = ask(&mut alice, "look", None).await;

    let spans = delivered(&collector, 1).await;
    let tree = tree(&spans, &turn);
    let root = named(&tree, JOIN);
    assert_eq!((root.trace.as_str(), root.parent.as_str()), (&place[3..35], &place[36..52]));
    assert!(named(&tree, "execute_tool search_dashboards").failed);
}

/// Name, type and labels of each metric in the table of docs/operations.md.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = std::fs::read_to_string(place::repository().join("docs/operations.md")).unwrap();
    let table = text.split("\n## Metrics\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut metrics = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| `agentchat_")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let quoted = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        for name in quoted(cells[1]) {
            metrics.insert(name, (cells[2].to_owned(), quoted(cells[3]).into_iter().collect()));
        }
    }
    metrics
}

/// Type and labels of each metric of a page.
fn shown(page: &str, into: &mut BTreeMap<String, (String, BTreeSet<String>)>) {
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            into.entry(name.to_owned()).or_default().0 = kind.to_owned();
            continue;
        }
        let Some((series, _)) = line.split_once(' ').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (series, labels) = series.split_once('{').unwrap_or((series, ""));
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| series.strip_suffix(end).filter(|base| into.contains_key(*base)))
            .unwrap_or(series);
        let labels = labels.split(',').filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()));
        let known = &mut into.entry(base.to_owned()).or_default().1;
        known.extend(labels.filter(|label| label != "le"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_binaries_show_every_documented_metric_and_no_other() {
    let cluster = Cluster::start().await;
    let deploy =
        || Reply::call("deploy_dashboard", json!({"dashboard_id": "42", "environment_id": "prod"}));
    cluster.model.on("deploy", [deploy(), Reply::text("Done.")]);
    cluster.model.on("slow", [Reply::text("one two three four").every_ms(100).then_hang()]);
    let mut alice = cluster.client("alice");
    assert!(alice.say("c1", "deploy 42").await.card().is_some());
    assert_eq!(alice.act("c1", "confirm", "").await.text(), "Done.");
    let slow = alice.submit(Submission::new("slow", Some("c2"), None)).await;
    alice.until(&slow, "stream_token").await;
    alice.cancel(&slow).await;
    assert_eq!(alice.finish(&slow).await.status(), Some("cancelled"));

    let (gateway, worker) = (cluster.gateway_metrics(0).await, cluster.worker_metrics(0).await);
    let mut found = BTreeMap::new();
    for page in [&gateway, &worker] {
        shown(page, &mut found);
    }
    assert_eq!(found, documented());
    for figure in [
        "agentchat_gateway_submissions_total{outcome=\"queued\"} 3",
        "agentchat_gateway_cancels_total 1",
        "agentchat_gateway_first_token_seconds_count 2",
        "agentchat_confirmations_open 0",
        "agentchat_jobs_waiting 0",
        "agentchat_dead_letters 0",
    ] {
        assert!(gateway.contains(&format!("{figure}\n")), "{figure}\n{gateway}");
    }
    for figure in [
        "agentchat_worker_turn_seconds_count{outcome=\"completed\"} 1",
        "agentchat_worker_turn_seconds_count{outcome=\"cancelled\"} 1",
        "agentchat_worker_turn_seconds_count{outcome=\"interrupted\"} 1",
        "agentchat_worker_tool_seconds_count{outcome=\"ok\",tool=\"deploy_dashboard\"} 1",
        "agentchat_worker_cancel_latency_seconds_count 1",
        "agentchat_worker_queue_wait_seconds_count 3",
        "agentchat_worker_redeliveries_total 0",
        "agentchat_worker_fenced_total 0",
        "agentchat_nats_connected 1",
    ] {
        assert!(worker.contains(&format!("{figure}\n")), "{figure}\n{worker}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_cards_have_an_age_and_whoever_comes_through_a_proxy_sees_nothing() {
    let cluster = Cluster::start().await;
    let deploy =
        Reply::call("deploy_dashboard", json!({"dashboard_id": "42", "environment_id": "prod"}));
    cluster.model.on("deploy", [deploy]);
    assert!(cluster.client("alice").say("c1", "deploy 42").await.card().is_some());
    let aged = || async {
        let page = cluster.gateway_metrics(0).await;
        let age = page.lines().find_map(|line| {
            line.strip_prefix("agentchat_confirmation_oldest_seconds ")?.parse::<f64>().ok()
        });
        page.contains("agentchat_confirmations_open 1\n") && age.is_some_and(|age| age > 0.0)
    };
    wait_until("the card in the figures", WITHIN, aged).await;

    let url = format!("{}/metrics", cluster.gateway_url(0));
    let proxied = place::http().get(url).header("x-forwarded-for", "203.0.113.1");
    assert_eq!(proxied.send().await.unwrap().status(), 404);
}
