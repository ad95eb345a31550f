//! What a REST client may say: query parameters and JSON bodies, read field by field, all complaints at once.
use std::fmt::Display;
use std::ops::RangeInclusive;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use contract::error_code::ErrorCode;
use serde_json::{Map, Value};

use crate::error::{ApiError, BadParameter};

/// Fields that are read one after the other; [`Fields::finish`] reports everything that was wrong.
pub struct Fields {
    values: Vec<(String, Value)>,
    problems: Vec<BadParameter>,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Query,
    Body,
}

/// A whole body within the route's limit. Refuses in our own shapes.
pub struct RawBody(pub Bytes);

/// A JSON object as a body; an empty body is an empty object.
pub struct JsonFields(pub Fields);

impl Fields {
    pub fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                self.complain(name, "string_type", "must be a string");
                None
            }
        }
    }

    pub fn required_text(&mut self, name: &str) -> String {
        let known = self.problems.len();
        let text = self.text(name).filter(|text| !text.is_empty());
        if text.is_none() && self.problems.len() == known {
            self.complain(name, "missing", "is required");
        }
        text.unwrap_or_default()
    }

    pub fn number(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let number = match self.take(name)? {
            Value::Null => return None,
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let msg = format!("must be a whole number from {} to {}", range.start(), range.end());
            self.complain(name, "int_range", msg);
        }
        number
    }

    pub fn flag(&mut self, name: &str) -> bool {
        match self.take(name) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => flag,
            Some(Value::String(text)) if text == "true" || text == "1" => true,
            Some(Value::String(text)) if text == "false" || text == "0" => false,
            Some(Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                self.complain(name, "bool_parsing", "must be true or false");
                false
            }
        }
    }

    pub fn json(&mut self, name: &str) -> Option<Value> {
        self.take(name).filter(|value| !value.is_null())
    }

    pub fn complain(&mut self, name: &str, kind: &'static str, msg: impl Display) {
        let problem = match self.place {
            Place::Query => BadParameter::query(name, kind, format!("`{name}` {msg}")),
            Place::Body => BadParameter::body(name, kind, format!("`{name}` {msg}")),
        };
        self.problems.push(problem);
    }

    /// Call when every known field was read. In a query whatever is left is a complaint; in a body it is
    /// ignored, as clients may know more fields than this server.
    pub fn finish(mut self) -> Result<(), ApiError> {
        if self.place == Place::Query {
            for (name, _) in std::mem::take(&mut self.values) {
                self.complain(&name, "extra_forbidden", "is not a parameter of this route");
            }
        }
        if self.problems.is_empty() { Ok(()) } else { Err(ApiError::Parameters(self.problems)) }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.values.iter().position(|(known, _)| known == name)?;
        let value = self.values.remove(at).1;
        if self.values.iter().any(|(known, _)| known == name) {
            self.values.retain(|(known, _)| known != name);
            self.complain(name, "repeated", "is given more than once");
        }
        Some(value)
    }

    fn of_object(object: Map<String, Value>) -> Self {
        let values = object.into_iter().collect();
        Self { values, problems: Vec::new(), place: Place::Body }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Fields {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|_| ApiError::bad_request("The query string could not be read."))?;
        let values = pairs.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
        Ok(Self { values, problems: Vec::new(), place: Place::Query })
    }
}

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Bytes::from_request(request, state).await {
            Ok(bytes) => Ok(Self(bytes)),
            Err(rejection) => Err(body_refused(&rejection)),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for JsonFields {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(Fields::of_object(Map::new())));
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(Self(Fields::of_object(object))),
            Ok(_) => Err(ApiError::bad_request("The body must be a JSON object.")),
            Err(_) => Err(ApiError::bad_request("The body is not valid JSON.")),
        }
    }
}

fn body_refused(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return ApiError::Protocol(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The request is too large.".to_owned(),
        );
    }
    ApiError::Explained(ErrorCode::BadRequest, "The body could not be read.".to_owned())
}

#[cfg(test)]
mod tests;
