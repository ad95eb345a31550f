//! How long to wait before the next attempt.
use std::time::Duration;

use uuid::Uuid;

/// Doubles with every attempt (the first is 1); half of it is chance, so that a fleet doesn't come back as one.
/// A server's own wish counts up to `cap`.
pub fn pause(
    base: Duration,
    attempt: u32,
    retry_after: Option<Duration>,
    cap: Duration,
) -> Duration {
    let backoff = base * 2_u32.saturating_pow(attempt.saturating_sub(1).min(16));
    let share = Uuid::new_v4().as_bytes().first().map_or(0, |byte| u32::from(*byte));
    let jittered = backoff / 2 + backoff * share / 510;
    jittered.max(retry_after.unwrap_or_default()).min(cap)
}

/// Statuses that may be gone when the same request is made again.
pub fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}
