//! Commands that make bridge domains and change what is in them.

use crate::cli::commit;
use crate::l2::bridge::show;
use crate::l2::bridge::{BridgeOp, BridgeSettings, PortFeatures, StaticMac, TagChange, VlanTag};
use crate::router::{Membership, Op, Router};
use command::{Args, Command, CommandError, Output};
use packet::eth::MacAddr;
use std::net::IpAddr;

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    let mut all = bridges();
    all.extend(arp());
    all.extend(ports());
    all.extend(addresses());
    all.extend(show::all());
    all
}

fn bridges() -> Vec<Command<Router>> {
    let domain = "number of the bridge domain";
    vec![
        Command::write(
            "create bridge-domain <id:u32 1..16777215> [learn <learn:u8 0..1>] [forward <forward:u8 0..1>] \
             [uu-flood <uu-flood:u8 0..1>] [flood <flood:u8 0..1>] [arp-term <arp-term:u8 0..1>] \
             [arp-ufwd <arp-ufwd:u8 0..1>] [mac-age <mac-age:u8 minutes>] [bd-tag <bd-tag:string>] [del]",
            "Make a bridge domain, or take one out",
            create,
        )
        .arg("id", domain)
        .arg("learn", "learn source addresses: 1, the default, or 0")
        .arg("forward", "send frames to known addresses to where these are: 1, the default, or 0")
        .arg("uu-flood", "flood frames to unknown addresses: 1, the default, or 0")
        .arg("flood", "flood broadcasts and multicasts: 1, the default, or 0")
        .arg(
            "arp-term",
            "answer ARP requests and neighbor solicitations for its entries: 1, or 0, the default",
        )
        .arg("arp-ufwd", "send these requests to the entry's station instead: 1, or 0, the default")
        .arg("mac-age", "minutes after which an address that is not seen is forgotten; 0, the default: never")
        .arg("bd-tag", "a word of the operator's own, at most 255 characters")
        .arg("del", "take it out; it may have no members")
        .example("create bridge-domain 10")
        .example("create bridge-domain 20 learn 0 mac-age 5")
        .example("create bridge-domain 20 del"),
        Command::write("delete bridge-domain <id:u32 1..16777215>", "Take a bridge domain out", |r, a| {
            commit(r, vec![Op::from(BridgeOp::Delete { id: a.get("id")? })])
        })
        .arg("id", "number of the bridge domain, which may have no members")
        .example("delete bridge-domain 20"),
        Command::write(
            "set bridge-domain (learn|forward|flood|uu-flood|arp-ufwd) <id:u32 1..16777215> [disable]",
            "Switch on or off what a bridge domain does",
            |r, a| {
                let on = !a.has("disable");
                let what = a.one_of(&["learn", "forward", "flood", "uu-flood", "arp-ufwd"]);
                change(r, a, |s| match what {
                    Some("learn") => s.learn = on,
                    Some("forward") => s.forward = on,
                    Some("flood") => s.flood = on,
                    Some("uu-flood") => s.uu_flood = on,
                    _ => s.arp_ufwd = on,
                })
            },
        )
        .arg("id", domain)
        .arg("learn", "learning of source addresses")
        .arg("forward", "sending frames to where known addresses are")
        .arg("flood", "flooding of broadcasts and multicasts")
        .arg("uu-flood", "flooding of frames to unknown addresses")
        .arg("arp-ufwd", "sending of requests to the station of an ARP entry, instead of answering them")
        .arg("disable", "switch it off")
        .example("set bridge-domain uu-flood 10 disable")
        .example("set bridge-domain uu-flood 10"),
        Command::write(
            "set bridge-domain mac-age <id:u32 1..16777215> <mac-age:u8 minutes>",
            "How long a bridge domain remembers addresses",
            |r, a| {
                let age = a.get("mac-age")?;
                change(r, a, |s| s.mac_age = age)
            },
        )
        .arg("id", domain)
        .arg("mac-age", "minutes; 0: for ever")
        .example("set bridge-domain mac-age 10 5"),
        Command::write(
            "set bridge-domain learn-limit <id:u32 1..16777215> (<limit:u32>|disable)",
            "The most addresses that a bridge domain learns",
            |r, a| {
                let limit = a.opt("limit")?;
                change(r, a, |s| s.mac_limit = limit)
            },
        )
        .arg("id", domain)
        .arg("limit", "addresses; those that are there stay")
        .arg("disable", "as many as the router may have")
        .details(
            "Frames from further addresses are forwarded; `show errors` and `show bridge-domain` count them.",
        )
        .example("set bridge-domain learn-limit 10 1000"),
        Command::write(
            "set bridge-domain arp term <id:u32 1..16777215> [disable]",
            "Answer ARP requests and neighbor solicitations in a bridge domain",
            |r, a| {
                let on = !a.has("disable");
                change(r, a, |s| s.arp_term = on)
            },
        )
        .arg("id", domain)
        .arg("disable", "flood them as other frames")
        .details("Those for an entry are answered and not flooded; see 'set bridge-domain arp entry'.")
        .example("set bridge-domain arp term 10"),
    ]
}

