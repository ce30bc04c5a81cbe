//! What the commands of documents do, for who works beside them.

use super::change::{Applied, Applying, Order, background, change, confirmed, rolled_back};
use super::desired::{Desk, Differences, From, Steps, differences, rights, steps};
use super::places::Held;
use super::saving::saved;
use crate::engine::Session;
use crate::saved::{Folder, Kind, Record};
use crate::yaml::secrets::{self, are_hidden_from};
use command::{Caller, CommandError};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// How a document is to be applied.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Go back after so long, unless it is confirmed.
    pub confirm: Option<Duration>,
    /// For the history.
    pub comment: String,
    /// What commands made goes as well.
    pub exact: bool,
    /// Also where the section `quiver` differs, which comes with the next start.
    pub restart: bool,
}

impl Wish {
    pub(super) fn order(self, kind: Kind, from: From, caller: &Caller) -> Result<Order, CommandError> {
        let Wish { confirm, comment, exact, restart } = self;
        Order { kind, from, confirm, restart, exact, comment, caller: Some(caller.clone()) }.allowed()
    }
}

/// The caller must have the role [`Write`](command::Access::Write) for what changes something.
impl Desk {
    /// Brings what runs to a document.
    ///
    /// # Errors
    /// The document is wrong, a step was refused, or something else is in the way: then nothing was changed.
    pub async fn apply(
        &self,
        document: Arc<str>,
        wish: Wish,
        caller: &Caller,
    ) -> Result<Applied, CommandError> {
        let order = wish.order(Kind::Apply, From::Text(document, rights(caller)), caller)?;
        let _lock = Applying::begin(&self.changes)?;
        change(self, order).await
    }

    /// Goes back to a configuration of the history; with number 0 to what ran before that which waits to be confirmed, else to the
    /// last but one.
    ///
    /// # Errors
    /// As [`Desk::apply`].
    pub async fn roll_back(&self, number: u64, wish: Wish, caller: &Caller) -> Result<Applied, CommandError> {
        let order = match number {
            0 if self.changes.pending.borrow().is_some() => None,
            _ => Some(wish.order(Kind::Rollback, From::Kept(self.changes.folder()?, number), caller)?),
        };
        let _lock = Applying::begin(&self.changes)?;
        rolled_back(self, order, Some(caller.clone())).await
    }

    /// Keeps what waits to be confirmed; its number in the history, where there is one.
    ///
    /// # Errors
    /// Nothing waits, or it cannot be kept.
    pub async fn confirm(&self, caller: &Caller) -> Result<Option<u64>, CommandError> {
        let _lock = Applying::begin(&self.changes)?;
        confirmed(self, Some(caller.clone())).await
    }

    /// Keeps what runs for the next start; its number in the history, and whether it differs from what was kept last.
    ///
    /// # Errors
    /// It cannot be kept.
    pub async fn save(&self, comment: &str, caller: &Caller) -> Result<(u64, bool), CommandError> {
        let _lock = Applying::begin(&self.changes)?;
        let saved = saved(self, Some(caller.clone()), crate::saved::plain(comment)).await?;
        Ok((saved.number, saved.new))
    }

    /// What a document would change of what runs.
    ///
    /// # Errors
    /// The document is wrong, or something else is in the way.
    pub async fn diff(
        &self,
        document: Arc<str>,
        exact: bool,
        caller: &Caller,
    ) -> Result<Differences, CommandError> {
        differences(self, From::Text(document, rights(caller)), exact, Some(caller)).await
    }

    /// The steps from what runs to a document. Warnings tell when the way to a session would be lost.
    ///
    /// # Errors
    /// As [`Desk::diff`].
    pub async fn plan(
        &self,
        document: Arc<str>,
        exact: bool,
        session: Option<Session>,
        caller: &Caller,
    ) -> Result<Steps, CommandError> {
        steps(self, From::Text(document, rights(caller)), exact, session, Some(caller)).await
    }

    /// The configurations that are kept.
    ///
    /// # Errors
    /// None are.
    pub fn history(&self) -> Result<Arc<Folder>, CommandError> {
        self.changes.folder()
    }

    /// One of the history, with its document. Those who read one wait for another.
    ///
    /// # Errors
    /// There is none with this number, or it cannot be read.
    pub async fn kept(&self, number: u64, caller: Option<&Caller>) -> Result<Held<Record>, CommandError> {
        let folder = self.changes.folder()?;
        let place = self.changes.places.take(caller).await?;
        let mut record = background(move || folder.read(number)).await?;
        if are_hidden_from(caller) {
            let hide = move || {
                let shown = secrets::without(record.document()).map(Cow::into_owned);
                record.shown = Some(shown.map_err(|e| {
                    let why = "does not read, so nobody knows where its secrets stand: it takes the role `configure`";
                    CommandError::denied(format!("the document of number {number} {why}: {e}"))
                })?);
                Ok(record)
            };
            record = net::background::run(hide).await.map_err(CommandError::new).flatten()?;
        }
        Ok(place.hold(record))
    }
}
