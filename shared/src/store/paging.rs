//! How lists are cut into pages: by a cursor, or by number for older clients.

/// Larger pages are cut to this.
const PAGE_ITEMS: u32 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging<C> {
    /// Items after `after` in list order; from the start without one.
    Keyset { after: Option<C>, limit: u32 },
    /// `page` counts from 1.
    Numbered { page: u32, page_size: u32 },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub total: u64,
    /// Opaque; absent on the last page.
    pub next_cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid cursor")]
pub struct InvalidCursor;

/// A page as a statement takes it. One row more than shown is fetched: it tells whether there is another page.
pub(super) struct Window<C> {
    pub after: Option<C>,
    pub fetch: i64,
    pub skip: i64,
    shown: usize,
}

impl<C: Copy> Paging<C> {
    pub(super) fn window(&self) -> Window<C> {
        let (after, limit, pages) = match *self {
            Self::Keyset { after, limit } => (after, limit, 0),
            Self::Numbered { page, page_size } => (None, page_size, page.saturating_sub(1)),
        };
        let limit = limit.clamp(1, PAGE_ITEMS);
        let skip = i64::from(pages) * i64::from(limit);
        Window {
            after,
            fetch: i64::from(limit) + 1,
            skip,
            shown: usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }
}

impl<C> Window<C> {
    pub(super) fn page<T>(
        &self,
        mut items: Vec<T>,
        total: i64,
        cursor: impl Fn(&T) -> String,
    ) -> Page<T> {
        let more = items.len() > self.shown;
        items.truncate(self.shown);
        let next_cursor = if more { items.last().map(cursor) } else { None };
        Page { items, total: u64::try_from(total).unwrap_or_default(), next_cursor }
    }
}
