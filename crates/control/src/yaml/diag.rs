//! What is wrong with a document: each error with its place, its rule and what would be right.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use command::Fault;
use serde::Serialize;

/// Where something stands in the document: line and column count from 1, in characters.
///
/// Two places always compare equal: configurations are compared by what they say, not where they say it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    /// Line, from 1; 0 when there is no place.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Characters to underline, at least 1.
    pub width: u32,
}

impl Place {
    /// A place of `width` characters.
    pub const fn new(line: u32, column: u32, width: u32) -> Place {
        Place { line, column, width }
    }
}

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Eq for Place {}

/// The text a document was read from, kept so that later stages can show the place of what they refuse.
#[derive(Debug, Default)]
pub struct Source {
    /// File name as the operator gave it.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document is wrong.
    Error,
    /// The document is right, but the operator should know.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Note => "note",
        })
    }
}

/// Rule of what belongs to the format and not yet to Quiver: a note of a check, an error when the document is loaded.
pub(super) const NOT_SUPPORTED: &str = "not-supported-yet";

/// One error of a document, or one note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Whether it is an error.
    pub severity: Severity,
    /// File name as the operator gave it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The object and field, such as `interfaces.ge0.sub-interfaces.100.mtu`.
    pub path: String,
    /// Short fixed name of the rule that is broken, such as `mtu-range`.
    pub rule: &'static str,
    /// The value found, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub help: String,
    #[serde(skip)]
    width: u32,
    #[serde(skip)]
    excerpt: String,
}

impl Diagnostic {
    /// An error at `place`, without value and help yet.
    pub fn new(
        place: Place,
        path: impl Into<String>,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            file: String::new(),
            line: place.line,
            column: place.column,
            path: path.into(),
            rule,
            value: None,
            message: message.into(),
            help: String::new(),
            width: place.width,
            excerpt: String::new(),
        }
    }

    /// A note at `place`, without value and help yet.
    pub fn note(
        place: Place,
        path: impl Into<String>,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::new(place, path, rule, message) }
    }

    /// Adds the value that was found.
    pub fn value(&mut self, value: impl fmt::Display) -> &mut Diagnostic {
        self.value = Some(clip(&value.to_string(), 0, 80).0);
        self
    }

    /// Adds what would be right.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Diagnostic {
        self.help = help.into();
        self
    }
}

impl Diagnostic {
    /// The same for clients that have no document to underline.
    pub fn fault(&self) -> Fault {
        Fault {
            object: clean(&self.path),
            rule: self.rule.into(),
            value: self.value.clone(),
            message: clean(&self.message),
            help: clean(&self.help),
            file: self.file.clone(),
            line: self.line,
            column: if self.line == 0 { 0 } else { self.column },
            length: if self.line == 0 { 0 } else { self.width },
            note: self.severity == Severity::Note,
            change: 0,
        }
    }
}

impl fmt::Display for Diagnostic {
    /// The error as a block of text: what, where, the line with a caret, what would be right.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: ", self.severity, self.rule)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", clean(&self.path))?;
        }
        writeln!(f, "{}", clean(&self.message))?;
        let number = self.line.to_string();
        let gap = " ".repeat(number.len());
        if self.line == 0 {
            writeln!(f, "{gap}--> {}", self.file)?;
        } else {
            writeln!(f, "{gap}--> {}:{}:{}", self.file, self.line, self.column)?;
        }
        if !self.excerpt.is_empty() {
            let column = self.column.saturating_sub(1) as usize;
            let (line, column) = clip(&self.excerpt, column, 100);
            let room = line.chars().count().saturating_sub(column).max(1);
            let carets = (self.width as usize).clamp(1, room);
            writeln!(f, "{gap} |\n{number} | {line}")?;
            writeln!(f, "{gap} | {}{}", " ".repeat(column), "^".repeat(carets))?;
        }
        if !self.help.is_empty() {
            writeln!(f, "{gap} = help: {}", clean(&self.help))?;
        }
        Ok(())
    }
}

/// `text` without control characters: a document must not drive the operator's terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// At most `most` characters of `text` around character `column`, cleaned, and that character's new column.
fn clip(text: &str, column: usize, most: usize) -> (String, usize) {
    let count = text.chars().count();
    if count <= most {
        return (clean(text), column.min(count));
    }
    let from = column.saturating_sub(most / 2).min(count);
    let mut out = String::from(if from > 0 { "..." } else { "" });
    let shift = out.len();
    out.extend(text.chars().skip(from).take(most));
    if from + most < count {
        out.push_str("...");
    }
    (clean(&out), column.min(count) - from + shift)
}

