//! Commands on interfaces: their settings here, how they are made in `create`, what they show in `show`.

mod create;
mod placement;
mod show;
mod tap;
mod unnumbered;

pub(crate) use create::{delete_kind, free, made, made_with_mac, offload};

use crate::cli::commit;
use crate::interface::MtuOf;
use crate::router::{MTU, Op, Router, check_description};
use command::{Args, Command, CommandError, Output};
use ipnet::IpNet;
use packet::eth::MacAddr;

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    let mut all = vec![
        Command::write(
            "set interface state <interface:interface> (up|down)",
            "Set an interface up or down",
            set_state,
        )
        .arg("up", "take and send packets")
        .arg("down", "drop what comes and what is to be sent")
        .example("set interface state left up"),
        Command::write(
            "set interface mtu [packet|ip4|ip6|mpls] <mtu:u16 0..9216 bytes> <interface:interface>",
            "Set the largest IP packet of an interface",
            set_mtu,
        )
        .arg("packet", "the MTU of the interface, from 128 bytes, of which no protocol has more")
        .arg("ip4", "of IPv4 packets that are sent, from 68 bytes; 0: that of the interface")
        .arg("ip6", "of IPv6 packets that are sent, from 1280 bytes; 0: that of the interface")
        .arg("mpls", "of labelled packets that are sent, from 128 bytes; 0: that of the interface")
        .details(
            "The MTU counts from the IP header on. IPv6 needs 1280 bytes. A sub-interface has at most the MTU of its \
             interface. A Linux device behind the interface is raised when it has less.",
        )
        .example("set interface mtu packet 9000 left")
        .example("set interface mtu 1500 left.100")
        .example("set interface mtu ip6 1400 left"),
        Command::write(
            "set interface ip address <interface:interface> <address:cidr>",
            "Add an address to an interface",
            add_address,
        )
        .details(
            "The prefix becomes connected and the address the router's own. The first IPv6 address brings a \
             link-local one with it. Prefixes of two interfaces may not overlap.",
        )
        .example("set interface ip address left 10.0.1.1/24")
        .example("set interface ip address left 2001:db8:1::1/64"),
        Command::write(
            "set interface ip address del <interface:interface> (<address:cidr>|all)",
            "Remove an address, or all addresses, from an interface",
            del_address,
        )
        .arg("all", "every address that was configured")
        .example("set interface ip address del left 10.0.1.1/24")
        .example("set interface ip address del left all"),
        Command::write(
            "set interface mac address <interface:interface> <mac:mac>",
            "Set the MAC address of an interface",
            set_mac,
        )
        .example("set interface mac address left 02:fe:00:00:00:01"),
        Command::write(
            "set interface promiscuous (on|off) <interface:interface>",
            "Take frames for any station, or only for this one",
            set_promiscuous,
        )
        .example("set interface promiscuous on left"),
        Command::write(
            "set interface description <interface:interface> [<text:string>]",
            "Describe an interface, or remove its description",
            set_description,
        )
        .arg("text", "at most 255 characters; in quotes when there are blanks")
        .example("set interface description left \"to the hosts\""),
        Command::write("clear interfaces", "Start the counters of all interfaces at 0", |_: &mut Router, _| {
            let mut place = None;
            Ok(Output::pages(move |r: &mut Router, _| {
                place = r.clear_interfaces(place);
                Ok(place.is_some())
            }))
        })
        .example("clear interfaces"),
    ];
    all.extend(create::all());
    all.extend(show::all());
    all.extend(tap::all());
    all.extend(placement::all());
    all.extend(unnumbered::all());
    all
}

fn set_state(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    commit(router, vec![Op::SetState { name: args.get("interface")?, up: args.has("up") }])?;
    Ok(caught_up(router))
}

/// The answer comes when all sub-interfaces have followed.
fn caught_up(router: &Router) -> Output {
    if !router.is_behind() {
        return Output::none();
    }
    Output::pages(|router: &mut Router, _| {
        router.catch_up();
        Ok(router.is_behind())
    })
}

fn set_mtu(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let (name, mtu): (String, u16) = (args.get("interface")?, args.get("mtu")?);
    let of = MtuOf::ALL.iter().find(|(word, _)| args.has(word));
    // Only what protocols have of their own can be taken away.
    let least = of.map_or(*MTU.start(), |(_, of)| of.least());
    if !(least..=*MTU.end()).contains(&mtu) && (of.is_none() || mtu != 0) {
        let range = format!("{mtu} is out of range: <mtu> is {least}..{} bytes", MTU.end());
        return Err(args.error("mtu", range));
    }
    commit(
        router,
        vec![match of {
            Some((_, of)) => Op::SetFeature { name, feature: of.setting().to(mtu).into() },
            None => Op::SetMtu { name, mtu },
        }],
    )
}

fn add_address(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    commit(router, vec![Op::AddAddress { name: args.get("interface")?, net: args.get("address")? }])
}

fn del_address(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let name: String = args.get("interface")?;
    let nets: Vec<IpNet> = match args.opt("address")? {
        Some(net) => vec![net],
        None => crate::cli::interface(router, args, "interface")?.addresses.clone(),
    };
    commit(router, nets.into_iter().map(|net| Op::DelAddress { name: name.clone(), net }).collect())
}

fn set_mac(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    commit(router, vec![Op::SetMac { name: args.get("interface")?, mac: Some(MacAddr(args.get("mac")?)) }])?;
    Ok(caught_up(router))
}

fn set_promiscuous(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    commit(router, vec![Op::SetPromiscuous { name: args.get("interface")?, on: args.has("on") }])
}

fn set_description(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let text: Option<String> = args.opt("text")?;
    if let Some(Err(why)) = text.as_deref().map(check_description) {
        return Err(args.error("text", why));
    }
    let text = text.filter(|t| !t.is_empty());
    commit(router, vec![Op::SetDescription { name: args.get("interface")?, text }])
}