fn create(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let id: u32 = args.get("id")?;
    if args.has("del") {
        return commit(router, vec![Op::from(BridgeOp::Delete { id })]);
    }
    let usual = BridgeSettings::default();
    let flag =
        |name: &str, usual: bool| Ok::<_, CommandError>(args.opt::<u8>(name)?.map_or(usual, |n| n == 1));
    let settings = BridgeSettings {
        learn: flag("learn", usual.learn)?,
        forward: flag("forward", usual.forward)?,
        flood: flag("flood", usual.flood)?,
        uu_flood: flag("uu-flood", usual.uu_flood)?,
        arp_term: flag("arp-term", usual.arp_term)?,
        arp_ufwd: flag("arp-ufwd", usual.arp_ufwd)?,
        mac_age: args.opt("mac-age")?.unwrap_or(usual.mac_age),
        mac_limit: usual.mac_limit,
        tag: args.opt("bd-tag")?.filter(|t: &String| !t.is_empty()),
    };
    commit(router, vec![Op::from(BridgeOp::Create { id, settings })])
}

/// Changes the settings of the bridge domain that is named.
fn change(
    router: &mut Router,
    args: &Args,
    edit: impl FnOnce(&mut BridgeSettings),
) -> Result<Output, CommandError> {
    let id: u32 = args.get("id")?;
    let found = super::bridge(router, id)
        .ok_or_else(|| args.error("id", format!("there is no bridge domain {id}")))?;
    let mut settings = found.settings.clone();
    edit(&mut settings);
    commit(router, vec![Op::from(BridgeOp::Set { id, settings })])
}

fn arp() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set bridge-domain arp entry <id:u32 1..16777215> (<address:ip> <mac:mac> [del]|del-all)",
            "An address for which a bridge domain answers",
            |r: &mut Router, a| {
                let id: u32 = a.get("id")?;
                let entry = |address: IpAddr, mac| Op::from(BridgeOp::Arp { id, address, mac });
                if a.has("del-all") {
                    let found = super::bridge(r, id).map(|b| b.arp.keys().copied().collect::<Vec<_>>());
                    let all =
                        found.ok_or_else(|| a.error("id", format!("there is no bridge domain {id}")))?;
                    return commit(r, all.into_iter().map(|address| entry(address, None)).collect());
                }
                let mac = MacAddr(a.get("mac")?);
                commit(r, vec![entry(a.get("address")?, (!a.has("del")).then_some(mac))])
            },
        )
        .arg("id", "number of the bridge domain")
        .arg("address", "the address that is asked for")
        .arg("mac", "the station that has it")
        .arg("del", "remove the entry")
        .arg("del-all", "remove all of them")
        .example("set bridge-domain arp entry 10 192.0.2.7 02:00:00:00:00:07")
        .example("set bridge-domain arp entry 10 192.0.2.7 02:00:00:00:00:07 del"),
    ]
}

