//! Keys are rotated as docs/operations.md says while conversations go on. Nobody notices.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tests::cluster::{Cluster, SEAL_KEY};
use tests::gradio::{Client, Submission, turn::Turn};
use tests::llm::reply::Reply;
use tests::process::wait_until;
use tests::token;

const CONVERSATIONS: usize = 10;
const NEW_SECRET: &str = "another-secret-only-for-tests-0123456789-abcdef";
/// 32 bytes in base64.
const NEW_SEAL_KEY: &str = "YW5vdGhlci1rZXktZm9yLXRlc3RzLW9mLTMyLWJ5dGU=";
const HOUR: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_secs(30);
/// As in production: a busy machine costs no lease.
const ACK_WAIT: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn nobody_notices_that_keys_are_replaced() {
    let builder = Cluster::builder().gateways(2).workers(2).ack_wait(ACK_WAIT);
    let mut cluster = builder.worker_env("DRAIN_S", "1").start().await;
    let deploy = json!({"dashboard_id": "42", "environment_id": "prod"});
    let steps =
        [Reply::call("search_dashboards", json!({})), Reply::call("deploy_dashboard", deploy)];
    let end = Reply::text("All is well.").every_ms(30);
    cluster.model.on_steps("deploy", steps.into_iter().chain([end]));
    let doors = Arc::new(Doors::default());
    for index in 0..2 {
        doors.open(&cluster.gateway_url(index));
    }
    doors.sign_with(token::SECRET);
    let conversations = (0..CONVERSATIONS).map(|n| tokio::spawn(converse(Arc::clone(&doors), n)));
    let conversations: Vec<_> = conversations.collect();
    let everybody: Vec<usize> = (0..CONVERSATIONS).collect();
    doors.a_turn_each(&everybody).await;

    // The secret of the users' tokens: whoever judges them takes both, then the login signs with the new one.
    cluster.backend.take_secret(NEW_SECRET);
    let both = [("JWT_SECRET", NEW_SECRET), ("JWT_SECRETS_PREVIOUS", token::SECRET)];
    let gateways = replace_gateways(&mut cluster, &doors, &[0, 1], &both).await;
    doors.sign_with(NEW_SECRET);
    doors.a_turn_each(&everybody).await;

    // The key that seals them in jobs: workers first, which must open what gateways seal.
    let seals = [("SEAL_KEY", NEW_SEAL_KEY), ("SEAL_KEYS_PREVIOUS", SEAL_KEY)];
    let workers = replace_workers(&mut cluster, &[0, 1], &seals).await;
    doors.a_turn_each(&everybody).await;
    let all = [both, seals].concat();
    let gateways = replace_gateways(&mut cluster, &doors, &gateways, &all).await;
    doors.a_turn_each(&everybody).await;

    // The last old token has ended, and the last job with it.
    let (late, early): (Vec<usize>, Vec<usize>) =
        everybody.iter().partition(|number| keeps_its_token(**number));
    doors.stop(&late);
    wait_until("the end of the old tokens", SOON, || async { doors.busy(&late) == 0 }).await;
    let new = [
        ("JWT_SECRET", NEW_SECRET),
        ("JWT_SECRETS_PREVIOUS", ""),
        ("SEAL_KEY", NEW_SEAL_KEY),
        ("SEAL_KEYS_PREVIOUS", ""),
    ];
    replace_workers(&mut cluster, &workers, &new).await;
    let gateways = replace_gateways(&mut cluster, &doors, &gateways, &new).await;
    doors.a_turn_each(&early).await;
    doors.stop(&early);
    let mut turns = 0;
    for conversation in conversations {
        turns += conversation.await.unwrap();
    }
    assert_eq!(cluster.backend.effects_of("deploy").len(), turns);
    let url = cluster.gateway_url(gateways[0]);
    for (secret, expected) in [(token::SECRET, 401), (NEW_SECRET, 200)] {
        let client = Client::new(&url, &token::user_with("user-1", HOUR, secret));
        let (status, answer) = client.join(Submission::new("hello", Some("last"), None)).await;
        assert_eq!(status, expected, "{answer}");
    }
}

/// Half of the users stay signed in as they were.
const fn keeps_its_token(number: usize) -> bool {
    number % 2 == 1
}

