//! Pieces of tool calls, put together as servers number them, or don't.
use serde_json::Value;
use uuid::Uuid;

use super::chunk::{Arguments, CallPart};

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub struct Assembler {
    calls: Vec<Call>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// A whole call: id, name, arguments as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

impl Assembler {
    pub fn add(&mut self, part: CallPart) {
        let at = match self.slot_of(&part) {
            Some(at) => at,
            None => {
                self.calls.push(Call { index: part.index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.id.is_none() {
            call.id = part.id;
        }
        if let Some(name) = part.name.filter(|_| call.name.is_empty()) {
            call.name = name;
        }
        match part.arguments {
            Arguments::None => {}
            Arguments::Text(text) => call.arguments.push_str(&text),
            Arguments::Whole(value) => call.arguments = value.to_string(),
        }
    }

    /// A call without an id gets a fresh one, and so does the second call with the same id.
    pub fn finish(self) -> Vec<Assembled> {
        let mut done: Vec<Assembled> = Vec::new();
        for call in self.calls {
            let given = call.id.filter(|id| done.iter().all(|other| other.id != *id));
            let id = given.unwrap_or_else(|| format!("call_{}", Uuid::new_v4().simple()));
            done.push(Assembled { id, name: call.name, arguments: call.arguments });
        }
        done
    }

    /// The call this part goes on with; none if it begins a new one.
    fn slot_of(&self, part: &CallPart) -> Option<usize> {
        let at = match (part.index, &part.id) {
            (Some(_), _) => self.calls.iter().rposition(|call| call.index == part.index),
            (None, Some(id)) => self.calls.iter().rposition(|call| call.id.as_ref() == Some(id)),
            (None, None) => None,
        };
        // A server that numbers nothing goes on with the call it began last.
        let at = at.or_else(|| {
            (part.index.is_none()).then(|| self.calls.len().checked_sub(1)).flatten()
        })?;
        let call = self.calls.get(at)?;
        if call.is_continued_by(part) { Some(at) } else { None }
    }
}

impl Call {
    /// Servers reuse a number for the next call (two tools both `index: 0`), and others repeat the name or make up
    /// a new id in every piece of one call: a part with a name begins a new call if its id is another one, or if
    /// without ids the arguments so far are whole.
    fn is_continued_by(&self, part: &CallPart) -> bool {
        let Some(name) = &part.name else { return true };
        match (&self.id, &part.id) {
            (Some(mine), Some(other)) => mine == other,
            (None, Some(_)) if !self.name.is_empty() => false,
            (Some(_) | None, None) | (None, Some(_)) => {
                self.name.is_empty() || (self.name == *name && !self.is_whole())
            }
        }
    }

    fn is_whole(&self) -> bool {
        serde_json::from_str::<Value>(&self.arguments).is_ok()
    }
}
