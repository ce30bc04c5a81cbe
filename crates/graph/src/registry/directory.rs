//! The text that says what stands where in the file of counters: lines of fields with tabs between them.
//!
//! - `quiver-counters VERSION`, once;
//! - `names AXIS COUNT`, and then a line of name and meaning for each number of the axis that has one;
//! - `counter NAME UNIT sum|most HELP`, for each counter, then one `by AXIS NUMBERS STRIDE` for each thing that it is counted
//!   by, the outer first, and one `at WORKER|control BYTE` for each who writes it. The value for numbers i, j is the word at `BYTE + i*STRIDE + j*STRIDE`.

use super::{Field, Group, Kind, Owner, VERSION};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

/// A group as it was declared.
pub(super) struct Declared {
    pub group: Group,
    pub fields: &'static [Field],
    /// Numbers and stride of each axis.
    pub axes: Vec<(usize, usize)>,
    /// Who writes, and where in the file.
    pub parts: Vec<(Owner, u64)>,
}

/// What a counter is counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Such as `node` or `interface`.
    pub name: String,
    /// Its numbers are below this.
    pub len: u64,
    /// Bytes from one to the next.
    pub stride: u64,
}

/// Where values of one writer stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The worker's number; none: the control side.
    pub worker: Option<usize>,
    /// The first of them, bytes from the start of the file.
    pub at: u64,
}

/// A counter as readers find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its whole name.
    pub name: String,
    /// What it counts: `packets`, `bytes`, `clocks`, `times`.
    pub unit: String,
    /// Whether the largest of several workers' values counts, and not their sum.
    pub most: bool,
    /// What it means.
    pub help: String,
    /// What it is counted by, the outer first.
    pub by: Vec<Axis>,
    /// Where each writer's values stand.
    pub parts: Vec<Part>,
}

/// What the numbers of axes stand for, each with what it means.
pub(super) type Names = BTreeMap<String, Vec<(String, String)>>;

/// A word for people: without tabs and line ends, which separate.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn write(groups: &[Declared], names: &BTreeMap<&'static str, Vec<(String, String)>>) -> String {
    let mut out = format!("quiver-counters\t{VERSION}\n");
    for (axis, names) in names {
        let _ = writeln!(out, "names\t{axis}\t{}", names.len());
        for (name, help) in names {
            let _ = writeln!(out, "{}\t{}", plain(name), plain(help));
        }
    }
    for d in groups {
        for (n, f) in d.fields.iter().enumerate() {
            let said = d.group.fields.get(n);
            let (name, unit, help) =
                said.map_or((f.name, f.unit, f.help), |said| (said.name, said.unit, said.help));
            let name = [d.group.name, name].join("/").replace('_', "-");
            let kind = if f.kind == Kind::Most { "most" } else { "sum" };
            let name = name.trim_end_matches('/');
            let _ = writeln!(out, "counter\t{name}\t{unit}\t{kind}\t{}", plain(help));
            for (axis, (len, stride)) in d.group.by.iter().zip(&d.axes) {
                let _ = writeln!(out, "by\t{axis}\t{len}\t{stride}");
            }
            for (owner, at) in &d.parts {
                let _ = writeln!(out, "at\t{owner}\t{}", at + f.offset as u64);
            }
        }
    }
    out
}

/// Reads what [`write()`] wrote. Lines of unknown kinds are left out: later versions may add some.
pub(super) fn parse(text: &str) -> io::Result<(Vec<Entry>, Names)> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a directory of counters");
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<u64>().ok()).ok_or_else(bad);
    let mut lines = text.lines();
    let first = lines.next().and_then(|l| l.strip_prefix("quiver-counters\t"));
    if number(first)? != VERSION {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "counters of another version"));
    }
    let (mut entries, mut names): (Vec<Entry>, Names) = Default::default();
    while let Some(line) = lines.next() {
        let mut fields = line.split('\t');
        match fields.next() {
            Some("names") => {
                let axis = fields.next().ok_or_else(bad)?.to_string();
                let pair = |l: &str| l.split_once('\t').map(|(n, h)| (n.to_string(), h.to_string()));
                let count = number(fields.next())? as usize;
                names.insert(axis, lines.by_ref().take(count).map_while(pair).collect());
            }
            Some("counter") => {
                let mut next = || fields.next().map(str::to_string).ok_or_else(bad);
                let (name, unit, most, help) = (next()?, next()?, next()? == "most", next()?);
                entries.push(Entry { name, unit, most, help, by: vec![], parts: vec![] });
            }
            Some("by") => {
                let name = fields.next().ok_or_else(bad)?.to_string();
                let (len, stride) = (number(fields.next())?, number(fields.next())?);
                entries.last_mut().ok_or_else(bad)?.by.push(Axis { name, len, stride });
            }
            Some("at") => {
                let worker = fields.next().and_then(|w| w.parse().ok());
                let at = number(fields.next())?;
                entries.last_mut().ok_or_else(bad)?.parts.push(Part { worker, at });
            }
            _ => {}
        }
    }
    Ok((entries, names))
}
