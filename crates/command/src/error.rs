//! What a command answers when it does not do what was asked.

use std::fmt;
use std::ops::Range;

use crate::Access;

/// The kind of a [`CommandError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The line is not a command: a wrong, missing or superfluous word.
    Syntax,
    /// The operator may not do this.
    Denied,
    /// The command was understood and refused or failed.
    Failed,
    /// Somebody else has changed what it was to be done to.
    Conflict,
}

impl ErrorKind {
    /// The kind as one lower-case word.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Syntax => "syntax",
            ErrorKind::Denied => "denied",
            ErrorKind::Failed => "failed",
            ErrorKind::Conflict => "conflict",
        }
    }
}

/// One of the faults for which something long was refused, such as a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fault {
    /// The object and field it is about.
    pub object: String,
    /// A short fixed name of the rule that is broken.
    pub rule: String,
    /// The value found, when there is one.
    pub value: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
    /// The name of the file.
    pub file: String,
    /// The line from 1, and the column in characters from 1; 0 when there is none.
    pub line: u32,
    /// See [`Fault::line`].
    pub column: u32,
    /// How many characters it is about; 0 when that is not known.
    pub length: u32,
    /// It is no error, but something that the operator should know.
    pub note: bool,
    /// The change that it is about, from 1, where several were asked for; 0 when it is none of them alone.
    pub change: u32,
}

/// An error answered to the operator, with the place in the line where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// What kind of error.
    pub kind: ErrorKind,
    /// A sentence without a final stop.
    pub message: String,
    /// The bytes of the line it is about.
    pub span: Option<Range<usize>>,
    /// What could stand at that place.
    pub expected: Vec<String>,
    /// What would have to be allowed to the operator, where that is not the case.
    pub needs: Option<Access>,
    /// What is wrong with something that the command was given, each with its place there.
    pub faults: Vec<Fault>,
    /// The word is none that could stand at its place.
    pub(crate) unknown: bool,
}

impl CommandError {
    /// A command that failed, without a place in the line.
    pub fn new(message: impl fmt::Display) -> Self {
        Self {
            kind: ErrorKind::Failed,
            message: message.to_string(),
            span: None,
            expected: Vec::new(),
            needs: None,
            faults: Vec::new(),
            unknown: false,
        }
    }

    /// Something the operator may not do.
    pub fn denied(message: impl fmt::Display) -> Self {
        Self { kind: ErrorKind::Denied, ..Self::new(message) }
    }

    /// What somebody else has changed meanwhile.
    pub fn conflict(message: impl fmt::Display) -> Self {
        Self { kind: ErrorKind::Conflict, ..Self::new(message) }
    }

    /// Something that takes more than the operator has.
    pub fn needs(access: Access, message: impl fmt::Display) -> Self {
        Self { needs: Some(access), ..Self::denied(message) }
    }

    /// This error, with what is wrong with something that the command was given.
    #[must_use]
    pub fn with_faults(mut self, faults: Vec<Fault>) -> Self {
        self.faults = faults;
        self
    }

    /// An error at a place of the line.
    pub fn syntax(span: Range<usize>, message: impl fmt::Display) -> Self {
        Self { kind: ErrorKind::Syntax, span: Some(span), ..Self::new(message) }
    }

    /// This error, pointing at the bytes `span` of the line.
    #[must_use]
    pub fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    pub(crate) fn expecting(mut self, expected: Vec<String>) -> Self {
        self.expected = expected;
        self
    }

    /// The error for the operator who typed `line`: the line with a caret under the place, or the message alone.
    pub fn render(&self, line: &str) -> String {
        let Some(span) = &self.span else { return self.message.clone() };
        let (shown, column) = excerpt(line.trim_end(), span.start);
        format!("{shown}\n{:column$}^ {}", "", self.message)
    }
}

impl Access {
    /// Whether what needs this is within what an operator `has`.
    ///
    /// # Errors
    /// It is not; the role that is missing.
    pub fn within(self, has: Access) -> Result<(), CommandError> {
        if self <= has {
            return Ok(());
        }
        Err(CommandError::needs(
            self,
            format!("this needs the role `{}`, and you have `{}`", self.role(), has.role()),
        ))
    }
}

/// The longest piece of a line that an error repeats, in characters.
const EXCERPT: usize = 160;

/// The part of `line` around byte `at`, free of control characters, and the column of `at` in it.
fn excerpt(line: &str, at: usize) -> (String, usize) {
    // What is far behind the place is not looked at.
    let mut end = line.len().min(at.saturating_add(8 * EXCERPT));
    while !line.is_char_boundary(end) {
        end += 1;
    }
    let line = line.get(..end).unwrap_or(line);
    let column = line.char_indices().take_while(|(index, _)| *index < at).count();
    let length = line.chars().count();
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    if length <= EXCERPT {
        let past = usize::from(at > line.len() && length > 0);
        return (line.chars().map(printable).collect(), column + past);
    }
    let start = column.saturating_sub(EXCERPT / 2).min(length - EXCERPT);
    let mut shown: String = line.chars().skip(start).take(EXCERPT).map(printable).collect();
    let mut column = column - start;
    if start > 0 {
        shown.insert_str(0, "...");
        column += 3;
    }
    if start + EXCERPT < length {
        shown.push_str("...");
    }
    (shown, column)
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

impl From<String> for CommandError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for CommandError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// A fault in the definition of a command; found when the registry is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The syntax string.
    pub syntax: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command '{}': {}", self.syntax, self.message)
    }
}

impl std::error::Error for SyntaxError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let error = CommandError::syntax(5..6, "wrong");
        assert_eq!(error.render("show x y"), "show x y\n     ^ wrong");
        assert_eq!(error.render("söow x y"), "söow x y\n    ^ wrong");
        assert_eq!(error.render("show\tx\u{1b}y"), "show x y\n     ^ wrong");
        assert_eq!(CommandError::new("plain").render("show"), "plain");
    }

    #[test]
    fn long_lines_are_cut() {
        let line = "word ".repeat(5000);
        let shown = CommandError::syntax(10_000..10_004, "wrong").render(&line);
        let mut lines = shown.lines();
        let (text, caret) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(text.len() < 200);
        let column = caret.find('^').unwrap();
        assert_eq!(&text[column..column + 4], "word");
        let end = CommandError::syntax(25_000..25_000, "more").render(&line);
        assert!(end.lines().all(|l| l.len() < 200));
    }
}
