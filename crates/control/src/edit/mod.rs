//! Changes of single places of what runs, as a document: what `configuration set` and its like, and `Configuration.Edit` of the API,
//! are made of.
//!
//! A [`Reading`] takes up what runs piece by piece, as a dump writes it. [`Base::edit`] carries the changes out on that and answers
//! an [`Edited`]: a whole document, which the engine applies as any other, and which change each of its faults comes from.
//! Routes, of which there may be millions, stay text (`routes.rs`).

mod place;
mod reading;
mod routes;
mod tree;

pub use place::Place;
pub use reading::{Base, Reading};

use crate::written::{Map, Node};
use crate::yaml;
use command::{CommandError, Fault};
use graph::memory::{self, Growth};
use std::borrow::Cow;
use std::fmt::Write;

/// The most changes of one transaction.
pub const MOST: usize = 100_000;
/// Changes that are forgotten at once.
const FEW: usize = 1000;
/// Bytes of a text that is not given up on the control thread.
const LONG: usize = 1 << 20;
/// Faults that the sentence of a refusal tells.
const TOLD: usize = 3;

/// How a refusal begins after which something is left.
pub(crate) const NOT_ALL: &str = "not all is as it was";

/// What is to be done at a place.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// This value takes the place of what is there.
    Set(Value),
    /// The fields of this mapping are set, and those that are null taken away.
    Merge(Value),
    /// What is there goes.
    Delete,
}

/// A value, which may not have been read yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Value(Form);

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Text(String),
    Read(Node),
}

impl Value {
    /// A value in YAML or JSON.
    pub fn text(text: impl Into<String>) -> Value {
        Value(Form::Text(text.into()))
    }

    fn read(&self) -> Result<Cow<'_, Node>, Wrong> {
        match &self.0 {
            Form::Read(node) => Ok(Cow::Borrowed(node)),
            Form::Text(text) => match yaml::value::read(text) {
                Ok(node) => Ok(Cow::Owned(node)),
                Err(e) => Err(Wrong::new(e.rule, e.message).help(e.help).value(text)),
            },
        }
    }
}

/// A change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Where.
    pub place: Place,
    /// What.
    pub act: Act,
}

/// How a list of changes is written.
const FORM: &str =
    "a list of `{set: PLACE, to: VALUE}`, `{merge: PLACE, with: MAPPING}` and `{delete: PLACE}`";

impl Change {
    /// Reads a list of changes in YAML or JSON.
    ///
    /// # Errors
    /// It is none; which of them is wrong, and what would be right.
    pub fn list(text: &str) -> Result<Vec<Change>, String> {
        let list = yaml::value::read(text).map_err(|e| format!("{}: {FORM}", e.message))?;
        let Node::List(items) = list else { return Err(format!("this is no list of changes: {FORM}")) };
        let one = |(n, item): (usize, &Node)| match item {
            Node::Map(map) => Change::of(map).map_err(|e| format!("change {}: {e}", n + 1)),
            _ => Err(format!("change {} is no mapping: {FORM}", n + 1)),
        };
        items.iter().enumerate().map(one).collect()
    }

    fn of(map: &Map) -> Result<Change, String> {
        let fields: Vec<(&str, &Node)> = map.fields().collect();
        let (place, act) = match fields[..] {
            [("delete", place)] => (place, Act::Delete),
            [("set", place), ("to", value)] | [("to", value), ("set", place)] => {
                (place, Act::Set(Value(Form::Read(value.clone()))))
            }
            [("merge", place), ("with", value)] | [("with", value), ("merge", place)] => {
                (place, Act::Merge(Value(Form::Read(value.clone()))))
            }
            _ => return Err(format!("its fields are not those of a change: {FORM}")),
        };
        let place = match place {
            Node::Text(text) | Node::Plain(text) => Place::parse(text)?,
            _ => return Err("a place is one text".into()),
        };
        Ok(Change { place, act })
    }
}

/// What is wrong with a change.
#[derive(Debug)]
struct Wrong(Box<Fault>);

impl Wrong {
    fn new(rule: &str, message: impl Into<String>) -> Wrong {
        Wrong(Box::new(Fault { rule: rule.into(), message: message.into(), ..Fault::default() }))
    }

    fn help(mut self, help: impl Into<String>) -> Wrong {
        self.0.help = help.into();
        self
    }

    fn value(mut self, value: impl ToString) -> Wrong {
        self.0.value = Some(value.to_string().chars().take(80).collect());
        self
    }
}

/// A fault in a sentence: the change, the place, what is wrong and what would be right.
fn sentence(fault: &Fault) -> String {
    let mut out = String::new();
    if fault.change != 0 {
        let _ = write!(out, "change {}, ", fault.change);
    }
    let _ = write!(out, "{}: {}", fault.object, fault.message);
    if let Some(value) = fault.value.as_ref().filter(|v| !fault.message.contains(v.as_str())) {
        let _ = write!(out, ": {value}");
    }
    if !fault.help.is_empty() {
        let _ = write!(out, " ({})", fault.help);
    }
    out
}

/// The refusal of changes for these faults.
fn refused(faults: Vec<Fault>) -> CommandError {
    let errors: Vec<&Fault> = faults.iter().filter(|f| !f.note).collect();
    let told: Vec<String> = errors.iter().take(TOLD).map(|f| sentence(f)).collect();
    let more = match errors.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!("\nand {more} more"),
    };
    CommandError::new(format!("nothing was changed: {}{more}", told.join("\n"))).with_faults(faults)
}

