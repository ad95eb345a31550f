use expect_test::expect;

use super::*;

fn frames() -> Vec<Frame> {
    let event: TurnId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
    let value = json!({"role": "assistant", "content": "a\n\r\u{2028}b", "metadata": null});
    vec![
        Frame::Estimation { event, rank: 0 },
        Frame::Starts { event },
        Frame::Generating { event, value: value.clone(), first: true },
        Frame::Generating { event, value: value.clone(), first: false },
        Frame::Completed { event, value },
        Frame::Heartbeat,
        Frame::Close,
        Frame::SessionNotFound,
        Frame::Failed { text: "later" },
    ]
}

#[test]
fn queue_frames_are_one_data_line() {
    let text: String = frames().iter().map(Frame::queue_text).collect();
    expect![[r#"
        data: {"msg":"estimation","event_id":"01890a5d-ac96-774b-bcce-b302099a8057","rank":0,"queue_size":1,"rank_eta":null}

        data: {"msg":"process_starts","event_id":"01890a5d-ac96-774b-bcce-b302099a8057","eta":null}

        data: {"msg":"process_generating","event_id":"01890a5d-ac96-774b-bcce-b302099a8057","success":true,"time_limit":null,"output":{"data":[{"role":"assistant","content":"a\n\r b","metadata":null}],"is_generating":true}}

        data: {"msg":"process_generating","event_id":"01890a5d-ac96-774b-bcce-b302099a8057","success":true,"time_limit":null,"output":{"data":[[["replace",[],{"role":"assistant","content":"a\n\r b","metadata":null}]]],"is_generating":true}}

        data: {"msg":"process_completed","event_id":"01890a5d-ac96-774b-bcce-b302099a8057","success":true,"title":null,"output":{"data":[{"role":"assistant","content":"a\n\r b","metadata":null}],"is_generating":false}}

        data: {"msg":"heartbeat","event_id":null}

        data: {"msg":"close_stream","event_id":null}

        data: {"msg":"unexpected_error","event_id":null,"message":"404: Not Found","session_not_found":true,"success":false}

        data: {"msg":"close_stream","event_id":null}

        data: {"msg":"unexpected_error","event_id":null,"message":"later","session_not_found":false,"success":false}

        data: {"msg":"close_stream","event_id":null}

    "#]]
    .assert_eq(&text);
    for frame in text.split_terminator("\n\n") {
        let json = frame.strip_prefix("data: ").unwrap();
        assert!(!json.contains(['\n', '\r']), "{json:?}");
        serde_json::from_str::<Value>(json).unwrap();
    }
}

#[test]
fn call_frames_have_an_event_line_and_whole_values() {
    let text: String = frames().iter().filter_map(Frame::call_text).collect();
    expect![[r#"
        event: generating
        data: [{"role":"assistant","content":"a\n\r b","metadata":null}]

        event: generating
        data: [{"role":"assistant","content":"a\n\r b","metadata":null}]

        event: complete
        data: [{"role":"assistant","content":"a\n\r b","metadata":null}]

        event: heartbeat
        data: null

        event: error
        data: "404: Not Found"

        event: error
        data: "later"

    "#]]
    .assert_eq(&text);
}

/// Every key of these frames is one that real Gradio sends, and the ones clients need are there.
#[test]
fn queue_frames_have_the_keys_of_real_ones() {
    let real: Value = serde_json::from_str(include_str!("recorded.json")).unwrap();
    for frame in frames() {
        let ours = frame.queue_json();
        let real = &real[ours["msg"].as_str().unwrap()];
        for (key, value) in ours.as_object().unwrap() {
            assert!(real.get(key).is_some(), "{key} of {ours}");
            if let Some(inner) = value.as_object() {
                assert!(inner.keys().all(|inner| real[key].get(inner).is_some()), "{ours}");
            }
        }
    }
}
