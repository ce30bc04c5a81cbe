//! Commands on mirroring.

use super::{Directions, MOST_DESTINATIONS, Mirror, MirrorBridge, Told, bridges, mirrors};
use crate::cli::{commit, interface, listing};
use crate::l2::bridge::MAX_BRIDGE_ID;
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output, Table};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface span <interface:interface> [l2] [destination <destination:interface>] [both|rx|tx|disable]",
            "Mirror the frames of an interface to another one",
            set,
        )
        .arg("interface", "the interface or sub-interface whose frames are copied")
        .arg("l2", "only frames that the interface has from and for a bridge domain or cross-connect: none while it routes")
        .arg("destination", "where the copies go out")
        .arg("both", "frames received and sent; also when nothing is said")
        .arg("rx", "frames received")
        .arg("tx", "frames sent")
        .arg("disable", "no more: to this destination, or to any")
        .details(&format!(
            "A copy is the frame as it is on the wire; where the destination is a sub-interface, its tags are put in front. \
             Frames of sub-interfaces are among those of the interface that they are of. An interface may have \
             {MOST_DESTINATIONS} destinations. Copies are not mirrored again. Where a destination is down, or buffers are \
             short, none are made: `show errors` counts them."
        ))
        .example("set interface span left destination right both")
        .example("set interface span left destination right rx")
        .example("set interface span left l2 destination right rx")
        .example("set interface span left disable"),
        Command::write(
            &format!(
                "set bridge-domain span <id:u32 1..{MAX_BRIDGE_ID}> [destination <destination:interface>] [both|rx|tx|disable]"
            ),
            "Mirror the frames of a bridge domain to an interface",
            set_bridge,
        )
        .arg("id", "the bridge domain, of all whose members frames are copied")
        .arg("destination", "where the copies go out; where it is a member, its own frames are not copied")
        .arg("both", "frames received and sent by members; also when nothing is said")
        .arg("rx", "frames received by members")
        .arg("tx", "frames sent by members: one that is flooded is copied for each")
        .arg("disable", "no more: to this destination, or to any")
        .details(
            "As if each member that is there, or comes, were mirrored with 'set interface span', where frames come by both only once. \
             Frames between the BVI and the members are seen on the members.",
        )
        .example("set bridge-domain span 10 destination right rx")
        .example("set bridge-domain span 10 disable"),
        Command::read(
            &format!("show bridge-domain span [<id:u32 1..{MAX_BRIDGE_ID}>]"),
            "Which bridge domains are mirrored, and where to",
            show_bridges,
        )
        .arg("id", "only this one")
        .example("show bridge-domain span"),
        Command::read(
            "show interface span [<interface:interface>]...",
            "Which interfaces are mirrored, and where to",
            show,
        )
        .example("show interface span"),
    ]
}

/// What the words of either command want of a source, which has these destinations.
fn wanted(router: &Router, args: &Args, has: Vec<u32>) -> Result<Vec<Mirror>, CommandError> {
    let destination: Option<String> = args.opt("destination")?;
    Ok(match (destination, args.has("disable")) {
        (Some(destination), true) => vec![Mirror::off(destination)],
        (Some(destination), false) => {
            let named = Directions::ALL.iter().find(|(word, _)| args.has(word));
            let directions = named.unwrap_or(&Directions::ALL[0]).1;
            vec![Mirror { destination, directions, l2: args.has("l2") }]
        }
        (None, true) => has.into_iter().map(|to| Mirror::off(router.interface_name(to))).collect(),
        (None, false) => return Err("name the destination: destination INTERFACE".into()),
    })
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let source = interface(router, args, "interface")?;
    let name = source.name.clone();
    let has = mirrors(router, source.index).map(|m| m.0).collect();
    let all = wanted(router, args, has)?;
    if all.is_empty() {
        return Err(args.error("interface", format!("{name} is not mirrored")));
    }
    let op = |m: Mirror| Op::SetFeature { name: name.clone(), feature: m.into() };
    commit(router, all.into_iter().map(op).collect())
}

fn set_bridge(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let bridge: u32 = args.get("id")?;
    let has = bridges(router).filter(|m| m.0 == bridge).map(|m| m.1).collect();
    let all = wanted(router, args, has)?;
    if all.is_empty() {
        return Err(args.error("id", format!("bridge domain {bridge} is not mirrored")));
    }
    commit(router, all.into_iter().map(|mirror| MirrorBridge { bridge, mirror }.into()).collect())
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let columns = Table::new().left("Source").left("Destination").left("Direction").left("Frames");
    listing::table(router, args, columns, |router, i, table| {
        for (to, Told { directions, l2 }) in mirrors(router, i.index) {
            let frames = if l2 { "l2" } else { "all" };
            table.row([
                i.name.clone().into(),
                router.interface_name(to).into(),
                directions.name().into(),
                frames.into(),
            ]);
        }
    })
}

fn show_bridges(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let only: Option<u32> = args.opt("id")?;
    if let Some(id) = only.filter(|id| crate::l2::bridge::bridge(router, *id).is_none()) {
        return Err(args.error("id", format!("there is no bridge domain {id}")));
    }
    let mut table = Table::new().right("BD-ID").left("Destination").left("Direction");
    for (id, to, told) in bridges(router).filter(|(id, ..)| only.is_none_or(|only| only == *id)) {
        table.row([id.into(), router.interface_name(to).into(), told.directions.name().into()]);
    }
    Ok(Output::table(table))
}
