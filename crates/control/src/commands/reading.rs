//! Reading what runs piece by piece, while everything else has its turn.

use super::desired::{Desk, PIECE, busy, short};
use crate::dump::{Dump, Source};
use crate::written::Chunks;
use crate::yaml::Settings;
use crate::{edit, engine};
use command::CommandError;
use graph::memory::Growth;
use net::router::Router;
use std::time::{Duration, Instant};

/// How often what runs is read anew because it has changed.
const TRIES: u32 = 20;

/// What is read in pieces.
pub(super) trait Reads: Sized {
    /// Reads the next piece; false at the end.
    ///
    /// # Errors
    /// There is no memory for it.
    fn next(&mut self, from: Source<'_>) -> Result<bool, CommandError>;

    /// What was read of it does not fit what is read from here on.
    fn is_stale(&self, router: &Router) -> bool;

    /// What is left may change while it is read.
    fn may_change(&self) -> bool {
        false
    }
}

impl Reads for engine::Reading {
    fn next(&mut self, from: Source<'_>) -> Result<bool, CommandError> {
        Ok(engine::Reading::next(self, from.router, from.settings))
    }

    fn is_stale(&self, router: &Router) -> bool {
        engine::Reading::is_stale(self, router)
    }

    fn may_change(&self) -> bool {
        self.has_routes_left_only()
    }
}

impl Reads for edit::Reading {
    fn next(&mut self, from: Source<'_>) -> Result<bool, CommandError> {
        edit::Reading::next(self, from).map_err(short)
    }

    fn is_stale(&self, router: &Router) -> bool {
        edit::Reading::is_stale(self, router)
    }
}

/// A document. Static routes may change while they are written.
pub(super) struct Written {
    dump: Dump,
    pub text: Chunks,
    memory: Growth,
    begun: u64,
}

impl Written {
    pub fn of(router: &Router) -> Written {
        Written {
            dump: Dump::default(),
            text: Chunks::default(),
            memory: Growth::default(),
            begun: router.said(),
        }
    }
}

impl Reads for Written {
    fn next(&mut self, from: Source<'_>) -> Result<bool, CommandError> {
        let Some(piece) = self.dump.next_text(from) else { return Ok(false) };
        // Chunks, and the text that they become.
        self.memory.take(2 * piece.len()).map_err(short)?;
        self.text.push(&piece);
        Ok(true)
    }

    fn is_stale(&self, router: &Router) -> bool {
        self.begun != router.said()
    }
}

/// Reads until a reading is of one state, `None` where that changed meanwhile, so often as may be; told which reading is the last.
pub(super) async fn until_unchanged<T>(
    mut read: impl AsyncFnMut(bool) -> Result<Option<T>, CommandError>,
) -> Result<T, CommandError> {
    for n in 0..=TRIES {
        if let Some(read) = read(n == TRIES).await? {
            return Ok(read);
        }
    }
    Err(CommandError::conflict("the configuration was changed while it was read: ask again"))
}

impl Desk {
    /// Reads what runs, with a section `quiver`, while everything else has its turn, and its version when that began; anew where it
    /// changes meanwhile, and `for_sure` at one go at last, for who cannot ask again.
    pub(super) async fn read_whole<R: Reads>(
        &self,
        for_sure: bool,
        settings: &Settings,
        begin: impl Fn(&Router) -> Result<R, CommandError>,
    ) -> Result<(R, String), CommandError> {
        let piece = |last: bool| if for_sure && last { Duration::MAX } else { PIECE };
        until_unchanged(async |last| self.read_once(piece(last), settings, &begin).await).await
    }

    /// `None` where it was changed meanwhile.
    async fn read_once<R: Reads>(
        &self,
        piece: Duration,
        settings: &Settings,
        begin: impl Fn(&Router) -> Result<R, CommandError>,
    ) -> Result<Option<(R, String)>, CommandError> {
        let (mut reading, version) = {
            let router = self.router.try_borrow().map_err(|_| busy())?;
            (begin(&router)?, self.version()?)
        };
        let mut more = true;
        while more {
            {
                let (began, router) = (Instant::now(), self.router.try_borrow().map_err(|_| busy())?);
                let from = Source { router: &router, settings };
                let piece = |read: &R| if read.may_change() { PIECE } else { piece };
                while more && began.elapsed() < piece(&reading) {
                    more = reading.next(from)?;
                }
                if reading.is_stale(&router) {
                    return Ok(None);
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(Some((reading, version)))
    }
}
