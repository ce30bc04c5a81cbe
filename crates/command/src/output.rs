//! What a command answers.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use serde_json::Value as Json;

use crate::{CommandError, Page, Table};

/// The part of a command that takes its time, as it runs. Dropping it ends it.
pub type Running = Pin<Box<dyn Future<Output = Result<Output, CommandError>>>>;

/// The part of a command that takes its time and may answer line by line.
pub struct Stream {
    run: Box<dyn FnOnce(Emit) -> Running>,
    /// It changes something, and is finished also when its client has gone.
    pub finishes: bool,
}

impl Stream {
    fn new<F>(finishes: bool, run: impl FnOnce(Emit) -> F + 'static) -> Self
    where
        F: Future<Output = Result<Output, CommandError>> + 'static,
    {
        Stream { run: Box::new(|emit| Box::pin(run(emit))), finishes }
    }

    /// Begins it.
    pub fn start(self, emit: Emit) -> Running {
        (self.run)(emit)
    }
}

/// Writes the next piece of a long answer; false when that was the last one.
pub type Pieces = Box<dyn FnMut(&mut Page) -> Result<bool, CommandError>>;

/// [`Pieces`] over a context that is lent for each.
type Pages = Box<dyn FnMut(&mut dyn Any, &mut Page) -> Result<bool, CommandError>>;

/// What is done with the context when a [`Stream`] has ended.
pub type Next = Box<dyn FnOnce() -> Result<Output, CommandError>>;

/// [`Next`] with a context that is lent for it.
type Then = Box<dyn FnOnce(&mut dyn Any) -> Result<Output, CommandError>>;

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

/// Runs a future to its end on this thread.
fn wait<T>(mut future: Pin<Box<dyn Future<Output = T>>>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park();
    }
}

/// The answer of a command.
pub struct Output(pub(crate) Body);

pub(crate) enum Body {
    None,
    Text(String, Json),
    /// The same, of a command that did not find what it was to find.
    Failed(String, Json),
    Table(Table),
    Stream(Stream),
    Script(PathBuf),
    Pages(Pages),
    Pieces(Pieces),
    Then(Then),
    Next(Next),
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

    /// As [`Output::new`], from a command whose answer is no success, such as a ping that nobody answered: it is printed
    /// like any other, and the client ends with status 1.
    pub fn failed(text: impl Into<String>, json: Json) -> Self {
        Self(Body::Failed(text.into(), json))
    }

    /// Whether it was made with [`Output::failed`].
    pub fn is_failed(&self) -> bool {
        matches!(self.0, Body::Failed(..))
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
        Self(Body::Stream(Stream::new(false, run)))
    }

    /// A command that changes something, and takes its time before it can: it is finished also when its client has gone.
    pub fn work<F>(run: impl FnOnce() -> F + 'static) -> Self
    where
        F: Future<Output = Result<Output, CommandError>> + 'static,
    {
        Self(Body::Stream(Stream::new(true, |_| run())))
    }

    /// A long answer, made piece by piece as it is read: `next` writes some of it and answers whether more is to come. It is
    /// given the command's context each time, which may have changed since the last.
    pub fn pages<C: 'static>(
        mut next: impl FnMut(&mut C, &mut Page) -> Result<bool, CommandError> + 'static,
    ) -> Self {
        Self(Body::Pages(Box::new(move |context, page| match context.downcast_mut() {
            Some(context) => next(context, page),
            None => Err(CommandError::new("internal error: the command has another context")),
        })))
    }

    /// As [`Output::pages`], where `next` has all that it needs.
    pub fn pieces(next: impl FnMut(&mut Page) -> Result<bool, CommandError> + 'static) -> Self {
        Self(Body::Pieces(Box::new(next)))
    }

