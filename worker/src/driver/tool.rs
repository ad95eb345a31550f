//! CallTool → tool → input: the journal around side effects, and the progress of slow calls.
use std::time::Duration;

use agent::effect::PlannedCall;
use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use contract::ids::TurnId;
use contract::job::Locale;
use contract::secret::UserToken;
use opentelemetry::KeyValue;
use opentelemetry::trace::Status;
use shared::runtime::digest::sha256_hex;
use shared::runtime::telemetry::attr;
use shared::runtime::trace::Trace;
use shared::store::CommitError;
use shared::store::journal::{self, Call, JournalState};
use tokio::time::Instant;
use tracing::{Instrument as _, info_span, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::app::App;
use crate::driver::Stop;
use crate::lease::Lease;
use crate::metrics;
use crate::tools::CallContext;

const RECORD_AGAIN: Duration = Duration::from_millis(200);

/// What a call needs besides its own arguments.
#[derive(Clone)]
pub struct CallScope {
    pub app: App,
    pub conversation: contract::ids::ConversationId,
    pub turn: TurnId,
    pub epoch: i64,
    pub lease: Lease,
    /// Of the run: with a call's id it names the call for ever, whatever ids the model makes up.
    pub origin: String,
    pub token: Option<UserToken>,
    pub trace: Trace,
    pub locale: Locale,
}

/// Runs one call, with its span and its figures.
pub async fn observed(mut scope: CallScope, call: PlannedCall) -> Result<ToolOutcome, Stop> {
    let tool = scope.app.tools.known_name(&call.name);
    let span = info_span!("tool", otel.name = format!("execute_tool {tool}"), otel.kind = "client");
    span.set_attribute(attr::OPERATION, "execute_tool");
    span.set_attribute(attr::TOOL_NAME, tool);
    span.set_attribute(attr::TOOL_CALL, call.id.clone());
    scope.trace = scope.trace.within(&span);
    let started = Instant::now();
    let done = perform(scope, call).instrument(span.clone()).await;
    let outcome = outcome(&done);
    let labels = [KeyValue::new("tool", tool), KeyValue::new("outcome", outcome)];
    metrics::TOOL.record(started.elapsed().as_secs_f64(), &labels);
    if !matches!(done, Ok(ToolOutcome::Ok(_) | ToolOutcome::Accepted { .. })) {
        span.set_attribute(attr::ERROR_TYPE, outcome);
        span.set_status(Status::error(outcome));
    }
    done
}

fn outcome(done: &Result<ToolOutcome, Stop>) -> &'static str {
    match done {
        Ok(ToolOutcome::Ok(_)) => "ok",
        Ok(ToolOutcome::Accepted { .. }) => "accepted",
        Ok(ToolOutcome::Failed { .. }) => "failed",
        Ok(ToolOutcome::TokenExpired) => "token_expired",
        Ok(ToolOutcome::OutcomeUnknown) => "outcome_unknown",
        Err(_) => "stopped",
    }
}

/// Runs one call. Reads go straight to the backend; everything else is journalled:
/// intent before the request, result before anybody sees it.
async fn perform(scope: CallScope, call: PlannedCall) -> Result<ToolOutcome, Stop> {
    if call.side_effect == SideEffect::Read {
        return request(&scope, &call).await;
    }
    let (digest, name) = (digest(&call), unique_name(&scope, &call));
    let key = Call {
        conversation: scope.conversation,
        turn: scope.turn,
        epoch: scope.epoch,
        call_id: &name,
        digest: &digest,
    };
    let pool = &scope.app.pool;
    match journal::begin(pool, &key).await? {
        JournalState::New => {}
        JournalState::Done(result) => return decode(result),
        JournalState::Unfinished if call.side_effect == SideEffect::Idempotent => {}
        JournalState::Unfinished => {
            let outcome = ToolOutcome::OutcomeUnknown;
            record(&scope, &key, &outcome).await?;
            return Ok(outcome);
        }
    }
    let outcome = request(&scope, &call).await?;
    if matches!(outcome, ToolOutcome::TokenExpired) {
        // Nothing happened: the same call runs again with a fresh token.
        journal::forget(pool, &key).await?;
    } else {
        record(&scope, &key, &outcome).await?;
    }
    Ok(outcome)
}

/// The effect has happened and can't be asked for again: a short outage must not make its outcome unknown. The first
/// result stays, so trying again does no harm; the end of the lease ends it.
async fn record(scope: &CallScope, key: &Call<'_>, outcome: &ToolOutcome) -> Result<(), Stop> {
    let result = encode(outcome)?;
    loop {
        match journal::finish(&scope.app.pool, key, &result).await {
            Err(CommitError::Store(error)) if error.is_outage() && scope.lease.holds() => {
                warn!(error = %error, "The result of a call could not be stored; trying again");
                scope.app.doubt.raise();
                tokio::time::sleep(RECORD_AGAIN).await;
            }
            finished => return Ok(finished?),
        }
    }
}

async fn request(scope: &CallScope, call: &PlannedCall) -> Result<ToolOutcome, Stop> {
    // The intent was written under the fence, but that may be long ago by the clock.
    scope.lease.check()?;
    let idempotency_key = unique_name(scope, call);
    let context = CallContext {
        backend: &scope.app.backend,
        token: scope.token.as_ref(),
        idempotency_key: &idempotency_key,
        trace: &scope.trace,
        locale: scope.locale,
    };
    Ok(scope.app.tools.call(&context, &call.name, &call.arguments).await)
}

/// The same in every attempt and in the turn that confirms; also the `Idempotency-Key`.
fn unique_name(scope: &CallScope, call: &PlannedCall) -> String {
    format!("{}:{}", scope.origin, call.id)
}

/// Name and arguments: a journal row of another call under the same id would be a defect worth seeing.
fn digest(call: &PlannedCall) -> String {
    let text = format!("{}\0{}", call.name, call.arguments);
    sha256_hex(text.as_bytes())
}

fn encode(outcome: &ToolOutcome) -> Result<serde_json::Value, Stop> {
    serde_json::to_value(outcome).map_err(|error| Stop::Broken(error.into()))
}

fn decode(result: serde_json::Value) -> Result<ToolOutcome, Stop> {
    serde_json::from_value(result).map_err(|error| Stop::Broken(error.into()))
}
