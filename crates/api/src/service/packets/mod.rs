//! Packets: captured and traced as they pass, put into the graph, handed to programs.

mod capture;
mod inject;
mod punt;
mod trace;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use command::Access;
use control::commands::Desk;
use tokio::sync::oneshot;
use tonic::{Code, Request, Response, Status, Streaming};

use super::Router;
use crate::limits::{Answers, Deadline};
use crate::v1::packets_server::Packets;
use crate::v1::{
    CaptureRequest, CaptureResponse, ErrorInfo, InjectRequest, InjectResponse, PuntRequest, PuntResponse,
    TraceRequest, TraceResponse,
};
use crate::{status, who};

/// Bytes of packets in a message, about, and how many.
const BYTES: usize = 128 << 10;
const AT_ONCE: usize = 256;
/// Messages that wait for the client.
const MESSAGES: usize = 2;

/// A field that is not right, with what would be.
fn wrong(code: Code, field: &str, rule: &str, value: &str, why: &str, right: &[&str]) -> Status {
    status::refusal(code, &format!("{field}: {why}"), vec![info(field, rule, value, why, right)])
}

/// The same as a detail.
fn info(field: &str, rule: &str, value: &str, why: &str, right: &[&str]) -> ErrorInfo {
    ErrorInfo {
        object: field.into(),
        rule: rule.into(),
        value: value.into(),
        message: why.into(),
        expected: right.iter().map(|r| (*r).to_owned()).collect(),
        ..ErrorInfo::default()
    }
}

/// The number of an interface that a request names, if it names one.
fn interface(desk: &Desk, name: &str) -> Result<Option<u32>, Status> {
    if name.is_empty() {
        return Ok(None);
    }
    let index = desk.router.borrow().interface_index(name);
    let why = || format!("there is no interface {name}");
    let unknown = || wrong(Code::FailedPrecondition, "interface", "unknown", name, &why(), &[]);
    index.map(Some).ok_or_else(unknown)
}

/// The names of interfaces, asked for anew after a while: they come, go and change.
#[derive(Default)]
struct Names {
    known: BTreeMap<u32, String>,
    since: Option<Instant>,
}

impl Names {
    const FRESH: Duration = Duration::from_secs(1);

    /// Finds out what is not known of these.
    async fn learn(&mut self, router: &Router, of: impl Iterator<Item = u32>) -> Result<(), Status> {
        if self.since.is_none_or(|s| s.elapsed() > Names::FRESH) {
            self.known.clear();
            self.since = Some(Instant::now());
        }
        let mut missing: Vec<u32> = of.filter(|i| !self.known.contains_key(i)).collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let asked = router.0.door.ask(async move |_, desk: Desk| {
            let router = desk.router.borrow();
            missing.into_iter().map(|i| (i, router.interface_name(i))).collect::<Vec<_>>()
        });
        self.known.extend(asked.await.map_err(status::closed)?);
        Ok(())
    }

    fn of(&self, interface: u32) -> String {
        self.known.get(&interface).cloned().unwrap_or_default()
    }
}

/// Whoever holds one end keeps what the control thread does for a stream: the other end tells that thread when it goes.
fn held() -> (oneshot::Sender<()>, oneshot::Receiver<()>) {
    oneshot::channel()
}

#[tonic::async_trait]
impl Packets for Router {
    type CaptureStream = Answers<CaptureResponse>;

    async fn capture(
        &self,
        request: Request<CaptureRequest>,
    ) -> Result<Response<Self::CaptureStream>, Status> {
        let caller = who::caller_with(&request, Access::Operate)?;
        let place = self.place(|s| &s.captures, &caller)?;
        let deadline = Deadline::of(&request);
        Ok(Response::new(capture::begin(self, place, request.into_inner(), deadline).await?))
    }

    type TraceStream = Answers<TraceResponse>;

    async fn trace(&self, request: Request<TraceRequest>) -> Result<Response<Self::TraceStream>, Status> {
        let caller = who::caller_with(&request, Access::Operate)?;
        let place = self.place(|s| &s.traces, &caller)?;
        let deadline = Deadline::of(&request);
        Ok(Response::new(trace::begin(self, place, request.into_inner(), deadline).await?))
    }

    type InjectStream = Answers<InjectResponse>;

    async fn inject(
        &self,
        request: Request<Streaming<InjectRequest>>,
    ) -> Result<Response<Self::InjectStream>, Status> {
        let caller = who::caller_with(&request, Access::Write)?;
        let place = self.place(|s| &s.injections, &caller)?;
        let deadline = Deadline::of(&request);
        Ok(Response::new(inject::begin(self, place, request.into_inner(), deadline)))
    }

    type PuntStream = Answers<PuntResponse>;

    async fn punt(&self, request: Request<PuntRequest>) -> Result<Response<Self::PuntStream>, Status> {
        let caller = who::caller_with(&request, Access::Write)?;
        let place = self.place(|s| &s.punts, &caller)?;
        let deadline = Deadline::of(&request);
        Ok(Response::new(punt::begin(self, &caller, place, request.into_inner(), deadline).await?))
    }
}
