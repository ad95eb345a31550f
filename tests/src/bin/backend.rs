//! The reference backend as a program: `BACKEND_PORT` (8000), `JWT_SECRET`. Steered under `/__test/`.
use tests::backend::Backend;
use tests::{place, token};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = place::variable("BACKEND_PORT").and_then(|port| port.parse().ok()).unwrap_or(8000);
    let secret = place::variable("JWT_SECRET").unwrap_or_else(|| token::SECRET.to_owned());
    let backend = Backend::start_at(&secret, port).await?;
    println!("reference backend on {}", backend.url());
    tests::place::until_told_to_stop().await;
    Ok(())
}
