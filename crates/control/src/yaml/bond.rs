//! The section `bondethernets`.

use std::collections::BTreeMap;

use packet::MacAddr;

use super::decode::Decoder;
use super::diag::Place;
use super::interface::object_name;
use super::scalar::Reference;
use super::tree::Node;

pub(super) const BOND: &[&str] = &["description", "mac", "interfaces", "mode", "load-balance"];

/// A bond of several devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Bond {
    /// Its name, `BondEthernetN`.
    pub name: String,
    /// Where the document speaks of it.
    pub place: Place,
    /// Its path in the document.
    pub path: String,
    /// Free text.
    pub description: Option<String>,
    /// MAC address to set.
    pub mac: Option<MacAddr>,
    /// Devices that it bonds.
    pub members: Vec<Reference>,
    /// How it chooses among them.
    pub mode: BondMode,
    /// What decides between several that are active.
    pub load_balance: LoadBalance,
}

/// How a bond uses its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BondMode {
    RoundRobin,
    ActiveBackup,
    Xor,
    Broadcast,
    Lacp,
}

/// Headers that decide which member of a bond a packet leaves through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LoadBalance {
    L2,
    L23,
    L34,
}

const MODES: &[(&str, BondMode)] = &[
    ("round-robin", BondMode::RoundRobin),
    ("active-backup", BondMode::ActiveBackup),
    ("xor", BondMode::Xor),
    ("broadcast", BondMode::Broadcast),
    ("lacp", BondMode::Lacp),
];
const BALANCES: &[(&str, LoadBalance)] =
    &[("l2", LoadBalance::L2), ("l23", LoadBalance::L23), ("l34", LoadBalance::L34)];

/// The section, by name.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<BTreeMap<&'n str, Bond>> {
    let mut bonds = BTreeMap::new();
    for (name, place, node) in d.entries(node, "bond names") {
        let bond = d.key(name, |d| {
            object_name(d, name, place, "BondEthernet", 4_294_967_293);
            bond(d, name, place, node)
        });
        bonds.insert(name, bond);
    }
    Some(bonds)
}

fn bond<'n>(d: &mut Decoder<'n>, name: &'n str, place: Place, node: &'n Node<'n>) -> Bond {
    let mut bond = Bond {
        name: name.to_string(),
        place,
        path: d.path(),
        description: None,
        mac: None,
        members: Vec::new(),
        mode: BondMode::Lacp,
        load_balance: LoadBalance::L34,
    };
    let Some(fields) = d.fields(node, BOND) else { return bond };
    bond.description = d.field(&fields, "description", |d, node| d.description(node));
    bond.mac = d.field(&fields, "mac", |d, node| d.mac(node));
    bond.members = d.field(&fields, "interfaces", |d, node| Some(d.references(node))).unwrap_or_default();
    let mode = d.field(&fields, "mode", |d, node| d.choice(node, MODES));
    let balance = d.field(&fields, "load-balance", |d, node| d.choice(node, BALANCES));
    bond.mode = mode.unwrap_or(bond.mode);
    bond.load_balance = balance.unwrap_or(bond.load_balance);
    if let (Some(mode), true) = (mode, fields.has("load-balance"))
        && !matches!(mode, BondMode::Xor | BondMode::Lacp)
    {
        let word = MODES.iter().find(|(_, m)| *m == mode).map_or("", |(word, _)| word);
        d.key("load-balance", |d| {
            d.error(
                fields.key_place("load-balance"),
                "needs",
                format!("the mode {word} does not balance load"),
            )
            .help("only with `mode: xor` or `mode: lacp`: remove it, or change the mode");
        });
    }
    bond
}
