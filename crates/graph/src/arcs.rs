//! Feature arcs: ordered lists of nodes that an interface can switch on one by one.
//!
//! The node at the start of an arc copies the interface's enabled features (one bit each, in the arc's order) into
//! [`crate::Desc::feat`] and takes the edge `@arc`; each feature node does the same to continue. The driver sends the
//! packet to the lowest bit's node, or to the arc's end when no bit is left. An interface without features costs one
//! test of a word that was read anyway.

use crate::node::NodeId;

/// A feature's declared place in its arc.
#[derive(Clone, Debug)]
pub struct FeatureDef {
    /// Name of the node.
    pub node: &'static str,
    /// Features of the arc that must come before it (missing ones are ignored).
    pub after: &'static [&'static str],
    /// Features of the arc that must come after it (missing ones are ignored).
    pub before: &'static [&'static str],
}

/// A declared arc.
#[derive(Clone, Debug)]
pub struct ArcDef {
    /// Its name.
    pub name: &'static str,
    /// The node where packets go that have no feature left.
    pub end: &'static str,
    /// Its features, in any order.
    pub features: Vec<FeatureDef>,
}

/// The most features of one arc.
pub const MAX_FEATURES: usize = 32;

/// Orders an arc's features by their declarations; among free ones the order of the list. `Err` names the features of
/// a cycle.
pub fn order(def: &ArcDef) -> Result<Vec<&'static str>, Vec<&'static str>> {
    let mut left: Vec<&FeatureDef> = def.features.iter().collect();
    let mut out = Vec::new();
    while !left.is_empty() {
        let free = left.iter().position(|f| {
            !left
                .iter()
                .any(|o| o.node != f.node && (f.after.contains(&o.node) || o.before.contains(&f.node)))
        });
        match free {
            Some(i) => out.push(left.remove(i).node),
            None => return Err(left.iter().map(|f| f.node).collect()),
        }
    }
    Ok(out)
}

/// An arc resolved to nodes.
#[derive(Clone, Debug)]
pub struct ArcNodes {
    /// Its name.
    pub name: &'static str,
    /// Node of each bit.
    pub nodes: [NodeId; MAX_FEATURES],
    /// Names of the features, by bit.
    pub features: Vec<&'static str>,
    /// Where packets go that have no feature left.
    pub end: NodeId,
}

impl ArcNodes {
    /// The next node for a packet with `feat` left to visit; clears its bit.
    #[inline]
    pub fn next(&self, feat: &mut u32) -> NodeId {
        if *feat == 0 {
            return self.end;
        }
        let bit = feat.trailing_zeros();
        *feat &= *feat - 1;
        self.nodes[bit as usize % MAX_FEATURES]
    }

    /// The bit of a feature.
    pub fn bit(&self, feature: &str) -> Option<u32> {
        self.features.iter().position(|f| *f == feature).map(|i| 1 << i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f(node: &'static str, after: &'static [&'static str], before: &'static [&'static str]) -> FeatureDef {
        FeatureDef { node, after, before }
    }

    #[test]
    fn declared_order_holds() {
        let def = ArcDef {
            name: "a",
            end: "e",
            features: vec![f("c", &["b"], &[]), f("b", &[], &[]), f("a", &[], &["b"])],
        };
        assert_eq!(order(&def), Ok(vec!["a", "b", "c"]));
    }

    #[test]
    fn a_cycle_is_named() {
        let def = ArcDef { name: "a", end: "e", features: vec![f("x", &["y"], &[]), f("y", &["x"], &[])] };
        assert_eq!(order(&def), Err(vec!["x", "y"]));
    }

    #[test]
    fn bits_are_visited_in_order_then_the_end() {
        let arc = ArcNodes {
            name: "a",
            nodes: core::array::from_fn(|i| NodeId(100 + i as u16)),
            features: vec!["a", "b", "c"],
            end: NodeId(1),
        };
        let mut feat = 0b101;
        assert_eq!(arc.next(&mut feat), NodeId(100));
        assert_eq!(arc.next(&mut feat), NodeId(102));
        assert_eq!(arc.next(&mut feat), NodeId(1));
    }
}
