//! A process asks its own container's service whether it is ready: the images hold neither shell nor curl.
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::Context as _;

const WITHIN: Duration = Duration::from_secs(3);

/// Fails unless whoever listens on `host:port` answers `/healthz/ready` with 200.
pub fn ready(address: &str) -> anyhow::Result<()> {
    let mut found = address.to_socket_addrs().with_context(|| format!("looking up {address}"))?;
    let mut address = found.next().with_context(|| format!("{address} has no address"))?;
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let mut stream = TcpStream::connect_timeout(&address, WITHIN)
        .with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.write_all(b"GET /healthz/ready HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(4_096).read_to_string(&mut answer).context("reading the answer")?;
    anyhow::ensure!(answer.split(' ').nth(1) == Some("200"), "not ready: {}", body(&answer));
    Ok(())
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or(answer, |(_, body)| body).trim()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn asked(answer: &'static str) -> anyhow::Result<()> {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let listen = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 256];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let result = ready(&listen);
        server.join().unwrap();
        result
    }

    #[test]
    fn only_a_ready_service_passes() {
        asked("HTTP/1.1 200 OK\r\n\r\nready\n").unwrap();
        let error = asked("HTTP/1.1 503 Service Unavailable\r\n\r\ndraining\n").unwrap_err();
        assert_eq!(error.to_string(), "not ready: draining");
        assert!(asked("").is_err());
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(ready(&closed.to_string()).is_err());
        assert!(ready("nonsense").is_err());
        assert!(ready("nobody.invalid:80").is_err());
    }
}
