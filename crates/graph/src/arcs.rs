//! Feature arcs: ordered lists of nodes that an interface can switch on one by one.
//!
//! The node at the start of an arc copies the interface's enabled features (one bit each, in the arc's order) into
//! [`crate::Desc::feat`] and takes the edge `@arc`; each feature node does the same to continue. The driver sends the
//! packet to the lowest bit's node, or to the arc's end when no bit is left. An interface without features costs one
//! test of a word that was read anyway.

use crate::edge::NodeId;

/// A feature arc. A `static` of this type stands for it wherever it is meant, so that no name of one can be misspelt.
#[derive(Debug, PartialEq, Eq)]
pub struct FeatureArc {
    /// Its name, for commands and for edges that begin it (`@name`).
    pub name: &'static str,
    /// The node where packets go that have no feature left.
    pub end: &'static str,
}

/// A node's place on an arc: a `static` too, in the folder of what it does.
#[derive(Debug, PartialEq, Eq)]
pub struct Feature {
    /// The arc.
    pub arc: &'static FeatureArc,
    /// Name of the node.
    pub node: &'static str,
    /// Features of the arc that must come before it (those that a graph lacks are ignored).
    pub after: &'static [&'static Feature],
}

impl Feature {
    /// A place on `arc` for the node called `node`, which is best named as `TheNode::NAME`.
    pub const fn new(arc: &'static FeatureArc, node: &'static str) -> Self {
        Feature { arc, node, after: &[] }
    }

    /// The same behind other features.
    #[must_use]
    pub const fn after(self, after: &'static [&'static Feature]) -> Self {
        Feature { after, ..self }
    }
}

/// The most features of one arc.
pub const MAX_FEATURES: usize = 32;

/// Orders the features of one arc by their declarations; among free ones the order of the list. `Err` names the features
/// of a cycle.
pub fn order(features: &[&Feature]) -> Result<Vec<&'static str>, Vec<&'static str>> {
    let mut left = features.to_vec();
    let mut out = Vec::new();
    while !left.is_empty() {
        let free =
            |f: &&Feature| left.iter().all(|o| o.node == f.node || !f.after.iter().any(|a| a.node == o.node));
        match left.iter().position(free) {
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

    /// The bit of a feature; 0 where it is not in this graph.
    pub fn bit(&self, feature: &str) -> u32 {
        self.features.iter().position(|f| *f == feature).map_or(0, |i| 1 << i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LINE: FeatureArc = FeatureArc { name: "a", end: "e" };

    #[test]
    fn declared_order_holds() {
        static A: Feature = Feature::new(&LINE, "a");
        static B: Feature = Feature::new(&LINE, "b").after(&[&A]);
        static C: Feature = Feature::new(&LINE, "c").after(&[&B]);
        assert_eq!(order(&[&C, &B, &A]), Ok(vec!["a", "b", "c"]));
        assert_eq!(order(&[&C, &A]), Ok(vec!["c", "a"]), "what is not there holds nobody up");
    }

    #[test]
    fn a_cycle_is_named() {
        static X: Feature = Feature::new(&LINE, "x").after(&[&Y]);
        static Y: Feature = Feature::new(&LINE, "y").after(&[&X]);
        assert_eq!(order(&[&X, &Y]), Err(vec!["x", "y"]));
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
