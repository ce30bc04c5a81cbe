//! MPLS tunnels: interfaces that stand for labelled paths.

use super::super::part::{MplsOp, MplsState};
use crate::interface::Pseudowire;
use crate::router::{Kind, Lookup, NewVirtual, Op, OpError, RoutePath, RouteTable, Router, Source, Target};
use packet::eth::MacAddr;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use tables::groups::GroupId;

/// The largest number of a tunnel.
pub const MAX_TUNNEL: u32 = 65_535;

/// What the operator wants of a tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct TunnelConfig {
    /// It carries frames (a pseudowire) and not IP packets.
    pub l2_only: bool,
    /// A control word stands in front of each frame.
    pub control_word: bool,
    /// Where it leads, each with labels.
    pub paths: Vec<RoutePath>,
}

/// A tunnel as it is.
pub(in crate::mpls) struct TunnelState {
    /// N of its name.
    instance: u32,
    config: TunnelConfig,
    /// The next-hop group of its paths, which it holds.
    group: GroupId,
}

/// All tunnels, by interface.
pub(in crate::mpls) type Tunnels = BTreeMap<u32, TunnelState>;

/// A tunnel as `show mpls tunnel` lists it.
#[derive(Clone, Copy, Debug)]
pub struct TunnelInfo<'r> {
    /// Its interface.
    pub interface: u32,
    /// What the operator wants of it.
    pub config: &'r TunnelConfig,
    /// The next-hop group of its paths.
    pub group: GroupId,
}

/// Its name: `mpls-tunnel0`.
pub(in crate::mpls) fn name(instance: u32) -> String {
    format!("mpls-tunnel{instance}")
}

fn all(router: &Router) -> impl Iterator<Item = (&u32, &TunnelState)> {
    router.state::<MplsState>().into_iter().flat_map(|m| &m.tunnels)
}

fn info<'r>((interface, t): (&'r u32, &'r TunnelState)) -> TunnelInfo<'r> {
    TunnelInfo { interface: *interface, config: &t.config, group: t.group }
}

/// All tunnels, by interface.
pub fn tunnels(router: &Router) -> impl Iterator<Item = TunnelInfo<'_>> {
    all(router).map(info)
}

/// The tunnel behind an interface.
pub fn tunnel(router: &Router, interface: u32) -> Option<TunnelInfo<'_>> {
    router.state::<MplsState>()?.tunnels.get_key_value(&interface).map(info)
}

/// The group of a tunnel for IP packets.
pub(in crate::mpls) fn ip_tunnel(router: &Router, interface: u32) -> Option<GroupId> {
    tunnel(router, interface).filter(|t| !t.config.l2_only).map(|t| t.group)
}

/// What workers see of a tunnel for frames.
pub(in crate::mpls) fn frame_tunnel(router: &Router, interface: u32) -> Option<Pseudowire> {
    let t = tunnel(router, interface).filter(|t| t.config.l2_only)?;
    Some(Pseudowire { group: t.group, control_word: t.config.control_word })
}

/// A tunnel over one of these interfaces, those themselves aside.
pub(in crate::mpls) fn tunnel_over(router: &Router, interfaces: &HashSet<u32>) -> Option<u32> {
    let listed: Vec<u32> = interfaces.iter().copied().collect();
    let over = router.nexthops().over(&listed);
    let mut others = tunnels(router).filter(|t| !interfaces.contains(&t.interface));
    others.find(|t| over.contains(&t.group)).map(|t| t.interface)
}

fn check_tunnel(router: &Router, name: &str, paths: &[RoutePath]) -> Result<(), OpError> {
    let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
    if paths.len() > tables::groups::MAX_BUCKETS {
        return fail(format!("{} paths, there may be 256", paths.len()));
    }
    for p in paths {
        if p.labels.pops() {
            return fail("a path needs labels that packets get: out-labels, other than 3".into());
        }
        if let Err(why) = check_tunnel_path(router, p) {
            return fail(why);
        }
    }
    Ok(())
}

