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

/// The rows of a table as text. Columns are as wide as the widest cell of all rows, which are made twice for it rather than kept.
struct Rows {
    left: Left,
    /// Those that are still to be measured.
    measured: Option<Left>,
    table: Table,
    widths: Widths,
}

impl Rows {
    fn of(left: Left, table: Table) -> Rows {
        Rows { measured: Some(left.clone()), left, table, widths: Widths::default() }
    }

    /// Measures some; whether all are.
    fn measure(
        &mut self,
        router: &Router,
        page: &Page,
        each: &mut impl FnMut(&Router, &IfState, &mut Table),
    ) -> bool {
        while let Some(left) = self.measured.as_mut() {
            let more = rows(left, &mut self.table, router, page, each);
            self.table.measure_rows(&mut self.widths);
            if !more {
                self.measured = None;
            } else if page.is_full() {
                return false;
            }
        }
        true
    }

    /// Writes some; whether there are more.
    fn write(
        &mut self,
        router: &Router,
        page: &mut Page,
        each: &mut impl FnMut(&Router, &IfState, &mut Table),
    ) -> bool {
        let more = rows(&mut self.left, &mut self.table, router, page, each);
        self.table.write_rows(page, &mut self.widths);
        more
    }
}

fn rows(
    left: &mut Left,
    table: &mut Table,
    router: &Router,
    page: &Page,
    each: &mut impl FnMut(&Router, &IfState, &mut Table),
) -> bool {
    left.next(router, |i| {
        each(router, i, table);
        table.len() < ROWS && !page.is_full()
    })
}

/// The same as a table: `each` adds the rows of an interface to it.
pub(crate) fn table(
    router: &Router,
    args: &Args,
    table: Table,
    mut each: impl FnMut(&Router, &IfState, &mut Table) + 'static,
) -> Result<Output, CommandError> {
    let (mut rows, mut begun) = (Rows::of(Left::of(router, args)?, table), false);
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if !page.wants_json() && !rows.measure(router, page, &mut each) {
            return Ok(true);
        }
        if page.wants_json() && !std::mem::replace(&mut begun, true) {
            page.open("[");
        }
        let more = rows.write(router, page, &mut each);
        if page.wants_json() && !more {
            page.close("]");
        }
        Ok(more)
    }))
}

/// What stands around a list.
pub(crate) struct Frame {
    /// The text in front of it.
    pub text: String,
    /// JSON in front of it, which ends in the open list.
    pub open: String,
    /// JSON behind it.
    pub close: &'static str,
}

/// A table behind other things: `row` adds the row of an interface, where it has one, and `item` is the same for JSON.
pub(crate) fn framed(
    router: &Router,
    args: &Args,
    frame: Frame,
    table: Table,
    mut row: impl FnMut(&Router, &IfState, &mut Table) + 'static,
    mut item: impl FnMut(&Router, &IfState) -> Option<Json> + 'static,
) -> Result<Output, CommandError> {
    let left = Left::of(router, args)?;
    let (mut items, mut rows, mut begun) = (left.clone(), Rows::of(left, table), false);
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if !page.wants_json() {
            if !rows.measure(router, page, &mut row) {
                return Ok(true);
            }
            if !std::mem::replace(&mut begun, true) {
                let _ = page.write_str(&frame.text);
            }
            return Ok(rows.write(router, page, &mut row));
        }
        if !std::mem::replace(&mut begun, true) {
            page.open(&frame.open);
        }
        let more = items.next(router, |i| {
            item(router, i).iter().for_each(|j| page.item(j));
            !page.is_full()
        });
        if !more {
            page.close(frame.close);
        }
        Ok(more)
    }))
}
