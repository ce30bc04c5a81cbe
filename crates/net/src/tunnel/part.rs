//! Tunnels of a kind as a part of the control side.

use super::{AllInbound, Ends, Inbound, Outside, TunnelConfig, bits};
use crate::interface::{Fixup, MIDCHAIN_TX, Midchain, Varies};
use crate::plane::table::FibIndex;
use crate::protocols::LocalProtocol;
use crate::router::{
    BoxedOp, Feature as Told, Kind, NewVirtual, Op, OpError, Part, RouteTable, Router, Start, VirtualKind,
};
use command::Command;
use graph::arcs::Feature;
use packet::eth::MacAddr;
use packet::{IpProtocol, flow};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use tables::groups::GroupId;

/// What a kind of tunnels is.
pub(crate) trait TunnelKind: Send + Sync + Sized + 'static {
    /// What the operator wants of a tunnel.
    type Config: TunnelConfig<Kind = Self>;
    /// What the names of its interfaces begin with; a number follows.
    const STEM: &'static str;
    /// The largest of these numbers.
    const MAX_INSTANCE: u32;
    /// What operators call it: in the log, and in commands.
    const TITLE: &'static str;
    /// As before.
    const WORDS: &'static str;
    /// The protocol above IP.
    const PROTOCOL: IpProtocol;
    /// What is the same of two tunnels whose packets nobody tells apart.
    const SAME: &'static str;
    /// Why a tunnel whose interface would be of another kind is made anew.
    const ANEW: &'static str;

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
    /// What that depends on.
    fn varies(config: &Self::Config) -> Varies;
    /// Where the order of its packets is kept.
    fn last(config: &Self::Config) -> Option<Arc<AtomicU64>> {
        let _ = config;
        None
    }
    /// Who takes its packets.
    fn protocol() -> &'static LocalProtocol;
    /// The UDP port on which they come, where they do.
    fn port(config: &Self::Config) -> Option<u16> {
        let _ = config;
        None
    }
    /// What tells a tunnel to a multicast group the interface over which the group is; `None` for kinds without such tunnels.
    fn over(interface: Option<String>) -> Option<BoxedOp> {
        let _ = interface;
        None
    }
    /// Whether the other end takes packets of the second for those of the first.
    fn is_alike(from: &Self::Config, to: &Self::Config) -> bool;
    /// The ends, and what else is always said of it, in words.
    fn ends(config: &Self::Config) -> String;
    /// One with these ends and all else as it is by default.
    fn plain(config: &Self::Config) -> Self::Config;
    /// What of the second is not as in the first, in the words of the commands.
    fn options(from: &Self::Config, to: &Self::Config) -> Vec<String>;
    /// The command that makes a plain one, where one command does.
    fn create(config: &Self::Config) -> Option<String>;
    /// Its commands.
    fn commands() -> Vec<Command<Router>>;
}

/// A tunnel as it is.
pub struct Tunnel<C> {
    /// What the operator wants of it.
    pub config: C,
    midchain: Arc<Midchain>,
    ends: Vec<Ends>,
    over: Option<u32>,
}

impl<C> Tunnel<C> {
    /// The interface over which its multicast group is.
    pub fn over(&self) -> Option<u32> {
        self.over
    }

    /// The next-hop group that leads to the other end.
    pub fn group(&self) -> GroupId {
        self.midchain.group
    }
}

/// All tunnels of a kind.
pub(crate) struct State<K: TunnelKind> {
    tunnels: BTreeMap<u32, Tunnel<K::Config>>,
    inbound: AllInbound<K>,
    /// Interfaces over which groups are, with the tunnels to these groups.
    over: BTreeSet<(u32, u32)>,
    /// How many tunnels take packets over IPv6 or not, and on which port.
    listening: HashMap<(bool, Option<u16>), usize>,
}

/// All tunnels of a kind, by interface.
pub(crate) fn tunnels<K: TunnelKind>(router: &Router) -> impl Iterator<Item = (u32, &Tunnel<K::Config>)> {
    router.state::<State<K>>().into_iter().flat_map(|s| s.tunnels.iter().map(|(i, t)| (*i, t)))
}

