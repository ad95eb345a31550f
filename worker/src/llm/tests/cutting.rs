//! Text arrives whole wherever the network cuts it.
use bytes::Bytes;

use super::mock::{DONE, Mock, Reply, finish, text, transcript};
use crate::llm::wire::{Cleaned, Seen};

#[tokio::test]
async fn cut_at_every_byte() {
    let said = "Привет, 世界 🌍 é";
    let body = [&text(said), &finish("stop"), DONE].concat().into_bytes();
    let cut = |at: usize| {
        let mut reply = Reply::stream("");
        reply.pieces.push(body[..at].to_vec());
        reply.pieces.push(body[at..].to_vec());
        reply
    };
    let mock = Mock::start((1..body.len()).map(cut).collect()).await;
    for at in 1..body.len() {
        assert_eq!(transcript(mock.ask()).await, format!("text {said:?}\nStop\n"), "cut at {at}");
    }
}

#[tokio::test]
async fn every_byte_alone() {
    let said = "Привет, 世界 🌍 é";
    let mut reply = Reply::stream("");
    reply
        .pieces
        .extend([&text(said), &finish("stop"), DONE].concat().bytes().map(|byte| vec![byte]));
    let mock = Mock::start(vec![reply]).await;
    assert_eq!(transcript(mock.ask()).await, format!("text {said:?}\nStop\n"));
}

/// The parser behind sees what `Cleaned` passes on: the same, cut at every byte without a socket.
#[test]
fn cleaned_pieces_are_text() {
    let body = "\u{feff}data: Привет, 世界 🌍 é\n\n".as_bytes();
    for at in 0..=body.len() {
        for second in at..=body.len() {
            let pieces = [&body[..at], &body[at..second], &body[second..]];
            assert_eq!(clean(&pieces), "data: Привет, 世界 🌍 é\n\n\n\n", "{at} {second}");
        }
    }
}

fn clean(pieces: &[&[u8]]) -> String {
    let nothing = futures_util::stream::empty::<Result<Bytes, std::io::Error>>();
    let mut cleaned = Cleaned::new(nothing, Seen::default());
    let mut text = String::new();
    for piece in pieces {
        text.push_str(std::str::from_utf8(&cleaned.push(piece)).unwrap());
    }
    text.push_str(std::str::from_utf8(&cleaned.close()).unwrap());
    text
}
