//! HTTP/1.1 requests with a length.
use super::{Channel, Message};

pub struct Requests {
    channel: Channel,
    buffer: Vec<u8>,
}

impl Requests {
    pub fn new(channel: Channel) -> Self {
        Self { channel, buffer: Vec::new() }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Vec<Message> {
        self.buffer.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let Some((head, length)) = whole(&self.buffer) {
            let bytes: Vec<u8> = self.buffer.drain(..length).collect();
            let mut words = head.split_whitespace();
            let (method, path) =
                (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let path = path.split('?').next().unwrap_or_default();
            let label = Some(format!("{} {method} {path}", self.channel.name()));
            messages.push(Message { bytes, label, asks_for_a_job: false });
        }
        messages
    }
}

fn whole(buffer: &[u8]) -> Option<(String, usize)> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let body = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = end + 4 + body.unwrap_or_default();
    (buffer.len() >= length).then_some((head, length))
}
