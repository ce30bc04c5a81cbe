//! `create vhost-user`, `delete vhost-user`, `show vhost-user`.

use super::part::{Vhost, interfaces, name, role};
use super::{Place, Role, VhostConfig, VhostOp, is_name};
use crate::cli::interfaces::{delete_kind, free, made_with_mac};
use crate::cli::is_privileged;
use crate::peers::{for_root, only};
use crate::router::Router;
use command::{Args, Command, CommandError, Output, Table};
use drivers::vhost::{State, feature_names};

/// The commands.
pub(crate) fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "create vhost-user socket <file:path> [server] [feature-mask <mask:string>] [hwaddr <mac:mac>] [renumber <number:u32>] \
             [disable_mrg_rxbuf] [disable_indirect_desc] [gso] [packed]",
            "Make a vhost-user interface: the other end of a virtual machine's network card, or of a program's virtio-user",
            create,
        )
        .arg("file", "full path of the socket, or @NAME in Linux's abstract namespace; for root only")
        .arg("server", "listen on the socket; without it the router connects, again and again until somebody listens")
        .arg("mask", "virtio features that may be offered, as a hexadecimal number; all by default")
        .arg("mac", "MAC address of the interface; the guest's own is another")
        .arg("number", "N of its name VirtualEthernet0/0/N; the first free one by default")
        .arg("disable_mrg_rxbuf", "a packet for the guest lies in one buffer of it, or is lost")
        .arg("disable_indirect_desc", "descriptors stand in the queue alone")
        .arg("gso", "partial checksums and TCP super-frames pass as they are, both ways")
        .arg("packed", "refused: queues are split ones, as every driver has them")
        .details(
            "The answer is the name. It is down at first; set up, it has link as soon as the driver at the other end runs, and again \
             whenever that comes back.",
        )
        .example("create vhost-user socket /run/quiver/vm1.sock server")
        .example("create vhost-user socket /run/vm2.sock hwaddr 02:00:00:00:00:07 renumber 7 gso"),
        Command::write("delete vhost-user <interface:interface>", "Take a vhost-user interface out", |r, a| {
            delete_kind(r, a, "vhost-user interface", |i| is_name(&i.name).is_some())
        })
        .example("delete vhost-user VirtualEthernet0/0/0"),
        Command::read(
            "show vhost-user [<interface:interface>]",
            "vhost-user interfaces, and how they stand",
            show,
        )
        .arg("interface", "only this one")
        .example("show vhost-user"),
    ]
}

fn create(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let file: String = args.get("file")?;
    let place = Place::parse(&file).map_err(|why| args.error("file", why))?;
    if !is_privileged(args) {
        return Err(CommandError::new(for_root(&place)));
    }
    if args.has("packed") {
        return Err(
            "there are no packed queues: leave 'packed' out, every driver has split ones as well".into()
        );
    }
    let mask = match args.opt::<String>("mask")? {
        None => u64::MAX,
        Some(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16)
            .map_err(|_| args.error("mask", format!("'{text}' is no hexadecimal number of 64 bits")))?,
    };
    let number: Option<u32> = args.opt("number")?;
    let number = number.or_else(|| free(router, "VirtualEthernet0/0/", 0..=u32::MAX));
    let number = number.ok_or("there is no free number")?;
    let config = VhostConfig {
        role: if args.has("server") { Role::Server } else { Role::Client },
        mask,
        mergeable: !args.has("disable_mrg_rxbuf"),
        indirect: !args.has("disable_indirect_desc"),
        gso: args.has("gso"),
        ..VhostConfig::new(place)
    };
    let name = name(number);
    made_with_mac(router, args, name, VhostOp::Create { number, config }.into())
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let router = &*router;
    let only = only::<Vhost>(router, args)?;
    let mut table = Table::new().left("Interface").left("Role").left("Socket").left("State").right("Process");
    table = table.right("Pairs").right("Size").right("Regions").right("MiB").left("Features");
    for (index, c, state, peer) in interfaces(router).filter(|(index, ..)| only.is_none_or(|i| i == *index)) {
        let state = match state {
            State::Waiting => "waiting",
            State::Connected => "connected",
            State::Running => "running",
        };
        let peer = peer.as_ref();
        table.row([
            router.interface_name(index).into(),
            role(c).into(),
            c.socket.to_string().into(),
            state.into(),
            peer.and_then(|p| p.pid).map(i64::from).into(),
            peer.map(|p| p.pairs as u64).into(),
            peer.map(|p| p.size).into(),
            peer.map(|p| p.regions.0 as u64).into(),
            peer.map(|p| p.regions.1 >> 20).into(),
            peer.map(|p| feature_names(p.features).join(" ")).into(),
        ]);
    }
    let text = if table.is_empty() {
        "no vhost-user interfaces (create vhost-user)\n".to_owned()
    } else {
        table.to_text()
    };
    Ok(Output::new(text, table.to_json()))
}