/// All errors of one document, in the order of their places; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostics {
    /// The errors, and the notes between them.
    pub errors: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Whether the first error is against a rule.
    pub fn is_of(&self, rule: &str) -> bool {
        self.errors.first().is_some_and(|e| e.rule == rule)
    }

    /// Sorts the errors by place and adds file name and excerpts from `source`.
    pub fn new(source: &Source, mut errors: Vec<Diagnostic>) -> Diagnostics {
        errors.sort_by_key(|e| (e.line, e.column));
        let mut lines = source.text.lines();
        let (mut number, mut line) = (0, "");
        for error in &mut errors {
            error.file.clone_from(&source.name);
            while number < error.line {
                line = lines.next().unwrap_or("");
                number += 1;
            }
            // A window around the place: a hostile line may be megabytes long, and errors many.
            let column = error.column.saturating_sub(1) as usize;
            error.excerpt = if line.len() <= 400 { line.to_string() } else { window(line, column) };
        }
        Diagnostics { errors }
    }

    /// An error that concerns a whole file, such as one that cannot be read.
    pub fn whole_file(
        file: &str,
        rule: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Diagnostics {
        let mut error = Diagnostic::new(Place::default(), "", rule, message);
        error.help(help);
        error.file = file.to_string();
        Diagnostics { errors: vec![error] }
    }

    /// Whether it is more than notes.
    pub fn has_errors(&self) -> bool {
        self.errors.iter().any(|e| e.severity == Severity::Error)
    }

    /// What is left when what is not supported yet counts as an error, as it does to a router that starts; `None` when
    /// nothing is wrong then.
    pub fn refused(mut self) -> Option<Diagnostics> {
        for e in self.errors.iter_mut().filter(|e| e.rule == NOT_SUPPORTED) {
            e.severity = Severity::Error;
        }
        self.has_errors().then_some(self)
    }

    /// At most so many of the errors and notes, for clients that have no document to underline.
    pub fn faults(&self, most: usize) -> Vec<Fault> {
        self.errors.iter().take(most).map(Diagnostic::fault).collect()
    }

    /// The errors as a JSON array.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.errors).unwrap_or_default()
    }
}

/// The first characters of a long line, up to a little behind `column`; empty when that is far away.
fn window(line: &str, column: usize) -> String {
    if column > 4000 { String::new() } else { line.chars().take(column + 100).collect() }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for error in &self.errors {
            writeln!(text, "{error}")?;
        }
        let some = |severity: Severity| {
            let count = self.errors.iter().filter(|e| e.severity == severity).count();
            (count > 0).then(|| format!("{count} {severity}{}", if count == 1 { "" } else { "s" }))
        };
        let counts: Vec<String> = [Severity::Error, Severity::Note].into_iter().filter_map(some).collect();
        let file = self.errors.first().map_or("", |e| e.file.as_str());
        writeln!(f, "{text}{file}: {}", counts.join(", "))
    }
}

impl std::error::Error for Diagnostics {}

/// What the decoders and rules write their errors to.
#[derive(Debug, Default)]
pub(super) struct Sink {
    errors: Vec<Diagnostic>,
    failed: bool,
    spare: Option<Diagnostic>,
    /// Errors that were not kept.
    more: usize,
}

/// Errors kept of one document, which may have millions; nobody reads more.
const MAX_ERRORS: usize = 1000;

impl Sink {
    /// Adds an error and returns it, so that value and help can be added.
    pub fn add(&mut self, error: Diagnostic) -> &mut Diagnostic {
        self.failed |= error.severity == Severity::Error;
        if self.is_full() {
            self.more += 1;
            return self.spare.insert(error);
        }
        self.errors.push(error);
        let last = self.errors.len() - 1;
        &mut self.errors[last]
    }

    /// True when further errors are no longer kept: then suggestions are not worth their time.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// How many errors are kept.
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// True when there is an error among what was found.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// The errors found.
    pub fn finish(self, source: &Arc<Source>) -> Diagnostics {
        if self.more > 0 {
            let message = format!("and {} more: only the first {MAX_ERRORS} are shown", self.more);
            let mut more = Diagnostic::new(Place::default(), "", "too-many-errors", message);
            more.severity = if self.failed { Severity::Error } else { Severity::Note };
            more.file.clone_from(&source.name);
            // Behind all others.
            let mut all = Diagnostics::new(source, self.errors);
            all.errors.push(more);
            return all;
        }
        Diagnostics::new(source, self.errors)
    }
}
