//! ④ One pull per free slot, one task per job, and the only place that acks.
use std::sync::Arc;
use std::time::Duration;

use shared::bus::jobs::{Delivery, Puller};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::app::App;
use crate::job::{self, Outcome};

/// Short: the server knows no other end of a request, and one that stands may bring a job to a worker that has
/// stopped, or lies frozen.
const PULL_EXPIRES: Duration = Duration::from_secs(1);
const PULL_PAUSE: Duration = Duration::from_millis(250);

/// Pulls until shutdown begins. Running jobs go on; `hand_over` makes them give their jobs back.
pub async fn run(app: App, hand_over: CancellationToken) {
    let slots = Arc::new(Semaphore::new(app.config.slots));
    let mut puller = Puller::new(&app.bus);
    let stop = app.shutdown.token();
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&slots).acquire_owned() => permit,
            () = stop.cancelled() => break,
        };
        let Ok(permit) = permit else { break };
        let Some(delivery) = next(&app, &mut puller, &stop).await else { break };
        let job_app = app.clone();
        let hand_over = hand_over.clone();
        let occupied = app.occupancy.enter();
        app.shutdown.spawn("job", async move {
            let _taken = (permit, occupied);
            settle(job_app, delivery, hand_over).await;
        });
    }
    withdraw(&mut puller).await;
}

/// The next job; none when the worker stops. Takes none while the database is in doubt.
async fn next(app: &App, puller: &mut Puller, stop: &CancellationToken) -> Option<Delivery> {
    loop {
        let pulled = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            () = app.doubt.raised() => {
                withdraw(puller).await;
                stop.run_until_cancelled(app.doubt.settled(&app.pool)).await?;
                continue;
            }
            pulled = puller.pull(PULL_EXPIRES) => pulled,
        };
        match pulled {
            Ok(Some(delivery)) => return Some(delivery),
            Ok(None) => {}
            Err(error) => {
                warn!(error = format!("{error:#}"), "Pulling a job failed");
                stop.run_until_cancelled(tokio::time::sleep(PULL_PAUSE)).await?;
            }
        }
    }
}

/// No job comes behind this; one that still came is another worker's.
async fn withdraw(puller: &mut Puller) {
    if let Some(delivery) = puller.withdraw().await
        && let Err(error) = delivery.ack.nak(Duration::ZERO).await
    {
        warn!(
            error = format!("{error:#}"),
            "A job could not be given back; it returns after its ack wait"
        );
    }
}

async fn settle(app: App, delivery: Delivery, hand_over: CancellationToken) {
    let outcome = job::run(&app, &delivery, hand_over).await;
    let settled = match outcome {
        Outcome::Done => delivery.ack.ack().await,
        Outcome::Later(delay) => delivery.ack.nak(delay).await,
        Outcome::Unusable => delivery.ack.term().await,
        Outcome::Lost => return,
    };
    if let Err(error) = settled {
        error!(error = format!("{error:#}"), "Settling a job failed; it will be delivered again");
    }
}
