//! The one shape of every list, and the parameters that cut it into pages.
use std::str::FromStr;

use serde::Serialize;
use shared::store::paging::{InvalidCursor, Page, Paging};

use crate::http::input::Fields;

const DEFAULT_ITEMS: u32 = 20;
const MOST_ITEMS: u64 = 100;
const MOST_PAGES: u64 = 1_000_000;

/// `{items, total, next_cursor, has_next, page, page_size}`; `page` and `page_size` only where asked by number.
#[derive(Debug, Serialize)]
pub struct Listed<T> {
    pub items: Vec<T>,
    /// In all pages.
    pub total: u64,
    /// For `cursor` of the next request; `null` on the last page.
    pub next_cursor: Option<String>,
    pub has_next: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
}

impl<T> Listed<T> {
    pub fn new<S, C>(page: Page<S>, paging: Paging<C>, view: impl Fn(S) -> T) -> Self {
        let (number, size) = match paging {
            Paging::Keyset { .. } => (None, None),
            Paging::Numbered { page, page_size } => (Some(page), Some(page_size)),
        };
        let has_next = match paging {
            Paging::Keyset { .. } => page.next_cursor.is_some(),
            Paging::Numbered { page: number, page_size } => {
                u64::from(number).saturating_mul(u64::from(page_size)) < page.total
            }
        };
        Self {
            items: page.items.into_iter().map(view).collect(),
            total: page.total,
            next_cursor: page.next_cursor,
            has_next,
            page: number,
            page_size: size,
        }
    }
}

/// Reads `cursor` and `limit`, or `page` and `page_size`; both at once is a complaint.
pub fn read<C>(query: &mut Fields) -> Paging<C>
where
    C: FromStr<Err = InvalidCursor>,
{
    let cursor = query.text("cursor").filter(|cursor| !cursor.is_empty());
    let limit = items(query, "limit");
    let page = query.number("page", 1..=MOST_PAGES).and_then(|page| u32::try_from(page).ok());
    let page_size = items(query, "page_size");
    let by_number = page.is_some() || page_size.is_some();
    if by_number && (cursor.is_some() || limit.is_some()) {
        query.complain("page", "conflict", "can't be used together with `cursor` or `limit`");
    }
    if by_number {
        let page_size = page_size.unwrap_or(DEFAULT_ITEMS);
        return Paging::Numbered { page: page.unwrap_or(1), page_size };
    }
    let after = cursor.and_then(|cursor| match cursor.parse() {
        Ok(after) => Some(after),
        Err(error) => {
            query.complain("cursor", "cursor", format!("is {error}"));
            None
        }
    });
    Paging::Keyset { after, limit: limit.unwrap_or(DEFAULT_ITEMS) }
}

fn items(query: &mut Fields, name: &str) -> Option<u32> {
    query.number(name, 1..=MOST_ITEMS).and_then(|count| u32::try_from(count).ok())
}
