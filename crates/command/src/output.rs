//! What a command answers.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;

use serde_json::Value as Json;

use crate::{CommandError, Table};

/// The running part of a command that takes its time and answers line by line. Dropping the future ends it.
pub type Stream = Box<dyn FnOnce(Emit) -> Pin<Box<dyn Future<Output = Result<Output, CommandError>>>>>;

/// Where a [`Stream`] sends what it has so far.
#[derive(Clone)]
pub struct Emit(Rc<dyn Fn(&str) -> bool>);

impl Emit {
    /// Sends every text to `sink`, which answers false once nobody reads any more.
    pub fn new(sink: impl Fn(&str) -> bool + 'static) -> Self {
        Self(Rc::new(sink))
    }

    /// Sends a line (the line end is added). False when nobody reads any more: then end.
    pub fn line(&self, text: &str) -> bool {
        (self.0)(&format!("{text}\n"))
    }
}

/// The answer of a command.
pub struct Output(pub(crate) Body);

pub(crate) enum Body {
    None,
    Text(String, Json),
    Table(Table),
    Stream(Stream),
    Script(PathBuf),
}

impl Output {
    /// Nothing to say: done.
    pub fn none() -> Self {
        Self(Body::None)
    }

    /// Text; its JSON is `{"text": ...}`.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let json = serde_json::json!({ "text": text });
        Self(Body::Text(text, json))
    }

    /// Text and the same as JSON.
    pub fn new(text: impl Into<String>, json: Json) -> Self {
        Self(Body::Text(text.into(), json))
    }

    /// A table; the JSON is a list with one object a row.
    pub fn table(table: Table) -> Self {
        Self(Body::Table(table))
    }

    /// A command that goes on for a while: `run` gets an [`Emit`] and returns its last words.
    pub fn stream<F>(run: impl FnOnce(Emit) -> F + 'static) -> Self
    where
        F: Future<Output = Result<Output, CommandError>> + 'static,
    {
        Self(Body::Stream(Box::new(|emit| Box::pin(run(emit)))))
    }

    /// The lines of a file are to be run as commands by whoever runs this one.
    pub fn script(path: PathBuf) -> Self {
        Self(Body::Script(path))
    }

    /// Takes the stream out of an answer made with [`Output::stream`].
    ///
    /// # Errors
    /// The answer itself, when it is of another kind.
    pub fn into_stream(self) -> Result<Stream, Output> {
        match self.0 {
            Body::Stream(stream) => Ok(stream),
            body => Err(Self(body)),
        }
    }

    /// The file of an answer made with [`Output::script`].
    pub fn script_path(&self) -> Option<&PathBuf> {
        match &self.0 {
            Body::Script(path) => Some(path),
            _ => None,
        }
    }

    /// The text; a non-empty one ends with a line end.
    pub fn to_text(&self) -> String {
        let mut text = match &self.0 {
            Body::None | Body::Stream(_) | Body::Script(_) => String::new(),
            Body::Text(text, _) => text.clone(),
            Body::Table(table) => table.to_text(),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// The JSON; null when there is nothing to say.
    pub fn to_json(&self) -> Json {
        match &self.0 {
            Body::None | Body::Stream(_) | Body::Script(_) => Json::Null,
            Body::Text(_, json) => json.clone(),
            Body::Table(table) => table.to_json(),
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Body::None => f.write_str("None"),
            Body::Text(text, json) => f.debug_tuple("Text").field(text).field(json).finish(),
            Body::Table(table) => f.debug_tuple("Table").field(table).finish(),
            Body::Stream(_) => f.write_str("Stream"),
            Body::Script(path) => f.debug_tuple("Script").field(path).finish(),
        }
    }
}
