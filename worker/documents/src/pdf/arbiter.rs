//! Whose text of a page is taken.

/// The first engine's share of characters that are no text, in percent, from which it is not believed.
const JUNK_PERCENT: usize = 2;

/// The first engine's, unless it failed, gave junk, or the second found far more.
pub(super) fn choose(first: Option<String>, second: Option<String>) -> Option<String> {
    let (first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (first, second) => return first.or(second),
    };
    let junk = junk(&first) * 100 > JUNK_PERCENT * first.chars().count();
    let found_more = letters(&second) * 10 > letters(&first) * 13;
    Some(if (junk && letters(&second) > 0) || found_more { second } else { first })
}

pub(super) fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

/// Characters of fonts that don't say which letters they draw.
fn junk(text: &str) -> usize {
    let is_junk = |c: &char| {
        matches!(c, '\u{fffd}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
            || (c.is_control() && !c.is_whitespace())
    };
    text.chars().filter(is_junk).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(first: Option<&str>, second: Option<&str>, chosen: Option<&str>) {
        let own = |text: Option<&str>| text.map(str::to_owned);
        assert_eq!(choose(own(first), own(second)).as_deref(), chosen);
    }

    #[test]
    fn the_first_engine_is_believed_until_it_shows_weakness() {
        check(Some("one two"), Some("two one"), Some("one two"));
        check(None, Some("two"), Some("two"));
        check(Some("one"), None, Some("one"));
        check(None, None, None);
        check(Some("ab\u{fffd}\u{e001}"), Some("abcd"), Some("abcd"));
        check(Some("ab\u{fffd}\u{e001}"), Some(""), Some("ab\u{fffd}\u{e001}"));
        check(Some("ten letter"), Some("thirteen letter"), Some("thirteen letter"));
        check(Some("ten letter"), Some("ten letters"), Some("ten letter"));
    }
}
