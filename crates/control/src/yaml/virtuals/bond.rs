//! The section `bondethernets`.

use super::super::decode::{Decoder, Fields};
use super::super::diag::Place;
use super::super::interface::{numbered, object_number};
use super::super::l3::Setting;
use super::super::scalar::short;
use super::super::tree::Node;
use super::{Section, Seen, Virtual};
use crate::written::{self, Map};
use net::bond::{
    self, Balance, BondConfig, BondOp, Joins, MAX_INSTANCE, MOST_MEMBERS, MTU, MemberConfig, Mode,
};
use net::router::{IfState, Op, Router};

const BOND: &[&str] = &["description", "mac", "interfaces", "mode", "load-balance", "min-links", "members"];
const MEMBER: &[&str] = &["passive", "long-timeout", "weight"];

/// The section.
pub(super) const SECTION: Section = Section {
    name: "bondethernets",
    named: |name| numbered(name, "BondEthernet").is_some(),
    stands_twice: true,
    says_mac: true,
    fields: BOND,
    secrets: &[],
    decode,
    dump,
};

fn decode<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    fields: &Fields<'n>,
    _: &mut Seen<'n>,
) -> Option<Virtual> {
    let instance = object_number(d, name, place, "BondEthernet", 0, MAX_INSTANCE.into());
    let mac = d.field(fields, "mac", |d, node| d.mac(node));
    let members = d.field(fields, "interfaces", |d, node| Some(d.references(node))).unwrap_or_default();
    let mode = d.field(fields, "mode", |d, node| d.choice(node, &Mode::ALL)).unwrap_or_default();
    let balance = d.field(fields, "load-balance", |d, node| d.choice(node, &Balance::ALL));
    if fields.has("load-balance") && !mode.balances() {
        d.key("load-balance", |d| {
            let message = format!("the mode {} does not balance load", mode.name());
            d.error(fields.key_place("load-balance"), "needs", message)
                .help("only with `mode: xor` or `mode: lacp`: remove it, or change the mode");
        });
    }
    let own = BondConfig::default();
    let config = BondConfig {
        mode,
        balance: balance.unwrap_or_default(),
        min_links: d
            .field(fields, "min-links", |d, node| d.int(node, 1, MOST_MEMBERS as u8))
            .unwrap_or(own.min_links),
    };
    let mut told: Vec<(&str, MemberConfig)> = vec![];
    d.field(fields, "members", |d, node| {
        for (member, place, node) in d.entries(node, "members") {
            let config = d.key(member, |d| {
                if !members.iter().any(|m| m.name == member) {
                    d.error(place, "bond-member", format!("{} is no member of `{name}`", short(member)))
                        .help("add it to `interfaces`");
                }
                self::member(d, node)
            });
            told.extend(config.map(|c| (member, c)));
        }
        Some(())
    });
    let setting = |(i, m): (usize, super::super::scalar::Reference)| {
        let config = told.iter().find(|t| t.0 == m.name).map(|t| t.1).unwrap_or_default();
        let feature = Joins { bond: Some((name.to_owned(), config)) }.into();
        let op = Op::SetFeature { name: m.name.clone(), feature };
        (m.name, Setting { place: m.place, path: format!("{}.interfaces[{i}]", d.path()), op })
    };
    let others = members.into_iter().enumerate().map(setting).collect();
    let op = Some(BondOp::Create { instance: u32::try_from(instance?).ok()?, config }.into());
    Some(Virtual { mac, others, ..Virtual::of(d, place, op, MTU) })
}

fn member<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<MemberConfig> {
    let fields = d.fields(node, MEMBER)?;
    Some(MemberConfig {
        passive: d.field(&fields, "passive", |d, node| d.boolean(node)).unwrap_or(false),
        long_timeout: d.field(&fields, "long-timeout", |d, node| d.boolean(node)).unwrap_or(false),
        weight: d.field(&fields, "weight", |d, node| d.int(node, 0, u32::MAX)).unwrap_or(0),
    })
}

fn dump(router: &Router, i: &IfState, to: &mut Map) {
    let Some(b) = bond::bond(router, i.index) else { return };
    let usual = BondConfig::default();
    to.put_some("mac", i.mac_set.then(|| i.mac.to_string()));
    let members: Vec<_> =
        bond::members(router, i.index).map(|(m, c)| (router.interface_name(m), c)).collect();
    let names = members.iter().map(|(name, _)| name.as_str().into()).collect();
    to.put_some("interfaces", Some(written::Node::List(names)));
    to.put("mode", b.config.mode.name());
    if b.config.mode.balances() {
        to.put_unless("load-balance", b.config.balance.name(), usual.balance.name());
    }
    to.put_unless("min-links", b.config.min_links, usual.min_links);
    let mut told = Map::new();
    for (name, c) in members {
        let mut fields = Map::new();
        fields.put_unless("passive", c.passive, false).put_unless("long-timeout", c.long_timeout, false);
        fields.put_unless("weight", c.weight, 0);
        if !fields.is_empty() {
            told.put(name, fields);
        }
    }
    to.put_some("members", Some(written::Node::Map(told)));
}