fn ports() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface l2 bridge <interface:interface> <id:u32 1..16777215> [bvi] [<shg:u8>]",
            "Put an interface into a bridge domain",
            |r: &mut Router, a| {
                let bridge: u32 = a.get("id")?;
                let member = Membership { bridge, bvi: a.has("bvi"), shg: a.opt("shg")?.unwrap_or(0) };
                let mut ops = vec![];
                if super::bridge(r, bridge).is_none() {
                    ops.push(BridgeOp::Create { id: bridge, settings: BridgeSettings::default() });
                }
                ops.push(BridgeOp::Port { name: a.get("interface")?, member: Some(member) });
                commit(r, ops.into_iter().map(Op::from).collect())
            },
        )
        .arg("id", "number of the bridge domain, which is made when there is none")
        .arg("bvi", "the loopback is the interface through which the bridge domain is routed")
        .arg("shg", "split-horizon group: members of one group other than 0 do not exchange frames")
        .details(
            "Tags stay as they are, also those that a sub-interface stands for, unless 'set interface l2 tag-rewrite' \
             says otherwise. 'set interface l3' takes the interface out.",
        )
        .example("set interface l2 bridge left 10")
        .example("set interface l2 bridge loop0 10 bvi")
        .example("set interface l2 bridge right 10 1"),
        Command::write(
            "set interface l2 tag-rewrite <interface:interface> (disable|pop (1|2)|\
             push (dot1q|dot1ad) <tag:vlan> [<inner:vlan>]|\
             translate (1-1|1-2|2-1|2-2) (dot1q|dot1ad) <tag:vlan> [<inner:vlan>])",
            "What becomes of the VLAN tags of frames on layer 2",
            |r, a| {
                let change = tag_change(a)?;
                commit(r, vec![Op::from(BridgeOp::Tags { name: a.get("interface")?, change })])
            },
        )
        .arg("disable", "they stay as they are, which is the default")
        .arg("pop", "so many are taken away")
        .arg("push", "one or two are put in front")
        .arg("translate", "so many are taken away, and so many put in their place")
        .arg("dot1q", "the outer one is of 802.1Q")
        .arg("dot1ad", "the outer one is of 802.1ad")
        .arg("tag", "VLAN of the tag, or of the outer one")
        .arg("inner", "VLAN of the inner tag, which is of 802.1Q")
        .details(
            "This is for frames that come in; for those that go out it is reversed. Only tags that the sub-interface \
             stands for can be taken away. Translated tags keep the priority of those in whose place they come.",
        )
        .example("set interface l2 tag-rewrite left.100 pop 1")
        .example("set interface l2 tag-rewrite left.100 translate 1-1 dot1q 200")
        .example("set interface l2 tag-rewrite left push dot1ad 100 200")
        .example("set interface l2 tag-rewrite left.100 disable"),
        Command::write(
            "set interface l2 (learn|forward|flood|uu-flood|arp-term) <interface:interface> [disable]",
            "What a bridge domain does with the frames that come in on an interface",
            |r: &mut Router, a| {
                let name: String = a.get("interface")?;
                let i = crate::cli::interface(r, a, "interface")?;
                let (mut features, on) = (super::port(r, i.index).features, !a.has("disable"));
                if let Some(feature) = a.one_of(PortFeatures::NAMES).and_then(|n| features.named(n)) {
                    *feature = on;
                }
                commit(r, vec![Op::from(BridgeOp::PortFeatures { name, features })])
            },
        )
        .arg("learn", "their source addresses are learned")
        .arg("forward", "they go to where known addresses are; otherwise as if these were unknown")
        .arg("flood", "broadcasts and multicasts are flooded")
        .arg("uu-flood", "those to unknown addresses are flooded")
        .arg("arp-term", "ARP requests and neighbor solicitations are answered for the entries of the bridge domain")
        .arg("disable", "not those of this interface")
        .details(
            "All are on by default. What 'set bridge-domain' or 'create bridge-domain' has switched off for the bridge \
             domain stays off.",
        )
        .example("set interface l2 learn left disable")
        .example("set interface l2 arp-term left.100 disable")
        .example("set interface l2 learn left"),
        Command::write(
            "set interface l2 learn-limit <interface:interface> (<limit:u32>|disable)",
            "The most addresses that are learned on an interface",
            |r, a| {
                let (name, limit) = (a.get("interface")?, a.opt("limit")?);
                commit(r, vec![Op::from(BridgeOp::PortLimit { name, limit })])
            },
        )
        .arg("limit", "addresses; those that are there stay")
        .arg("disable", "as many as the bridge domain may have")
        .example("set interface l2 learn-limit left 100"),
    ]
}