fn check_tunnel_path(router: &Router, p: &RoutePath) -> Result<(), String> {
    if p.weight == 0 {
        return Err("a weight is 1 to 255".into());
    }
    p.labels.check()?;
    if p.lookup != Lookup::Own || p.address.is_none() && p.table.is_some() {
        return Err("a tunnel leads to a label switching router, not into a table".into());
    }
    if let Some(i) = p.interface {
        if router.interface(i).is_none_or(|i| i.kind == Kind::Local) {
            return Err("there is no such interface".into());
        }
        if p.table.is_some() {
            return Err("a path leads over an interface or into a table, not both".into());
        }
    }
    match (p.address, p.interface) {
        (Some(a), _) => router.check_neighbor(0, a, p),
        (None, Some(i)) if ip_tunnel(router, i).is_some() => Ok(()),
        _ => Err("labels are put on for a neighbor: name its address".into()),
    }
}

fn hold_tunnel_group(router: &mut Router, paths: &[RoutePath]) -> Result<GroupId, OpError> {
    let table = RouteTable { v6: false, id: 0 };
    let target = if paths.is_empty() { Target::Drop } else { Target::Paths(paths.to_vec()) };
    router.hold_group(Source::Static, table, target)
}

pub(in crate::mpls) fn create_tunnel(
    router: &mut Router,
    instance: Option<u32>,
    config: TunnelConfig,
) -> Result<Vec<Op>, OpError> {
    let free = |n: &u32| router.interface_index(&name(*n)).is_none();
    let n = match instance {
        Some(n) if n > MAX_TUNNEL => {
            return Err(OpError::new(format!(
                "{}: tunnels are mpls-tunnel0 to mpls-tunnel{MAX_TUNNEL}",
                name(n)
            )));
        }
        Some(n) => n,
        None => (0..=MAX_TUNNEL).find(free).ok_or_else(|| OpError::new("no number is free for a tunnel"))?,
    };
    let name = name(n);
    router.free_name(&name)?;
    if config.control_word && !config.l2_only {
        return Err(OpError::new(format!(
            "{name}: a control word stands in front of frames: use it with l2-only"
        )));
    }
    check_tunnel(router, &name, &config.paths)?;
    let group = hold_tunnel_group(router, &config.paths)?;
    let l2 = config.l2_only;
    let origin = MplsOp::CreateTunnel { instance: Some(n), config: config.clone() }.into();
    // Both ends of a pseudowire are stations of one link, and often have one number: no address follows from it.
    let random = if l2 { RandomState::new().hash_one(n) } else { n.into() };
    let [.., a, b, c] = random.to_be_bytes();
    let mac = MacAddr([0x02, 0xfe, 0x88, a, b, c]);
    let kind = Kind::MplsTunnel { l2 };
    let new = NewVirtual { name: name.clone(), kind, origin, mac, mtu: 1500 };
    let made = router.create_virtual(new, |router, index| {
        if let Some(m) = router.state_mut::<MplsState>() {
            m.tunnels.insert(index, TunnelState { instance: n, config, group });
        }
    });
    if let Err(e) = made {
        router.let_go(group);
        return Err(e);
    }
    Ok(vec![Op::Delete { name }])
}

pub(in crate::mpls) fn set_tunnel_paths(
    router: &mut Router,
    name: String,
    paths: Vec<RoutePath>,
) -> Result<Vec<Op>, OpError> {
    let index = router.index_of(&name)?;
    if tunnel(router, index).is_none() {
        return Err(OpError::new(format!("{name} is no MPLS tunnel")));
    }
    check_tunnel(router, &name, &paths)?;
    let group = hold_tunnel_group(router, &paths)?;
    let found = router.state_mut::<MplsState>().and_then(|m| m.tunnels.get_mut(&index));
    let Some(t) = found else { return Err(OpError::new("no such tunnel")) };
    let old = std::mem::replace(&mut t.group, group);
    let was = std::mem::replace(&mut t.config.paths, paths);
    let origin = MplsOp::CreateTunnel { instance: Some(t.instance), config: t.config.clone() };
    router.set_origin(index, origin.into());
    // Frames and routes go over to the new group before the old one goes.
    router.publish_interface(index);
    router.refresh_groups(&[index]);
    router.let_go(old);
    Ok(vec![MplsOp::SetTunnelPaths { name, paths: was }.into()])
}

/// The interface of a tunnel is gone.
pub(in crate::mpls) fn removed(router: &mut Router, index: u32) {
    if let Some(t) = router.state_mut::<MplsState>().and_then(|m| m.tunnels.remove(&index)) {
        router.let_go(t.group);
    }
}
