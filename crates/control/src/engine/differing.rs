//! Where in their documents two sides differ.

use super::objects::{Id, Side};
use super::steps::Plan;
use ipnet::IpNet;
use model::Phase;
use std::collections::{BTreeSet, HashSet};

/// What of two documents differs, as a text is told.
#[derive(Debug, Default)]
pub(crate) struct Differing {
    /// Interfaces and bridge domains, wherever they are named.
    pub names: HashSet<String>,
    /// Places of other objects.
    pub places: BTreeSet<Vec<String>>,
    /// Routes, by their prefixes.
    pub prefixes: HashSet<IpNet>,
    /// Names and fields that are gone where they are not said any more.
    pub gone: HashSet<String>,
    /// The order of interfaces differs.
    pub order: bool,
}

/// The field that says what an object is, where its place does not tell it.
fn field(id: &Id) -> Option<&'static str> {
    Some(match id {
        Id::Mac(_) => "mac",
        Id::Mtu(_) => "mtu",
        Id::Description(_) => "description",
        Id::Address(..) | Id::AddressOrder(_) => "addresses",
        Id::State(_) => "state",
        Id::Unnumbered(_) => "unnumbered",
        Id::Xconnect(_) => "l2xc",
        Id::Promiscuous(_) => "promiscuous",
        Id::Binding(..) => "table",
        Id::LearnLimit => "mac-limit",
        _ => return None,
    })
}

impl Plan {
    /// Where the sides that it was made of differ.
    pub(crate) fn differing(&self, sides: [&Side; 2]) -> Differing {
        let mut out = Differing::default();
        for step in &self.steps {
            if step.is_taken_along() {
                continue;
            }
            let place = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
            match &step.id {
                Id::InterfaceOrder => out.order = true,
                Id::Routes(n) => {
                    let items = self.runs.routes.get(*n).into_iter().flat_map(|run| &run.items);
                    out.prefixes.extend(items.map(|i| i.key.1.trunc()));
                }
                Id::Labels(_) => _ = out.places.insert(place(&["mpls", "local-labels"])),
                Id::Neighbor(..) => _ = out.places.insert(place(&["neighbors"])),
                id => {
                    out.names.extend(id.interface().map(String::from));
                    out.gone.extend(field(id).map(String::from));
                    for path in sides.iter().filter_map(|s| s.path(id)).filter(|p| !p.is_empty()) {
                        let path = path.split('[').next().unwrap_or_default();
                        let names: Vec<&str> = path.split('.').collect();
                        if let (Id::Bridge(_), Some(name)) = (id, names.last()) {
                            out.names.insert((*name).to_owned());
                        }
                        out.places.insert(place(&names));
                    }
                    if step.phase == Phase::Remove && matches!(id, Id::Interface(_) | Id::Bridge(_)) {
                        out.gone.extend(id.interface().map(String::from));
                    }
                }
            }
        }
        out
    }
}

impl Side {
    /// Where an object stands, as errors say it.
    fn path(&self, id: &Id) -> Option<&str> {
        self.place_of(id).map(|(_, path)| path.as_ref())
    }

    /// Whether the operator chose the MAC address of an interface.
    pub(crate) fn has_mac(&self, name: &str) -> bool {
        self.model.get(&Id::Mac(name.to_owned())).is_some()
    }

    /// Forgets MAC addresses of interfaces of which another side has none.
    pub(crate) fn forget_macs_unlike(&mut self, other: &Side) {
        self.retain_macs(|name| other.has_mac(name));
    }
}
