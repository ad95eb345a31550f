//! What a child takes from itself before it looks at a file.
mod filter;

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use rustix::process::{
    Resource, Rlimit, Signal, set_parent_process_death_signal, setpriority_process, setrlimit,
};
use rustix::time::{ClockId, clock_gettime};

use crate::extracted::Usage;
use crate::limits::Limits;

/// Behind whatever else wants the processor.
const NICE: i32 = 10;
/// Address space may be reserved without being used: the allocator and thread stacks do.
const RESERVED_BYTES: u64 = 192 << 20;

/// The process as it sees itself; opened while files can still be opened.
pub(crate) struct Own {
    status: File,
    start_bytes: u64,
}

impl Own {
    /// With the parent's end ends the child, even while it doesn't yet know what to do.
    pub(crate) fn begin() -> std::io::Result<Self> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        setpriority_process(None, NICE)?;
        // The first call looks for the clock in a file.
        cpu_time();
        let mut own = Self { status: File::open("/proc/self/status")?, start_bytes: 0 };
        own.start_bytes = own.field("VmRSS:");
        Ok(own)
    }

    /// Nothing of this can be taken back, and no thread can be started after it. The limits on memory are relative: a
    /// debug binary is large by itself.
    pub(crate) fn confine(&mut self, limits: &Limits) -> std::io::Result<()> {
        let (space, data) = (self.field("VmSize:"), self.field("VmData:"));
        let cpu_seconds = limits.cpu_ms.div_ceil(1_000);
        limit(Resource::Data, data + limits.memory_bytes)?;
        limit(Resource::As, space + limits.memory_bytes + RESERVED_BYTES)?;
        limit(Resource::Core, 0)?;
        limit(Resource::Fsize, 0)?;
        // The signal at the first says that it was the processor's time.
        setrlimit(
            Resource::Cpu,
            Rlimit { current: Some(cpu_seconds), maximum: Some(cpu_seconds + 1) },
        )?;
        // What is open stays open; nothing else can be.
        limit(Resource::Nofile, 0)?;
        filter::apply(self.status.as_raw_fd())
    }

    pub(crate) fn usage(&mut self) -> Usage {
        let cpu_ms = u64::try_from(cpu_time().as_millis()).unwrap_or(u64::MAX);
        Usage { cpu_ms, start_bytes: self.start_bytes, peak_bytes: self.field("VmHWM:") }
    }

    /// A size of `/proc/self/status` in bytes; zero if it can't be read.
    fn field(&mut self, name: &str) -> u64 {
        let mut text = String::new();
        let read = self
            .status
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.status.read_to_string(&mut text));
        let line = read.ok().and_then(|_| text.lines().find_map(|line| line.strip_prefix(name)));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) * 1_024
    }
}

fn limit(resource: Resource, value: u64) -> std::io::Result<()> {
    Ok(setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })?)
}

/// Of all threads of this process.
pub(crate) fn cpu_time() -> Duration {
    read_clock(ClockId::ProcessCPUTime)
}

/// Of this thread alone.
pub(crate) fn thread_time() -> Duration {
    read_clock(ClockId::ThreadCPUTime)
}

fn read_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
