//! What objects need of others because of what else there is: a document says it nowhere.

use super::known::{Known, known};
use super::objects::{Id, Value};
use ipnet::IpNet;
use model::Model;
use net::l2::bridge::BridgeOp;
use net::proxy::NdProxy;
use net::router::{Feature, Membership, Named, Op};
use std::collections::{HashMap, HashSet};

/// Whether an object is on the layer 3 of the interfaces whose layer it needs.
pub(super) fn is_routed(id: &Id) -> bool {
    matches!(
        id,
        Id::Address(..)
            | Id::Setting(..)
            | Id::Told(..)
            | Id::Unnumbered(_)
            | Id::Neighbor(..)
            | Id::NdProxy(_)
    )
}

/// Whether it is what makes an interface the BVI of a bridge domain.
pub(super) fn is_bvi(value: &Value) -> bool {
    let Value::Op(op) = value else { return false };
    matches!(known(op), Known::Bridge(BridgeOp::Port { member: Some(Membership { bvi: true, .. }), .. }))
}

/// Says it. A BVI is routed through its bridge domain, and a host or a proxy stands with the addresses in whose prefix it is.
pub(super) fn tie(model: &mut Model<Id, Value>) {
    let (mut bvis, mut addresses) = (HashSet::new(), HashMap::<String, Vec<IpNet>>::new());
    let mut lenders = HashMap::new();
    for (id, o) in model.iter() {
        match (id, &o.value) {
            (Id::Address(name, net), _) => addresses.entry(name.clone()).or_default().push(*net),
            (
                Id::Unnumbered(name),
                Value::Op(Op::SetFeature { feature: Feature::Unnumbered(Some(lender)), .. }),
            ) => {
                lenders.insert(name.clone(), lender.clone());
            }
            (Id::Member(name), value) if is_bvi(value) => _ = bvis.insert(name.clone()),
            _ => {}
        }
    }
    let of = |name: &String, within: &dyn Fn(&IpNet) -> bool| {
        let all = addresses.get(name).into_iter().flatten().filter(|net| within(net));
        all.map(|net| Id::Address(name.clone(), *net)).collect::<Vec<_>>()
    };
    // Only where it is unnumbered: what is made anew when it becomes so is found by a need that it had not.
    let lent = |name: &String| lenders.contains_key(name).then(|| Id::Unnumbered(name.clone()));
    let member = |name: &String| bvis.contains(name).then(|| Id::Member(name.clone()));
    for (id, o) in model.iter_mut() {
        let mut more = match (id, &o.value) {
            (Id::Neighbor(name, a), _) => {
                let mut all = of(name, &|net| net.contains(a));
                all.extend(lent(name));
                all
            }
            (Id::NdProxy(_), Value::Op(op)) => match known(op) {
                Known::NdProxy(NdProxy { name, .. }) => {
                    let mut all = of(lenders.get(name).unwrap_or(name), &|net| net.addr().is_ipv6());
                    all.extend(lent(name));
                    all
                }
                _ => vec![],
            },
            // A loopback has stations only as a BVI.
            (Id::Told(..), Value::Op(Op::SetFeature { feature: Feature::Part(p), .. })) => {
                let names = p.names().into_iter();
                names
                    .filter_map(|n| if let Named::Interface(name) = n { member(&name) } else { None })
                    .collect()
            }
            _ => vec![],
        };
        if is_routed(id) {
            let layers =
                o.needs.iter().filter_map(|n| if let Id::Layer(name) = n { Some(name) } else { None });
            more.extend(layers.filter_map(member));
        }
        more.retain(|n| !o.needs.contains(n));
        o.needs.extend(more);
    }
}
