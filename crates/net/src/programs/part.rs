//! Who has asked for which packets, as a part of the control side.

use crate::background::{self, Answer, Promise};
use crate::protocols::Takers;
use crate::punt::{Asked, Programs, Punt};
use crate::router::{Part, Router, Start};
use packet::IpProtocol;
use packet::eth::EtherType;
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Streams of packets at once, as whoever registers them sees to: each has a queue of its own.
pub const MOST_STREAMS: usize = 16;
/// Filters of a stream.
const MOST_FILTERS: usize = 64;
/// Numbers of streams.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A kind of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Frames of this EtherType.
    Ethertype(u16),
    /// IP packets of this protocol.
    Protocol(u8),
    /// Datagrams to this port.
    Udp(u16),
    /// Segments to this port.
    Tcp(u16),
}

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// A kind of packets.
    pub what: What,
    /// On this interface alone.
    pub interface: Option<String>,
    /// Of this version of IP alone.
    pub v6: Option<bool>,
}

/// A program's packets: they come through the queue until this number is taken back, or `gone` is ready.
pub struct Registration {
    /// For [`unregister`].
    pub number: u64,
    /// The packets.
    pub queue: Punt,
    /// Ready when no packet comes any more: an interface of a filter is gone.
    pub gone: Answer<()>,
}

struct Registered {
    number: u64,
    who: String,
    queue: Punt,
    wanted: Vec<(Asked, Option<u32>)>,
    /// Dropped with it.
    _gone: Promise<()>,
}

/// All streams.
#[derive(Default)]
struct All(Vec<Registered>);

/// Those of IEEE 802.3, IP, ARP, MPLS and tags, which nodes take.
fn refused_type(ethertype: EtherType) -> Option<String> {
    let taken = [EtherType::IPV4, EtherType::IPV6, EtherType::ARP, EtherType::MPLS];
    if ethertype < EtherType::MIN {
        return Some(format!(
            "{:#06x} is a length: EtherTypes begin at {:#06x}",
            ethertype.0,
            EtherType::MIN.0
        ));
    }
    if ethertype.is_vlan() {
        return Some(format!("{:#06x} is a tag: say what is behind it", ethertype.0));
    }
    taken.contains(&ethertype).then(|| format!("the router itself takes frames of {:#06x}", ethertype.0))
}

/// Why packets of a protocol cannot be a program's.
fn refused_protocol(protocol: IpProtocol) -> Option<String> {
    let say = |why: &str| Some(format!("{} is {}: {why}", protocol.0, protocol.name().unwrap_or("taken")));
    match protocol {
        IpProtocol::TCP => say("ask for a port, tcp_port"),
        IpProtocol::UDP => say("ask for a port, udp_port"),
        IpProtocol::ICMP | IpProtocol::ICMPV6 | IpProtocol::IGMP => say("the router itself speaks it"),
        IpProtocol::HOP_BY_HOP
        | IpProtocol::ROUTING
        | IpProtocol::FRAGMENT
        | IpProtocol::DEST_OPTIONS
        | IpProtocol::NO_NEXT => say("no protocol above IP, but a header of IPv6"),
        _ => None,
    }
}

/// The node that takes packets with a bit of an arc.
fn taker(router: &Router, v6: bool, bit: u32) -> Option<String> {
    if bit == 0 {
        return None;
    }
    let name = if v6 { "ip6-protocol" } else { "ip4-protocol" };
    let arc = router.graphs().first()?.wiring.arcs.iter().find(|a| a.name == name);
    let node = arc.and_then(|a| a.features.get(bit.trailing_zeros() as usize)).copied();
    Some(node.unwrap_or("a feature").to_owned())
}

