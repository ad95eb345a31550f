//! Which tools a query may see: intents by keywords, the rest by a fallback.
//!
//! A tool too many costs a few tokens, a missing one breaks the answer: when in doubt, a tool is in.
mod intents;
mod words;

use intents::{ALWAYS, DEFAULT, INTENTS, Intent};

/// With fewer tools than this from keywords the fallback is asked.
const ENOUGH: usize = 3;

/// The search that helps when keywords find too little (an embedding index, later).
pub trait Fallback {
    /// Names of tools near `query`, best first.
    fn nearest(&self, query: &str) -> Vec<String>;
}

/// No such search.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFallback;

impl Fallback for NoFallback {
    fn nearest(&self, _query: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Names out of `all`, in its order, for this query; `previous` are the tools that the conversation used last.
pub fn tools_for(query: &str, previous: &[String], all: &[String]) -> Vec<String> {
    tools_with(query, previous, all, &NoFallback)
}

pub fn tools_with(
    query: &str,
    previous: &[String],
    all: &[String],
    fallback: &dyn Fallback,
) -> Vec<String> {
    let words = words::of(query);
    let matched: Vec<&Intent> = INTENTS.iter().filter(|intent| intent.is_meant(&words)).collect();
    if matched.is_empty() && words::is_consent(&words) {
        // "Yes, do it" is about whatever was offered; the offer itself may have used no tool.
        return all.to_vec();
    }
    // A follow-up is about what the conversation was about.
    let continued =
        INTENTS.iter().filter(|intent| previous.iter().any(|tool| intent.is_at_home(tool)));
    let intents: Vec<&Intent> = matched.iter().copied().chain(continued).collect();
    let by_keyword = |name: &str| matched.iter().any(|intent| intent.covers(name));
    let few = all.iter().filter(|name| by_keyword(name)).count() < ENOUGH;
    let near = if few { fallback.nearest(query) } else { Vec::new() };
    let wanted = |name: &String| {
        ALWAYS.contains(&name.as_str())
            || intents.iter().any(|intent| intent.covers(name))
            || previous.contains(name)
            || near.contains(name)
            || (few && intents::has_any(name, DEFAULT))
            || words.iter().any(|word| word == name)
    };
    all.iter().filter(|name| wanted(name)).cloned().collect()
}

#[cfg(test)]
mod tests;
