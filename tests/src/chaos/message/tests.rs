//! Bytes of each protocol, and what they are called.
use super::*;

/// Labels of what a stream of bytes consists of, however it is cut up.
fn labels(channel: Channel, bytes: &[u8]) -> Vec<Option<String>> {
    let whole = Splitter::new(channel).push(bytes);
    for size in [1, 2, 7, 64] {
        let mut splitter = Splitter::new(channel);
        let pieces: Vec<Message> =
            bytes.chunks(size).flat_map(|chunk| splitter.push(chunk)).collect();
        assert_eq!(pieces, whole, "in pieces of {size}");
    }
    let together: Vec<u8> = whole.iter().flat_map(|message| message.bytes.clone()).collect();
    assert_eq!(together, bytes);
    whole.into_iter().map(|message| message.label).collect()
}

fn named(labels: &[Option<String>]) -> Vec<&str> {
    labels.iter().map(|label| label.as_deref().unwrap_or("-")).collect()
}

#[test]
fn nats_lines_are_named_by_what_they_do() {
    let event = r#"{"v":1,"type":"stream_token","data":{"token":"a\r\nb"}}"#;
    let header = "NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n";
    let bytes = [
        "CONNECT {\"verbose\":false}\r\nPING\r\nSUB _INBOX_wk.a.* 1\r\n".to_owned(),
        "PUB $JS.API.CONSUMER.MSG.NEXT.AGENT_JOBS.workers _INBOX_wk.b 2\r\n{}\r\n".to_owned(),
        "SUB agent.v1.ctl.cancel.0199 3\r\n".to_owned(),
        "PUB $JS.API.DIRECT.GET.AGENT_EVENTS.agent.v1.ev.a.b.c _INBOX_wk.c 0\r\n\r\n".to_owned(),
        format!(
            "HPUB agent.v1.ev.a.b.c _INBOX_wk.d {} {}\r\n{header}{event}\r\n",
            header.len(),
            header.len() + event.len()
        ),
        "PUB $JS.ACK.AGENT_JOBS.workers.1 4\r\n+WPI\r\n".to_owned(),
        "PUB $JS.ACK.AGENT_JOBS.workers.1 _INBOX_wk.e 4\r\n+ACK\r\n".to_owned(),
    ];
    let labels = labels(Channel::Nats, bytes.concat().as_bytes());
    let expected = [
        "-",
        "-",
        "-",
        "-",
        "nats SUB cancel",
        "nats GET AGENT_EVENTS",
        "nats EV stream_token",
        "-",
        "nats +ACK",
    ];
    assert_eq!(named(&labels), expected);
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind][..], &length, body].concat()
}

#[test]
fn postgres_messages_end_where_the_server_acts() {
    let startup = [&12_u32.to_be_bytes()[..], &[0, 3, 0, 0], b"u\0a\0"].concat();
    let prepare = [
        frame(b'P', b"s1\0SELECT agent_commit_turn($1)\0\0\0"),
        frame(b'D', b"Ss1\0"),
        frame(b'S', b""),
    ];
    let execute =
        [frame(b'B', b"\0s1\0\0\0"), frame(b'E', b"\0\0\0\0\0"), frame(b'S', b"")].concat();
    let renew = [
        frame(b'P', b"s2\0UPDATE leases SET until = clock_timestamp() + $3\0\0\0"),
        frame(b'B', b"\0s2\0\0\0"),
        frame(b'S', b""),
    ];
    let release = frame(b'Q', b"UPDATE leases SET until = '-infinity'\0");
    let reset = frame(b'Q', b"BEGIN; ROLLBACK\0");
    let bytes = [startup, prepare.concat(), execute, reset, renew.concat(), release].concat();
    let labels = labels(Channel::Postgres, &bytes);
    assert_eq!(named(&labels), ["-", "-", "pg agent_commit_turn", "-", "-", "pg UPDATE leases"]);
}

#[test]
fn an_http_request_is_one_message() {
    let bytes = b"GET /api/tasks?limit=3 HTTP/1.1\r\nhost: a\r\n\r\n\
        POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 6\r\n\r\n{\r\n\r\n}";
    let labels = labels(Channel::Backend, bytes);
    assert_eq!(named(&labels), ["backend GET /api/tasks", "backend POST /v1/chat/completions"]);
}
