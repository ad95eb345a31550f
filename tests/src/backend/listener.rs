//! A listener whose connections a handler can reset in the middle of a request.
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

pub struct Cuttable(TcpListener);

/// Given to every handler: cuts the connection that its request came on.
#[derive(Clone)]
pub struct Scissors(Arc<AtomicBool>);

pub struct Connection {
    stream: TcpStream,
    cut: Arc<AtomicBool>,
}

impl Cuttable {
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self(TcpListener::bind(address).await?))
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().map_or(0, |address| address.port())
    }
}

impl Scissors {
    /// The answer that follows is not written; the peer sees a reset.
    pub fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Listener for Cuttable {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            if let Ok((stream, address)) = self.0.accept().await {
                let _ = stream.set_nodelay(true);
                return (Connection { stream, cut: Arc::default() }, address);
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Cuttable>> for Scissors {
    fn connect_info(stream: IncomingStream<'_, Cuttable>) -> Self {
        Self(Arc::clone(&stream.io().cut))
    }
}

impl Connection {
    fn refuse(&self) -> Option<io::Error> {
        if !self.cut.load(Ordering::SeqCst) {
            return None;
        }
        let _ = self.stream.set_zero_linger();
        Some(io::ErrorKind::ConnectionReset.into())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.refuse() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.stream).poll_write(cx, data),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.refuse() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.stream).poll_shutdown(cx),
        }
    }
}
