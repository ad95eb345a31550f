//! Ids and names of calls that can be trusted: ids unique in the context, both short and safe to send again.
use std::collections::HashSet;

const LONGEST: usize = 64;

/// The model's id if it is usable and free, else one made from it or from its place.
pub(super) fn unique(proposed: &str, taken: &mut HashSet<String>) -> String {
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    let usable = (1..=LONGEST).contains(&proposed.len()) && proposed.bytes().all(safe);
    let stem = if usable { proposed } else { "call" };
    let mut id = if usable { stem.to_owned() } else { format!("{stem}-1") };
    let mut number = 1;
    while taken.contains(&id) {
        number += 1;
        id = format!("{stem}-{number}");
    }
    taken.insert(id.clone());
    id
}

/// A tool's name as providers take it back. Names of real tools are not changed.
pub(super) fn tool_name(proposed: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = proposed.chars().take(LONGEST).map(safe).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_made_unique_the_same_way_every_time() {
        let mut taken = HashSet::from(["a".to_owned()]);
        let ids = ["a", "a", "b", "", "", "с кириллицей", "a-2"].map(|id| unique(id, &mut taken));
        assert_eq!(ids, ["a-2", "a-3", "b", "call-1", "call-2", "call-3", "a-2-2"]);
    }

    #[test]
    fn names_can_be_sent_back() {
        let names = ["deploy_dashboard", "rm -rf /\0", ""].map(tool_name);
        assert_eq!(names, ["deploy_dashboard", "rm_-rf___", "unnamed"]);
        assert_eq!(tool_name(&"ы".repeat(100)).len(), LONGEST);
    }
}
