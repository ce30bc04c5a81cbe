//! `create memif socket`, `create interface memif`, `show memif`.

use super::part::{Memif, Socket, interfaces, role, socket_of, sockets};
use super::{MOST_RINGS, MemifConfig, MemifOp, Mode, Place, Role, is_name};
use crate::cli::interfaces::{delete_kind, made_with_mac};
use crate::cli::{commit, is_privileged};
use crate::peers::{for_root, only};
use crate::router::Router;
use command::{Args, Command, CommandError, Output, Table};
use drivers::memif::State;
use serde_json::json;
use std::fmt::Write;

/// The commands.
pub(crate) fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "create memif socket id <number:u32> filename <file:path> [secret <secret:string>]",
            "Say which file the memif socket of a number is",
            create_socket,
        )
        .arg("number", "number of the socket, the first in the names of its interfaces")
        .arg("file", "full path of the socket, or @NAME in Linux's abstract namespace; for root only")
        .arg("secret", "of interfaces on it that have none of their own, at most 24 bytes")
        .secret("secret")
        .details(
            "Nothing is made before the first interface on it. Said once more of the same file it changes nothing. Socket 0 is /run/quiver/memif.sock unless this says otherwise. A \
             document names the file with each interface: a socket without interfaces is not saved.",
        )
        .example("create memif socket id 1 filename /run/quiver/memif1.sock"),
        Command::write("delete memif socket id <number:u32>", "Forget which file a memif socket is", delete_socket)
            .arg("number", "number of the socket, which has no interfaces")
            .example("delete memif socket id 1"),
        Command::write(
            &format!(
                "create interface memif [id <id:u32>] [socket-id <socket:u32>] [master|slave] [mode (ethernet|ip)] \
                 [ring-size <slots:u32 2..16384>] [buffer-size <bytes:u32 64..65536>] [rx-queues <rx:u8 1..{MOST_RINGS}>] \
                 [tx-queues <tx:u8 1..{MOST_RINGS}>] [hw-addr <mac:mac>] [secret <secret:string>] [no-zero-copy]"
            ),
            "Make a memif interface: packets over shared memory to another process of this machine",
            create,
        )
        .arg("id", "number of the interface on the socket, 0 by default: the slave asks for it by this number")
        .arg("socket", "number of the socket, 0 by default (create memif socket)")
        .arg("master", "listen for the other side, and take its memory: the default")
        .arg("slave", "connect to the other side, and give it memory")
        .arg("ethernet", "carry frames: the default")
        .arg("ip", "carry IP packets, to the one other end")
        .arg("slots", "of a slave: slots of each ring, a power of two, 1024 by default")
        .arg("bytes", "of a slave: bytes of each buffer, a multiple of 64, 2048 by default; longer packets take several")
        .arg("rx", "of a slave: rings to receive from, 1 by default; a master takes what the slave has")
        .arg("tx", "of a slave: rings to send to, 1 by default; a master takes what the slave has")
        .arg("mac", "MAC address of the interface")
        .arg("secret", "what the other side must have as well, at most 24 bytes")
        .secret("secret")
        .arg("no-zero-copy", "as always: packets are copied once, between the router's buffers and the shared memory")
        .details(
            "The answer is the name, memifSOCKET/ID. It is down at first; set up, it connects as soon as the other side is there, and \
             again whenever that comes back.",
        )
        .example("create interface memif id 0 socket-id 1 master")
        .example("create interface memif id 7 socket-id 2 slave mode ip ring-size 2048 secret s3cret"),
        Command::write("delete interface memif <interface:interface>", "Take a memif interface out", |r, a| {
            delete_kind(r, a, "memif interface", |i| is_name(&i.name).is_some())
        })
        .example("delete interface memif memif1/0"),
        Command::read("show memif [<interface:interface>]", "memif sockets and interfaces, and how they stand", show)
            .arg("interface", "only this one")
            .example("show memif"),
    ]
}

fn secret(args: &Args) -> Result<Option<String>, CommandError> {
    let secret: Option<String> = args.opt("secret")?;
    match secret {
        Some(s) if s == command::HIDDEN => {
            Err(args.error("secret", format!("{s} stands for a secret that was not shown, and is none")))
        }
        Some(s) if !(1..=drivers::memif::SECRET).contains(&s.len()) => {
            Err(args
                .error("secret", format!("a secret of {} bytes: 1 to {}", s.len(), drivers::memif::SECRET)))
        }
        secret => Ok(secret),
    }
}

/// Refuses a socket to who does not have all rights.
fn check_rights(args: &Args, place: &Place) -> Result<(), CommandError> {
    if is_privileged(args) { Ok(()) } else { Err(CommandError::new(for_root(place))) }
}

