//! Tunnels of a kind as a part of the control side.

use super::{AllInbound, Ends, Inbound, Outside};
use crate::interface::{Fixup, MIDCHAIN_TX, Midchain};
use crate::router::{NewVirtual, Op, OpError, Part, RouteTable, Router, VirtualKind};
use command::Command;
use graph::arcs::Feature;
use packet::eth::MacAddr;
use packet::{IpProtocol, flow};
use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What a kind of tunnels is.
pub(crate) trait TunnelKind: Send + Sync + Sized + 'static {
    /// What the operator wants of a tunnel.
    type Config: Clone + Send + Sync + 'static;
    /// What the names of its interfaces begin with; a number follows.
    const STEM: &'static str;
    /// The protocol above IP.
    const PROTOCOL: IpProtocol;
    /// What is the same of two tunnels whose packets nobody tells apart.
    const SAME: &'static str;

    /// Whether it can be, and why not.
    fn check(config: &Self::Config) -> Result<(), String>;
    /// What the IP header outside says.
    fn outside(config: &Self::Config) -> Outside;
    /// What tells tunnels between two ends apart.
    fn id(config: &Self::Config) -> Option<u64>;
    /// The kind of its interface.
    fn interface(config: &Self::Config) -> &'static VirtualKind;
    /// The headers behind that of IP, as in [`Midchain::template`].
    fn headers(config: &Self::Config) -> Vec<u8>;
    /// The largest IP packet inside, unless the operator says otherwise, bytes.
    fn mtu(config: &Self::Config) -> u16;
    /// Whether the packets' checksums cover what is inside.
    fn sums(config: &Self::Config) -> bool;
    /// Completes the headers behind that of IP.
    fn fixup(m: &Midchain, f: Fixup<'_>);
    /// Where the order of its packets is kept.
    fn last(config: &Self::Config) -> Option<Arc<AtomicU64>> {
        let _ = config;
        None
    }
    /// Has packets of these tunnels brought to its nodes, and those of one that is gone no more.
    fn listen(router: &Router, all: &State<Self>, gone: Option<&Self::Config>);
    /// Its commands.
    fn commands() -> Vec<Command<Router>>;
}

/// A tunnel as it is.
pub struct Tunnel<C> {
    /// What the operator wants of it.
    pub config: C,
    midchain: Arc<Midchain>,
    ends: Ends,
}

impl<C> Tunnel<C> {
    /// The next-hop group that leads to the other end.
    pub fn group(&self) -> u32 {
        self.midchain.group
    }
}

/// All tunnels of a kind.
pub(crate) struct State<K: TunnelKind> {
    tunnels: BTreeMap<u32, Tunnel<K::Config>>,
    inbound: AllInbound<K>,
}

impl<K: TunnelKind> State<K> {
    /// What the operator wants of each.
    pub fn configs(&self) -> impl Iterator<Item = &K::Config> {
        self.tunnels.values().map(|t| &t.config)
    }
}

/// All tunnels of a kind, by interface.
pub(crate) fn tunnels<K: TunnelKind>(router: &Router) -> impl Iterator<Item = (u32, &Tunnel<K::Config>)> {
    router.state::<State<K>>().into_iter().flat_map(|s| s.tunnels.iter().map(|(i, t)| (*i, t)))
}

/// The tunnel behind an interface, if it is of the kind.
pub(crate) fn tunnel<K: TunnelKind>(router: &Router, interface: u32) -> Option<&Tunnel<K::Config>> {
    router.state::<State<K>>()?.tunnels.get(&interface)
}

