//! Documents.

use crate::v1::configuration_client::ConfigurationClient;
use crate::v1::{
    ApplyRequest, ApplyResponse, CheckRequest, CheckResponse, ConfirmRequest, DiffRequest, DiffResponse,
    DumpRequest, HistoryRequest, PlanRequest, PlanResponse, RollbackRequest, SaveRequest, SaveResponse,
    history_response,
};
use crate::{Error, Router};
use tonic::Streaming;

/// How a document is applied.
#[derive(Debug, Clone, Default)]
pub struct Apply {
    /// Go back after so many seconds, unless [`Router::confirm`] comes; 0: it stays.
    pub confirm_seconds: u32,
    /// For the history.
    pub comment: String,
    /// What commands made goes as well, where the document does not say it.
    pub exact: bool,
    /// Also where the section `quiver` differs, which comes with the next start.
    pub restart: bool,
    /// Only say how many steps there would be.
    pub dry_run: bool,
}

/// A plan of all its pieces.
pub(crate) async fn planned(mut pieces: Streaming<PlanResponse>) -> Result<PlanResponse, Error> {
    let mut all = PlanResponse::default();
    while let Some(mut piece) = pieces.message().await? {
        all.steps.append(&mut piece.steps);
        all.warnings.append(&mut piece.warnings);
        all.restart.append(&mut piece.restart);
        all.stays += piece.stays;
    }
    Ok(all)
}

impl Router {
    pub(crate) fn configuration(&self) -> ConfigurationClient<tonic::transport::Channel> {
        ConfigurationClient::new(self.channel())
    }

    /// Checks a document by itself.
    ///
    /// # Errors
    /// The router is gone; a wrong document is no error.
    pub async fn check(&self, document: &str) -> Result<CheckResponse, Error> {
        let request = CheckRequest { document: document.into() };
        Ok(self.configuration().check(self.request(request)).await?.into_inner())
    }

    /// What a document would change of what runs.
    ///
    /// # Errors
    /// The document is wrong, or the router is gone.
    pub async fn diff(&self, document: &str, exact: bool) -> Result<DiffResponse, Error> {
        let request = DiffRequest { document: document.into(), exact };
        let mut pieces = self.configuration().diff(self.request(request)).await?.into_inner();
        let mut all = DiffResponse::default();
        while let Some(mut piece) = pieces.message().await? {
            all.differences.append(&mut piece.differences);
            all.restart.append(&mut piece.restart);
            all.stays.append(&mut piece.stays);
        }
        Ok(all)
    }

    /// The steps from what runs to a document.
    ///
    /// # Errors
    /// As [`Router::diff`].
    pub async fn plan(&self, document: &str, exact: bool) -> Result<PlanResponse, Error> {
        let request = PlanRequest { document: document.into(), exact, ..PlanRequest::default() };
        planned(self.configuration().plan(self.request(request)).await?.into_inner()).await
    }

    /// Brings what runs to a document, or changes nothing.
    ///
    /// # Errors
    /// The document is wrong, or a step was refused: the error's infos have the places. The role `configure` is missing.
    pub async fn apply(&self, document: &str, how: Apply) -> Result<ApplyResponse, Error> {
        let Apply { confirm_seconds, comment, exact, restart, dry_run } = how;
        let document = document.into();
        let request = ApplyRequest { document, confirm_seconds, comment, exact, restart, dry_run };
        Ok(self.configuration().apply(self.request(request)).await?.into_inner())
    }

    /// Keeps what was applied to be confirmed; its number in the history, where it is kept.
    ///
    /// # Errors
    /// Nothing waits to be confirmed.
    pub async fn confirm(&self) -> Result<Option<u64>, Error> {
        let done = self.configuration().confirm(self.request(ConfirmRequest {})).await?.into_inner();
        Ok(Some(done.number).filter(|n| *n != 0))
    }

    /// Goes back to a configuration of the history; `None`: to what ran before that which waits to be confirmed, else to the last but
    /// one.
    ///
    /// # Errors
    /// There is none to go back to, or a step was refused.
    pub async fn roll_back(&self, number: Option<u64>, how: Apply) -> Result<ApplyResponse, Error> {
        let Apply { confirm_seconds, comment, exact, restart, dry_run } = how;
        if dry_run {
            return Err(Error::protocol("a rollback cannot be tried"));
        }
        let number = number.unwrap_or(0);
        let request = RollbackRequest { number, confirm_seconds, comment, exact, restart };
        Ok(self.configuration().rollback(self.request(request)).await?.into_inner())
    }

    /// Keeps what runs for the next start.
    ///
    /// # Errors
    /// The router keeps no configurations.
    pub async fn save(&self, comment: &str) -> Result<SaveResponse, Error> {
        let request = SaveRequest { comment: comment.into() };
        Ok(self.configuration().save(self.request(request)).await?.into_inner())
    }

    /// The configurations that were kept, the last one first.
    ///
    /// # Errors
    /// The router keeps none.
    pub async fn history(&self) -> Result<Vec<history_response::Entry>, Error> {
        let request = HistoryRequest { number: 0 };
        let mut pieces = self.configuration().history(self.request(request)).await?.into_inner();
        let mut all = vec![];
        while let Some(piece) = pieces.message().await? {
            all.extend(piece.entries);
        }
        Ok(all)
    }

    /// The document of a configuration that was kept.
    ///
    /// # Errors
    /// There is none with this number.
    pub async fn kept(&self, number: u64) -> Result<String, Error> {
        let mut pieces =
            self.configuration().history(self.request(HistoryRequest { number })).await?.into_inner();
        let mut document = String::new();
        while let Some(piece) = pieces.message().await? {
            document += &piece.document;
        }
        Ok(document)
    }

    /// The running state as a document.
    ///
    /// # Errors
    /// It was changed while it was written.
    pub async fn dump(&self) -> Result<String, Error> {
        let request = DumpRequest { json: false };
        let mut pieces = self.configuration().dump(self.request(request)).await?.into_inner();
        let mut document = String::new();
        while let Some(piece) = pieces.message().await? {
            document += &piece.piece;
        }
        Ok(document)
    }
}