fn tag_change(args: &Args) -> Result<Option<TagChange>, CommandError> {
    let outer = |vlan| VlanTag { dot1ad: args.has("dot1ad"), vlan };
    let mut tags: Vec<VlanTag> = args.opt("tag")?.into_iter().map(outer).collect();
    tags.extend(args.opt("inner")?.map(|vlan| VlanTag { dot1ad: false, vlan }));
    if args.has("pop") {
        return Ok(Some(TagChange::Pop(if args.has("2") { 2 } else { 1 })));
    }
    if args.has("push") {
        return Ok(Some(TagChange::Push(tags)));
    }
    let Some(how) = args.one_of(&["1-1", "1-2", "2-1", "2-2"]) else { return Ok(None) };
    let number = |n: &str| if how.ends_with(n) { 2 } else { 1 };
    if tags.len() != number("2") {
        return Err(CommandError::new(format!("translate {how} needs {} VLANs", number("2"))));
    }
    Ok(Some(TagChange::Translate(if how.starts_with('2') { 2 } else { 1 }, tags)))
}

fn addresses() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "l2fib add <mac:mac> <id:u32 1..16777215> (filter|<interface:interface> [static])",
            "Add an address to a bridge domain",
            |r: &mut Router, a| {
                let (mac, id) = (MacAddr(a.get("mac")?), a.get("id")?);
                let to = match a.opt::<String>("interface")? {
                    None => StaticMac::Filter,
                    Some(name) if a.has("static") => StaticMac::Port(name),
                    Some(name) => {
                        super::learn_mac(r, id, mac, &name).map_err(|e| CommandError::new(e.message))?;
                        return Ok(Output::none());
                    }
                };
                commit(r, vec![Op::from(BridgeOp::Mac { id, mac, to: Some(to) })])
            },
        )
        .arg("id", "number of the bridge domain")
        .arg("interface", "the member behind which the address is")
        .arg("filter", "frames to and from the address are dropped")
        .arg("static", "it stays there: frames from it on other interfaces are dropped, and it does not age")
        .details("Without 'static' it is as if a frame had come from the address.")
        .example("l2fib add 02:00:00:00:00:07 10 left static")
        .example("l2fib add 02:00:00:00:00:08 10 filter"),
        Command::write(
            "l2fib del <mac:mac> <id:u32 1..16777215>",
            "Forget an address of a bridge domain",
            |r, a| {
                let (mac, id) = (MacAddr(a.get("mac")?), a.get("id")?);
                commit(r, vec![Op::from(BridgeOp::Mac { id, mac, to: None })])
            },
        )
        .arg("id", "number of the bridge domain")
        .example("l2fib del 02:00:00:00:00:07 10"),
        Command::write(
            "l2fib flush-mac (all|interface <interface:interface>|bridge-domain <id:u32 1..16777215>)",
            "Forget learned addresses",
            |r: &mut Router, a| {
                let id: Option<u32> = a.opt("id")?;
                if let Some(id) = id.filter(|id| super::bridge(r, *id).is_none()) {
                    return Err(a.error("id", format!("there is no bridge domain {id}")));
                }
                let index = match a.opt::<String>("interface")? {
                    Some(_) => Some(crate::cli::interface(r, a, "interface")?.index),
                    None => None,
                };
                super::flush_macs(r, id, index);
                Ok(Output::none())
            },
        )
        .arg("all", "of all bridge domains")
        .arg("id", "number of the bridge domain")
        .details("Static addresses stay.")
        .example("l2fib flush-mac all")
        .example("l2fib flush-mac interface left"),
        Command::write(
            "set l2fib learn-limit <limit:u32>",
            "The most addresses that the router learns",
            |r, a| commit(r, vec![Op::from(BridgeOp::TableLimit { limit: a.get("limit")? })]),
        )
        .arg("limit", "addresses in all bridge domains; those that are there stay")
        .example("set l2fib learn-limit 100000"),
    ]
}