/// Where in the document a change is, so that the document's faults can be told of it.
#[derive(Debug, Default)]
struct Target {
    place: String,
    path: String,
}

/// A document that changes have made.
#[derive(Debug, Default)]
pub struct Edited {
    /// The whole of it.
    pub text: String,
    /// Interfaces whose MAC address is only written down, and was not changed.
    pub macs: Vec<String>,
    /// The line on which the routes begin; 0: there are none.
    routes: u32,
    targets: Vec<Target>,
    /// The version of what it was made of.
    pub version: String,
}

impl Drop for Edited {
    fn drop(&mut self) {
        // The text is as long as what runs.
        if self.targets.len() > FEW || self.text.len() > LONG {
            net::background::drop_aside((std::mem::take(&mut self.targets), std::mem::take(&mut self.text)));
        }
    }
}

impl Edited {
    /// What was changed, in few words.
    pub fn name(&self) -> String {
        let first = self.targets.first().map_or("", |t| t.place.as_str());
        match self.targets.len().saturating_sub(1) {
            0 => first.to_owned(),
            more => format!("{first} and {more} more"),
        }
    }

    /// The change that a fault at a path of the document comes from, from 1; 0 when it is none alone.
    fn change_at(&self, path: &str) -> usize {
        let below = |a: &str, b: &str| {
            b.strip_prefix(a)
                .is_some_and(|rest| rest.is_empty() || a.is_empty() || rest.starts_with(['.', '[']))
        };
        let numbered = || self.targets.iter().enumerate();
        let at = numbered().filter(|(_, t)| below(&t.path, path)).max_by_key(|(n, t)| (t.path.len(), *n));
        let above = || numbered().rev().find(|(_, t)| !path.is_empty() && below(path, &t.path));
        match at.or_else(above) {
            Some((n, _)) => n + 1,
            None => usize::from(self.targets.len() == 1),
        }
    }

    /// The same faults with their changes, in place of the lines of a document that nobody has seen.
    pub fn explain(&self, mut faults: Vec<Fault>) -> Vec<Fault> {
        for fault in &mut faults {
            if fault.object == "routes" && self.routes != 0 && fault.line >= self.routes {
                fault.object = format!("routes[{}]", fault.line - self.routes);
            }
            let change = self.change_at(&fault.object);
            if let Some(target) = change.checked_sub(1).and_then(|n| self.targets.get(n))
                && (fault.object.starts_with("routes[") || fault.object.is_empty())
            {
                fault.object.clone_from(&target.place);
            }
            fault.change = u32::try_from(change).unwrap_or(u32::MAX);
            (fault.line, fault.column, fault.length) = (0, 0, 0);
            fault.file.clear();
        }
        faults
    }

    /// A refusal with them in words.
    pub fn refusal(&self, e: CommandError) -> CommandError {
        if e.faults.is_empty() {
            return e;
        }
        let refused = refused(self.explain(e.faults));
        match e.message.starts_with(NOT_ALL) {
            true => CommandError::new(e.message).with_faults(refused.faults),
            false => refused,
        }
    }
}

impl Change {
    fn value(&self) -> Result<Option<Cow<'_, Node>>, Wrong> {
        match &self.act {
            Act::Set(value) | Act::Merge(value) => value.read().map(Some),
            Act::Delete => Ok(None),
        }
    }
}

/// What is wrong with one of them.
fn faulty(n: usize, change: &Change, fault: Fault) -> CommandError {
    let (object, change) = (change.place.to_string(), u32::try_from(n + 1).unwrap_or(u32::MAX));
    refused(vec![Fault { object, change, ..fault }])
}

impl Base {
    /// Carries changes out, in order. Not for the control thread where there may be many routes.
    ///
    /// # Errors
    /// A place is not there, or a value is none.
    pub fn edit(mut self, changes: &[Change]) -> Result<Edited, CommandError> {
        if changes.is_empty() || changes.len() > MOST {
            return Err(CommandError::new(format!(
                "nothing was changed: {} changes: 1 to {MOST} make a transaction",
                changes.len()
            )));
        }
        let mut memory = Growth::default();
        for (n, change) in changes.iter().enumerate() {
            let value = match change.value() {
                Ok(value) => value,
                Err(Wrong(fault)) => return Err(faulty(n, change, *fault)),
            };
            // In the tree, and as the text that it becomes.
            let weight = value.as_ref().map_or(0, |v| 3 * v.weight());
            memory
                .take(weight)
                .map_err(|e| CommandError::new(format!("nothing was changed: {e}: {}", memory::HELP)))?;
            if let Err(Wrong(fault)) = self.change(change, value) {
                return Err(faulty(n, change, *fault));
            }
        }
        let (numbers, mut targets) = (self.numbers(), Vec::with_capacity(changes.len()));
        for change in changes {
            targets.push(Target {
                place: change.place.to_string(),
                path: self.path(&numbers, change.place.elements()),
            });
        }
        let macs = self.macs_as_they_were();
        let (text, routes) = self.write();
        Ok(Edited { text, macs, routes, targets, version: String::new() })
    }

    fn change(&mut self, change: &Change, value: Option<Cow<'_, Node>>) -> Result<(), Wrong> {
        let place = change.place.elements();
        match (&change.act, value) {
            (Act::Set(_), Some(value)) => self.set(place, value.into_owned()),
            (Act::Merge(_), Some(value)) => self.merge(place, value.as_ref()),
            _ => self.delete(place),
        }
    }
}
