//! Programs as children: started with a log file, signalled by pid, never left behind.
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Kills every pid it was told, and removes every folder, as soon as its standard input ends: that is when
/// the process that holds the other end dies, in whatever way.
const REAPER: &str = r#"
pids=" "
while read -r verb what; do
    case "$verb" in
        + ) pids="$pids$what " ;;
        - ) pids="${pids%% $what *} ${pids#* $what }" ;;
        d ) dirs="$dirs $what" ;;
    esac
done
[ "$pids" = "  " ] || [ "$pids" = " " ] || { kill -TERM $pids; sleep 0.3; kill -KILL $pids; }
[ -z "$dirs" ] || rm -rf $dirs
"#;

static REAPER_INPUT: OnceLock<Mutex<Option<std::process::ChildStdin>>> = OnceLock::new();

fn tell_reaper(line: &str) {
    let input = REAPER_INPUT.get_or_init(|| {
        let reaper = Command::new("sh")
            .args(["-c", REAPER])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Mutex::new(reaper.ok().and_then(|mut child| child.stdin.take()))
    });
    if let Some(pipe) = input.lock().unwrap().as_mut() {
        let _ = writeln!(pipe, "{line}");
    }
}

/// A folder under the system's temporary one, removed when this process is gone.
pub fn scratch(name: &str) -> PathBuf {
    let dir =
        std::env::temp_dir().join(format!("agentchat-{name}-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir_all(&dir).unwrap();
    tell_reaper(&format!("d {}", dir.display()));
    dir
}

pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` in a process group of its own, with its output appended to `log`.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Process {
        let out = File::options().create(true).append(true).open(log).unwrap();
        let err = out.try_clone().unwrap();
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let child =
            command.spawn().unwrap_or_else(|e| panic!("starting {name} ({command:?}): {e}"));
        tell_reaper(&format!("+ {}", child.id()));
        Process { name: name.to_owned(), child, log: log.to_owned(), ended: None }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// `kill -9`; returns when the process is gone.
    pub fn kill(&mut self) {
        if self.exited().is_none() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
            self.forget();
        }
    }

    /// SIGTERM; returns at once.
    pub fn ask_to_stop(&self) {
        self.signal("TERM");
    }

    /// How it ended, if it did so by itself in time.
    pub async fn ends_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        while self.exited().is_none() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        self.exited()
    }

    /// Returns when the log has these words so often.
    pub async fn logs(&self, words: &str, times: usize) {
        let count = || {
            let text = std::fs::read(&self.log).unwrap_or_default();
            String::from_utf8_lossy(&text).matches(words).count()
        };
        let said = || async { count() >= times };
        wait_until(&format!("{}: {words}", self.name), Duration::from_secs(30), said).await;
    }

    /// SIGTERM, then SIGKILL after `grace`. True if it went by itself.
    pub fn terminate(&mut self, grace: Duration) -> bool {
        if self.exited().is_some() {
            return true;
        }
        self.signal("TERM");
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline {
            if self.exited().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
        false
    }

    /// Tells it to stop, and returns how it ended; it is not killed.
    pub async fn stop(&mut self, within: Duration) -> ExitStatus {
        self.signal("TERM");
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(Instant::now() < deadline, "{} has not stopped within {within:?}", self.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Freezes the process: it holds its sockets and does nothing.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Freezes it and all its children (Postgres answers from one per connection).
    pub fn freeze_family(&self) {
        for pid in family_of(self.pid()).0 {
            signal(pid, "STOP");
        }
    }

    pub fn thaw_family(&self) {
        for pid in family_of(self.pid()).0 {
            signal(pid, "CONT");
        }
    }

    /// Memory in use, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.size("VmRSS:")
    }

    /// The most memory it ever had in use, in bytes, without its children's.
    pub fn peak_bytes(&self) -> u64 {
        self.size("VmHWM:")
    }

    fn size(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or_default() * 1024
    }

    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
            if self.ended.is_some() {
                self.forget();
            }
        }
        self.ended
    }

    /// All its descendants.
    pub fn descendants(&self) -> Vec<u32> {
        family_of(self.pid()).0.split_off(1)
    }

    /// CPU time used so far, user and system.
    pub fn cpu(&self) -> Duration {
        cpu_of_tree(self.pid())
    }

    pub fn log_tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    fn forget(&self) {
        tell_reaper(&format!("- {}", self.child.id()));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `kill -NAME PID`
pub fn signal(pid: u32, name: &str) {
    let (name, pid) = (format!("-{name}"), pid.to_string());
    let _ = Command::new("kill").args([&name, &pid]).stderr(Stdio::null()).status();
}

/// CPU time of a process and of all its descendants (Postgres forks one per connection).
pub fn cpu_of_tree(root: u32) -> Duration {
    family_of(root).1
}

/// A process with all its descendants, and the CPU time of them all.
fn family_of(root: u32) -> (Vec<u32>, Duration) {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some((parent, ticks)) = stat(pid) {
            parents.push((pid, parent, ticks));
        }
    }
    let mut family = vec![root];
    let mut ticks = 0;
    let mut next = 0;
    while next < family.len() {
        let member = family[next];
        ticks +=
            parents.iter().find(|(pid, _, _)| *pid == member).map_or(0, |(_, _, ticks)| *ticks);
        family.extend(
            parents.iter().filter(|(_, parent, _)| *parent == member).map(|(pid, _, _)| *pid),
        );
        next += 1;
    }
    // Linux reports in units of 1/100 s on every platform that matters here.
    (family, Duration::from_millis(ticks * 10))
}

/// Neither gone nor waiting for its parent to notice its end.
pub fn is_running(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Parent and CPU ticks; those of children that have ended and were waited for included.
fn stat(pid: u32) -> Option<(u32, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    Some((u32::try_from(number(1)?).ok()?, ticks))
}

/// Asks `ready` every few milliseconds until it says yes.
pub async fn wait_until<F>(what: &str, within: Duration, mut ready: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let deadline = Instant::now() + within;
    loop {
        if ready().await {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}
