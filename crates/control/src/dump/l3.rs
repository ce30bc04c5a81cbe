//! The section `l3`.

use super::{L3, Map, Node, Source};
use net::router::IfState;
use net::urpf::Mode;

pub(super) fn write(from: Source<'_>, to: &mut Map) {
    let mut interfaces = Map::new();
    for i in from.router.interfaces() {
        let mut fields = Map::new();
        L3.iter().for_each(|write| write(from, i, &mut fields));
        interfaces.put_some(i.name.clone(), Some(fields));
    }
    to.put_some("interfaces", Some(interfaces));
}

pub(super) fn urpf(_: Source<'_>, i: &IfState, to: &mut Map) {
    let word = |mode| match mode {
        Mode::Off => None,
        Mode::Loose => Some("loose"),
        Mode::Strict => Some("strict"),
    };
    let mut families = Map::new();
    families.put_some("ip4", word(i.features.urpf4)).put_some("ip6", word(i.features.urpf6));
    to.put_some("urpf", Some(Node::Flow(families)));
}