    /// The last words of a stream that has done what takes long, such as the opening of a file: `then` does the rest with the
    /// command's context.
    pub fn then<C: 'static>(then: impl FnOnce(&mut C) -> Result<Output, CommandError> + 'static) -> Self {
        Self(Body::Then(Box::new(|context| match context.downcast_mut() {
            Some(context) => then(context),
            None => Err(CommandError::new("internal error: the command has another context")),
        })))
    }

    /// Takes out what is to be done next, when the answer was made with [`Output::then`] and bound to its context.
    ///
    /// # Errors
    /// The answer itself, when it is of another kind.
    pub fn into_next(self) -> Result<Next, Output> {
        match self.0 {
            Body::Next(next) => Ok(next),
            body => Err(Self(body)),
        }
    }

    /// Binds what of an answer needs a context to one, also what comes behind a stream: `lend` calls what it is given with it.
    #[must_use]
    pub fn bind(
        self,
        mut lend: impl FnMut(&mut dyn FnMut(&mut dyn Any)) -> Result<(), CommandError> + 'static,
    ) -> Self {
        match self.0 {
            Body::Stream(stream) => {
                let bound =
                    Stream::new(stream.finishes, async move |emit| Ok(stream.start(emit).await?.bind(lend)));
                Self(Body::Stream(bound))
            }
            Body::Then(then) => Self(Body::Next(Box::new(move || {
                let (mut then, mut done) = (Some(then), Ok(Self::none()));
                lend(&mut |context| {
                    if let Some(then) = then.take() {
                        done = then(context);
                    }
                })?;
                Ok(done?.bind(lend))
            }))),
            Body::Pages(mut next) => Self::pieces(move |page| {
                let mut done = Ok(false);
                lend(&mut |context| done = next(context, page))?;
                done
            }),
            body => Self(body),
        }
    }

    /// The whole of a long answer, for who has the memory and waits for it; any other answer as it is. Commands that need
    /// somebody to run their timers are not for this.
    ///
    /// # Errors
    /// What the command answers in the middle.
    pub fn whole<C: 'static>(self, context: &mut C, json: bool) -> Result<Self, CommandError> {
        match self.0 {
            Body::Stream(stream) => return wait(stream.start(Emit::new(|_| true)))?.whole(context, json),
            Body::Then(then) => return then(context)?.whole(context, json),
            Body::Next(next) => return next()?.whole(context, json),
            _ => {}
        }
        let (mut page, mut all, mut body) = (Page::new(json), String::new(), self.0);
        loop {
            let more = match &mut body {
                Body::Pages(next) => next(context, &mut page)?,
                Body::Pieces(next) => next(&mut page)?,
                _ => return Ok(Self(body)),
            };
            all.push_str(&page.take());
            if !more {
                break;
            }
        }
        Ok(match json {
            true => Self::new("", serde_json::from_str(&all).map_err(CommandError::new)?),
            false => Self::new(all, Json::Null),
        })
    }

    /// Takes the pieces out of a long answer that needs no context (any more).
    ///
    /// # Errors
    /// The answer itself, when it is of another kind.
    pub fn into_pieces(self) -> Result<Pieces, Output> {
        match self.0 {
            Body::Pieces(pieces) => Ok(pieces),
            body => Err(Self(body)),
        }
    }

    /// The lines of a file are to be run as commands by whoever runs this one.
    pub fn script(path: PathBuf) -> Self {
        Self(Body::Script(path))
    }

    /// Takes the stream out of an answer made with [`Output::stream`] or [`Output::work`].
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
            Body::Text(text, _) | Body::Failed(text, _) => text.clone(),
            Body::Table(table) => table.to_text(),
            _ => String::new(),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// The JSON; null when there is nothing to say.
    pub fn to_json(&self) -> Json {
        match &self.0 {
            Body::Text(_, json) | Body::Failed(_, json) => json.clone(),
            Body::Table(table) => table.to_json(),
            _ => Json::Null,
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Body::None => f.write_str("None"),
            Body::Text(text, json) => f.debug_tuple("Text").field(text).field(json).finish(),
            Body::Failed(text, json) => f.debug_tuple("Failed").field(text).field(json).finish(),
            Body::Table(table) => f.debug_tuple("Table").field(table).finish(),
            Body::Stream(_) => f.write_str("Stream"),
            Body::Pages(_) | Body::Pieces(_) => f.write_str("Pieces"),
            Body::Then(_) | Body::Next(_) => f.write_str("Next"),
            Body::Script(path) => f.debug_tuple("Script").field(path).finish(),
        }
    }
}
