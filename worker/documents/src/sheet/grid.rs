//! Rows as text that a model can name cells in: a line of column letters, then each row behind its number. Where
//! cells stand far apart, each is written with its own name.
use contract::text::cut_bytes;

use crate::output::{Output, Stop};
use crate::sheet::cell::column_name;
use crate::table::push_cell;

/// So many rows are looked at before the layout is chosen.
const HEAD_ROWS: usize = 200;
const HEAD_BYTES: usize = 64 * 1024;
/// Columns that are always a table, and how many may be there for each filled cell of a row.
const NARROW: usize = 26;
const SPREAD: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Left,
    Full,
}

#[derive(Default)]
struct Row {
    number: u32,
    cells: Vec<(u32, String)>,
}

enum Layout {
    /// From the first column to the last of the rows looked at.
    Table {
        first: u32,
        last: u32,
    },
    Scattered,
}

pub(super) struct Grid {
    room: usize,
    row: Row,
    head: Vec<Row>,
    head_bytes: usize,
    layout: Option<Layout>,
}

impl Grid {
    pub(super) fn new(room: usize) -> Self {
        Self { room, row: Row::default(), head: Vec::new(), head_bytes: 0, layout: None }
    }

    /// The next filled cell, in the order of the file.
    pub(super) fn cell(
        &mut self,
        (row, column): (u32, u32),
        text: String,
        out: &mut Output<'_>,
    ) -> Result<Room, Stop> {
        let mut room = Room::Left;
        if row != self.row.number && !self.row.cells.is_empty() {
            room = self.end_row(out)?;
        }
        self.row.number = row;
        self.head_bytes += text.len();
        self.row.cells.push((column, text));
        Ok(room)
    }

    pub(super) fn finish(&mut self, out: &mut Output<'_>) -> Result<(), Stop> {
        if !self.row.cells.is_empty() {
            self.end_row(out)?;
        }
        if self.layout.is_none() {
            self.lay_out(out)?;
        }
        Ok(())
    }

    fn end_row(&mut self, out: &mut Output<'_>) -> Result<Room, Stop> {
        let row = std::mem::take(&mut self.row);
        if self.layout.is_some() {
            return self.print(&row, out);
        }
        self.head.push(row);
        if self.head.len() >= HEAD_ROWS || self.head_bytes >= HEAD_BYTES {
            return self.lay_out(out);
        }
        Ok(Room::Left)
    }

    /// Chooses the layout by the rows so far, and prints them.
    fn lay_out(&mut self, out: &mut Output<'_>) -> Result<Room, Stop> {
        let head = std::mem::take(&mut self.head);
        let columns = || head.iter().flat_map(|row| row.cells.iter().map(|(column, _)| *column));
        let (Some(first), Some(last)) = (columns().min(), columns().max()) else {
            return Ok(Room::Left);
        };
        let width = (last - first) as usize + 1;
        let is_table = width <= NARROW || width * head.len() <= SPREAD * columns().count();
        if is_table {
            let letters: Vec<String> = (first..=last).map(column_name).collect();
            out.text(&format!("\t{}\n", letters.join("\t")))?;
        }
        self.layout =
            Some(if is_table { Layout::Table { first, last } } else { Layout::Scattered });
        for row in &head {
            if self.print(row, out)? == Room::Full {
                return Ok(Room::Full);
            }
        }
        Ok(Room::Left)
    }

    fn print(&mut self, row: &Row, out: &mut Output<'_>) -> Result<Room, Stop> {
        let mut line = (u64::from(row.number) + 1).to_string();
        let mut at = None;
        for (column, text) in &row.cells {
            match self.layout {
                Some(Layout::Table { first, last })
                    if (first..=last).contains(column) && at.is_none_or(|at| at < *column) =>
                {
                    let tabs = at.map_or(column - first + 1, |at| column - at);
                    line.extend(std::iter::repeat_n('\t', tabs as usize));
                    at = Some(*column);
                }
                Some(Layout::Table { .. } | Layout::Scattered) | None => {
                    line.push('\t');
                    line.push_str(&column_name(*column));
                    line.push('=');
                }
            }
            push_cell(&mut line, text);
        }
        line.push('\n');
        let (fits, full) = cut_bytes(&line, self.room);
        self.room -= fits.len();
        out.text(fits)?;
        Ok(if full { Room::Full } else { Room::Left })
    }
}
