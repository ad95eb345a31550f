use super::*;

#[track_caller]
fn check_cut(text: &str, max: usize, expected: &str) {
    assert_eq!(truncate_to(text, max), expected);
}

#[test]
fn short_text_is_left_alone() {
    check_cut("Привет.", 7, "Привет.");
}

#[test]
fn cut_falls_on_a_sentence_end_when_one_is_near() {
    check_cut("Раз. Два. Три четыре пять шесть семь", 26, "Раз. Два.[...truncated]");
}

#[test]
fn cut_is_hard_without_a_sentence_end() {
    check_cut(&"a".repeat(100), 20, "aaaaaa[...truncated]");
    let long = "x".repeat(limits::MESSAGE_CHARS + 1);
    assert_eq!(truncate_message(&long).chars().count(), limits::MESSAGE_CHARS);
}

#[test]
fn a_point_inside_a_number_is_no_sentence_end() {
    check_cut("версия 3.14159265358979323846", 27, "версия 3.1415[...truncated]");
}

#[test]
fn no_cut_ever_splits_a_grapheme() {
    let family = "👨‍👩‍👧‍👦é🇷🇺";
    let text = family.repeat(40);
    for max in 15..120 {
        let cut = truncate_to(&text, max);
        let kept = cut.strip_suffix(limits::TRUNCATION_MARK).unwrap_or(&cut);
        let whole: Vec<&str> = text.graphemes(true).collect();
        let got: Vec<&str> = kept.graphemes(true).collect();
        assert_eq!(got, whole[..got.len()], "max {max}");
        assert!(cut.chars().count() <= max);
    }
}

#[test]
fn titles_fold_whitespace_and_count_graphemes() {
    assert_eq!(title("  покажи \n\t дашборд   42 "), "покажи дашборд 42");
    assert_eq!(title(&"👨‍👩‍👧‍👦".repeat(70)), "👨‍👩‍👧‍👦".repeat(60));
}

#[test]
fn bytes_are_cut_between_graphemes() {
    assert_eq!(cut_bytes("приве́т", 100), ("приве́т", false));
    for max in 0..16 {
        let (kept, cut) = cut_bytes("приве́т, мир", max);
        assert!(cut && kept.len() <= max && "приве́т, мир".starts_with(kept));
    }
}
