//! How long to try again, and how fast.
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use crate::bus::Bus;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Bounded patience for one operation: pauses grow, with jitter, until the time is up.
pub(crate) struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    pub(crate) fn new(total: Duration) -> Self {
        Self { until: Instant::now() + total, pause: FIRST_PAUSE }
    }

    /// Waits before the next try, and for a connection; false when the time is up.
    pub(crate) async fn pause(&mut self, bus: &Bus) -> bool {
        tokio::time::sleep(self.pause / 2 + jitter(self.pause / 2)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let left = self.until.saturating_duration_since(Instant::now());
        !left.is_zero() && bus.connected_within(left).await
    }
}

/// Something between nothing and `most`.
pub(crate) fn jitter(most: Duration) -> Duration {
    let mut byte = [0_u8];
    let _ = SystemRandom::new().fill(&mut byte);
    most * u32::from(byte[0]) / 256
}
