//! Connections of clients: how many there may be, how long a request's head may take, and how long a peer that
//! reads nothing is waited for.
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use shared::runtime::shutdown::Shutdown;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// What is read ahead and written behind per connection; a request's head has to fit.
const BUFFER_BYTES: usize = 64 * 1024;
/// What the system keeps for a peer that doesn't read. Left alone, it grows to megabytes.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// The process may open no more files for the moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub connections: usize,
    /// Between two requests, and until the head of one is complete.
    pub idle: Duration,
    /// A peer that takes nothing for so long, while there is something to send, is given up.
    pub stall: Duration,
}

/// Serves until the shutdown token is cancelled. Connections end with the answer at hand, or when `cut` is
/// cancelled.
pub async fn accept(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    (shutdown, cut): (&Shutdown, &CancellationToken),
) {
    let stopping = shutdown.token();
    let slots = Arc::new(Semaphore::new(bounds.connections));
    let next = async || {
        // Above the number, new ones wait to be accepted.
        let slot = Arc::clone(&slots).acquire_owned().await;
        (listener.accept().await, slot)
    };
    loop {
        let (accepted, slot) = tokio::select! {
            next = next() => next,
            () = stopping.cancelled() => return,
        };
        match accepted {
            Ok((socket, _)) => {
                prepare(&socket, bounds);
                let (stopping, cut) = (stopping.clone(), cut.clone());
                let serving = serve(socket, router.clone(), bounds, stopping);
                shutdown.spawn("connection", async move {
                    tokio::select! {
                        () = serving => {}
                        () = cut.cancelled() => {}
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "Can't accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn prepare(socket: &TcpStream, bounds: Bounds) {
    // A frame is small and must not wait for the acknowledgement of the one before it.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "Can't set TCP_NODELAY: {error}");
    }
    if let Err(error) = SockRef::from(socket).set_send_buffer_size(SEND_BUFFER_BYTES) {
        tracing::debug!(%error, "Can't set SO_SNDBUF: {error}");
    }
    // A peer that is gone without a word acknowledges nothing.
    if let Err(error) = SockRef::from(socket).set_tcp_user_timeout(Some(bounds.stall)) {
        tracing::debug!(%error, "Can't set TCP_USER_TIMEOUT: {error}");
    }
}

async fn serve(socket: TcpStream, router: Router, bounds: Bounds, stopping: CancellationToken) {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        router.clone().oneshot(request.map(Body::new))
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(bounds.idle).max_buf_size(BUFFER_BYTES);
    let io = TokioIo::new(Patient { socket, within: bounds.stall, stalled: None });
    let mut connection = std::pin::pin!(server.serve_connection(io, service));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "A connection broke off: {error}");
    }
}

/// A socket whose writes fail when nothing of them was taken for a while.
struct Patient {
    socket: TcpStream,
    within: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let within = self.within;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        ready!(stalled.as_mut().poll(context));
        let seconds = within.as_secs();
        tracing::info!(seconds, "Dropped a connection whose peer took nothing for {seconds} s");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, bytes);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
