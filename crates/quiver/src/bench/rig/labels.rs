//! The labels of a scenario.

use super::Plan;
use super::addresses::hop;
use net::labels::OutLabels;
use net::mpls::{LabelBatch, MplsOp};
use net::router::{Lookup, Op, RoutePath, Target};

/// What becomes of labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// There are none.
    #[default]
    None,
    /// Routes put so many on.
    Push(usize),
    /// So many labels are swapped, each for another one.
    Swap(u32),
    /// Taken off, to the next hop.
    Pop,
    /// Taken off, and the packet looked up.
    Lookup,
}

/// The first label that packets come with.
pub const FIRST: u32 = 1000;

impl Labels {
    /// The labels that routes put on.
    pub fn pushed(self) -> OutLabels {
        match self {
            Labels::Push(n) => OutLabels::new(&[100, 200][..n.min(2)]).unwrap_or_default(),
            _ => OutLabels::NONE,
        }
    }

    /// The operations that enable the input, and set the labels.
    pub fn ops(self, plan: &Plan) -> Vec<Op> {
        if self == Labels::None {
            return vec![];
        }
        let mut batch = LabelBatch::in_table(0);
        let via = |n: u32, labels: &[u32]| {
            let (_, address) = hop(n as usize % plan.hops.max(1), plan.egress, false);
            let labels = OutLabels::new(labels).unwrap_or_default();
            Target::Paths(vec![RoutePath { address: Some(address), labels, ..RoutePath::default() }])
        };
        let lookup = RoutePath { table: Some(0), lookup: Lookup::Ip4, ..RoutePath::default() };
        match self {
            Labels::None | Labels::Push(_) => {}
            Labels::Swap(n) => (0..n).for_each(|i| batch.set(FIRST + i, true, &via(i, &[FIRST + (i ^ 1)]))),
            Labels::Pop => batch.set(FIRST, true, &via(0, &[3])),
            Labels::Lookup => batch.set(FIRST, true, &Target::Paths(vec![lookup])),
        }
        let enable = Op::SetFeature { name: "in0".into(), feature: net::mpls::TAKEN.to(true).into() };
        vec![enable, Op::from(MplsOp::Routes(batch))]
    }
}
