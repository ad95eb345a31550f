//! What the demo tells: on the screen, in `.demo/env` and as the little client `.demo/ask`.
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::fleet::Fleet;

/// Asks over the simple call API: `ask TEXT [ACTION] [CONVERSATION]`.
const ASK: &str = r#"#!/bin/sh
# ask TEXT [ACTION] [CONVERSATION]: one message to the demo, with the answer as it streams.
# TOKEN=... asks as somebody else, e.g. TOKEN=$READER_TOKEN.
. "$(dirname "$0")/env"
text=$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g')
body=$(printf '{"data":[{"text":"%s","files":[]},"%s","%s"]}' "$text" "${3:-demo}" "${2:-}")
auth="Authorization: Bearer ${TOKEN:-$USER_TOKEN}"
joined=$(curl -sS -H "$auth" -H 'Content-Type: application/json' -d "$body" "$GATEWAY_URL/gradio_api/call/chat")
event=$(printf '%s' "$joined" | sed -n 's/.*"event_id" *: *"\([^"]*\)".*/\1/p')
[ -n "$event" ] || { echo "$joined" >&2; exit 1; }
curl -sSN -H "$auth" "$GATEWAY_URL/gradio_api/call/chat/$event"
"#;

pub fn write(home: &Path, fleet: &Fleet) -> std::io::Result<()> {
    let mut lines = String::from("# Written by `make demo`; for `. .demo/env`.\n");
    for (name, value) in &fleet.facts {
        let quoted = value.replace('\'', r"'\''");
        lines.push_str(&format!("export {name}='{quoted}'\n"));
    }
    let env = home.join("env");
    std::fs::write(&env, lines)?;
    std::fs::set_permissions(&env, std::fs::Permissions::from_mode(0o600))?;
    let ask = home.join("ask");
    std::fs::write(&ask, ASK)?;
    std::fs::set_permissions(&ask, std::fs::Permissions::from_mode(0o755))
}

pub fn print(fleet: &Fleet) {
    let url = fleet.get("GATEWAY_URL");
    let model = if fleet.is_model_scripted {
        "scripted: it picks tools by rules"
    } else {
        fleet.get("OPENAI_MODEL")
    };
    let page = match fleet.get("PAGE_URL") {
        "" => "none (see above)".to_owned(),
        page => format!("{page}  (sign in as alice or bob; {page}/host.html has it as a drawer)"),
    };
    println!(
        r#"
ready.

  page    {page}
  URL     {url}
  model   {model}
  token   {token}
          (alice, who may do everything; bob only reads: $READER_TOKEN in .demo/env)
  logs    .demo/*.log

Three lines to try, in another terminal:

  .demo/ask 'покажи дашборды с проблемами валидации'
  .demo/ask 'задеплой дашборд 42 на prod' && .demo/ask confirm confirm
  . .demo/env; curl -sN -H "Authorization: Bearer $USER_TOKEN" $GATEWAY_URL/gradio_api/call/chat/$(curl -s -H "Authorization: Bearer $USER_TOKEN" -H 'Content-Type: application/json' -d '{{"data":["what can you do?","tour",null]}}' $GATEWAY_URL/gradio_api/call/chat | cut -d'"' -f4)

Stock Gradio clients: Client.connect("{url}", {{headers: {{Authorization: "Bearer " + token}}, events: ["data", "status"]}}),
then submit("/chat", [{{text, files: []}}, "conversation", null]). Ctrl-C stops everything."#,
        token = fleet.get("USER_TOKEN"),
    );
}
