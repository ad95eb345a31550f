//! The reference backend as a program: `BACKEND_LISTEN`, or `BACKEND_PORT` (8000) on loopback; `JWT_SECRET`. Steered under
//! `/__test/`.
use tests::backend::Backend;
use tests::{place, token};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let secret = place::secret("JWT_SECRET").unwrap_or_else(|| token::SECRET.to_owned());
    let backend = Backend::start_on(&secret, place::listen("BACKEND", 8000)).await?;
    println!("reference backend on {}", backend.url());
    place::until_told_to_stop().await;
    Ok(())
}
