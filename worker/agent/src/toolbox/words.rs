//! A query as words.

/// Lower case, `ё` as `е`; letters, digits and `_` make words.
pub(super) fn of(query: &str) -> Vec<String> {
    let folded = query.to_lowercase().replace('ё', "е");
    let border = |c: char| !(c.is_alphanumeric() || c == '_');
    folded.split(border).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A yes, or "that one": short, and about something said before.
pub(super) fn is_consent(words: &[String]) -> bool {
    words.len() <= 8 && words.iter().any(|word| CONSENT.contains(&word.as_str()))
}

const CONSENT: &[&str] = &[
    "да",
    "ага",
    "угу",
    "ок",
    "окей",
    "хорошо",
    "ладно",
    "давай",
    "давайте",
    "согласен",
    "согласна",
    "верно",
    "подтверждаю",
    "поехали",
    "продолжай",
    "продолжи",
    "продолжить",
    "дальше",
    "сделай",
    "сделайте",
    "повтори",
    "попробуй",
    "делай",
    "запускай",
    "запусти",
    "выполни",
    "выполняй",
    "конечно",
    "yes",
    "yep",
    "yeah",
    "ok",
    "okay",
    "sure",
    "confirm",
    "confirmed",
    "go",
    "ahead",
    "proceed",
    "continue",
    "do",
    "again",
    "retry",
    "please",
    "нет",
    "no",
    "run",
    "start",
];
