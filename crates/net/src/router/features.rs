//! Features of interfaces: what the operator switches on and off, checked and published.

use super::{IfState, Op, OpError, Router};
use crate::{reassembly, urpf};

/// One feature of an interface with all its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Feature {
    /// Which sources packets received may come from.
    Urpf {
        /// For IPv6 instead of IPv4.
        v6: bool,
        /// What is checked.
        mode: urpf::Mode,
    },
    /// What becomes of fragments that are received.
    Reassembly {
        /// Which kind.
        kind: reassembly::Kind,
        /// On or off.
        on: bool,
    },
}

impl Router {
    /// The bit of a feature on an arc.
    pub(super) fn feature_bit(&self, arc: &str, node: &str) -> u32 {
        self.graphs.first().and_then(|g| g.arc(arc)?.bit(node)).unwrap_or(0)
    }

    /// The operations that give an interface the features that it has.
    pub(super) fn features_of(&self, i: &IfState) -> Vec<Op> {
        let f = &i.features;
        let urpf = [(false, f.urpf4), (true, f.urpf6)];
        let urpf = urpf.into_iter().filter(|(_, mode)| *mode != urpf::Mode::Off);
        let kinds = [
            (reassembly::Kind { v6: false, shallow: false }, f.reassembly4),
            (reassembly::Kind { v6: true, shallow: false }, f.reassembly6),
            (reassembly::Kind { v6: false, shallow: true }, f.virtual4),
            (reassembly::Kind { v6: true, shallow: true }, f.virtual6),
        ];
        let kinds = kinds.into_iter().filter(|(_, on)| *on);
        let all = urpf.map(|(v6, mode)| Feature::Urpf { v6, mode });
        let all = all.chain(kinds.map(|(kind, on)| Feature::Reassembly { kind, on }));
        all.map(|feature| Op::SetFeature { name: i.name.clone(), feature }).collect()
    }

    /// Sets a feature and answers what undoes it.
    pub(super) fn set_feature(&mut self, name: String, feature: Feature) -> Result<Vec<Op>, OpError> {
        let index = self.named(&name)?.index;
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(vec![]) };
        let was = match feature {
            Feature::Urpf { v6, mode } => {
                let to = if v6 { &mut i.features.urpf6 } else { &mut i.features.urpf4 };
                Feature::Urpf { v6, mode: std::mem::replace(to, mode) }
            }
            Feature::Reassembly { kind, on } => {
                let f = &mut i.features;
                let to = match (kind.v6, kind.shallow) {
                    (false, false) => &mut f.reassembly4,
                    (true, false) => &mut f.reassembly6,
                    (false, true) => &mut f.virtual4,
                    (true, true) => &mut f.virtual6,
                };
                Feature::Reassembly { kind, on: std::mem::replace(to, on) }
            }
        };
        self.publish_interface(index);
        Ok(vec![Op::SetFeature { name, feature: was }])
    }
}
