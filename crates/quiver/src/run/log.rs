//! The log: one line an event, as text or JSON, on standard error or in a file.

use super::sink::Sink;
use control::events::{Events, Kind, Level};
use control::journal::Journal;
use control::runtime::Logger;
use control::yaml::{Log, LogLevel};
use graph::buffer::Pages;
use net::router::Router;
use std::fmt::Write;
use std::rc::Rc;
use tracing::field::{Field, Visit};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Tells lines to who follows the log.
struct Told(Events);

/// The text of a line.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Told {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        // Only the router's own lines: those of what carries the events to who follows them would bring further ones, without end.
        if !event.metadata().target().starts_with(env!("CARGO_PKG_NAME")) || !self.0.wants(Kind::Log) {
            return;
        }
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warn,
            tracing::Level::INFO => Level::Info,
            tracing::Level::DEBUG => Level::Debug,
            tracing::Level::TRACE => Level::Trace,
        };
        let mut text = Text::default();
        event.record(&mut text);
        self.0.tell_line(level, &text.0);
    }
}

/// Opens the log, whose last lines `journal` keeps and whose lines `events` tells, and answers what writes the router's lines to it,
/// and where they go.
pub fn open(config: &Log, journal: &Journal, events: &Events) -> Result<(Logger, Sink), String> {
    let level = match config.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let sink = Sink::new(config.file.as_ref().map(Into::into)).map_err(|e| {
        format!("cannot open the log {}: {e}", config.file.as_deref().unwrap_or("on standard error"))
    })?;
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(sink.clone().and({
            let journal = journal.clone();
            move || journal.clone()
        }))
        .with_ansi(false)
        .with_target(false);
    let told = Told(events.clone());
    let done = if config.json {
        log.json().finish().with(told).try_init()
    } else {
        log.finish().with(told).try_init()
    };
    done.map_err(|e| format!("cannot open the log: {e}"))?;
    let logger: Logger =
        Rc::new(
            |line| if line.warn { tracing::warn!("{}", line.text) } else { tracing::info!("{}", line.text) },
        );
    Ok((logger, sink))
}

/// The line that says which memory the buffers are in.
pub fn buffers(router: &Router) -> String {
    let pool = router.pool();
    let mib = pool.bytes() >> 20;
    let pages = match pool.pages() {
        Pages::Huge => "2 MiB huge pages".to_owned(),
        Pages::Transparent => {
            format!("normal pages (transparent huge pages asked for; {} reserved ones are not free)", mib / 2)
        }
        Pages::Normal => "normal pages".to_owned(),
    };
    format!("{} buffers, {mib} MiB in {pages}", pool.count())
}

/// Says which instructions vector code uses; a warning when the processor has less than was asked for.
pub fn instructions(router: &Router) {
    let choice = router.instructions();
    if choice.is_capped() { tracing::warn!("{choice}") } else { tracing::info!("{choice}") }
}
