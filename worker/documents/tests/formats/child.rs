//! What a child took, by the kernel's count.
use std::time::{Duration, Instant};

use documents::extracted::Extracted;
use documents::failure::Failure;
use documents::parent::Reader;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use tokio::sync::Mutex;

/// Of the issue: this much of the processor and of memory for one file.
const CPU: Duration = Duration::from_secs(2);
const MEMORY_BYTES: u64 = 256 << 20;
/// The kernel looks at the limit once a tick.
const TICK: Duration = Duration::from_millis(50);

/// The count is of all children of this process: one at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub cpu: Duration,
    pub peak_bytes: u64,
    pub wall: Duration,
}

impl Cost {
    #[track_caller]
    pub fn within_limits(&self, name: &str) {
        assert!(self.cpu <= CPU + TICK, "{name}: {self:?}");
        assert!(self.peak_bytes <= MEMORY_BYTES, "{name}: {self:?}");
    }
}

/// The memory is of the largest child of this process so far, or of this process when it started one, if that was more.
pub async fn read(reader: &Reader, name: &str, bytes: &[u8]) -> (Result<Extracted, Failure>, Cost) {
    let _alone = ALONE.lock().await;
    let (before, start) = (of_children(), Instant::now());
    let read = reader.read(name, bytes).await;
    let (after, wall) = (of_children(), start.elapsed());
    let cpu = cpu(&after).saturating_sub(cpu(&before));
    (read, Cost { cpu, peak_bytes: peak(&after), wall })
}

pub fn peak_of_this_process() -> u64 {
    peak(&getrusage(UsageWho::RUSAGE_SELF).unwrap())
}

fn of_children() -> Usage {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap()
}

fn cpu(usage: &Usage) -> Duration {
    let micros = [usage.user_time(), usage.system_time()]
        .map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
    Duration::from_micros(u64::try_from(micros.iter().sum::<i64>()).unwrap())
}

fn peak(usage: &Usage) -> u64 {
    u64::try_from(usage.max_rss()).unwrap() * 1_024
}
