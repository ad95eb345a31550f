//! The backend's HTTP side: identities, faults, idempotency, and the switches under `/__test/`.
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::identity::{self, Identities};
use super::listener::{Cuttable, Scissors};
use super::operation::Operation;
use super::world::{Answer, Request, World};
use super::{Call, Desk, Effect, Fault, FaultKind};

pub async fn run(listener: Cuttable, desk: Arc<Desk>, stop: CancellationToken) {
    let app =
        Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/api/auth/service-token", post(service_token))
            .route(
                "/__test/effects",
                get(|State(desk): State<Arc<Desk>>| async move {
                    Json(json!(*desk.effects.lock().unwrap()))
                }),
            )
            .route(
                "/__test/calls",
                get(|State(desk): State<Arc<Desk>>| async move {
                    Json(json!(*desk.calls.lock().unwrap()))
                }),
            )
            .route(
                "/__test/refused",
                get(|State(desk): State<Arc<Desk>>| async move {
                    Json(json!(*desk.refused.lock().unwrap()))
                }),
            )
            .route("/__test/faults", post(add_fault))
            .route("/__test/permissions", post(set_permission))
            .route("/__test/reset", post(reset))
            .fallback(operation)
            .with_state(desk)
            .into_make_service_with_connect_info::<Scissors>();
    let _ = axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned()).await;
}

async fn service_token(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Bytes) -> Response {
    let lifetime = desk.service_tokens.lock().unwrap().lifetime;
    let fault = desk.fault("service_token");
    if let Some(FaultKind::Status(status)) = fault {
        return answer((status, json!({"detail": "the reference backend was told to fail"})));
    }
    if let Some(FaultKind::DelayMs(ms)) = fault {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    match identity::service_sign_in(&headers, &body, lifetime) {
        Some(token) => {
            desk.service_tokens.lock().unwrap().issued += 1;
            answer((
                200,
                json!({"access_token": token, "token_type": "bearer", "expires_in": lifetime.as_secs()}),
            ))
        }
        None => answer((401, json!({"detail": "wrong client id or secret"}))),
    }
}

async fn operation(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
    body: Bytes,
) -> Response {
    let Some((operation, id)) = Operation::of(&method, uri.path()) else {
        return answer((404, json!({"detail": "Not Found"})));
    };
    let identities = match desk.admit(operation, &headers) {
        Ok(identities) => identities,
        Err(refusal) => return answer(refusal),
    };
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (key, traceparent) = (text("idempotency-key"), text("traceparent"));
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let request = Request { operation, id, query, body };
    let fault = desk.fault(operation.name());
    let call = Call {
        operation: operation.name().to_owned(),
        service: identities.service,
        user: identities.user,
        idempotency_key: key.to_owned(),
        traceparent: traceparent.to_owned(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        body: request.body.clone(),
        status: 0,
    };
    let index = desk.note(call.clone());
    match fault {
        Some(FaultKind::DelayMs(ms)) => tokio::time::sleep(Duration::from_millis(ms)).await,
        Some(FaultKind::NeverAnswer) => std::future::pending().await,
        Some(FaultKind::CutBefore) => {
            scissors.cut();
            return answer((500, Value::Null));
        }
        Some(FaultKind::Status(status)) => {
            return desk.answered(
                index,
                (status, json!({"detail": "the reference backend was told to fail"})),
            );
        }
        Some(FaultKind::BusyFor(seconds)) => {
            let mut response =
                desk.answered(index, (503, json!({"detail": "the reference backend is busy"})));
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            return response;
        }
        Some(FaultKind::Body(text)) => {
            return ([(header::CONTENT_TYPE, "application/json")], text).into_response();
        }
        Some(FaultKind::RedirectTo(location)) => {
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)])
                .into_response();
        }
        Some(FaultKind::CutAfter) | None => {}
    }
    let result = desk.perform(&request, &call);
    if fault == Some(FaultKind::CutAfter) {
        scissors.cut();
    }
    desk.answered(index, result)
}

