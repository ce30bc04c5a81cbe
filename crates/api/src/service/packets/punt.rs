//! Packets for programs: workers hand them over through a queue of the stream's own, of which a task of the API's thread makes messages.
//! The control thread begins and ends it, and has nothing to do with packets.

use command::Caller;
use control::commands::Desk;
use control::ctl;
use control::places::Place;
use net::programs::{Filter, Registration, What};
use net::punt::{Message, Punt, Punted};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::{AT_ONCE, BYTES, MESSAGES, Names, held, wrong};
use crate::limits::{self, Answers, Deadline};
use crate::service::Router;
use crate::status;
use crate::v1::{PuntRequest, PuntResponse, punt_request, punt_response};

/// A filter as it came.
fn filter(n: usize, filter: punt_request::Filter) -> Result<Filter, Status> {
    let field = |name: &str| format!("filters[{n}].{name}");
    let out_of_range = |name: &str, value: u32, most: u32| {
        let why = format!("{value} is out of range: at most {most}");
        wrong(Code::InvalidArgument, &field(name), "range", &value.to_string(), &why, &[])
    };
    let short =
        |name, value: u32| u16::try_from(value).map_err(|_| out_of_range(name, value, u16::MAX.into()));
    let what = match filter.what {
        Some(punt_request::filter::What::Ethertype(t)) => What::Ethertype(short("ethertype", t)?),
        Some(punt_request::filter::What::UdpPort(p)) => What::Udp(short("udp_port", p)?),
        Some(punt_request::filter::What::TcpPort(p)) => What::Tcp(short("tcp_port", p)?),
        Some(punt_request::filter::What::IpProtocol(p)) => {
            let number = u8::try_from(p).map_err(|_| out_of_range("ip_protocol", p, u8::MAX.into()))?;
            What::Protocol(number)
        }
        None => {
            let right = ["ethertype", "ip_protocol", "udp_port", "tcp_port"];
            let why = "it does not say which packets";
            return Err(wrong(Code::InvalidArgument, &field("what"), "missing", "", why, &right));
        }
    };
    let v6 = match filter.ip_version {
        0 => None,
        4 => Some(false),
        6 => Some(true),
        other => {
            let why = format!("{other} is no version of IP");
            let (field, value) = (field("ip_version"), other.to_string());
            return Err(wrong(Code::InvalidArgument, &field, "unknown", &value, &why, &["4", "6"]));
        }
    };
    Ok(Filter { what, interface: Some(filter.interface).filter(|i| !i.is_empty()), v6 })
}

/// Begins to hand packets over; the messages.
pub(super) async fn begin(
    router: &Router,
    caller: &Caller,
    place: Place,
    request: PuntRequest,
    deadline: Deadline,
) -> Result<Answers<PuntResponse>, Status> {
    let filters = request.filters.into_iter().enumerate();
    let filters = filters.map(|(n, f)| filter(n, f)).collect::<Result<Vec<_>, _>>()?;
    let who = ctl::author(Some(caller));
    let who = if who.name.is_empty() { format!("user {}", who.user) } else { who.name };
    let (hold, released) = held();
    let begun = router.0.door.ask(async move |_, desk: Desk| {
        let registered = net::programs::register(&mut desk.router.borrow_mut(), who, &filters);
        let registration = registered.map_err(|(n, why)| {
            let field = n.map_or("filters".into(), |n| format!("filters[{n}]"));
            wrong(Code::FailedPrecondition, &field, "refused", "", &why, &[])
        })?;
        let number = registration.number;
        tokio::task::spawn_local(async move {
            let _ = released.await;
            net::programs::unregister(&mut desk.router.borrow_mut(), number);
            drop(place);
        });
        Ok::<_, Status>(registration)
    });
    let Registration { queue, gone, .. } = begun.await.map_err(status::closed)??;
    let (to, messages) = mpsc::channel(MESSAGES);
    let router = router.clone();
    tokio::spawn(async move {
        let _held = hold;
        let told = tokio::select! {
            told = tell(&router, &queue, &to) => told,
            _ = gone => Err(Status::aborted("the interface of a filter is gone")),
        };
        if let Err(e) = told {
            let _ = to.send(Err(e)).await;
        }
    });
    Ok(limits::until(deadline, ReceiverStream::new(messages)))
}

async fn tell(
    router: &Router,
    queue: &Punt,
    to: &mpsc::Sender<Result<PuntResponse, Status>>,
) -> Result<(), Status> {
    let internal = |e: std::io::Error| Status::internal(e.to_string());
    let wake = queue.fd().try_clone_to_owned().and_then(control::fd::watch).map_err(internal)?;
    let (mut names, mut lost) = (Names::default(), 0);
    let mut message = PuntResponse::default();
    loop {
        if to.send(Ok(message)).await.is_err() {
            return Ok(());
        }
        message = loop {
            let packets = some(queue);
            let now = queue.lost();
            if !packets.is_empty() || now != lost {
                names.learn(router, packets.iter().map(|p| p.interface)).await?;
                let gap = now - std::mem::replace(&mut lost, now);
                let packets = packets.into_iter().map(|p| punt_response::Packet {
                    network_offset: p.l3.into(),
                    interface: names.of(p.interface),
                    data: p.bytes,
                });
                break PuntResponse { packets: packets.collect(), lost: gap };
            }
            let mut ready = tokio::select! {
                ready = wake.readable() => ready.map_err(internal)?,
                () = to.closed() => return Ok(()),
            };
            // In this order, a packet that comes meanwhile wakes again.
            ready.clear_ready();
            queue.acknowledge();
        };
    }
}

/// The next packets.
fn some(queue: &Punt) -> Vec<Punted> {
    let (mut packets, mut bytes) = (vec![], 0);
    while packets.len() < AT_ONCE && bytes < BYTES {
        match queue.pop() {
            Some(Message::Packet(packet)) => {
                bytes += packet.bytes.len();
                packets.push(packet);
            }
            Some(Message::Request(_)) => {}
            None => break,
        }
    }
    packets
}
