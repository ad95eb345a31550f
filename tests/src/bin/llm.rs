//! The scripted model as a program, following the demo's rules: `LLM_PORT` (8001).
use tests::llm::Model;
use tests::place;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = place::variable("LLM_PORT").and_then(|port| port.parse().ok()).unwrap_or(8001);
    let model = Model::start_at(port).await?;
    model.follow_demo_rules();
    println!("scripted model on {}", model.url());
    place::until_told_to_stop().await;
    for violation in model.take_violations() {
        println!("malformed request: {violation}");
    }
    Ok(())
}
