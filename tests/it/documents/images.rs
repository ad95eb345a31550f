//! Pictures: shown to a model that takes them, else only described, and the user is told.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tests::cluster::Cluster;
use tests::gradio::turn::Turn;

use super::{ask, upload};

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_shown_to_a_model_that_takes_them() {
    let cluster = Cluster::builder().worker_env("LLM_IMAGES", "true").start().await;
    let turn = ask_about_a_picture(&cluster).await;
    assert_eq!((turn.text(), turn.all("warning").len()), ("Done.", 0), "{:#?}", turn.values);
    let (text, pictures) = newest_parts(&cluster);
    assert!(text.contains("PNG image, 1 x 1 pixels"), "{text}");
    assert!(text.contains("[note: This is picture 1 of this message.]"), "{text}");
    // Encoded anew; what it is like is checked by the model itself.
    assert_eq!(pictures.len(), 1);
    assert!(pictures[0].starts_with("data:image/png;base64,") && !pictures[0].ends_with(PNG));

    // It is there a turn later, and its bytes are not in the checkpoint of a turn that pauses.
    cluster.model.on("задеплой", [crate::approval::deploy()]);
    let turn = ask(&cluster, "alice", "задеплой дашборд 42", &[]).await;
    assert!(turn.card().is_some(), "{:#?}", turn.values);
    let (text, again) = newest_parts(&cluster);
    assert!(text.contains(" name=\"точка.png\" attached=\"earlier\">"), "{text}");
    assert_eq!(again, pictures);
    let pool = cluster.database.pool().await;
    let runs: Vec<String> =
        sqlx::query_scalar("SELECT run::text FROM checkpoints").fetch_all(&pool).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert!(runs[0].contains("точка.png") && !runs[0].contains("base64"), "{}", runs[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_takes_no_pictures_knows_type_and_size() {
    let cluster = Cluster::start().await;
    let turn = ask_about_a_picture(&cluster).await;
    assert_eq!(turn.text(), "Done.");
    let told = turn.one("warning");
    let detail = "Файл «точка.png»: Языковая модель не принимает изображения: ей известны только тип и размер этого.";
    assert_eq!(
        (told["code"].as_str(), told["detail"].as_str()),
        (Some("IMAGE_NOT_SEEN"), Some(detail))
    );
    let (text, pictures) = newest_parts(&cluster);
    assert!(text.contains("PNG image, 1 x 1 pixels"), "{text}");
    assert!(text.contains("[note: You can't see this picture; "), "{text}");
    assert!(pictures.is_empty() && !text.contains("base64"));
}

async fn ask_about_a_picture(cluster: &Cluster) -> Turn {
    let path = upload(cluster, "alice", "точка.png", &STANDARD.decode(PNG).unwrap()).await;
    ask(cluster, "alice", "что на картинке?", &[&path]).await
}

/// Text and pictures of the newest message.
fn newest_parts(cluster: &Cluster) -> (String, Vec<String>) {
    let request = cluster.model.requests().last().cloned().unwrap();
    let content = request["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    if let Some(text) = content.as_str() {
        return (text.to_owned(), Vec::new());
    }
    let parts = content.as_array().unwrap();
    let url = |part: &Value| part["image_url"]["url"].as_str().unwrap().to_owned();
    (parts[0]["text"].as_str().unwrap().to_owned(), parts[1..].iter().map(url).collect())
}
