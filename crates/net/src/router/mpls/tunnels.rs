//! MPLS tunnels: interfaces that stand for labelled paths.

use super::super::interfaces::NewInterface;
use super::super::nexthops::{Lookup, Source};
use super::super::{Kind, Op, OpError, RoutePath, Router, Target};
use super::MplsOp;
use crate::interface::Pseudowire;
use packet::eth::MacAddr;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

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
pub(crate) struct TunnelState {
    config: TunnelConfig,
    /// The next-hop group of its paths, which it holds.
    group: u32,
}

/// All tunnels, by interface.
pub(crate) type Tunnels = BTreeMap<u32, TunnelState>;

/// A tunnel as `show mpls tunnel` lists it.
#[derive(Clone, Copy, Debug)]
pub struct TunnelInfo<'r> {
    /// Its interface.
    pub interface: u32,
    /// What the operator wants of it.
    pub config: &'r TunnelConfig,
    /// The next-hop group of its paths.
    pub group: u32,
}

/// Its name: `mpls-tunnel0`.
pub(super) fn name(instance: u32) -> String {
    format!("mpls-tunnel{instance}")
}

impl Router {
    /// All tunnels, by interface.
    pub fn tunnels(&self) -> impl Iterator<Item = TunnelInfo<'_>> {
        self.tunnels.iter().map(|(i, t)| TunnelInfo { interface: *i, config: &t.config, group: t.group })
    }

    /// The tunnel behind an interface.
    pub fn tunnel(&self, interface: u32) -> Option<TunnelInfo<'_>> {
        let t = self.tunnels.get(&interface)?;
        Some(TunnelInfo { interface, config: &t.config, group: t.group })
    }

    /// The group of a tunnel for IP packets.
    pub(in crate::router) fn ip_tunnel(&self, interface: u32) -> Option<u32> {
        self.tunnels.get(&interface).filter(|t| !t.config.l2_only).map(|t| t.group)
    }

    /// What workers see of a tunnel for frames.
    pub(in crate::router) fn frame_tunnel(&self, interface: u32) -> Option<Pseudowire> {
        let t = self.tunnels.get(&interface).filter(|t| t.config.l2_only)?;
        Some(Pseudowire { group: t.group, control_word: t.config.control_word })
    }

    /// The feature that frames of a tunnel meet on `interface-output`.
    pub(in crate::router) fn tunnel_feature(&self, interface: u32) -> u32 {
        match self.frame_tunnel(interface) {
            Some(_) => self.feature_bit(&crate::interface::TUNNEL_TX),
            None => 0,
        }
    }

    /// A tunnel over one of these interfaces, those themselves aside.
    pub(in crate::router) fn tunnel_over(&self, interfaces: &[u32]) -> Option<u32> {
        let over = self.nexthops.over(interfaces);
        let mut others = self.tunnels.iter().filter(|(i, _)| !interfaces.contains(i));
        others.find(|(_, t)| over.contains(&t.group)).map(|(i, _)| *i)
    }

    fn check_tunnel(&self, name: &str, paths: &[RoutePath]) -> Result<(), OpError> {
        let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
        if paths.len() > tables::groups::MAX_BUCKETS {
            return fail(format!("{} paths, there may be 256", paths.len()));
        }
        for p in paths {
            if p.labels.pops() {
                return fail("a path needs labels that packets get: out-labels, other than 3".into());
            }
            if let Err(why) = self.check_tunnel_path(p) {
                return fail(why);
            }
        }
        Ok(())
    }

    fn check_tunnel_path(&self, p: &RoutePath) -> Result<(), String> {
        if p.weight == 0 {
            return Err("a weight is 1 to 255".into());
        }
        p.labels.check()?;
        if p.lookup != Lookup::Own || p.address.is_none() && p.table.is_some() {
            return Err("a tunnel leads to a label switching router, not into a table".into());
        }
        if let Some(i) = p.interface {
            if self.interface(i).is_none_or(|i| i.kind == Kind::Local) {
                return Err("there is no such interface".into());
            }
            if p.table.is_some() {
                return Err("a path leads over an interface or into a table, not both".into());
            }
        }
        match (p.address, p.interface) {
            (Some(a), _) => self.check_neighbor(0, a, p),
            (None, Some(i)) if self.ip_tunnel(i).is_some() => Ok(()),
            _ => Err("labels are put on for a neighbor: name its address".into()),
        }
    }

    fn hold_tunnel_group(&mut self, paths: &[RoutePath]) -> Result<u32, OpError> {
        let table = super::super::RouteTable { v6: false, id: 0 };
        let target = if paths.is_empty() { Target::Drop } else { Target::Paths(paths.to_vec()) };
        self.hold_group(Source::Static, table, target)
    }

    pub(super) fn create_tunnel(
        &mut self,
        instance: Option<u32>,
        config: TunnelConfig,
    ) -> Result<Vec<Op>, OpError> {
        let free = |n: &u32| self.interface_index(&name(*n)).is_none();
        let n = match instance {
            Some(n) if n > MAX_TUNNEL => {
                return Err(OpError::new(format!(
                    "{}: tunnels are mpls-tunnel0 to mpls-tunnel{MAX_TUNNEL}",
                    name(n)
                )));
            }
            Some(n) => n,
            None => {
                (0..=MAX_TUNNEL).find(free).ok_or_else(|| OpError::new("no number is free for a tunnel"))?
            }
        };
        let name = name(n);
        self.free_name(&name)?;
        if config.control_word && !config.l2_only {
            return Err(OpError::new(format!(
                "{name}: a control word stands in front of frames: use it with l2-only"
            )));
        }
        self.check_tunnel(&name, &config.paths)?;
        let group = self.hold_tunnel_group(&config.paths)?;
        let index = match self.reserve_index() {
            Ok(i) => i,
            Err(e) => {
                self.let_go(group);
                return Err(e);
            }
        };
        let l2 = config.l2_only;
        let origin = Op::Mpls(MplsOp::CreateTunnel { instance: Some(n), config: config.clone() });
        self.tunnels.insert(index, TunnelState { config, group });
        // Both ends of a pseudowire are stations of one link, and often have one number: no address follows from it.
        let random = if l2 { RandomState::new().hash_one(n) } else { n.into() };
        let [.., a, b, c] = random.to_be_bytes();
        let mac = MacAddr([0x02, 0xfe, 0x88, a, b, c]);
        let new = NewInterface {
            name: name.clone(),
            kind: Kind::MplsTunnel { l2 },
            origin,
            mac,
            own_mac: None,
            mtu: 1500,
            link: true,
        };
        self.insert_interface(index, new);
        Ok(vec![Op::Delete { name }])
    }

    pub(super) fn set_tunnel_paths(
        &mut self,
        name: String,
        paths: Vec<RoutePath>,
    ) -> Result<Vec<Op>, OpError> {
        let index = self.index_of(&name)?;
        if !self.tunnels.contains_key(&index) {
            return Err(OpError::new(format!("{name} is no MPLS tunnel")));
        }
        self.check_tunnel(&name, &paths)?;
        let group = self.hold_tunnel_group(&paths)?;
        let Some(t) = self.tunnels.get_mut(&index) else { return Err(OpError::new("no such tunnel")) };
        let old = std::mem::replace(&mut t.group, group);
        let was = std::mem::replace(&mut t.config.paths, paths);
        let config = t.config.clone();
        if let Some(i) = self.interfaces.get_mut(index)
            && let Op::Mpls(MplsOp::CreateTunnel { config: origin, .. }) = &mut i.origin
        {
            *origin = config;
        }
        // Frames and routes go over to the new group before the old one goes.
        self.publish_interface(index);
        self.refresh_groups(&[index]);
        self.let_go(old);
        Ok(vec![Op::Mpls(MplsOp::SetTunnelPaths { name, paths: was })])
    }

    /// The interface of a tunnel is gone.
    pub(in crate::router) fn tunnel_removed(&mut self, index: u32) {
        if let Some(t) = self.tunnels.remove(&index) {
            self.let_go(t.group);
        }
    }
}
