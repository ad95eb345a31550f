//! XLSX and XLSM: every sheet cell by cell, never as a grid, for a file of two cells can claim a billion.
mod cell;
mod grid;
pub(crate) mod package;

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use calamine::{DataRef, Dimensions, Reader as _, Sheet, SheetType, SheetVisible, Xlsx, XlsxError};

use crate::extracted::{Mark, Note, Piece};
use crate::failure::{Failure, Why};
use crate::limits::Limits;
use crate::output::{Output, Stop};
use crate::sheet::grid::Grid;

type Workbook<'a> = Xlsx<Cursor<&'a [u8]>>;

/// Cells without a value that are passed by, for each that may have one.
const EMPTY_PER_CELL: u64 = 10;
const MERGED_SHOWN: usize = 20;
/// The merged areas of larger sheets are not looked up: that reads the sheet a second time.
const MERGED_LOOKUP_CELLS: u64 = 50_000;

pub(crate) fn read(bytes: &[u8], limits: &Limits, out: &mut Output<'_>) -> Result<(), Stop> {
    let opened = catch_unwind(AssertUnwindSafe(|| Workbook::new(Cursor::new(bytes))));
    let mut workbook = match opened {
        Ok(Ok(workbook)) => workbook,
        Ok(Err(XlsxError::Password)) => return Err(Failure::Encrypted.into()),
        Ok(Err(_)) | Err(_) => return Err(Failure::Corrupt.into()),
    };
    let sheets: Vec<Sheet> = workbook.sheets_metadata().to_vec();
    let sheets: Vec<Sheet> =
        sheets.into_iter().filter(|sheet| sheet.typ == SheetType::WorkSheet).collect();
    let mut reading = Reading { cells: limits.cells, unread: 0, cut: None };
    for (index, sheet) in sheets.iter().enumerate() {
        // What a sheet leaves of its part goes to those behind it.
        let share = out.room() / (sheets.len() - index);
        out.begin(Mark::Sheet {
            name: sheet.name.clone(),
            hidden: sheet.visible != SheetVisible::Visible,
        });
        reading.sheet(&mut workbook, &sheet.name, share, out)?;
        if reading.cells == 0 {
            reading.cut = Some(Why::Cells);
            break;
        }
    }
    if reading.unread > 0 && reading.unread as usize == sheets.len() {
        return Err(Failure::Corrupt.into());
    }
    if reading.unread > 0 {
        out.note(Note::SheetsUnread { sheets: reading.unread });
    }
    reading.cut.map_or(Ok(()), |why| Err(Stop::Cut(why)))
}

struct Reading {
    /// So many more filled cells are taken.
    cells: u64,
    unread: u32,
    cut: Option<Why>,
}

/// How a sheet ended.
enum Ended {
    Whole { cells: u64 },
    Cut(Why),
    Broken { cells: u64 },
}

impl Reading {
    fn sheet(
        &mut self,
        workbook: &mut Workbook<'_>,
        name: &str,
        share: usize,
        out: &mut Output<'_>,
    ) -> Result<(), Stop> {
        let mut grid = Grid::new(share);
        let read = catch_unwind(AssertUnwindSafe(|| self.cells(workbook, name, &mut grid, out)));
        match read.unwrap_or(Ok(Ended::Broken { cells: 0 }))? {
            Ended::Whole { cells } => {
                grid.finish(out)?;
                if cells <= MERGED_LOOKUP_CELLS {
                    merged(workbook, name, out)?;
                }
            }
            Ended::Cut(why) => {
                grid.finish(out)?;
                out.piece(Piece::SectionCut);
                self.cut = Some(why);
            }
            Ended::Broken { cells } => {
                grid.finish(out)?;
                out.piece(Piece::SectionCut);
                if cells == 0 {
                    self.unread += 1;
                } else {
                    self.cut = Some(Why::Broken);
                }
            }
        }
        out.flush();
        Ok(())
    }

    fn cells(
        &mut self,
        workbook: &mut Workbook<'_>,
        name: &str,
        grid: &mut Grid,
        out: &mut Output<'_>,
    ) -> Result<Ended, Stop> {
        let Ok(mut reader) = workbook.worksheet_cells_reader(name) else {
            return Ok(Ended::Broken { cells: 0 });
        };
        let (mut filled, mut passed) = (0_u64, 0_u64);
        loop {
            let cell = match reader.next_cell_with_formula() {
                Ok(Some(cell)) => cell,
                Ok(None) => return Ok(Ended::Whole { cells: filled }),
                Err(_) => return Ok(Ended::Broken { cells: filled }),
            };
            let shown = match (&cell.value, cell.formula) {
                (DataRef::Empty, Some(formula)) if !formula.is_empty() => format!("={formula}"),
                (value, _) => cell::text(value),
            };
            if shown.is_empty() {
                passed += 1;
                if passed / EMPTY_PER_CELL > self.cells {
                    return Ok(Ended::Cut(Why::Cells));
                }
                continue;
            }
            filled += 1;
            self.cells -= 1;
            if grid.cell(cell.pos, shown, out)? == grid::Room::Full {
                return Ok(Ended::Cut(Why::Text));
            }
            if self.cells == 0 {
                return Ok(Ended::Cut(Why::Cells));
            }
        }
    }
}

/// A merged area has its value in its first cell; the others look empty and are not.
fn merged(workbook: &mut Workbook<'_>, name: &str, out: &mut Output<'_>) -> Result<(), Stop> {
    let areas = catch_unwind(AssertUnwindSafe(|| workbook.merge_cells_by_sheet_name(name)));
    let Ok(Ok(areas)) = areas else { return Ok(()) };
    if areas.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = areas.iter().take(MERGED_SHOWN).map(area).collect();
    let more = if areas.len() > MERGED_SHOWN { ", …" } else { "" };
    out.text(&format!("(merged: {}{more})\n", shown.join(", ")))
}

fn area(area: &Dimensions) -> String {
    let corner =
        |(row, column): (u32, u32)| format!("{}{}", cell::column_name(column), u64::from(row) + 1);
    format!("{}:{}", corner(area.start), corner(area.end))
}
