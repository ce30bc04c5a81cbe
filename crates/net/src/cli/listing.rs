//! Lists by interface, made piece by piece as they are read: there may be thousands of interfaces.

use crate::cli::find;
use crate::router::{IfState, Order, Router};
use command::{Args, CommandError, Output, Page, Table, Widths};
use serde_json::Value as Json;
use std::fmt::Write;

/// Rows of a table that are made before they are written, at most.
const ROWS: usize = 256;

/// Interfaces that are still to be listed. Those that come or go meanwhile are listed or not.
#[derive(Clone)]
enum Left {
    /// All behind this place.
    All(Option<Order>),
    /// Those that the arguments `interface` name, by number.
    Named(std::vec::IntoIter<u32>),
}

impl Left {
    fn of(router: &Router, args: &Args) -> Result<Left, CommandError> {
        let names: Vec<String> = args.all("interface")?;
        if names.is_empty() {
            return Ok(Left::All(None));
        }
        let numbers: Result<Vec<u32>, _> =
            names.iter().map(|n| find(router, args, n).map(|i| i.index)).collect();
        Ok(Left::Named(numbers?.into_iter()))
    }

    /// Takes the next interfaces up to one for which `take` answers false; false when there are no more.
    fn next(&mut self, router: &Router, mut take: impl FnMut(&IfState) -> bool) -> bool {
        match self {
            Left::All(after) => {
                for i in router.interfaces_after(*after) {
                    *after = Some(i.order());
                    if !take(i) {
                        return true;
                    }
                }
                false
            }
            Left::Named(numbers) => numbers.any(|n| router.interface(n).is_some_and(|i| !take(i))),
        }
    }
}

/// A list of the interfaces that are named, or of all: `each` writes what the text says of one behind `head`, and answers the
/// same as an item of the JSON, or none to leave it out.
pub(crate) fn list(
    router: &Router,
    args: &Args,
    head: impl Into<String>,
    mut each: impl FnMut(&Router, &IfState, &mut String) -> Option<Json> + 'static,
) -> Result<Output, CommandError> {
    let (mut left, mut head) = (Left::of(router, args)?, Some(head.into()));
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if let Some(head) = head.take() {
            match page.wants_json() {
                true => page.open("["),
                false => _ = page.write_str(&head),
            }
        }
        let more = left.next(router, |i| {
            let mut text = String::new();
            if let Some(item) = each(router, i, &mut text) {
                match page.wants_json() {
                    true => page.item(&item),
                    false => _ = page.write_str(&text),
                }
            }
            !page.is_full()
        });
        if page.wants_json() && !more {
            page.close("]");
        }
        Ok(more)
    }))
}

/// The same as a table: `each` adds the rows of an interface to it.
pub(crate) fn table(
    router: &Router,
    args: &Args,
    mut table: Table,
    mut each: impl FnMut(&Router, &IfState, &mut Table) + 'static,
) -> Result<Output, CommandError> {
    let mut left = Left::of(router, args)?;
    let (mut measured, mut begun, mut widths) = (Some(left.clone()), false, Widths::default());
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        let mut rows = |left: &mut Left, table: &mut Table, page: &Page| {
            left.next(router, |i| {
                each(router, i, table);
                table.len() < ROWS && !page.is_full()
            })
        };
        // Columns are as wide as the widest cell of all rows, which are made twice for it rather than kept.
        while let Some(left) = measured.as_mut().filter(|_| !page.wants_json()) {
            let more = rows(left, &mut table, page);
            table.measure_rows(&mut widths);
            if !more {
                measured = None;
            } else if page.is_full() {
                return Ok(true);
            }
        }
        if page.wants_json() && !std::mem::replace(&mut begun, true) {
            page.open("[");
        }
        let more = rows(&mut left, &mut table, page);
        table.write_rows(page, &mut widths);
        if page.wants_json() && !more {
            page.close("]");
        }
        Ok(more)
    }))
}
