//! Counting.
use crate::llm::tokens::{count, count_message, warm};

#[test]
fn texts_cost_what_the_tokenizer_says() {
    warm();
    assert_eq!(count(""), 0);
    assert_eq!(count("Hello there"), 2);
    assert!((2..=5).contains(&count("Привет, мир")));
    assert_eq!(count_message("Hello there"), 6);
}

#[test]
fn long_texts_are_estimated_well() {
    let sentence = "Покажи дашборды с проблемами валидации, please. ";
    let exact = count(&sentence.repeat(500)) * 8;
    let estimate = count(&sentence.repeat(4_000));
    assert!(estimate.abs_diff(exact) < exact / 20, "{estimate} {exact}");
}

#[test]
fn hostile_texts_take_no_time() {
    let started = std::time::Instant::now();
    for text in ["a".repeat(500_000), "\u{200d}".repeat(200_000), " ".repeat(500_000)] {
        count(&text);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
}
