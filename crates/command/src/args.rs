//! The arguments of a parsed command.

use std::ops::Range;
use std::sync::Arc;

use crate::{Caller, CommandError, FromValue, Value};

/// One argument that was given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arg {
    pub name: String,
    pub value: Value,
    pub span: Range<usize>,
}

/// The arguments and keywords of a command, or of one repetition of a labelled group of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Args {
    pub(crate) words: Vec<String>,
    pub(crate) values: Vec<Arg>,
    pub(crate) groups: Vec<(String, Args)>,
    pub(crate) json: bool,
    pub(crate) caller: Option<Arc<Caller>>,
}

impl Args {
    /// The argument `name`, which the syntax makes obligatory.
    ///
    /// # Errors
    /// When it is absent or has another type than the syntax declares: a fault of the command's author.
    pub fn get<T: FromValue>(&self, name: &str) -> Result<T, CommandError> {
        self.opt(name)?.ok_or_else(|| CommandError::new(format!("internal error: no argument <{name}>")))
    }

    /// The argument `name` if it was given; the first one where it was repeated.
    ///
    /// # Errors
    /// When its declared type is not `T`: a fault of the command's author.
    pub fn opt<T: FromValue>(&self, name: &str) -> Result<Option<T>, CommandError> {
        self.values.iter().find(|arg| arg.name == name).map(convert).transpose()
    }

    /// All values of the repeated argument `name`, in the order given.
    ///
    /// # Errors
    /// When its declared type is not `T`: a fault of the command's author.
    pub fn all<T: FromValue>(&self, name: &str) -> Result<Vec<T>, CommandError> {
        self.values.iter().filter(|arg| arg.name == name).map(convert).collect()
    }

    /// Whether the keyword `word` was given, abbreviated or in full.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|given| given == word)
    }

    /// The first of `words` that was given.
    pub fn one_of<'a>(&self, words: &[&'a str]) -> Option<&'a str> {
        words.iter().copied().find(|word| self.has(word))
    }

    /// The repetitions of the group labelled `label`, in the order given.
    pub fn groups(&self, label: &str) -> impl Iterator<Item = &Args> {
        self.groups.iter().filter(move |(name, _)| name == label).map(|(_, args)| args)
    }

    /// The first repetition of the group labelled `label`.
    pub fn group(&self, label: &str) -> Option<&Args> {
        self.groups(label).next()
    }

    /// The keywords given, in full, in the order given.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    /// Whether the answer is wanted as JSON; an expensive command may then leave its text out, and the reverse.
    pub fn wants_json(&self) -> bool {
        self.json
    }

    /// Who gave the command; the router itself when nobody is named.
    pub fn caller(&self) -> Option<&Caller> {
        self.caller.as_deref()
    }

    /// Where the arguments with these names stand in the line.
    pub(crate) fn spans(&self, names: &[&str], to: &mut Vec<Range<usize>>) {
        to.extend(self.values.iter().filter(|a| names.contains(&a.name.as_str())).map(|a| a.span.clone()));
        self.groups.iter().for_each(|(_, group)| group.spans(names, to));
    }

    /// A failure that points at the argument `name` in the operator's line.
    pub fn error(&self, name: &str, message: impl std::fmt::Display) -> CommandError {
        let error = CommandError::new(message);
        match self.values.iter().find(|arg| arg.name == name) {
            Some(arg) => error.at(arg.span.clone()),
            None => error,
        }
    }
}

fn convert<T: FromValue>(arg: &Arg) -> Result<T, CommandError> {
    T::from_value(&arg.value).ok_or_else(|| {
        CommandError::new(format!("internal error: <{}> is not a {}", arg.name, std::any::type_name::<T>()))
            .at(arg.span.clone())
    })
}
