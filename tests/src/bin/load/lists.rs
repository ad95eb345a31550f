//! The lists of a user with 10,000 conversations, one of them with 5,000 messages, beside a user with as many.
use std::time::Instant;

use serde_json::{Map, Value};
use tests::cluster::Cluster;
use tests::database;

use crate::figures::percentiles;

/// Paragraphs of words whose frequency falls off as in a language.
const TEXTS: &str = "SELECT array_agg(t) FROM (SELECT string_agg(CASE WHEN g % 3 = 0 THEN 'word' ELSE 'слово' END \
    || floor(3000 * power(random(), 3))::int, ' ') || CASE n % 3 WHEN 0 THEN ' дашборд' WHEN 1 THEN ' report' ELSE '' END AS t \
    FROM generate_series(1, 40) g, generate_series(1, 500) n GROUP BY n) texts";
const REQUESTS: u32 = 40;

/// Percentiles per request.
pub async fn measure(cluster: &Cluster) -> Value {
    for user in ["reader", "neighbour"] {
        seed(cluster, user).await;
    }
    database::execute(cluster.database.url(), "VACUUM ANALYZE").await.expect("vacuum");
    let rest = cluster.rest("reader");
    let (_, newest) = rest.get("/api/assistant/conversations?limit=1").await;
    let long = newest["items"][0]["id"].as_str().expect("a conversation").to_owned();
    let list = "/api/assistant/conversations?limit=30";
    let mut report = Map::new();
    for (name, path) in [
        ("list", list.to_owned()),
        ("list_page_200", format!("{list}&page=200&page_size=30").replace("limit=30&", "")),
        ("search_word_in_a_third", format!("{list}&search=дашборд")),
        ("search_rare_word", format!("{list}&search=слово2999")),
        ("search_start_of_words", format!("{list}&search=слово29")),
        ("search_two_words", format!("{list}&search=report%20слово1")),
        ("search_nothing", format!("{list}&search=нетакого")),
        ("history_newest", format!("/api/assistant/history?conversation_id={long}&limit=50")),
        (
            "history_oldest",
            format!("/api/assistant/history?conversation_id={long}&page=100&page_size=50"),
        ),
    ] {
        let mut times = Vec::new();
        for _ in 0..REQUESTS {
            let started = Instant::now();
            let (status, answer) = rest.get(&path).await;
            assert_eq!(status, 200, "{path}: {answer}");
            times.push(started.elapsed());
        }
        report.insert(name.to_owned(), percentiles(times));
    }
    Value::Object(report)
}

async fn seed(cluster: &Cluster, user: &str) {
    let statement = format!(
        "DO $$ DECLARE texts text[] := ({TEXTS}); BEGIN \
            INSERT INTO agent_conversations (id, user_id, title, created_at, updated_at, is_listed, message_count) \
            SELECT gen_random_uuid(), '{user}', left(texts[1 + i % 500], 60), now() - i * interval '1 minute', \
                now() - i * interval '1 minute', true, 4 FROM generate_series(1, 10000) i; \
            INSERT INTO agent_messages (conversation_id, role, content, created_at) \
            SELECT c.id, CASE g % 2 WHEN 1 THEN 'user' ELSE 'assistant' END, texts[1 + floor(500 * random())::int % 500], \
                c.created_at FROM agent_conversations c, generate_series(1, 4) g WHERE c.user_id = '{user}'; \
            INSERT INTO agent_messages (conversation_id, role, content, created_at) \
            SELECT c.id, CASE g % 2 WHEN 1 THEN 'user' ELSE 'assistant' END, texts[1 + g % 500], c.created_at \
            FROM (SELECT * FROM agent_conversations WHERE user_id = '{user}' ORDER BY updated_at DESC LIMIT 1) c, \
                generate_series(1, 5000) g; END $$"
    );
    database::execute(cluster.database.url(), &statement).await.expect("seeding");
}
