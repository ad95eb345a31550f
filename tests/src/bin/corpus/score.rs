//! How much of a text is in another: the F1 of their words, in whatever order.
use std::collections::HashMap;

/// One if both have the same words as often, zero if they share none.
pub fn f1(read: &str, reference: &str) -> f64 {
    let (read, reference) = (words(read), words(reference));
    let shared: usize = read
        .iter()
        .map(|(word, count)| reference.get(word).map_or(0, |other| *count.min(other)))
        .sum();
    let all: usize = read.values().chain(reference.values()).sum();
    if all == 0 { 1.0 } else { 2.0 * shared as f64 / all as f64 }
}

fn words(text: &str) -> HashMap<String, usize> {
    let mut words = HashMap::new();
    for word in split(text) {
        *words.entry(word.to_lowercase()).or_default() += 1;
    }
    words
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// The text up to and without word `upto`, counted from zero: what a reader that stopped there can have seen.
pub fn first(text: &str, upto: usize) -> &str {
    let end = split(text)
        .nth(upto)
        .map_or(text.len(), |word| word.as_ptr().addr() - text.as_ptr().addr());
    &text[..end]
}

pub fn count(text: &str) -> usize {
    words(text).values().sum()
}

/// More than half of the letters are Cyrillic.
pub fn is_cyrillic(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    let cyrillic = text.chars().filter(|c| matches!(c, '\u{400}'..='\u{52f}')).count();
    cyrillic * 2 > letters
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_as_often_as_they_stand_there() {
        assert_eq!(f1("Один, два!", "два один"), 1.0);
        assert_eq!(f1("", ""), 1.0);
        assert_eq!(f1("a b", "c"), 0.0);
        assert_eq!(f1("a a a", "a"), 0.5);
        assert_eq!([first("a, b c", 2), first("a, b c", 0), first("a b", 9)], ["a, b ", "", "a b"]);
        assert_eq!(median(&mut [3.0, 1.0, 2.0, 4.0]), 2.5);
        assert!(is_cyrillic("текст x") && !is_cyrillic("text я"));
    }
}
