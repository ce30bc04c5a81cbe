//! Commands on mirroring.

use super::{Directions, MOST_DESTINATIONS, Mirror, mirrors};
use crate::cli::{commit, interface, listing};
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output, Table};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface span <interface:interface> [destination <destination:interface>] [both|rx|tx|disable]",
            "Mirror the frames of an interface to another one",
            set,
        )
        .arg("interface", "the interface or sub-interface whose frames are copied")
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
        .example("set interface span left disable"),
        Command::read(
            "show interface span [<interface:interface>]...",
            "Which interfaces are mirrored, and where to",
            show,
        )
        .example("show interface span"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let source = interface(router, args, "interface")?;
    let (name, index) = (source.name.clone(), source.index);
    let destination: Option<String> = args.opt("destination")?;
    let mirrors: Vec<Mirror> = match (destination, args.has("disable")) {
        (Some(destination), true) => vec![Mirror::off(destination)],
        (Some(destination), false) => {
            let named = Directions::ALL.iter().find(|(word, _)| args.has(word));
            let directions = named.unwrap_or(&Directions::ALL[0]).1;
            vec![Mirror { destination, directions }]
        }
        (None, true) => mirrors(router, index).map(|m| Mirror::off(router.interface_name(m.0))).collect(),
        (None, false) => return Err("name the destination: destination INTERFACE".into()),
    };
    if mirrors.is_empty() {
        return Err(args.error("interface", format!("{name} is not mirrored")));
    }
    let op = |m: Mirror| Op::SetFeature { name: name.clone(), feature: m.into() };
    commit(router, mirrors.into_iter().map(op).collect())
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let columns = Table::new().left("Source").left("Destination").left("Direction");
    listing::table(router, args, columns, |router, i, table| {
        for (to, directions) in mirrors(router, i.index) {
            table.row([i.name.clone().into(), router.interface_name(to).into(), directions.name().into()]);
        }
    })
}
