//! The bridge domain of a scenario.

use super::{Plan, Rig};
use crate::bench::feed::Patch;
use crate::bench::traffic::ROUTER;
use net::router::{BridgeOp, BridgeSettings, Membership, Op};
use packet::eth::MacAddr;

/// What of a scenario is bridged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bridging {
    /// Nothing.
    #[default]
    None,
    /// Frames go from the input to the first egress interface, where their destinations are known.
    Members,
    /// The input is routed through a BVI.
    In,
    /// The first egress interface is.
    Out,
}

/// Number of the bridge domain.
const DOMAIN: u32 = 1;
/// Its BVI.
pub const BVI: &str = "loop0";

impl Bridging {
    /// The interface to which the addresses of `name` belong.
    pub fn routed(self, name: &str) -> &str {
        match (self, name) {
            (Bridging::In, "in0") | (Bridging::Out, "out0") => BVI,
            _ => name,
        }
    }

    /// The operations that make the bridge domain.
    pub fn ops(self) -> Vec<Op> {
        let mut ops = vec![Op::Bridge(BridgeOp::Create { id: DOMAIN, settings: BridgeSettings::default() })];
        let port = |name: &str, bvi| {
            let member = Some(Membership { bridge: DOMAIN, bvi, shg: 0 });
            Op::Bridge(BridgeOp::Port { name: name.into(), member })
        };
        let up = |name: &str| Op::SetState { name: name.into(), up: true };
        match self {
            Bridging::None => return vec![],
            Bridging::Members => ops.extend([port("in0", false), port("out0", false), up("out0"), up("in0")]),
            Bridging::In | Bridging::Out => {
                let (member, mac) = match self {
                    Bridging::In => ("in0", ROUTER),
                    _ => ("out0", MacAddr([2, 0xfe, 2, 0, 0, 0])),
                };
                ops.push(Op::CreateLoopback { instance: Some(0), mac: Some(mac) });
                ops.extend([port(member, false), port(BVI, true), up(BVI), up(member)]);
            }
        }
        ops
    }
}

impl Rig {
    /// The destinations of the frames are known.
    pub(super) fn learn(&mut self, plan: &Plan) -> Result<(), String> {
        let mut learn =
            |mac: [u8; 6]| self.router.learn_mac(DOMAIN, MacAddr(mac), "out0").map_err(|e| e.to_string());
        match plan.bridging {
            Bridging::Members => {
                for t in plan.traffic.templates.iter().filter(|t| t.patch == Patch::None) {
                    t.bytes.first_chunk().copied().map_or(Ok(()), &mut learn)?;
                }
                plan.traffic.macs.iter().filter_map(|m| m.first_chunk().copied()).try_for_each(learn)
            }
            Bridging::Out => (0..plan.hops).try_for_each(|k| learn(super::addresses::hop_mac(k).0)),
            Bridging::None | Bridging::In => Ok(()),
        }
    }
}