/// Makes a tunnel, which `origin` asks for.
pub(crate) fn create<K: TunnelKind>(
    router: &mut Router,
    instance: u32,
    config: &K::Config,
    origin: Op,
) -> Result<Vec<Op>, OpError> {
    let name = format!("{}{instance}", K::STEM);
    let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
    if let Err(why) = K::check(config) {
        return fail(why);
    }
    let outside = K::outside(config);
    let table = RouteTable::of(outside.local, outside.table);
    let place = router.place_of(table)?;
    let ends = Ends::new(outside.local, outside.remote, place, K::id(config));
    if let Some(other) = router.state::<State<K>>().and_then(|s| s.inbound.get(&ends)) {
        let other = router.interface_name(other.interface);
        return fail(format!("{other} has the same {}: packets would not tell them apart", K::SAME));
    }
    let group = router.hold_way_to(table, outside.remote)?;
    let kind = K::interface(config);
    let midchain = Midchain {
        template: outside.template(K::PROTOCOL, &K::headers(config)).into(),
        remote: outside.remote,
        v6: outside.local.is_ipv6(),
        frames: kind.frames,
        group,
        table: place,
        ttl: outside.ttl,
        dscp: outside.dscp,
        sums: K::sums(config),
        fixup: K::fixup,
        sequence: AtomicU32::new(0),
    };
    // The ends differ, and so do their addresses on the link: they are the same after a restart.
    let id = ends.id.unwrap_or(0);
    let own = flow::hash6(ends.local, ends.remote, (id ^ id >> 32) as u32, K::PROTOCOL, 0, instance);
    let [a, b, c, d] = own.to_be_bytes();
    let mac = MacAddr([0x02, 0xfe, a, b, c, d]);
    let new = NewVirtual { name: name.clone(), kind, origin, mac, mtu: K::mtu(config) };
    let last = K::last(config);
    let tunnel = Tunnel { config: config.clone(), midchain: Arc::new(midchain), ends };
    let made = router.create_virtual(new, |router, interface| {
        if let Some(s) = router.state_mut::<State<K>>() {
            s.inbound.by_ends.insert(ends, Inbound { interface, frames: kind.frames, last });
            s.tunnels.insert(interface, tunnel);
        }
        publish::<K>(router, None);
    });
    if let Err(e) = made {
        router.let_go(group);
        return Err(e);
    }
    Ok(vec![Op::Delete { name }])
}

/// Shows workers the tunnels from which packets come, after one is gone.
fn publish<K: TunnelKind>(router: &mut Router, gone: Option<&K::Config>) {
    let Some(all) = router.state::<State<K>>() else { return };
    K::listen(router, all, gone);
    let inbound = all.inbound.clone();
    router.publish(inbound);
}

/// The part.
pub struct TunnelPart<K>(PhantomData<fn() -> K>);

impl<K> TunnelPart<K> {
    pub(crate) const fn new() -> Self {
        TunnelPart(PhantomData)
    }
}

impl<K: TunnelKind> Part for TunnelPart<K> {
    fn state(&self, _seed: u64) -> Box<dyn Any + Send> {
        Box::new(State::<K> { tunnels: BTreeMap::new(), inbound: AllInbound::default() })
    }

    fn commands(&self) -> Vec<Command<Router>> {
        K::commands()
    }

    fn midchain(&self, router: &Router, index: u32) -> Option<Arc<Midchain>> {
        tunnel::<K>(router, index).map(|t| Arc::clone(&t.midchain))
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        tunnel::<K>(router, index).map(|_| &MIDCHAIN_TX).into_iter().collect()
    }

    fn uses_table(&self, router: &Router, v6: bool, place: u32) -> Option<String> {
        let used = |t: &Tunnel<K::Config>| t.midchain.v6 == v6 && t.midchain.table == place;
        let (index, _) = tunnels::<K>(router).find(|(_, t)| used(t))?;
        let name = router.interface_name(index);
        Some(format!("the ends of {name} are in it (delete interface {name})"))
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let gone = router.state_mut::<State<K>>().and_then(|s| {
            let t = s.tunnels.remove(&index)?;
            s.inbound.by_ends.remove(&t.ends);
            Some(t)
        });
        if let Some(t) = gone {
            publish::<K>(router, Some(&t.config));
            router.let_go(t.midchain.group);
        }
    }
}