fn create_socket(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let file: String = args.get("file")?;
    let place = Place::parse(&file).map_err(|why| args.error("file", why))?;
    check_rights(args, &place)?;
    let number: u32 = args.get("number")?;
    let known = sockets(router);
    let secret = secret(args)?;
    if number != 0
        && let Some(s) = known.get(&number)
    {
        // Said once more it is no change, as in VPP.
        if s.place == place && (secret.is_none() || secret == s.secret) {
            return Ok(Output::none());
        }
        let why = format!("socket {number} is {} already: 'delete memif socket id {number}' first", s.place);
        return Err(args.error("number", why));
    }
    if let Some((other, _)) = known.iter().find(|(n, s)| **n != number && s.place == place) {
        return Err(args.error("file", format!("{place} is socket {other} already")));
    }
    if number == 0 && secret.is_none() && known.get(&0).is_some_and(|s| s.place == place) {
        return Ok(Output::none());
    }
    let socket = Some(Socket { place, secret });
    commit(router, vec![MemifOp::Socket { number, socket }.into()])
}

fn delete_socket(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let number: u32 = args.get("number")?;
    let Some(s) = socket_of(router, number) else {
        return Err(args.error("number", format!("there is no memif socket {number}")));
    };
    check_rights(args, &s.place)?;
    commit(router, vec![MemifOp::Socket { number, socket: None }.into()])
}

fn create(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let id: u32 = args.opt("id")?.unwrap_or(0);
    let number: u32 = args.opt("socket")?.unwrap_or(0);
    let Some(socket) = socket_of(router, number) else {
        let why = format!(
            "there is no memif socket {number}: 'create memif socket id {number} filename FILE' first"
        );
        return Err(args.error("socket", why));
    };
    check_rights(args, &socket.place)?;
    let usual = MemifConfig::new(socket.place, id);
    let config = MemifConfig {
        role: if args.has("slave") { Role::Slave } else { Role::Master },
        mode: if args.has("ip") { Mode::Ip } else { Mode::Ethernet },
        secret: secret(args)?.or(socket.secret),
        slots: args.opt("slots")?.unwrap_or(usual.slots),
        buffer: args.opt("bytes")?.unwrap_or(usual.buffer),
        rx_queues: args.opt::<u8>("rx")?.map_or(usual.rx_queues, usize::from),
        tx_queues: args.opt::<u8>("tx")?.map_or(usual.tx_queues, usize::from),
        ..usual
    };
    let name = format!("memif{number}/{id}");
    made_with_mac(router, args, name, MemifOp::Create { socket: number, config }.into())
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let router = &*router;
    let only = only::<Memif>(router, args)?;
    let mut table = Table::new().left("Interface").left("Role").left("Mode").left("State").left("Peer");
    table = table.left("Program").right("Process").right("Rx").right("Tx").right("Slots").right("MiB");
    table = table.left("Waits for").left("Error").right("Error seconds");
    for (index, _, c, state, peer) in
        interfaces(router).filter(|(index, ..)| only.is_none_or(|i| i == *index))
    {
        let state = match state {
            State::Down => "down",
            State::Waiting => "waiting",
            State::Connecting => "connecting",
            State::Connected => "connected",
        };
        let waits = super::part::waits(router, index);
        let error = waits.as_ref().and_then(|w| w.1.as_ref());
        let of = |text: &str| if text.is_empty() { None } else { Some(text.to_owned()) };
        table.row([
            router.interface_name(index).into(),
            role(c).into(),
            if c.mode == Mode::Ip { "ip" } else { "ethernet" }.into(),
            state.into(),
            peer.and_then(|p| of(&p.interface)).into(),
            peer.and_then(|p| of(&p.program)).into(),
            peer.and_then(|p| p.pid).map(i64::from).into(),
            peer.map(|p| p.rings.0 as u64).into(),
            peer.map(|p| p.rings.1 as u64).into(),
            peer.map(|p| p.slots).into(),
            peer.map(|p| p.regions.1 >> 20).into(),
            waits.as_ref().map(|w| w.0.clone()).into(),
            error.map(|e| e.0.clone()).into(),
            error.map(|e| e.1).into(),
        ]);
    }
    let mut text = String::new();
    let mut all = vec![];
    for (number, s) in sockets(router).into_iter().filter(|_| only.is_none()) {
        let _ = writeln!(text, "socket {number}: {}", s.place);
        all.push(json!({ "id": number, "filename": s.place.to_string() }));
    }
    let json = json!({ "sockets": all, "interfaces": table.to_json() });
    if table.is_empty() {
        text.push_str("no memif interfaces (create interface memif)\n");
    } else {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table.to_text());
    }
    Ok(Output::new(text, json))
}
