//! CallTool → tool → input: the journal around side effects, and the progress of slow calls.
use agent::effect::PlannedCall;
use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use contract::ids::TurnId;
use contract::job::Locale;
use contract::secret::UserToken;
use shared::runtime::digest::sha256_hex;
use shared::runtime::trace::Trace;
use shared::store::journal::{self, Call, JournalState};

use crate::app::App;
use crate::driver::Stop;
use crate::tools::CallContext;

/// What a call needs besides its own arguments.
#[derive(Clone)]
pub struct CallScope {
    pub app: App,
    pub conversation: contract::ids::ConversationId,
    pub turn: TurnId,
    pub epoch: i64,
    /// Of the run: with a call's id it names the call for ever, whatever ids the model makes up.
    pub origin: String,
    pub token: Option<UserToken>,
    pub trace: Trace,
    pub locale: Locale,
}

/// Runs one call. Reads go straight to the backend; everything else is journalled:
/// intent before the request, result before anybody sees it.
pub async fn perform(scope: CallScope, call: PlannedCall) -> Result<ToolOutcome, Stop> {
    if call.side_effect == SideEffect::Read {
        return Ok(request(&scope, &call).await);
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
            journal::finish(pool, &key, &encode(&outcome)?).await?;
            return Ok(outcome);
        }
    }
    let outcome = request(&scope, &call).await;
    if matches!(outcome, ToolOutcome::TokenExpired) {
        // Nothing happened: the same call runs again with a fresh token.
        journal::forget(pool, &key).await?;
    } else {
        journal::finish(pool, &key, &encode(&outcome)?).await?;
    }
    Ok(outcome)
}

async fn request(scope: &CallScope, call: &PlannedCall) -> ToolOutcome {
    let idempotency_key = unique_name(scope, call);
    let context = CallContext {
        backend: &scope.app.backend,
        token: scope.token.as_ref(),
        idempotency_key: &idempotency_key,
        trace: &scope.trace,
        locale: scope.locale,
    };
    scope.app.tools.call(&context, &call.name, &call.arguments).await
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
    serde_json::to_value(outcome).map_err(|error| Stop::Unavailable(error.into()))
}

fn decode(result: serde_json::Value) -> Result<ToolOutcome, Stop> {
    serde_json::from_value(result).map_err(|error| Stop::Unavailable(error.into()))
}
