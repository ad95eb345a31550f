//! Operators ask, workers answer.
use std::time::Duration;

use contract::control::{WorkerAnswer, WorkerAsk, WorkerReport, WorkerSettings};
use shared::bus::Bus;
use shared::bus::workers::{Desk, Reply, drain, reports};

use crate::server::{Server, within};

fn report(worker: &str) -> WorkerReport {
    WorkerReport {
        worker: worker.to_owned(),
        version: "1.2.3".to_owned(),
        slots: 8,
        running: 2,
        draining: false,
        started_at: "2026-11-30T20:00:00.000Z".to_owned(),
        clock: "2026-11-30T20:00:00.000Z".to_owned(),
        settings: WorkerSettings {
            ack_wait_ms: 15_000,
            lease_ms: 15_000,
            heartbeat_ms: 4_000,
            drain_ms: 25_000,
            database_pool: 16,
        },
    }
}

async fn desk(server: &Server) -> Desk {
    Desk::open(&server.connect().await).await.unwrap()
}

/// A worker that answers a drain if it is meant, and gives where to say goodbye.
async fn worker(mut desk: Desk, name: &str) -> Reply {
    loop {
        let (ask, reply) = desk.next().await;
        let meant = matches!(&ask, WorkerAsk::Drain { worker, .. } if worker == name);
        if meant || ask == WorkerAsk::Report {
            reply.send(&WorkerAnswer::Report(report(name))).await.unwrap();
        }
        if meant {
            return reply;
        }
    }
}

async fn names(bus: &Bus) -> Vec<String> {
    let mut names: Vec<_> =
        reports(bus).await.unwrap().into_iter().map(|heard| heard.report.worker).collect();
    names.sort();
    names
}

#[tokio::test]
async fn every_worker_reports() {
    let (server, bus) = Server::ready().await;
    let desks = (desk(&server).await, desk(&server).await);
    let heard = tokio::select! {
        heard = reports(&bus) => heard.unwrap(),
        _ = worker(desks.0, "w1") => unreachable!(),
        _ = worker(desks.1, "w2") => unreachable!(),
    };
    let mut names: Vec<_> = heard.iter().map(|heard| heard.report.worker.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["w1", "w2"]);
    assert!(heard.iter().all(|heard| heard.asked_at <= heard.heard_at));
}

#[tokio::test]
async fn without_workers_nobody_is_waited_for() {
    let (_server, bus) = Server::ready().await;
    assert_eq!(within(1, names(&bus)).await, [""; 0]);
    assert!(within(1, drain(&bus, "w1", "anna")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_mute_worker_is_waited_for_in_vain() {
    let (server, bus) = Server::ready().await;
    let _mute = desk(&server).await;
    assert_eq!(within(8, names(&bus)).await, [""; 0]);
}

#[tokio::test]
async fn only_the_named_worker_drains_and_says_goodbye() {
    let (server, bus) = Server::ready().await;
    let desks = (desk(&server).await, desk(&server).await);
    let other = worker(desks.1, "w2");
    let meant = async {
        let reply = worker(desks.0, "w1").await;
        let (worker, handed_over) = ("w1".to_owned(), 3);
        reply.send(&WorkerAnswer::Drained { worker, handed_over }).await.unwrap();
        // With the last of its handles the connection ends, and what is on its way with it.
        reply
    };
    let asking = async {
        let mut draining = drain(&bus, "w1", "anna").await.unwrap().unwrap();
        assert_eq!(draining.report.worker, "w1");
        draining.drained(Duration::from_secs(10)).await
    };
    let (_reply, handed_over) = tokio::select! {
        both = async { tokio::join!(meant, asking) } => both,
        _ = other => unreachable!("the other worker was drained"),
    };
    assert_eq!(handed_over, Some(3));
}

#[tokio::test]
async fn a_drain_without_an_end_is_given_up() {
    let (server, bus) = Server::ready().await;
    let desk = desk(&server).await;
    let (_reply, draining) = tokio::join!(worker(desk, "w1"), drain(&bus, "w1", "anna"));
    let mut draining = draining.unwrap().unwrap();
    assert_eq!(within(5, draining.drained(Duration::from_millis(50))).await, None);
}
