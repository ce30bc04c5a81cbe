//! What is said until a connection stands.

use super::config::{Layout, Role};
use super::conn::{Ended, Stage, ended};
use super::hub::{Hub, NAME, Port};
use super::message::{Message, Mode, SECRET, VERSION};
use super::queue::{MemifRx, Senders, TxRing};
use super::region::Region;
use super::ring::{Own, Ring};
use crate::peers::{Event, Link, is_hung_up, of_process};
use crate::signal::Signal;
use graph::RxQueue;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl Hub {
    /// Takes a message of a connection.
    pub(super) fn take(
        &mut self,
        token: u64,
        m: Message,
        fd: Option<OwnedFd>,
        now: u64,
    ) -> Result<(), Ended> {
        let Some(conn) = self.conns.get_mut(&token) else { return Ok(()) };
        if let Message::Disconnect { reason, .. } = m {
            return Err(Ended { why: format!("the other side says: {reason}"), tell: false });
        }
        match (conn.role, &conn.stage, m) {
            (Role::Master, Stage::Fresh, Message::Init { version, id, mode, secret, name }) => {
                conn.peer.program = name;
                self.admit(token, version, id, mode, secret, now)?;
                self.conns.get(&token).map_or(Ok(()), |conn| conn.say(&Message::Ack))
            }
            (Role::Master, Stage::Announcing, Message::AddRegion { index, size }) => {
                conn.add_region(index, size, fd)?;
                conn.say(&Message::Ack)
            }
            (
                Role::Master,
                Stage::Announcing,
                Message::AddRing { s2m, index, region, offset, log2_slots, private },
            ) => {
                if private != 0 {
                    return ended("private headers in front of packets are not for this side");
                }
                conn.add_ring(s2m, index, (region, offset, log2_slots), fd)?;
                conn.say(&Message::Ack)
            }
            (Role::Master, Stage::Announcing, Message::Connect { name }) => {
                conn.peer.interface = name;
                let rings = conn.rings()?;
                let name = conn.port.and_then(|i| self.ports.get(&i)).map(|p| p.name.clone());
                conn.say(&Message::Connected { name: name.unwrap_or_default() })?;
                self.stand(token, rings);
                Ok(())
            }
            (
                Role::Slave,
                Stage::Fresh,
                Message::Hello { name, versions, regions: _, m2s, s2m, log2_slots },
            ) => {
                conn.peer.program = name;
                if !(versions.0..=versions.1).contains(&VERSION) {
                    return ended("the other side does not speak version 2.0");
                }
                self.announce(token, usize::from(s2m) + 1, usize::from(m2s) + 1, log2_slots)
            }
            (Role::Slave, Stage::Announcing, Message::Ack) => conn.go_on(),
            (Role::Slave, Stage::Announcing, Message::Connected { name }) if conn.queue.is_empty() => {
                conn.peer.interface = name;
                let rings = std::mem::take(&mut conn.own);
                self.stand(token, rings);
                Ok(())
            }
            // The last message of the handshake may be taken twice.
            (_, Stage::Standing(_), Message::Ack) => Ok(()),
            _ => ended("a message came that does not belong there"),
        }
    }

    /// A slave says which interface it wants.
    fn admit(
        &mut self,
        token: u64,
        version: u16,
        id: u32,
        mode: Option<Mode>,
        secret: [u8; SECRET],
        now: u64,
    ) -> Result<(), Ended> {
        if version != VERSION {
            return ended("only version 2.0 is spoken here");
        }
        let Some(conn) = self.conns.get(&token) else { return Ok(()) };
        let is =
            |p: &Port| p.config.role == Role::Master && p.config.socket == conn.place && p.config.id == id;
        let Some((interface, port)) = self.ports.iter().find(|(_, p)| is(p)).map(|(i, p)| (*i, p)) else {
            return ended(format!("there is no interface number {id} on this socket"));
        };
        // Every byte is looked at, so that the time taken does not tell how many are right.
        let wrong = port.config.secret_bytes().iter().zip(secret).fold(0, |wrong, (a, b)| wrong | (a ^ b));
        let (name, pid) = (port.name.clone(), conn.peer.pid);
        let why = match port.config.mode {
            _ if !port.up => Some("the interface is down"),
            _ if wrong != 0 => Some("the secret is wrong"),
            ours if mode == Some(ours) => None,
            Mode::Ethernet => Some("this side carries Ethernet frames, the other side something else"),
            Mode::Ip => Some("this side carries IP packets, the other side something else"),
        };
        if let Some(why) = why {
            self.remember(interface, format!("refused a connection{}: {why}", of_process(pid)), now);
            return ended(format!("{name}: {why}"));
        }
        if let Some(other) = port.conn {
            // One that is dead, of which was not read yet.
            if !self.conns.get(&other).is_none_or(|c| is_hung_up(&c.fd)) {
                return ended(format!("{name}: it has a connection already"));
            }
            self.end(other, Ended { why: "the other side has closed it".into(), tell: false }, now);
        }
        if let Some(port) = self.ports.get_mut(&interface) {
            port.conn = Some(token);
        }
        if let Some(conn) = self.conns.get_mut(&token) {
            (conn.port, conn.stage) = (Some(interface), Stage::Announcing);
        }
        Ok(())
    }

    /// A slave makes its memory, and queues what it has to say.
    fn announce(&mut self, token: u64, most_s2m: usize, most_m2s: usize, most_log2: u8) -> Result<(), Ended> {
        let Some(conn) = self.conns.get_mut(&token) else { return Ok(()) };
        let Some(port) = conn.port.and_then(|i| self.ports.get(&i)) else { return Ok(()) };
        let failed =
            |e: io::Error| Ended { why: format!("no memory for rings and buffers: {e}"), tell: true };
        let c = &port.config;
        let layout = Layout::of(c, most_s2m, most_m2s, most_log2);
        let (region, file) = Region::create(layout.bytes() as usize).map_err(failed)?;
        let regions: Arc<[Arc<Region>]> = Arc::new([Arc::new(region)]);
        let mut queue = VecDeque::new();
        let init = Message::Init {
            version: VERSION,
            id: c.id,
            mode: Some(c.mode),
            secret: c.secret_bytes(),
            name: NAME.into(),
        };
        queue.push_back((init, None));
        queue.push_back((Message::AddRegion { index: 0, size: layout.bytes() }, Some(Arc::new(file))));
        for n in 0..layout.s2m + layout.m2s {
            let s2m = n < layout.s2m;
            let index = if s2m { n } else { n - layout.s2m } as u16;
            // Below 4 GiB, as was checked when the interface was made.
            let (at, buffers) = layout.ring(n);
            let own = Own { region: 0, at: buffers as u32, bytes: layout.buffer };
            let Some(ring) = Ring::new(&regions, 0, at as u32, layout.log2_slots, Some(own)) else {
                return ended("the rings do not fit");
            };
            ring.begin();
            let signal = Signal::create().map_err(failed)?;
            let theirs = signal.fd().try_clone_to_owned().map_err(failed)?;
            conn.own.push((!s2m, ring, signal));
            let log2_slots = layout.log2_slots;
            let say = Message::AddRing { s2m, index, region: 0, offset: at as u32, log2_slots, private: 0 };
            queue.push_back((say, Some(Arc::new(theirs))));
        }
        queue.push_back((Message::Connect { name: port.name.clone() }, None));
        conn.peer.slots = 1 << layout.log2_slots;
        conn.peer.regions = (1, layout.bytes());
        (conn.queue, conn.stage) = (queue, Stage::Announcing);
        conn.go_on()
    }

    /// Both sides have agreed.
    fn stand(&mut self, token: u64, rings: Vec<(bool, Ring, Signal)>) {
        let Some(conn) = self.conns.get_mut(&token) else { return };
        let Some(interface) = conn.port else { return };
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let shared = self.fds.shared(&port.drops);
        conn.stage = Stage::Standing(Arc::clone(&shared));
        (port.told, port.trouble) = (None, None);
        let mode = port.config.mode;
        let mut rx: Vec<Box<dyn RxQueue>> = vec![];
        let mut to = vec![];
        for (receives, mut ring, signal) in rings {
            ring.start(receives);
            let shared = Arc::clone(&shared);
            if receives {
                rx.push(Box::new(MemifRx { ring, interface, mode, signal, armed: Cell::new(false), shared }));
            } else {
                to.push(TxRing { ring, mode, signal, shared });
            }
        }
        conn.peer.rings = (rx.len(), to.len());
        let p = &conn.peer;
        let side = if conn.role == Role::Master { "slave" } else { "master" };
        let words = format!(
            "connected: {side} {} ({}){}, {} receive and {} transmit rings of {} slots",
            p.interface,
            p.program,
            of_process(p.pid),
            p.rings.0,
            p.rings.1,
            p.slots
        );
        self.events.push(Event::Up { interface, link: Link { rx, tx: Box::new(Senders::new(to)) }, words });
    }
}
