//! Three servers, and the death of a leader.
use std::collections::HashMap;
use std::time::Duration;

use shared::bus::events::SessionReader;
use shared::bus::jobs::{self, JobRefused, Puller};
use shared::bus::{Bus, topology};
use shared::runtime::trace::Trace;

use crate::reader::{address, queue, read_ends, write_turn};
use crate::server::{Cluster, conversation, job, session, turn, within};

const OPTIONS: topology::Options =
    topology::Options { replicas: 3, ack_wait: Duration::from_secs(15) };

/// Three servers; every stream on all of them.
async fn replicated() -> (Cluster, Bus) {
    let cluster = Cluster::start();
    let bus = cluster.connect().await;
    let declared = async {
        while let Err(error) = topology::apply(&bus, &OPTIONS).await {
            println!("{error:#}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    within(40, declared).await;
    (cluster, bus)
}

async fn leader(bus: &Bus, stream: &str) -> String {
    let stream = bus.js.get_stream(stream).await.unwrap();
    stream.cached_info().cluster.clone().unwrap().leader.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_read_whole_when_the_leader_of_its_stream_dies() {
    let (mut cluster, writer) = replicated().await;
    let gateway = cluster.connect().await;
    let name = session("s1");
    let (mut reader, _) = SessionReader::open(&gateway, &name, None).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (conversation, turn) = (conversation(), turn());
        let first = queue(&writer, conversation, &name, turn).await;
        let (bus, to) = (writer.clone(), address(conversation, &name, turn));
        writers.spawn(async move {
            let mut written = write_turn(bus, to, (300, Duration::from_millis(4))).await;
            written.insert(0, first);
            (turn, written)
        });
    }
    let trouble = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        cluster.kill(&leader(&writer, "AGENT_EVENTS").await);
    };
    let read = async { tokio::join!(trouble, read_ends(&mut reader, 3)).1 };
    let read = within(60, read).await;
    let written: HashMap<_, _> = within(10, writers.join_all()).await.into_iter().collect();
    assert_eq!(read, written);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_puller_gets_its_job_after_the_leader_died() {
    let (mut cluster, bus) = replicated().await;
    let worker = cluster.connect().await;
    let mut puller = Puller::new(&worker);
    let job = job(conversation());
    let submit = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.kill(&leader(&bus, "AGENT_JOBS").await);
        loop {
            match jobs::publish(&bus, &job, &Trace::root()).await {
                Ok(_) => return,
                Err(JobRefused::Unavailable(error)) => println!("{error}"),
                Err(other) => panic!("{other}"),
            }
        }
    };
    let pulled = async {
        loop {
            match puller.pull(Duration::from_secs(30)).await {
                Ok(Some(delivery)) => return delivery,
                Ok(None) => {}
                Err(error) => println!("{error}"),
            }
        }
    };
    let (delivery, ()) = within(40, async { tokio::join!(pulled, submit) }).await;
    assert_eq!(delivery.payload.as_ref(), Ok(&job));
    delivery.ack.ack().await.unwrap();
}
