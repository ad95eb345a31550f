//! ④ One pull per free slot, one task per job, and the only place that acks.
use std::sync::Arc;
use std::time::Duration;

use shared::bus::jobs::{Delivery, Puller};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::app::App;
use crate::job::{self, Outcome};

const PULL_EXPIRES: Duration = Duration::from_secs(30);
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
        let Some(delivery) = pull(&mut puller, &stop).await else { break };
        let job_app = app.clone();
        let hand_over = hand_over.clone();
        app.shutdown.spawn("job", async move {
            let _permit = permit;
            settle(job_app, delivery, hand_over).await;
        });
    }
    give_back(puller).await;
}

/// A job that was on its way as the pull was withdrawn.
async fn give_back(puller: Puller) {
    if let Some(delivery) = puller.stop().await
        && let Err(error) = delivery.ack.nak(Duration::ZERO).await
    {
        warn!(
            error = format!("{error:#}"),
            "A job could not be given back; it returns after its ack wait"
        );
    }
}

async fn pull(puller: &mut Puller, stop: &CancellationToken) -> Option<Delivery> {
    loop {
        let pulled = tokio::select! {
            pulled = puller.pull(PULL_EXPIRES) => pulled,
            () = stop.cancelled() => return None,
        };
        match pulled {
            Ok(Some(delivery)) => return Some(delivery),
            Ok(None) => {}
            Err(error) => {
                warn!(error = format!("{error:#}"), "Pulling a job failed");
                tokio::time::sleep(PULL_PAUSE).await;
            }
        }
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
