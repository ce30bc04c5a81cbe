//! `show counters`: the registry as other processes find it. What is shown is read from the file of counters by its
//! directory, and asks nothing else of the router but the names of interfaces.

use crate::cli::counters;
use crate::router::Router;
use command::{Args, CommandError, Output, Page, Table};
use graph::registry::{Entry, Reader, VERSION, Values};
use serde_json::{Value as Json, json};
use std::fmt::Write;

pub(super) fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let reader = counters(router)?;
    let Some(name) = args.opt::<String>("counter")? else { return Ok(list(router, &reader)) };
    match reader.find(&name).cloned() {
        Some(entry) => Ok(values(reader, entry)),
        None => Err(format!("there is no counter {name}: \"show counters\" lists them").into()),
    }
}

fn by(entry: &Entry) -> Vec<&str> {
    entry.by.iter().map(|axis| axis.name.as_str()).collect()
}

fn list(router: &Router, reader: &Reader) -> Output {
    let path = router.plane().registry.path();
    let mut table = Table::new().left("Counter").left("Unit").left("By").left("Meaning");
    let mut all = vec![];
    for e in reader.entries() {
        table.row([
            e.name.as_str().into(),
            e.unit.as_str().into(),
            by(e).join(", ").into(),
            e.help.as_str().into(),
        ]);
        all.push(json!({
            "name": e.name,
            "unit": e.unit,
            "by": by(e),
            "combine": if e.most { "most" } else { "sum" },
            "meaning": e.help,
        }));
    }
    let shown = path.as_deref().unwrap_or("no file");
    let text = format!("{}Processes read them in {shown}, version {VERSION}\n", table.to_text());
    Output::new(text, json!({ "file": path, "version": VERSION, "counters": all }))
}

/// All values of a counter that are not 0, piece by piece: there may be a million.
fn values(reader: Reader, entry: Entry) -> Output {
    let (mut from, mut begun) = (Some(0), false);
    let mut found: std::vec::IntoIter<Values> = vec![].into_iter();
    Output::pages(move |router: &mut Router, page: &mut Page| {
        if !std::mem::replace(&mut begun, true) {
            match page.wants_json() {
                true => page.open("["),
                false => _ = writeln!(page, "{}", entry.help),
            }
        }
        while !page.is_full() {
            if let Some(v) = found.next() {
                write(router, &reader, &entry, &v, page);
                continue;
            }
            let Some(at) = from else {
                if page.wants_json() {
                    page.close("]");
                }
                return Ok(false);
            };
            let (some, next) = reader.values(&entry, at).map_err(|e| e.to_string())?;
            (found, from) = (some.into_iter(), next);
        }
        Ok(true)
    })
}

fn write(router: &Router, reader: &Reader, entry: &Entry, v: &Values, page: &mut Page) {
    let name = |axis: &str, n: u64| match axis {
        "interface" => u32::try_from(n).ok().and_then(|n| router.interface(n)).map(|i| i.name.clone()),
        _ => reader.name(axis, n).map(|(name, _)| name.to_string()),
    };
    let of = entry.by.iter().zip(&v.of).map(|(axis, n)| (axis.name.as_str(), *n, name(&axis.name, *n)));
    if !page.wants_json() {
        let _ = write!(page, "{:>20}", v.value);
        for (axis, n, name) in of {
            let _ = match name {
                Some(name) => write!(page, "  {name}"),
                None => write!(page, "  {axis} {n}"),
            };
        }
        let _ = writeln!(page);
        return;
    }
    let of: Vec<Json> = of.map(|(axis, n, name)| json!({ "by": axis, "number": n, "name": name })).collect();
    let writers = entry.parts.iter().zip(&v.parts);
    let writers: Vec<Json> =
        writers.map(|(part, value)| json!({ "worker": part.worker, "value": value })).collect();
    page.item(&json!({ "of": of, "value": v.value, "writers": writers }));
}
