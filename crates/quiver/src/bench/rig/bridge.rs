//! The bridge domain of a scenario.

use super::addresses::{hop, own};
use super::{Plan, Rig, Tags};
use crate::bench::feed::Patch;
use crate::bench::traffic::{HOST4, ROUTER, ROUTER4, STATION};
use net::l2::bridge::{BridgeOp, BridgeSettings, TagChange, learn_mac};
use net::router::{Membership, Op};
use net::vxlan::{VxlanConfig, VxlanOp};
use packet::eth::MacAddr;

/// What of a scenario is bridged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bridging {
    /// Nothing.
    #[default]
    None,
    /// Frames go from the input to the first egress interface, where their destinations are known.
    Members,
    /// The same in many bridge domains, each of a tagged sub-interface of both; tags are taken away and put in front.
    Domains,
    /// The input is routed through a BVI.
    In,
    /// The first egress interface is.
    Out,
    /// Frames go from the input into a VXLAN tunnel.
    IntoVxlan,
    /// Frames come out of a VXLAN tunnel, to the first egress interface.
    OutOfVxlan,
}

/// Number of the bridge domain.
const DOMAIN: u32 = 1;
/// The VXLAN tunnel in it.
const TUNNEL: &str = "vxlan_tunnel0";
/// The network identifier of that.
pub const VNI: u32 = 100;
/// Its BVI.
pub const BVI: &str = "loop0";

impl Bridging {
    /// The interface to which the addresses of `name` belong.
    pub fn routed(self, name: &str) -> &str {
        match (self, name) {
            (Bridging::In | Bridging::IntoVxlan, "in0") => BVI,
            (Bridging::Out | Bridging::OutOfVxlan, "out0") => BVI,
            _ => name,
        }
    }

    /// The operations that make the bridge domain.
    pub fn ops(self, domains: u32) -> Vec<Op> {
        let mut ops = vec![Op::from(BridgeOp::Create { id: DOMAIN, settings: BridgeSettings::default() })];
        let port = |name: &str, bvi| {
            let member = Some(Membership { bridge: DOMAIN, bvi, shg: 0 });
            Op::from(BridgeOp::Port { name: name.into(), member })
        };
        let up = |name: &str| Op::SetState { name: name.into(), up: true };
        match self {
            Bridging::None => return vec![],
            Bridging::Domains => {
                return ["in0", "out0"].map(up).into_iter().chain((1..=domains).flat_map(domain)).collect();
            }
            Bridging::Members => ops.extend([port("in0", false), port("out0", false), up("out0"), up("in0")]),
            Bridging::In | Bridging::Out | Bridging::IntoVxlan | Bridging::OutOfVxlan => {
                let (member, mac) = match self {
                    Bridging::In | Bridging::IntoVxlan => ("in0", ROUTER),
                    _ => ("out0", MacAddr([2, 0xfe, 2, 0, 0, 0])),
                };
                ops.push(Op::CreateLoopback { instance: Some(0), mac: Some(mac) });
                ops.extend([port(member, false), port(BVI, true), up(BVI), up(member)]);
                let ends = match self {
                    Bridging::IntoVxlan => Some((own(0, false), hop(0, 1, false).1)),
                    Bridging::OutOfVxlan => Some((ROUTER4.into(), HOST4.into())),
                    _ => None,
                };
                if let Some((local, remote)) = ends {
                    let config = VxlanConfig::new(local, remote, VNI);
                    ops.push(VxlanOp::Create { instance: 0, config }.into());
                    ops.extend([port(TUNNEL, false), up(TUNNEL)]);
                }
            }
        }
        ops
    }
}

/// The operations that make bridge domain `id` of the sub-interfaces of this number.
fn domain(id: u32) -> Vec<Op> {
    let mut ops = vec![Op::from(BridgeOp::Create { id, settings: BridgeSettings::default() })];
    for parent in ["in0", "out0"] {
        let name = format!("{parent}.{id}");
        ops.push(Op::CreateSub { parent: parent.into(), id, encap: Tags::One.encap(id) });
        let member = Some(Membership { bridge: id, bvi: false, shg: 0 });
        ops.push(Op::from(BridgeOp::Port { name: name.clone(), member }));
        ops.push(Op::from(BridgeOp::Tags { name: name.clone(), change: Some(TagChange::Pop(1)) }));
        ops.push(Op::SetState { name, up: true });
    }
    ops
}

impl Rig {
    /// The destinations of the frames are known.
    pub(super) fn learn(&mut self, plan: &Plan) -> Result<(), String> {
        let mut learn = |mac: [u8; 6]| {
            learn_mac(&mut self.router, DOMAIN, MacAddr(mac), "out0").map_err(|e| e.to_string())
        };
        match plan.bridging {
            Bridging::Members => {
                for t in plan.traffic.templates.iter().filter(|t| t.patch == Patch::None) {
                    t.bytes.first_chunk().copied().map_or(Ok(()), &mut learn)?;
                }
                plan.traffic.macs.iter().filter_map(|m| m.first_chunk().copied()).try_for_each(learn)
            }
            Bridging::Domains => {
                let macs = plan.traffic.templates.iter().filter_map(|t| t.bytes.first_chunk().copied());
                let pairs = macs.flat_map(|mac| (1..=plan.tagged_in).map(move |id| (id, mac)));
                let mut learn =
                    |(id, mac)| learn_mac(&mut self.router, id, MacAddr(mac), &format!("out0.{id}"));
                pairs.into_iter().try_for_each(|p| learn(p).map_err(|e| e.to_string()))
            }
            Bridging::Out => (0..plan.hops).try_for_each(|k| learn(super::addresses::hop_mac(k).0)),
            Bridging::IntoVxlan => {
                learn_mac(&mut self.router, DOMAIN, STATION, TUNNEL).map_err(|e| e.to_string())
            }
            Bridging::OutOfVxlan => learn(STATION.0),
            Bridging::None | Bridging::In => Ok(()),
        }
    }
}
