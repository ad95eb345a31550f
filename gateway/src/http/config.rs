//! What clients fetch first. The same for everybody; a bad token is refused here, so that it is noticed at connect.
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use contract::limits;
use gradio::config;
use serde_json::{Value, json};

use crate::auth::Presented;
use crate::error::ApiError;

const TITLE: &str = "AgentChat";

/// GET `/config` and `/config/`.
pub async fn config(presented: Presented) -> Response {
    match presented {
        Presented::Valid(_) | Presented::Missing => {
            Json(config::config(TITLE, limits::FILE_BYTES)).into_response()
        }
        Presented::Expired(_) | Presented::Refused => {
            // JavaScript clients show `auth_message`.
            let detail = json!({
                "error": "Not authenticated",
                "auth_message": "The token is not valid. Sign in again.",
            });
            (StatusCode::UNAUTHORIZED, Json(json!({"detail": detail}))).into_response()
        }
    }
}

/// GET `info`.
pub async fn info(presented: Presented) -> Result<Response, ApiError> {
    match presented {
        Presented::Valid(_) | Presented::Missing => Ok(Json(config::info()).into_response()),
        Presented::Expired(_) | Presented::Refused => Err(ApiError::UNAUTHORIZED),
    }
}

/// GET `app_id`.
pub async fn app_id() -> Json<Value> {
    Json(json!({"app_id": config::APP_ID}))
}

/// GET `startup-events`.
pub async fn startup_events() -> Json<Value> {
    Json(Value::Bool(false))
}
