//! The scripted model as a program, following the demo's rules: `LLM_LISTEN`, or `LLM_PORT` (8001) on loopback.
use tests::llm::Model;
use tests::place;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let model = Model::start_on(place::listen("LLM", 8001)).await?;
    model.follow_demo_rules();
    println!("scripted model on {}", model.url());
    place::until_told_to_stop().await;
    for violation in model.take_violations() {
        println!("malformed request: {violation}");
    }
    Ok(())
}
