//! How answers are shown: a table for people, JSON for programs.
use std::io::Write as _;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

/// What a command answers.
pub trait View: Serialize {
    fn text(&self) -> String;
}

pub fn print(view: &impl View, format: Format) {
    let text = match format {
        Format::Text => view.text(),
        Format::Json => serde_json::to_string_pretty(view).unwrap_or_default(),
    };
    // Whoever reads may have seen enough.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
}

/// Columns as wide as their widest cell.
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = header.map(|name| name.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let header = header.map(str::to_owned);
    let mut text = String::new();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{}  ", padded(cell, width)));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What came from others may hold line breaks or control the terminal.
fn padded(cell: &str, width: usize) -> String {
    let cell: String = cell.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{cell:width$}")
}

/// E.g. `850ms`, `12s`, `3m12s`, `5h3m`, `2d4h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600, seconds / 60);
    match (days, hours, minutes, seconds) {
        (0, 0, 0, 0) => format!("{}ms", time.as_millis()),
        (0, 0, 0, _) => format!("{seconds}s"),
        (0, 0, _, _) => format!("{minutes}m{}s", seconds % 60),
        (0, _, _, _) => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// From `at` to `now`; zero if that is in the future.
pub fn age(at: OffsetDateTime, now: OffsetDateTime) -> Duration {
    Duration::try_from(now - at).unwrap_or_default()
}

pub fn age_text(at: Option<OffsetDateTime>, now: OffsetDateTime) -> String {
    at.map_or_else(|| "-".to_owned(), |at| duration(age(at, now)))
}

pub fn or_dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), T::to_string)
}

pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn columns_line_up_and_cells_stay_on_their_line() {
        let rows =
            [["воркер-1".to_owned(), "a\nb\u{1b}[2J".to_owned()], ["w".to_owned(), String::new()]];
        expect![[r#"
            WORKER    WHAT
            воркер-1  a b [2J
            w
        "#]]
        .assert_eq(&table(["WORKER", "WHAT"], &rows));
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let seconds = [0, 59, 60, 192, 3_600, 18_180, 187_200].map(Duration::from_secs);
        assert_eq!(seconds.map(duration), ["0ms", "59s", "1m0s", "3m12s", "1h0m", "5h3m", "2d4h"]);
        assert_eq!(duration(Duration::from_millis(850)), "850ms");
    }
}
