//! `create bond`, `set bond`, `bond add`, `bond del`, `set interface bond`.

use super::{
    Balance, BondConfig, BondOp, Joins, MAX_INSTANCE, MOST_MEMBERS, MemberConfig, Mode, bond, member, show,
};
use crate::cli::interfaces::{delete_kind, free, made_with_mac};
use crate::cli::{commit, interface};
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output};

/// The commands.
pub(super) fn all() -> Vec<Command<Router>> {
    let options = format!("[load-balance (l2|l23|l34)] [min-links <links:u8 1..{MOST_MEMBERS}>]");
    let modes = "(round-robin|active-backup|broadcast|xor|lacp)";
    let words = |c: Command<Router>| {
        c.arg(
            "round-robin",
            "packets leave over one member after another: those of a flow may overtake each other",
        )
        .arg("active-backup", "one member is used, the others wait for it to fail")
        .arg("broadcast", "packets leave over all members")
        .arg("xor", "each flow leaves over one member, as its hash says")
        .arg(
            "lacp",
            "as xor, over those members on which the other end agrees (IEEE 802.1AX, formerly 802.3ad)",
        )
        .arg("l2", "the hash is of MAC addresses: what a new bond has where nothing is said")
        .arg("l23", "the hash is of MAC and IP addresses")
        .arg("l34", "the hash is of IP addresses, protocol and ports")
        .arg("links", "the fewest active members with which the bond has link, 1 by default")
    };
    let mut all = vec![
        words(Command::write(
            &format!("create bond mode {modes} {options} [hw-addr <mac:mac>] [id <id:u32 0..{MAX_INSTANCE}>]"),
            "Make a bond: several devices as one interface",
            create,
        ))
        .arg("mac", "MAC address of the bond and its members; that of the first member by default")
        .arg("id", "N of its name BondEthernetN; the first free one by default")
        .details(
            "The answer is the name. It is down at first, and has no members (bond add). It is like a device: it can have addresses and \
             sub-interfaces, be in a bridge domain or a cross-connect, and have a pair in Linux. Of labelled packets and of frames with up to two \
             tags the hash is that of the IP packet inside. A member that is lost moves its own flows alone.",
        )
        .example("create bond mode lacp load-balance l34")
        .example("create bond mode active-backup id 7"),
        words(Command::write(
            &format!("set bond <bond:interface> [mode {modes}] {options}"),
            "Change a bond in place",
            change,
        ))
        .details("What is not named stays. Where mode or hash change, flows may take other members.")
        .example("set bond BondEthernet0 load-balance l34 min-links 2"),
        Command::write("delete bond <interface:interface>", "Take a bond out", |r, a| {
            delete_kind(r, a, "bond", |i| super::is_name(&i.name).is_some())
        })
        .details("Its members are interfaces of their own again.")
        .example("delete bond BondEthernet0"),
        Command::write(
            "bond add <bond:interface> <member:interface> [passive] [long-timeout]",
            "Make a device a member of a bond",
            add,
        )
        .arg("member", "a device without addresses, sub-interfaces and a MAC address that was set, with at least the bond's MTU")
        .arg("passive", "with LACP: speak only when spoken to")
        .arg("long-timeout", "with LACP: hear from the other end every 30 seconds, and believe it for 90; else every second, and for 3")
        .details("The member gets the bond's MAC address. Of one that is a member already the words are taken anew.")
        .example("bond add BondEthernet0 left")
        .example("bond add BondEthernet0 right passive long-timeout"),
        Command::write("bond del <member:interface>", "Take a device out of its bond", |router: &mut Router, args: &Args| {
            let name = of_member(router, args, "member")?.0;
            tell(router, name, None)
        })
        .example("bond del left"),
        Command::write(
            "set interface bond <member:interface> weight <weight:u32>",
            "Say which member an active-backup bond prefers",
            |router: &mut Router, args: &Args| {
                let (name, bond, config) = of_member(router, args, "member")?;
                let config = MemberConfig { weight: args.get("weight")?, ..config };
                tell(router, name, Some((bond, config)))
            },
        )
        .arg("weight", "0 by default; the heaviest that has link is used, of equals the one that is in use")
        .example("set interface bond left weight 10"),
    ];
    all.extend(show::all());
    all
}

fn create(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let id: Option<u32> = args.opt("id")?;
    let instance = id.or_else(|| free(router, "BondEthernet", 0..=MAX_INSTANCE));
    let instance = instance.ok_or("no number is free for a bond")?;
    // VPP's, which is not that of a document.
    let usual = BondConfig { balance: Balance::L2, ..BondConfig::default() };
    let config = named(args, usual)?;
    let name = format!("BondEthernet{instance}");
    made_with_mac(router, args, name, BondOp::Create { instance, config }.into())
}

fn change(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let i = interface(router, args, "bond")?;
    let (Some(instance), Some(b)) = (super::is_name(&i.name), bond(router, i.index)) else {
        return Err(args.error("bond", format!("{} is no bond", i.name)));
    };
    let from = b.config;
    let config = named(args, from)?;
    commit(router, vec![BondOp::Change { instance, from, config }.into()])
}

/// What the words say, of a bond that is `usual` where they are silent.
fn named(args: &Args, usual: BondConfig) -> Result<BondConfig, CommandError> {
    let mode = Mode::ALL.iter().find(|(word, _)| args.has(word)).map(|(_, m)| *m);
    let balance = Balance::ALL.iter().find(|(word, _)| args.has(word)).map(|(_, b)| *b);
    let mode = mode.unwrap_or(usual.mode);
    if let Some(balance) = balance.filter(|_| !mode.balances()) {
        let why = format!("the mode {} does not balance load: only xor and lacp do", mode.name());
        return Err(args.error(balance.name(), why));
    }
    let min_links = args.opt("links")?.unwrap_or(usual.min_links);
    Ok(BondConfig { mode, balance: balance.unwrap_or(usual.balance), min_links })
}

fn add(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let to = interface(router, args, "bond")?;
    if bond(router, to.index).is_none() {
        return Err(args.error("bond", format!("{} is no bond", to.name)));
    }
    let i = interface(router, args, "member")?;
    let (name, bond) = (i.name.clone(), to.name.clone());
    let was = member(router, i.index);
    if let Some(other) = was.filter(|m| m.bond != to.index) {
        let other = router.interface_name(other.bond);
        return Err(args.error("member", format!("{name} is a member of {other}: 'bond del {name}' first")));
    }
    let weight = was.map_or(0, |m| m.config.weight);
    let config =
        MemberConfig { passive: args.has("passive"), long_timeout: args.has("long-timeout"), weight };
    tell(router, name, Some((bond, config)))
}

/// A member, its bond and what is wanted of it.
fn of_member(
    router: &Router,
    args: &Args,
    arg: &str,
) -> Result<(String, String, MemberConfig), CommandError> {
    let i = interface(router, args, arg)?;
    let Some(m) = member(router, i.index) else {
        return Err(args.error(arg, format!("{} is a member of no bond", i.name)));
    };
    Ok((i.name.clone(), router.interface_name(m.bond), m.config))
}

fn tell(
    router: &mut Router,
    name: String,
    bond: Option<(String, MemberConfig)>,
) -> Result<Output, CommandError> {
    commit(router, vec![Op::SetFeature { name, feature: Joins { bond }.into() }])
}