/// Deploys that are confirmed, each at whatever gateway there is, until told to stop. How many there were.
async fn converse(doors: Arc<Doors>, number: usize) -> usize {
    let user = format!("user-{number}");
    let first = token::user_with(&user, HOUR, token::SECRET);
    let mut turns = 0;
    loop {
        for decision in [None, Some("confirm")] {
            let Some(pass) = doors.enter(number, turns) else { return turns };
            let token = match keeps_its_token(number) {
                true => first.clone(),
                false => token::user_with(&user, HOUR, &pass.secret),
            };
            let mut client = Client::new(&pass.url, &token);
            match decision {
                None => {
                    let turn = client.say("c", "deploy it").await;
                    no_error(&turn);
                    assert!(turn.card().is_some(), "{:#?}", turn.values);
                }
                Some(action) => {
                    let turn = client.act("c", action, "").await;
                    no_error(&turn);
                    assert_eq!(turn.text(), "All is well.", "{:#?}", turn.values);
                    turns += 1;
                }
            }
            doors.leave(&pass, number, turns);
        }
    }
}

#[track_caller]
fn no_error(turn: &Turn) {
    let errors = (turn.error_code(), turn.all("tool_error").len());
    assert_eq!(errors, (None, 0), "{:#?}", turn.values);
}

/// Each gateway has a successor before it goes; it goes when nobody uses it. The successors.
async fn replace_gateways(
    cluster: &mut Cluster,
    doors: &Doors,
    old: &[usize],
    different: &[(&str, &str)],
) -> Vec<usize> {
    let mut new = Vec::new();
    for index in old {
        let successor = cluster.add_gateway_with(different).await;
        doors.open(&cluster.gateway_url(successor));
        let url = cluster.gateway_url(*index);
        doors.close(&url);
        wait_until("the last turn there", SOON, || async { doors.inside(&url) == 0 }).await;
        let status = cluster.gateway(*index).stop(SOON).await;
        assert!(status.success(), "gateway {index} ended with {status}");
        new.push(successor);
    }
    new
}

async fn replace_workers(
    cluster: &mut Cluster,
    old: &[usize],
    different: &[(&str, &str)],
) -> Vec<usize> {
    let mut new = Vec::new();
    for index in old {
        cluster.add_worker_with(different).await;
        new.push(cluster.workers() - 1);
        let status = cluster.worker(*index).stop(SOON).await;
        assert!(status.success(), "worker {index} ended with {status}");
    }
    new
}

/// The balancer and the login, as clients know them.
#[derive(Default)]
struct Doors(Mutex<State>);

#[derive(Default)]
struct State {
    open: Vec<String>,
    secret: String,
    /// Turns under way, by gateway.
    inside: BTreeMap<String, usize>,
    /// Turns done and whether one is under way, by user.
    users: BTreeMap<usize, (usize, bool)>,
    stopped: Vec<usize>,
}

struct Pass {
    url: String,
    secret: String,
}

impl Doors {
    fn open(&self, url: &str) {
        self.0.lock().unwrap().open.push(url.to_owned());
    }

    fn close(&self, url: &str) {
        self.0.lock().unwrap().open.retain(|open| open != url);
    }

    fn sign_with(&self, secret: &str) {
        secret.clone_into(&mut self.0.lock().unwrap().secret);
    }

    fn stop(&self, users: &[usize]) {
        self.0.lock().unwrap().stopped.extend(users);
    }

    /// Where to go and what tokens are signed with; `None` between two turns of a user who is to stop.
    fn enter(&self, number: usize, turns: usize) -> Option<Pass> {
        let mut state = self.0.lock().unwrap();
        let (done, _) = *state.users.entry(number).or_default();
        let is_between = !state.users[&number].1;
        if state.stopped.contains(&number) && is_between && done == turns {
            return None;
        }
        let url = state.open[(number + turns) % state.open.len()].clone();
        *state.inside.entry(url.clone()).or_default() += 1;
        state.users.insert(number, (done, true));
        Some(Pass { url, secret: state.secret.clone() })
    }

    fn leave(&self, pass: &Pass, number: usize, turns: usize) {
        let mut state = self.0.lock().unwrap();
        *state.inside.entry(pass.url.clone()).or_default() -= 1;
        let (done, _) = state.users[&number];
        state.users.insert(number, (turns, turns == done));
    }

    fn inside(&self, url: &str) -> usize {
        self.0.lock().unwrap().inside.get(url).copied().unwrap_or_default()
    }

    fn busy(&self, users: &[usize]) -> usize {
        let state = self.0.lock().unwrap();
        users.iter().filter(|number| state.users.get(number).is_some_and(|user| user.1)).count()
    }

    /// Everybody begins and ends a turn.
    async fn a_turn_each(&self, users: &[usize]) {
        let done = |number: &usize| {
            self.0.lock().unwrap().users.get(number).copied().unwrap_or_default().0
        };
        let before: Vec<usize> = users.iter().map(done).collect();
        let enough = || async {
            users.iter().zip(&before).all(|(number, before)| done(number) >= before + 2)
        };
        wait_until("two turns of everybody", SOON, enough).await;
    }
}