impl Desk {
    /// Checks what every call must carry and what its user may do.
    fn admit(&self, operation: Operation, headers: &HeaderMap) -> Result<Identities, Answer> {
        let refuse = |status: u16, detail: String| {
            self.refused.lock().unwrap().push(format!("{}: {status} {detail}", operation.name()));
            Err((status, json!({"detail": detail})))
        };
        let secrets = self.secrets.lock().unwrap().clone();
        let identities = match identity::of(headers, &secrets) {
            Ok(identities) => identities,
            Err((status, detail)) => return refuse(status, detail),
        };
        for name in ["idempotency-key", "traceparent"] {
            if headers.get(name).is_none() {
                self.violations
                    .lock()
                    .unwrap()
                    .push(format!("{} without {name}", operation.name()));
                return refuse(400, format!("{name} is missing"));
            }
        }
        if !self.permissions.lock().unwrap().allows(&identities.user, operation) {
            let detail = format!("user `{}` may not do {}", identities.user, operation.name());
            return refuse(403, detail);
        }
        Ok(identities)
    }

    /// The first fault that applies, counted down.
    fn fault(&self, operation: &str) -> Option<FaultKind> {
        let mut faults = self.faults.lock().unwrap();
        let found = faults.iter_mut().find(|fault| {
            (fault.operation == operation || fault.operation == "*") && fault.times != Some(0)
        })?;
        if let Some(times) = &mut found.times {
            *times -= 1;
        }
        Some(found.kind.clone())
    }

    fn note(&self, call: Call) -> usize {
        let mut calls = self.calls.lock().unwrap();
        calls.push(call);
        calls.len() - 1
    }

    fn answered(&self, index: usize, result: Answer) -> Response {
        if let Some(call) = self.calls.lock().unwrap().get_mut(index) {
            call.status = result.0;
        }
        answer(result)
    }

    /// Does it, unless this key did it before: then the first answer is given again.
    fn perform(&self, request: &Request, call: &Call) -> Answer {
        let mut world = self.world.lock().unwrap();
        if !request.operation.changes_something() {
            return world.perform(request);
        }
        let mut effects = self.effects.lock().unwrap();
        let again = effects.iter().find(|effect| {
            effect.idempotency_key == call.idempotency_key && effect.operation == call.operation
        });
        if let Some(effect) = again {
            return (200, effect.answer.clone());
        }
        let (status, answer) = world.perform(request);
        if status < 300 {
            effects.push(Effect {
                operation: call.operation.clone(),
                user: call.user.clone(),
                idempotency_key: call.idempotency_key.clone(),
                target: request.id.clone(),
                body: request.body.clone(),
                answer: answer.clone(),
            });
        }
        (status, answer)
    }
}

fn answer((status, body): Answer) -> Response {
    (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
}

async fn add_fault(State(desk): State<Arc<Desk>>, Json(fault): Json<Fault>) -> Response {
    desk.faults.lock().unwrap().push(fault);
    answer((200, json!({"ok": true})))
}

#[derive(serde::Deserialize)]
struct Setting {
    user: String,
    operation: String,
    allowed: bool,
}

async fn set_permission(State(desk): State<Arc<Desk>>, Json(setting): Json<Setting>) -> Response {
    desk.permissions.lock().unwrap().set(&setting.user, &setting.operation, setting.allowed);
    answer((200, json!({"ok": true})))
}

async fn reset(State(desk): State<Arc<Desk>>) -> Response {
    *desk.world.lock().unwrap() = World::default();
    *desk.permissions.lock().unwrap() = identity::Permissions::default();
    desk.faults.lock().unwrap().clear();
    desk.calls.lock().unwrap().clear();
    desk.effects.lock().unwrap().clear();
    answer((200, json!({"ok": true})))
}
