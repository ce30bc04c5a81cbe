//! The section `memifs`.

use super::super::decode::{Decoder, Fields};
use super::super::diag::{Diagnostic, Place};
use super::super::model::{Interface, InterfaceKind};
use super::{Section, Seen, Virtual};
use crate::written::{self, Map};
use net::memif::{self, MOST_RINGS, MemifConfig, MemifOp, Mode, Role};
use net::router::{IfState, Op, Router};

const MEMIF: &[&str] =
    &["socket", "role", "mode", "secret", "rx-queues", "tx-queues", "ring-size", "buffer-size"];

/// The section.
pub(super) const SECTION: Section = Section {
    name: "memifs",
    named: |name| memif::is_name(name).is_some(),
    stands_twice: false,
    says_mac: false,
    fields: MEMIF,
    secrets: &["secret"],
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
    let Some((number, id)) = memif::is_name(name) else {
        d.error(place, "object-name", format!("`{name}` is not a name for this section"))
            .value(name)
            .help("memifS/N: the number of the socket, and that of the interface on it");
        return None;
    };
    let socket = d.field(fields, "socket", |d, node| {
        let text = d.text(node, "the path of a socket")?;
        memif::Place::parse(text).map_err(|why| _ = d.error(node.place, "memif-socket", why).value(text)).ok()
    });
    let socket = match socket {
        Some(socket) => socket,
        None if fields.has("socket") => return None,
        None if number == 0 => memif::default_socket().ok()?,
        None => {
            d.error(place, "memif-socket", format!("`{name}` does not say which socket number {number} is"))
                .help("socket: FILE; without it only socket 0 is known");
            return None;
        }
    };
    let usual = MemifConfig::new(socket, id);
    let roles = [("master", Role::Master), ("slave", Role::Slave)];
    let modes = [("ethernet", Mode::Ethernet), ("ip", Mode::Ip)];
    let queues = |d: &mut Decoder<'n>, name| {
        d.field(fields, name, |d, node| d.int(node, 1, MOST_RINGS as u8)).map_or(1, usize::from)
    };
    let mut config = MemifConfig {
        role: d.field(fields, "role", |d, node| d.choice(node, &roles)).unwrap_or_default(),
        mode: d.field(fields, "mode", |d, node| d.choice(node, &modes)).unwrap_or_default(),
        secret: d.field(fields, "secret", Decoder::secret).map(str::to_owned),
        rx_queues: queues(d, "rx-queues"),
        tx_queues: queues(d, "tx-queues"),
        slots: d.field(fields, "ring-size", |d, node| d.int(node, 2, 16_384)).unwrap_or(usual.slots),
        buffer: d.field(fields, "buffer-size", |d, node| d.int(node, 64, 65_536)).unwrap_or(usual.buffer),
        ..usual
    };
    if config.role == Role::Master {
        // Documents of before gave masters what is a slave's, where it means nothing: they must still load.
        let usual = MemifConfig::new(config.socket.clone(), config.id);
        (config.rx_queues, config.tx_queues) = (usual.rx_queues, usual.tx_queues);
        (config.slots, config.buffer) = (usual.slots, usual.buffer);
    }
    if let Err(why) = config.check() {
        d.error(place, "memif-values", why);
        return None;
    }
    let frames = config.mode == Mode::Ethernet;
    let mtu = memif::mtu(&config);
    let op = Some(MemifOp::Create { socket: number, config }.into());
    Some(Virtual { frames, ..Virtual::of(d, place, op, mtu) })
}

fn dump(router: &Router, i: &IfState, to: &mut Map) {
    let Some((_, c)) = memif::config(router, i.index) else { return };
    let usual = MemifConfig::new(c.socket.clone(), c.id);
    to.put("socket", written::Node::text(&c.socket));
    to.put("role", if c.role == Role::Master { "master" } else { "slave" });
    to.put_some("mode", (c.mode == Mode::Ip).then_some("ip"));
    to.put_some("secret", c.secret.as_deref());
    to.put_unless("rx-queues", c.rx_queues as u64, usual.rx_queues as u64);
    to.put_unless("tx-queues", c.tx_queues as u64, usual.tx_queues as u64);
    to.put_unless("ring-size", c.slots, usual.slots);
    to.put_unless("buffer-size", c.buffer, usual.buffer);
}

/// Reports interfaces that cannot be in one router: numbers of sockets that stand for two files, and two sides or numbers on one;
/// and those whose MTU is more than they can have.
pub(super) fn check(d: &mut Decoder<'_>, interfaces: &[Interface]) {
    let mut before: Vec<(&Interface, u32, &MemifConfig)> = vec![];
    for i in interfaces {
        let InterfaceKind::Virtual(Virtual { op: Some(Op::Part(op)), place, path, .. }) = &i.kind else {
            continue;
        };
        let Some(MemifOp::Create { socket, config }) = op.get::<MemifOp>() else { continue };
        let clash = before.iter().find_map(|(other, number, c)| {
            let two = || format!("says that socket {number} is {}", c.socket);
            let why =
                if number == socket && c.socket != config.socket { Some(two()) } else { config.clash(c) };
            Some(format!("`{}` {}", other.name, why?))
        });
        match clash {
            Some(why) => _ = d.errors.add(Diagnostic::new(*place, path.clone(), "memif-socket", why)),
            // Few are many of one socket: those of others are compared by what they say of it alone.
            None => before.push((i, *socket, config)),
        }
        if let Some(most) = config.most_mtu().filter(|most| i.mtu > *most) {
            let text = format!("MTU {} is more than its rings can hold, {most}", i.mtu);
            d.errors
                .add(Diagnostic::new(i.place, format!("{}.mtu", i.path), "mtu", text))
                .help("a larger `ring-size` or `buffer-size`, or a smaller MTU");
        }
    }
}
