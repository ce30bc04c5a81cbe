//! Changes of single places of what runs.

use crate::configuration::planned;
use crate::v1::edit::Act;
use crate::v1::{Edit, EditRequest, EditResponse, GetRequest, PlanResponse};
use crate::{Error, Router};
use ipnet::IpNet;

/// Changes that are made together or not at all, in the order in which they are said.
///
/// ```no_run
/// # async fn f(router: quiver_client::Router) -> Result<(), quiver_client::Error> {
/// router
///     .transaction()
///     .set("interfaces.eth0.mtu", 9000)
///     .delete("loopbacks.loop1")
///     .route("10.0.0.0/8".parse().unwrap(), 0, "via 192.0.2.1")
///     .apply()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it does nothing until it is applied"]
pub struct Transaction {
    router: Router,
    request: EditRequest,
}

/// What stands at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// As JSON.
    pub json: String,
    /// The version of what runs, for [`Transaction::version`].
    pub version: String,
}

/// The place of a route.
fn route(prefix: IpNet, table: u32) -> Vec<String> {
    vec!["routes".into(), format!("prefix={prefix},table={table}")]
}

impl Transaction {
    fn with(mut self, edit: Edit) -> Self {
        self.request.edits.push(edit);
        self
    }

    fn at(self, place: &str, act: Act) -> Self {
        self.with(Edit { at: place.into(), act: Some(act), ..Edit::default() })
    }

    /// Sets a place, such as `interfaces.eth0.mtu`, to a value in YAML or JSON.
    pub fn set(self, place: &str, value: impl ToString) -> Self {
        self.at(place, Act::Set(value.to_string()))
    }

    /// Sets some fields of a place: those of a mapping in YAML or JSON. Null takes a field away.
    pub fn merge(self, place: &str, mapping: impl ToString) -> Self {
        self.at(place, Act::Merge(mapping.to_string()))
    }

    /// Takes a place away.
    pub fn delete(self, place: &str) -> Self {
        self.at(place, Act::Delete(true))
    }

    /// Sets a route of a document to what stands behind its prefix, such as `via 192.0.2.1` or `drop`.
    pub fn route(self, prefix: IpNet, table: u32, target: &str) -> Self {
        let act = Some(Act::Set(target.into()));
        self.with(Edit { place: route(prefix, table), act, ..Edit::default() })
    }

    /// Takes a route of a document away.
    pub fn delete_route(self, prefix: IpNet, table: u32) -> Self {
        self.with(Edit { place: route(prefix, table), act: Some(Act::Delete(true)), ..Edit::default() })
    }

    /// Only where what runs still has this version, as [`Router::get`] tells it; else it is refused with `ABORTED`.
    pub fn version(mut self, version: &str) -> Self {
        self.request.version = version.into();
        self
    }

    /// Goes back after so many seconds, unless [`Router::confirm`] comes.
    pub fn confirm_within(mut self, seconds: u32) -> Self {
        self.request.confirm_seconds = seconds;
        self
    }

    /// For the history.
    pub fn comment(mut self, comment: &str) -> Self {
        self.request.comment = comment.into();
        self
    }

    /// Also where the section `quiver` differs, which comes with the next start.
    pub fn restart(mut self) -> Self {
        self.request.restart = true;
        self
    }

    /// The steps that it would take.
    ///
    /// # Errors
    /// As [`Transaction::apply`], but for the role.
    pub async fn plan(&self) -> Result<PlanResponse, Error> {
        let request = self.router.request(self.request.clone());
        planned(self.router.configuration().plan_edit(request).await?.into_inner()).await
    }

    /// Makes the changes, or none of them.
    ///
    /// # Errors
    /// A place, a value, or what they make of the document is wrong, or a step was refused: the error's infos have the change and the
    /// place. Something has changed since the version. The role `configure` is missing.
    pub async fn apply(self) -> Result<EditResponse, Error> {
        let request = self.router.request(self.request);
        Ok(self.router.configuration().edit(request).await?.into_inner())
    }
}

impl Router {
    /// Changes of single places of what runs, to be made together.
    pub fn transaction(&self) -> Transaction {
        Transaction { router: self.clone(), request: EditRequest::default() }
    }

    /// What runs at a place, such as `interfaces.eth0`; the whole document at `""`.
    ///
    /// # Errors
    /// Nothing is there, or it has its default.
    pub async fn get(&self, place: &str) -> Result<Got, Error> {
        let request = GetRequest { at: place.into(), place: vec![] };
        let mut pieces = self.configuration().get(self.request(request)).await?.into_inner();
        let mut got = Got { json: String::new(), version: String::new() };
        while let Some(piece) = pieces.message().await? {
            got.json += &piece.piece;
            got.version += &piece.version;
        }
        Ok(got)
    }
}