/// The tunnel behind an interface, if it is of the kind.
pub(crate) fn tunnel<K: TunnelKind>(router: &Router, interface: u32) -> Option<&Tunnel<K::Config>> {
    router.state::<State<K>>()?.tunnels.get(&interface)
}

/// Tunnels of a kind whose groups are over an interface.
fn over<K: TunnelKind>(router: &Router, interface: u32) -> impl Iterator<Item = (u32, &Tunnel<K::Config>)> {
    let s = router.state::<State<K>>().into_iter();
    s.flat_map(move |s| {
        s.over
            .range((interface, 0)..=(interface, u32::MAX))
            .filter_map(|(_, i)| Some((*i, s.tunnels.get(i)?)))
    })
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
    let fib_index = router.fib_index_of(table)?;
    let ends = Ends::all(&outside, fib_index.0, K::id(config));
    let same = |s: &State<K>| ends.iter().find_map(|e| s.inbound.exactly(e)).map(|t| t.interface);
    if let Some(other) = router.state::<State<K>>().and_then(same) {
        let other = router.interface_name(other);
        return fail(format!("{other} has the same {}: packets would not tell them apart", K::SAME));
    }
    let group = router.hold_way_to(table, outside.remote, None)?;
    let kind = K::interface(config);
    let midchain = Arc::new(midchain::<K>(config, fib_index, group));
    // The ends differ, and so do their addresses on the link: they are the same after a restart.
    let id = K::id(config).unwrap_or(0);
    let (local, remote) = (bits(outside.local), bits(outside.remote));
    let own = flow::hash6(local, remote, (id ^ id >> 32) as u32, K::PROTOCOL, 0, instance);
    let [a, b, c, d] = own.to_be_bytes();
    let mac = MacAddr([0x02, 0xfe, a, b, c, d]);
    let new = NewVirtual { name: name.clone(), kind: Kind::Virtual(kind), origin, mac, mtu: K::mtu(config) };
    let last = K::last(config);
    let tunnel = Tunnel { config: config.clone(), midchain, ends, over: None };
    let made = router.create_virtual(new, |router, interface| {
        if let Some(s) = router.state_mut::<State<K>>() {
            let inbound = Inbound { interface, local, frames: kind.frames, last };
            tunnel.ends.iter().for_each(|e| s.inbound.set(*e, Some(inbound.clone())));
            s.tunnels.insert(interface, tunnel);
        }
        publish::<K>(router, config, true);
    });
    if let Err(e) = made {
        router.let_go(group);
        return Err(e);
    }
    Ok(vec![Op::Delete { name }])
}

/// Whether one tunnel can become the other while its interface stands.
pub(crate) fn turns<K: TunnelKind>(from: &K::Config, to: &K::Config) -> bool {
    std::ptr::eq(K::interface(from), K::interface(to))
}

