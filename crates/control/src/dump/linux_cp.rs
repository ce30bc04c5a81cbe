//! Pairs in Linux: the fields `lcp` for those that the format knows, the section `linux-cp` for others and what holds for all.

use super::Source;
use crate::written::{Map, Node};
use net::linux_cp::{self, PairInfo};
use net::router::{Encap, IfState, Kind, Router};

/// The pair of an interface that `lcp` says: in the default namespace, and as the format wants those of sub-interfaces.
fn plain(router: &Router, i: &IfState) -> Option<PairInfo> {
    let pair = linux_cp::pair(router, i.index)?;
    if pair.linux.netns != linux_cp::settings(router).default_netns {
        return None;
    }
    let Kind::Sub { parent, encap, .. } = i.kind else { return Some(pair) };
    let parent = router.interface(parent)?;
    plain(router, parent)?;
    if let Encap::Tags { dot1ad, outer, inner: Some(_), .. } = encap {
        let alone = Encap::Tags { dot1ad, outer, inner: None, exact: true };
        let sibling = parent.subs.values().filter_map(|s| router.interface(*s));
        let mut sibling = sibling.filter(|s| matches!(s.kind, Kind::Sub { encap, .. } if encap == alone));
        let sibling = sibling.find(|s| s.mtu >= i.mtu)?;
        plain(router, sibling)?;
    }
    Some(pair)
}

/// `lcp` of an interface.
pub(super) fn lcp(from: Source<'_>, i: &IfState, to: &mut Map) {
    to.put_some("lcp", plain(from.router, i).map(|p| p.linux.host));
}

/// What holds for all.
pub(super) fn settings(from: Source<'_>, to: &mut Map) {
    let s = linux_cp::settings(from.router);
    to.put_some("default-netns", s.default_netns.as_deref());
    to.put_unless("lcp-sync", s.sync, false);
    to.put_unless("lcp-auto-subint", s.auto_subint, false);
    to.put_unless("netlink", s.netlink, true);
    to.put_unless("nl-sync", s.nl_sync, true);
    to.put_some(
        "fpm",
        s.fpm.map(|fpm| {
            let mut fields = Map::new();
            // One that has nothing but defaults says one of them.
            fields.put("port", fpm.port);
            let d = linux_cp::FpmListen::default();
            fields.put_some("address", (fpm.address != d.address).then(|| Node::text(fpm.address)));
            fields.put_some("netns", fpm.netns).put_unless("hold", fpm.hold, d.hold);
            Node::Flow(fields)
        }),
    );
    to.put_unless("nl-rx-buffer-size", s.rx_buffer, linux_cp::DEFAULT_RX_BUFFER);
}

/// The entry of a pair that `lcp` does not say.
pub(super) fn pair(from: Source<'_>, i: &IfState) -> Option<Node> {
    let pair = linux_cp::pair(from.router, i.index)?;
    if plain(from.router, i).is_some() {
        return None;
    }
    let mut fields = Map::new();
    fields.put("host-if", pair.linux.host).put_some("netns", pair.linux.netns);
    Some(Node::Flow(fields))
}
