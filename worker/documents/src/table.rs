//! CSV and TSV: rows as they are, cells separated by tabs.
use csv::{ByteRecord, ReaderBuilder};

use crate::extracted::Mark;
use crate::output::{Output, Stop};

const CANDIDATES: [char; 4] = [';', ',', '\t', '|'];
/// Rows that the delimiter is found in.
const SAMPLE_ROWS: usize = 20;

pub(crate) fn read(text: &str, out: &mut Output<'_>) -> Result<(), Stop> {
    let (delimiter, body) = delimiter(text);
    out.begin(Mark::Whole);
    let mut reader = ReaderBuilder::new()
        .delimiter(u8::try_from(delimiter).unwrap_or(b','))
        .has_headers(false)
        .flexible(true)
        .from_reader(body.as_bytes());
    let mut record = ByteRecord::new();
    let mut row = String::new();
    while reader.read_byte_record(&mut record).unwrap_or(false) {
        row.clear();
        for (index, cell) in record.iter().enumerate() {
            if index > 0 {
                row.push('\t');
            }
            push_cell(&mut row, &String::from_utf8_lossy(cell));
        }
        row.push('\n');
        out.text(&row)?;
    }
    Ok(())
}

/// A cell's text on one line and between two tabs.
pub(crate) fn push_cell(row: &mut String, cell: &str) {
    for (index, line) in cell.trim().lines().enumerate() {
        if index > 0 {
            row.push_str(" ↵ ");
        }
        row.extend(line.trim_end().chars().map(|c| if c == '\t' { ' ' } else { c }));
    }
}

/// The character that every row has most of, and the text without a line that says which it is.
fn delimiter(text: &str) -> (char, &str) {
    if let Some(rest) = text.strip_prefix("sep=")
        && let Some(said) = rest.chars().next().filter(char::is_ascii)
        && let Some(body) = rest.get(1..).map(|body| body.trim_start_matches('\r'))
        && let Some(body) = body.strip_prefix('\n')
    {
        return (said, body);
    }
    let rows = sample(text);
    let best = CANDIDATES.into_iter().enumerate().max_by_key(|(rank, candidate)| {
        let counts = || rows.iter().map(|row| row.chars().filter(|c| c == candidate).count());
        (counts().min().unwrap_or(0), counts().sum::<usize>(), CANDIDATES.len() - rank)
    });
    (best.map_or(',', |(_, candidate)| candidate), text)
}

/// The first rows, without what stands in quotes.
fn sample(text: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut quoted = false;
    for c in text.chars().take(200_000) {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '\n' if rows.last().is_some_and(|row| row.trim().is_empty()) => {}
            '\n' if rows.len() == SAMPLE_ROWS => return rows,
            '\n' => rows.push(String::new()),
            c => {
                if let Some(row) = rows.last_mut() {
                    row.push(c);
                }
            }
        }
    }
    rows.retain(|row| !row.is_empty());
    rows
}

#[cfg(test)]
mod tests;