/// A tunnel is another one from now on, which `origin` would make; answers what it was. What the interface has stays, its MTU and MAC
/// address as well. Each packet leaves as the old one has it or as the new one.
pub(crate) fn change<K: TunnelKind>(
    router: &mut Router,
    instance: u32,
    config: &K::Config,
    origin: Op,
) -> Result<K::Config, OpError> {
    let name = format!("{}{instance}", K::STEM);
    let fail = |why: &str| Err(OpError::new(format!("{name}: {why}")));
    let Some(index) = router.interface_index(&name) else { return fail("there is no such tunnel") };
    let Some(t) = tunnel::<K>(router, index) else { return fail("it is no tunnel of this kind") };
    if router.interface(index).is_some_and(|i| i.companion) && !router.changes_companions() {
        return fail("it is Linux's: change it there");
    }
    if let Err(why) = K::check(config) {
        return fail(&why);
    }
    let was = t.config.clone();
    if !turns::<K>(&was, config) {
        return fail(&format!("{}: make another one", K::ANEW));
    }
    let (over, old_ends, sequence) = (t.over, t.ends.clone(), Arc::clone(&t.midchain.sequence));
    let outside = K::outside(config);
    let table = RouteTable::of(outside.local, outside.table);
    let fib_index = router.fib_index_of(table)?;
    let ends = Ends::all(&outside, fib_index.0, K::id(config));
    let same = |s: &State<K>| ends.iter().find_map(|e| s.inbound.exactly(e)).map(|t| t.interface);
    if let Some(other) = router.state::<State<K>>().and_then(same).filter(|other| *other != index) {
        let other = router.interface_name(other);
        return fail(&format!("{other} has the same {}: packets would not tell them apart", K::SAME));
    }
    let group = router.hold_way_to(table, outside.remote, over)?;
    // Those who still see the old one number packets as well.
    let midchain = Arc::new(Midchain { sequence, ..midchain::<K>(config, fib_index, group) });
    let old = router.state_mut::<State<K>>().and_then(|s| {
        let t = s.tunnels.get_mut(&index)?;
        let known = old_ends.first().and_then(|e| s.inbound.exactly(e)).and_then(|i| i.last.clone());
        // Other ends begin to count anew.
        let known = known.filter(|_| old_ends == ends);
        let last = K::last(config).map(|new| known.unwrap_or(new));
        let frames = K::interface(config).frames;
        let inbound = Inbound { interface: index, local: bits(outside.local), frames, last };
        old_ends.iter().for_each(|e| s.inbound.set(*e, None));
        ends.iter().for_each(|e| s.inbound.set(*e, Some(inbound.clone())));
        t.config = config.clone();
        t.ends = ends;
        Some(std::mem::replace(&mut t.midchain, midchain).group)
    });
    publish::<K>(router, config, true);
    publish::<K>(router, &was, false);
    router.set_origin(index, origin);
    router.set_own_mtu(index, K::mtu(config));
    for i in [Some(index), over].into_iter().flatten() {
        router.publish_interface(i);
    }
    router.let_go(old.unwrap_or(group));
    Ok(was)
}

/// What goes around the packets of a tunnel.
fn midchain<K: TunnelKind>(config: &K::Config, fib_index: FibIndex, group: GroupId) -> Midchain {
    let outside = K::outside(config);
    Midchain {
        template: outside.template(K::PROTOCOL, &K::headers(config)).into(),
        remote: outside.remote,
        v6: outside.local.is_ipv6(),
        frames: K::interface(config).frames,
        group,
        table: fib_index.0,
        ttl: outside.ttl,
        dscp: outside.dscp,
        sums: K::sums(config),
        fixup: K::fixup,
        varies: K::varies(config),
        sequence: Arc::new(AtomicU32::new(0)),
    }
}

/// The group of a tunnel is over this interface from now on, which joins it; answers over which it was.
pub(crate) fn send_over<K: TunnelKind>(
    router: &mut Router,
    index: u32,
    over: Option<u32>,
) -> Result<Option<u32>, OpError> {
    let Some(t) = tunnel::<K>(router, index) else {
        let name = router.interface_name(index);
        return Err(OpError::new(format!("{name} is no tunnel that could be to a multicast group")));
    };
    let (outside, fib_index) = (K::outside(&t.config), FibIndex(t.midchain.table));
    check_over::<K>(router, index, outside.remote, over)
        .map_err(|why| OpError::new(format!("{}: {why}", router.interface_name(index))))?;
    let config = t.config.clone();
    let table = RouteTable::of(outside.local, outside.table);
    let group = router.hold_way_to(table, outside.remote, over)?;
    let new = Arc::new(midchain::<K>(&config, fib_index, group));
    let was = router.state_mut::<State<K>>().and_then(|s| {
        let t = s.tunnels.get_mut(&index)?;
        let was = (std::mem::replace(&mut t.midchain, new).group, std::mem::replace(&mut t.over, over));
        was.1.map(|was| s.over.remove(&(was, index)));
        over.map(|over| s.over.insert((over, index)));
        Some(was)
    });
    let (group, was) = was.unwrap_or((group, over));
    for i in [Some(index), was, over].into_iter().flatten() {
        router.publish_interface(i);
    }
    router.let_go(group);
    Ok(was)
}