/// What workers are to find for a filter.
fn asked(router: &Router, filter: &Filter) -> Result<Vec<Asked>, String> {
    let takers = router.in_place::<Takers>();
    let families = match filter.v6 {
        Some(v6) => vec![v6],
        None => vec![false, true],
    };
    let by_family = |make: &dyn Fn(bool) -> Asked, bit: &dyn Fn(bool) -> u32| {
        for v6 in &families {
            if let Some(node) = taker(router, *v6, bit(*v6)) {
                return Err(format!("{node} has it"));
            }
        }
        Ok(families.iter().map(|v6| make(*v6)).collect())
    };
    match filter.what {
        What::Ethertype(_) if filter.v6.is_some() => Err("an EtherType is of no version of IP".into()),
        What::Ethertype(t) => match refused_type(EtherType(t)) {
            Some(why) => Err(why),
            None => Ok(vec![Asked::frame(EtherType(t))]),
        },
        What::Protocol(p) => match refused_protocol(IpProtocol(p)) {
            Some(why) => Err(why),
            None => by_family(&|v6| Asked::protocol(v6, IpProtocol(p)), &|v6| takers.of(v6, IpProtocol(p))),
        },
        What::Udp(0) | What::Tcp(0) => Err("port 0 is none".into()),
        What::Udp(port) => by_family(&|v6| Asked::udp(v6, port), &|v6| takers.of_port(v6, port)),
        What::Tcp(port) => by_family(&|v6| Asked::tcp(v6, port), &|_| 0),
    }
}

/// Has packets go to a program, `who`, from now on.
///
/// # Errors
/// The place of the filter that cannot be, if it is one, and why: nothing was registered.
pub fn register(
    router: &mut Router,
    who: String,
    filters: &[Filter],
) -> Result<Registration, (Option<usize>, String)> {
    if filters.is_empty() || filters.len() > MOST_FILTERS {
        return Err((None, format!("{} filters: at least 1, at most {MOST_FILTERS}", filters.len())));
    }
    let others = router.state::<All>().map_or(&[][..], |all| &all.0);
    let mut wanted: Vec<(Asked, Option<u32>)> = vec![];
    for (n, filter) in filters.iter().enumerate() {
        let refused = |why: String| (Some(n), why);
        let named = filter.interface.as_deref().map(|name| router.named(name).map(|i| i.index));
        let interface = named.transpose().map_err(|e| refused(e.to_string()))?;
        for what in asked(router, filter).map_err(refused)? {
            let same = |(other, on): &(Asked, Option<u32>)| {
                *other == what && (on.is_none() || interface.is_none() || *on == interface)
            };
            if wanted.iter().any(same) {
                return Err(refused("another filter of the request takes these packets".into()));
            }
            if let Some(other) = others.iter().find(|o| o.wanted.iter().any(same)) {
                return Err(refused(format!("{} has it, over the API", other.who)));
            }
            wanted.push((what, interface));
        }
    }
    let queue = Punt::new().map_err(|e| (None, format!("no queue: {e}")))?;
    let (promise, gone) = background::promise();
    let number = NEXT.fetch_add(1, Relaxed);
    let registered = Registered { number, who, queue: queue.clone(), wanted, _gone: promise };
    change(router, |all| all.push(registered));
    Ok(Registration { number, queue, gone })
}

/// Ends that.
pub fn unregister(router: &mut Router, number: u64) {
    change(router, |all| all.retain(|r| r.number != number));
}

fn change(router: &mut Router, what: impl FnOnce(&mut Vec<Registered>)) {
    let Some(all) = router.state_mut::<All>() else { return };
    what(&mut all.0);
    let programs = Programs::new(all.0.iter().map(|r| (&r.queue, &r.wanted[..])));
    router.publish(programs);
}

/// The part.
pub(crate) struct ProgramsPart;

impl Part for ProgramsPart {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(All::default())
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let on = |r: &Registered| r.wanted.iter().any(|w| w.1 == Some(index));
        if router.state::<All>().is_some_and(|all| all.0.iter().any(on)) {
            change(router, |all| all.retain(|r| !on(r)));
        }
    }
}
