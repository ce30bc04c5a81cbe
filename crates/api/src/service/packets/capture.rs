//! Captures that are followed: workers copy packets into a ring, of which a task of the API's thread makes messages. The control
//! thread begins and ends it, and has nothing to do with packets.

use std::sync::Arc;
use std::time::Duration;

use control::commands::Desk;
use control::places::Place;
use net::pcap::{CaptureConfig, CaptureRecord, Direction, MAX_SNAP, Ring};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::{AT_ONCE, BYTES, MESSAGES, Names, held, interface, wrong};
use crate::limits::{self, Answers, Deadline};
use crate::service::Router;
use crate::status;
use crate::v1::{CaptureRequest, CaptureResponse, PacketDirection, capture_response};

/// Memory of a capture, bytes, and the most packets that it keeps for a client which has not taken them.
const MEMORY: usize = 16 << 20;
const MOST: usize = 16_384;
/// The least bytes of a packet.
const LEAST: usize = 14;
/// A ring in which nothing was is looked at again then: workers need not tell.
const PAUSE: Duration = Duration::from_millis(4);

fn direction(direction: Direction) -> PacketDirection {
    match direction {
        Direction::Rx => PacketDirection::Rx,
        Direction::Tx => PacketDirection::Tx,
        Direction::Drop => PacketDirection::Drop,
    }
}

/// What is asked for, but for the interface.
fn config(request: &CaptureRequest) -> Result<CaptureConfig, Status> {
    let snap = match request.snap_length as usize {
        0 => MAX_SNAP,
        n @ LEAST..=MAX_SNAP => n,
        n => {
            let why = format!("{n} is out of range: {LEAST} to {MAX_SNAP}, or 0 for {MAX_SNAP}");
            return Err(wrong(Code::InvalidArgument, "snap_length", "range", &n.to_string(), &why, &[]));
        }
    };
    let all = request.directions.is_empty();
    let (mut rx, mut tx, mut drop) = (all, all, all);
    for said in &request.directions {
        match PacketDirection::try_from(*said) {
            Ok(PacketDirection::Rx) => rx = true,
            Ok(PacketDirection::Tx) => tx = true,
            Ok(PacketDirection::Drop) => drop = true,
            Ok(PacketDirection::Unspecified) | Err(_) => {
                let (why, right) = (format!("{said} is no direction"), ["RX", "TX", "DROP"]);
                return Err(wrong(
                    Code::InvalidArgument,
                    "directions",
                    "unknown",
                    &said.to_string(),
                    &why,
                    &right,
                ));
            }
        }
    }
    Ok(CaptureConfig { max: (MEMORY / snap).min(MOST), snap, rx, tx, drop, interface: None })
}

/// Begins a capture; its messages.
pub(super) async fn begin(
    router: &Router,
    place: Place,
    request: CaptureRequest,
    deadline: Deadline,
) -> Result<Answers<CaptureResponse>, Status> {
    let mut config = config(&request)?;
    let name = request.interface;
    let (hold, released) = held();
    let ring = router.0.door.ask(async move |_, desk: Desk| {
        config.interface = interface(&desk, &name)?;
        // So much memory is not made in no time.
        let made = net::background::run(move || Ring::new(config)).await;
        let ring = made.map_err(|e| Status::internal(e.to_string()))?;
        let ring = ring.map_err(|e| Status::failed_precondition(e.to_string()))?;
        // The interface may have gone meanwhile, and its number be another's.
        if interface(&desk, &name)? != config.interface {
            let why = format!("the interface {name} has gone");
            return Err(wrong(Code::FailedPrecondition, "interface", "unknown", &name, &why, &[]));
        }
        let begun = net::pcap::follow(&mut desk.router.borrow_mut(), ring);
        let ring = begun.map_err(Status::failed_precondition)?;
        let kept = Arc::clone(&ring);
        tokio::task::spawn_local(async move {
            let _ = released.await;
            net::pcap::unfollow(&mut desk.router.borrow_mut(), &kept);
            drop(place);
        });
        Ok(ring)
    });
    let ring = ring.await.map_err(status::closed)??;
    let (to, messages) = mpsc::channel(MESSAGES);
    let router = router.clone();
    tokio::spawn(async move {
        let _held = hold;
        let left = if request.count == 0 { u64::MAX } else { request.count };
        let mut reader = Reader { ring, names: Names::default(), ahead: None, told: 0, left };
        if let Err(e) = reader.tell(&router, &to).await {
            let _ = to.send(Err(e)).await;
        }
    });
    Ok(limits::until(deadline, ReceiverStream::new(messages)))
}

/// What a client has of a ring.
struct Reader {
    ring: Arc<Ring>,
    names: Names,
    /// Taken, and not told: packets were lost before it.
    ahead: Option<(u64, CaptureRecord)>,
    /// Lost packets that were told.
    told: u64,
    /// Packets that are to be told.
    left: u64,
}

impl Reader {
    async fn tell(
        &mut self,
        router: &Router,
        to: &mpsc::Sender<Result<CaptureResponse, Status>>,
    ) -> Result<(), Status> {
        let mut message = CaptureResponse::default();
        loop {
            if to.send(Ok(message)).await.is_err() || self.left == 0 {
                return Ok(());
            }
            message = loop {
                // Before the packets: none comes behind the end.
                let ended = self.ring.is_ended();
                let (packets, lost) = self.some();
                if !packets.is_empty() || lost != 0 {
                    break self.message(router, packets, lost).await?;
                }
                if ended {
                    return Err(Status::aborted("the interface is gone"));
                }
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    () = to.closed() => return Ok(()),
                }
            };
        }
    }

    /// The next packets, up to where some are lost, and how many.
    fn some(&mut self) -> (Vec<CaptureRecord>, u64) {
        let (mut packets, mut bytes) = (vec![], 0);
        let lost_so_far = self.ring.lost();
        while packets.len() < AT_ONCE && bytes < BYTES && self.left != 0 {
            let Some((lost, packet)) = self.ahead.take().or_else(|| self.ring.take()) else {
                // Those were lost behind all that there was, or a packet would have said so.
                let gap = lost_so_far.saturating_sub(self.told);
                self.told += gap;
                return (packets, gap);
            };
            if lost > self.told {
                let gap = lost - std::mem::replace(&mut self.told, lost);
                self.ahead = Some((lost, packet));
                return (packets, gap);
            }
            bytes += packet.bytes.len();
            self.left -= 1;
            packets.push(packet);
        }
        (packets, 0)
    }

    async fn message(
        &mut self,
        router: &Router,
        packets: Vec<CaptureRecord>,
        lost: u64,
    ) -> Result<CaptureResponse, Status> {
        self.names.learn(router, packets.iter().map(|p| p.interface)).await?;
        let wall = net::pcap::wall_offset_ns();
        let packets = packets.into_iter().map(|p| capture_response::Packet {
            length: p.wire,
            time_ns: i64::try_from(p.time_ns.wrapping_add(wall)).unwrap_or(i64::MAX),
            direction: direction(p.direction).into(),
            interface: self.names.of(p.interface),
            data: p.bytes,
        });
        Ok(CaptureResponse { packets: packets.collect(), lost })
    }
}
