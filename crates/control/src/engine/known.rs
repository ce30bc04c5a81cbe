//! What parts of the router are told that the engine knows by type.

use net::copp::SetLimit;
use net::l2::bridge::BridgeOp;
use net::mpls::MplsOp;
use net::proxy::{NdProxy, ProxyArp};
use net::router::{Op, SourcePreference};

/// An operation of a part, by its type.
pub(super) enum Known<'o> {
    /// On bridge domains.
    Bridge(&'o BridgeOp),
    /// On label tables and tunnels.
    Mpls(&'o MplsOp),
    /// A range that is answered for.
    ProxyArp(&'o ProxyArp),
    /// An address that is answered for.
    NdProxy(&'o NdProxy),
    /// The limit of a class.
    Punt(&'o SetLimit),
    /// The preference of a source's routes.
    Preference(&'o SourcePreference),
    /// Any other operation.
    Other,
}

/// What an operation is.
pub(super) fn known(op: &Op) -> Known<'_> {
    let Op::Part(p) = op else { return Known::Other };
    let bridge = p.get().map(Known::Bridge);
    bridge
        .or_else(|| p.get().map(Known::Mpls))
        .or_else(|| p.get().map(Known::ProxyArp))
        .or_else(|| p.get().map(Known::NdProxy))
        .or_else(|| p.get().map(Known::Punt))
        .or_else(|| p.get().map(Known::Preference))
        .unwrap_or(Known::Other)
}
