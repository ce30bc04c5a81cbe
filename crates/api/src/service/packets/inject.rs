//! Packets of programs, put into the graph in the order in which they come.

use std::sync::Arc;

use control::commands::Desk;
use control::places::Place;
use net::programs::{Fault, Inject, MOST_PACKETS, NODES};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{MESSAGES, info};
use crate::limits::{self, Answers, Deadline};
use crate::service::Router;
use crate::status;
use crate::v1::{ErrorInfo, InjectRequest, InjectResponse};

/// Packets of a request, with all that are sent again.
const MOST: usize = 1_000_000;

/// Takes packets until the client ends; the answers.
pub(super) fn begin(
    router: &Router,
    place: Place,
    mut requests: Streaming<InjectRequest>,
    deadline: Deadline,
) -> Answers<InjectResponse> {
    let (to, answers) = mpsc::channel(MESSAGES);
    let router = router.clone();
    tokio::spawn(async move {
        let _place = place;
        loop {
            let answer = match requests.message().await {
                Ok(Some(request)) => one(&router, request, &to).await,
                Ok(None) => return,
                Err(e) => Err(e),
            };
            let ends = answer.is_err();
            if to.send(answer).await.is_err() || ends {
                return;
            }
        }
    });
    limits::until(deadline, ReceiverStream::new(answers))
}

fn told(fault: &Fault) -> ErrorInfo {
    let right: &[&str] = if fault.field == "node" { &NODES } else { &[] };
    info(&fault.field, fault.rule, &fault.value, &fault.message, right)
}

/// Does what a request asks for, as long as its client is there.
async fn one(
    router: &Router,
    request: InjectRequest,
    client: &mpsc::Sender<Result<InjectResponse, Status>>,
) -> Result<InjectResponse, Status> {
    let some = |name: String| Some(name).filter(|n| !n.is_empty());
    let inject = Arc::new(Inject {
        node: request.node,
        rx: some(request.rx_interface),
        tx: some(request.tx_interface),
        packets: request.packets.into(),
    });
    let times = request.count.max(1) as usize;
    let all = inject.packets.len().saturating_mul(times);
    let mut answer = InjectResponse::default();
    if all > MOST {
        let why = format!("{all} packets: at most {MOST}");
        answer.error = Some(info("count", "range", &times.to_string(), &why, &[]));
        return Ok(answer);
    }
    if let Err(fault) = inject.check() {
        answer.error = Some(told(&fault));
        return Ok(answer);
    }
    let mut sent = 0;
    while sent < all && !client.is_closed() {
        let now = (all - sent).min(MOST_PACKETS);
        let (done, taken) = oneshot::channel();
        let (inject, from) = (Arc::clone(&inject), sent % inject.packets.len());
        let begun = router.0.door.ask(async move |_, desk: Desk| {
            inject.send(&desk.router.borrow(), from, now, move |n| _ = done.send(n))
        });
        match begun.await.map_err(status::closed)? {
            Ok(put) => {
                answer.taken += taken.await.map_err(|_| Status::unavailable("the router ends"))?;
                sent += put;
            }
            Err(fault) => {
                answer.error = Some(told(&fault));
                break;
            }
        }
    }
    Ok(answer)
}
