//! The connections of a wire.
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, tcp};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::{Admission, Gate, Gates, Shared};
use crate::chaos::message::{Channel, Message, Splitter};

/// HTTP servers drop a request whose client leaves, so a dead worker's last one keeps its connection so long.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

pub(super) async fn accept(
    listener: TcpListener,
    target: String,
    channel: Channel,
    shared: Arc<Shared>,
) {
    loop {
        let Ok((inner, _)) = listener.accept().await else { continue };
        let gate = shared.gates.borrow().of(channel);
        match gate {
            Gate::Open | Gate::Held => {}
            Gate::Cut | Gate::Dead => {
                let _ = inner.set_zero_linger();
                continue;
            }
        }
        let (target, shared) = (target.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            if let Ok(outer) = TcpStream::connect(&target).await {
                let _ = (inner.set_nodelay(true), outer.set_nodelay(true));
                Relay { channel, shared, answered: Notify::new() }.run(inner, outer).await;
            }
        });
    }
}

/// One connection.
struct Relay {
    channel: Channel,
    shared: Arc<Shared>,
    /// The server said something.
    answered: Notify,
}

impl Relay {
    async fn run(&self, mut inner: TcpStream, mut outer: TcpStream) {
        let cut = {
            let (inner_read, inner_write) = inner.split();
            let (outer_read, outer_write) = outer.split();
            let both = async {
                tokio::join!(
                    self.forward(inner_read, outer_write),
                    self.backward(outer_read, inner_write)
                )
            };
            tokio::select! {
                _ = both => false,
                () = self.becomes(&[Gate::Cut]) => true,
            }
        };
        if cut {
            let _ = (inner.set_zero_linger(), outer.set_zero_linger());
        }
    }

    /// To the server. Ends with its half of the connection closed, so that the server reads all that was sent.
    async fn forward(&self, mut from: tcp::ReadHalf<'_>, mut to: tcp::WriteHalf<'_>) {
        let mut splitter = Splitter::new(self.channel);
        let mut buffer = vec![0; 64 * 1024];
        'open: loop {
            let count = tokio::select! {
                count = from.read(&mut buffer) => count.unwrap_or(0),
                () = self.becomes(&[Gate::Dead]) => break,
            };
            if count == 0 {
                break;
            }
            for message in splitter.push(&buffer[..count]) {
                if !self.pass(&message, &mut to).await {
                    break 'open;
                }
            }
        }
        let _ = to.shutdown().await;
    }

    /// Delivers one message, perhaps later. False: it is the end of this connection.
    async fn pass(&self, message: &Message, to: &mut tcp::WriteHalf<'_>) -> bool {
        let mut note = None;
        loop {
            match self.shared.admit(self.channel, message, &mut note) {
                Admission::Pass => {
                    let sent = to.write_all(&message.bytes).await.is_ok();
                    self.shared.delivered(note);
                    return sent;
                }
                Admission::PassAndEnd => {
                    let _ = to.write_all(&message.bytes).await;
                    self.shared.delivered(note);
                    if matches!(self.channel, Channel::Model | Channel::Backend) {
                        let _ = timeout(ANSWER_WITHIN, self.answered.notified()).await;
                    }
                    return false;
                }
                Admission::Hold => self.becomes(&[Gate::Open, Gate::Cut, Gate::Dead]).await,
                Admission::Drop => return false,
            }
        }
    }

    /// To the worker. A dead one gets nothing, but the server is listened to until it has done.
    async fn backward(&self, mut from: tcp::ReadHalf<'_>, mut to: tcp::WriteHalf<'_>) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count) = from.read(&mut buffer).await {
            if count == 0 {
                break;
            }
            self.answered.notify_one();
            self.becomes(&[Gate::Open, Gate::Cut, Gate::Dead]).await;
            if self.gate() == Gate::Open && to.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    }

    fn gate(&self) -> Gate {
        self.shared.gates.borrow().of(self.channel)
    }

    /// Returns when the gate is one of these; never, if the wire is gone.
    async fn becomes(&self, wanted: &[Gate]) {
        let mut gates: watch::Receiver<Gates> = self.shared.gates.subscribe();
        let fits = |gates: &Gates| wanted.contains(&gates.of(self.channel));
        if gates.wait_for(fits).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
