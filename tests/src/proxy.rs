//! A TCP proxy that can cut, delay and swallow what passes.
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, tcp};
use tokio::task::JoinHandle;

pub struct Proxy {
    port: u16,
    switches: Arc<Switches>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Switches {
    delay_ms: AtomicU64,
    swallow: AtomicBool,
    refuse: AtomicBool,
    answers_to_lose: AtomicUsize,
    /// What must pass before nothing does any more.
    last_words: Mutex<Option<Vec<u8>>>,
    open: AtomicUsize,
    cut: tokio::sync::Notify,
}

impl Proxy {
    /// A proxy to `target` (`host:port`).
    pub async fn start(target: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let switches = Arc::new(Switches::default());
        let task = tokio::spawn(accept(listener, target.to_owned(), Arc::clone(&switches)));
        Proxy { port, switches, task }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.switches.open.load(Ordering::SeqCst)
    }

    /// Every piece of data waits so long, in both directions.
    pub fn delay(&self, delay: Duration) {
        self.switches.delay_ms.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Connections stay, nothing passes any more (or again).
    pub fn swallow(&self, on: bool) {
        self.switches.swallow.store(on, Ordering::SeqCst);
    }

    /// Nothing passes any more after the next request to the target that contains `words`.
    pub fn swallow_after(&self, words: &str) {
        *self.switches.last_words.lock().unwrap() = Some(words.as_bytes().to_vec());
    }

    /// New connections are closed at once (or no longer).
    pub fn refuse(&self, on: bool) {
        self.switches.refuse.store(on, Ordering::SeqCst);
    }

    /// So many times the target's next answer is thrown away, and its connection reset.
    pub fn lose_answers(&self, count: usize) {
        self.switches.answers_to_lose.store(count, Ordering::SeqCst);
    }

    /// Resets every open connection.
    pub fn cut(&self) {
        self.switches.cut.notify_waiters();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: String, switches: Arc<Switches>) {
    loop {
        let Ok((inner, _)) = listener.accept().await else { continue };
        if switches.refuse.load(Ordering::SeqCst) {
            continue;
        }
        let (target, switches) = (target.clone(), Arc::clone(&switches));
        tokio::spawn(async move {
            switches.open.fetch_add(1, Ordering::SeqCst);
            relay(inner, &target, &switches).await;
            switches.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn relay(inner: TcpStream, target: &str, switches: &Switches) {
    let Ok(outer) = TcpStream::connect(target).await else { return };
    for stream in [&inner, &outer] {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_zero_linger();
    }
    let (inner_read, inner_write) = inner.into_split();
    let (outer_read, outer_write) = outer.into_split();
    tokio::select! {
        () = pump(inner_read, outer_write, switches, Way::There) => {}
        () = pump(outer_read, inner_write, switches, Way::Back) => {}
        () = switches.cut.notified() => {}
    }
}

impl Switches {
    fn are_last_words(&self, passed: &[u8]) -> bool {
        let mut words = self.last_words.lock().unwrap();
        let found = words.as_ref().is_some_and(|words| {
            passed.windows(words.len()).any(|piece| piece == words.as_slice())
        });
        if found {
            *words = None;
        }
        found
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    There,
    Back,
}

async fn pump(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    switches: &Switches,
    way: Way,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        let lose = |left: usize| left.checked_sub(1);
        let order = Ordering::SeqCst;
        if way == Way::Back && switches.answers_to_lose.fetch_update(order, order, lose).is_ok() {
            return;
        }
        let delay_ms = switches.delay_ms.load(Ordering::SeqCst);
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        if switches.swallow.load(Ordering::SeqCst) {
            continue;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        if way == Way::There && switches.are_last_words(&buffer[..count]) {
            switches.swallow.store(true, order);
        }
    }
}
