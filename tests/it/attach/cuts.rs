//! A client's connection is cut at random bytes: inside frames, inside characters, again and again.
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::gradio::raw::{Kept, Raw};
use tests::place;
use uuid::Uuid;

use super::{attach, follow, open, script, shown};

const TURNS: usize = 10;
/// Clients of a turn whose connection is cut while it runs, its owner among them.
const LIVE: usize = 10;
const AFTERWARDS: usize = 10;
const PACE_MS: u64 = 60;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_random_cuts_lose_no_byte() {
    let seed = place::variable("ATTACH_SEED").map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0);
    eprintln!("ATTACH_SEED={seed}");
    let slots = [("WORKER_SLOTS", "16"), ("TURNS_PER_USER", "100")];
    let builder = Cluster::builder().gateways(2).workers(2);
    let cluster = slots.iter().fold(builder, |b, (name, value)| b.worker_env(name, value));
    let cluster = cluster.start().await;
    let cuts = AtomicUsize::new(0);
    join_all((0..TURNS).map(|turn| cut_turn(&cluster, turn, seed, &cuts))).await;
    let cuts = cuts.into_inner();
    eprintln!("{cuts} cuts");
    assert!(cuts >= TURNS * (LIVE + AFTERWARDS), "{cuts}");
}

async fn cut_turn(cluster: &Cluster, number: usize, seed: u64, cuts: &AtomicUsize) {
    let conversation = format!("c{number}-");
    let ask = script(cluster, &conversation, PACE_MS);
    let owner = cluster.client_at(number % 2, "alice");
    let (mut first, event) =
        open(&owner, Submission::new(&ask, Some(&conversation), None).named("ask")).await;
    let cutter = |index: usize| Cutter {
        cluster,
        conversation: &conversation,
        random: Random::new(seed, number * 1_000 + index),
        cuts,
    };
    let whole = async {
        let (mut raw, event) =
            open(&cluster.client_at(1, "alice"), attach(&conversation, "attach")).await;
        Kept::of(raw.read_all().await, &event)
    };
    let owners = async {
        let mut cutter = cutter(0);
        let mut kept = Kept::default();
        cutter.cut(&mut kept, &mut first, &event).await;
        cutter.go_on(kept).await
    };
    let live = join_all((1..LIVE).map(|index| cutter(index).go_on(Kept::default())));
    let (whole, owners, live) = tokio::join!(whole, owners, live);
    let after = (0..AFTERWARDS).map(|index| cutter(LIVE + index).go_on(Kept::default()));
    let after = join_all(after).await;
    assert!(whole.is_complete);
    for (index, kept) in [owners].iter().chain(&live).chain(&after).enumerate() {
        assert_eq!(kept, &whole, "client {index} of turn {number}, ATTACH_SEED={seed}");
    }
}

struct Cutter<'a> {
    cluster: &'a Cluster,
    conversation: &'a str,
    random: Random,
    cuts: &'a AtomicUsize,
}

impl Cutter<'_> {
    /// A few more streams that break, then one that doesn't.
    async fn go_on(mut self, mut kept: Kept) -> Kept {
        for _ in 0..1 + self.random.below(3) {
            let client = self.cluster.client_at(self.random.below(2), "alice");
            // Now and then the page is loaded again, and has nothing.
            if self.random.below(8) == 0 {
                kept = Kept::default();
            }
            let (mut raw, event) = open(&client, attach(self.conversation, &kept.action())).await;
            self.cut(&mut kept, &mut raw, &event).await;
        }
        let client = self.cluster.client_at(self.random.below(2), "alice");
        let rest = attach(self.conversation, &kept.action());
        follow(&mut kept, &client, rest).await;
        kept
    }

    async fn cut(&mut self, kept: &mut Kept, raw: &mut Raw, event: &str) {
        let bytes = self.random.below(9_000);
        kept.take(raw.read_bytes(bytes).await, event);
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }
}

/// Splitmix: the same numbers for the same seed and client.
struct Random(u64);

impl Random {
    fn new(seed: u64, client: usize) -> Self {
        Self(seed ^ (client as u64).wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// A page that is loaded at any moment has the whole text so far, then what comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_loaded_again_has_everything() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let ask = script(&cluster, "c1-", PACE_MS);
    let alice = cluster.client_at(0, "alice");
    let (mut raw, event) = open(&alice, Submission::new(&ask, Some("c1-"), None)).await;
    let mut pages = Vec::new();
    let mut frames = 1;
    while raw.read_frames(frames).await.frames().len() == frames {
        let page = cluster.client_at(frames % 2, "alice");
        pages.push(tokio::spawn(async move { shown(&page, "c1-", "attach").await }));
        frames += 1;
    }
    let own = Kept::of(&raw, &event);
    assert!(own.is_complete && pages.len() > 15, "{own:?}");
    for page in pages {
        assert_eq!(page.await.unwrap(), own);
    }
}