/// Whether the group of a tunnel can be over this interface, and why not.
fn check_over<K: TunnelKind>(
    router: &Router,
    index: u32,
    group: IpAddr,
    over: Option<u32>,
) -> Result<(), String> {
    let Some(over) = over.and_then(|over| router.interface(over)) else { return Ok(()) };
    if !group.is_multicast() {
        return Err(format!(
            "{group} is no multicast group: routes lead to it, not an interface that is named"
        ));
    }
    if over.is_without_stations() || over.kind == Kind::Local {
        return Err(format!("no multicast group is over {}: name an interface with stations", over.name));
    }
    // The interfaces that its packets pass, one within the other.
    let below = |i: u32| tunnel::<K>(router, i).and_then(|t| t.over).and_then(|o| router.interface(o));
    let mut passed = std::iter::successors(Some(over), |i| below(i.hw()));
    if passed.any(|i| i.hw() == index) {
        return Err(format!("its packets would go through itself over {}", over.name));
    }
    Ok(())
}

/// Shows workers the tunnels from which packets come, after one is there, or gone.
fn publish<K: TunnelKind>(router: &mut Router, config: &K::Config, there: bool) {
    let (v6, port) = (K::outside(config).local.is_ipv6(), K::port(config));
    let Some(s) = router.state_mut::<State<K>>() else { return };
    let users = s.listening.entry((v6, port)).or_default();
    *users = if there { *users + 1 } else { users.saturating_sub(1) };
    let taken = *users != 0;
    if !taken {
        s.listening.remove(&(v6, port));
    }
    let inbound = s.inbound.clone();
    match port {
        Some(port) => router.take_port(K::protocol(), v6, port, taken),
        None => router.take_protocol(K::protocol(), v6, taken),
    }
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
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(State::<K> {
            tunnels: BTreeMap::new(),
            inbound: AllInbound::default(),
            over: BTreeSet::new(),
            listening: HashMap::new(),
        })
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        let over = tunnel::<K>(router, index).and_then(|t| t.over);
        over.and_then(|over| K::over(Some(router.interface_name(over)))).into_iter().collect()
    }

    fn groups(&self, router: &Router, index: u32) -> Vec<IpAddr> {
        over::<K>(router, index).map(|(_, t)| t.midchain.remote).collect()
    }

    fn needs(&self, router: &Router, gone: &HashSet<u32>) -> Option<String> {
        let (over, (tunnel, t)) = gone.iter().find_map(|g| Some((g, over::<K>(router, *g).next()?)))?;
        let (over, tunnel, group) =
            (router.interface_name(*over), router.interface_name(tunnel), t.midchain.remote);
        Some(format!("{tunnel} sends to {group} over {over}: take it out first (delete interface {tunnel})"))
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let with_groups = tunnels::<K>(router).filter(|(_, t)| t.over.is_some());
        let release = |(index, _)| {
            Some(Op::SetFeature { name: router.interface_name(index), feature: Told::Part(K::over(None)?) })
        };
        with_groups.filter_map(release).collect()
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

    fn uses_table(&self, router: &Router, v6: bool, fib_index: FibIndex) -> Option<String> {
        let used = |t: &Tunnel<K::Config>| t.midchain.v6 == v6 && t.midchain.table == fib_index.0;
        let (index, _) = tunnels::<K>(router).find(|(_, t)| used(t))?;
        let name = router.interface_name(index);
        Some(format!("the ends of {name} are in it (delete interface {name})"))
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let gone = router.state_mut::<State<K>>().and_then(|s| {
            let t = s.tunnels.remove(&index)?;
            t.ends.iter().for_each(|e| s.inbound.set(*e, None));
            t.over.map(|over| s.over.remove(&(over, index)));
            Some(t)
        });
        if let Some(t) = gone {
            publish::<K>(router, &t.config, false);
            router.let_go(t.midchain.group);
            if let Some(over) = t.over {
                router.publish_interface(over);
            }
        }
    }
}
