//! The layer around every route: no valid user token, no handler, unless the route is public.
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::auth::Presented;
use crate::error::ApiError;
use crate::http::{is_public, layers};

pub async fn gate(
    State(app): State<Arc<App>>,
    path: Option<MatchedPath>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let presented = app.verifier.present(request.headers());
    let path = path.as_ref().map(MatchedPath::as_str).unwrap_or_default();
    let open = is_public(path, app.config.prefix.as_deref());
    if !open && !matches!(presented, Presented::Valid(_)) {
        return Err(ApiError::UNAUTHORIZED);
    }
    request.extensions_mut().insert(presented.clone());
    let mut response = next.run(request).await;
    layers::mark(&mut response, &presented);
    Ok(response)
}
