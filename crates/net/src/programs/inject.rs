//! What programs send, put into the graph.

use crate::interface::Interface;
use crate::router::{IfState, Router};
use graph::{Worker, flags};
use packet::ip4::Ip4Header;
use packet::ip6::Ip6Header;
use std::sync::Arc;

/// The nodes that take packets from outside.
pub const NODES: [&str; 6] =
    ["ethernet-input", "ip4-input", "ip6-input", "ip4-lookup", "ip6-lookup", "interface-output"];
/// Packets at once.
pub const MOST_PACKETS: usize = 256;
/// Bytes at once, but for a packet that is larger: a worker copies them between two vectors.
const MOST_BYTES: usize = 256 << 10;
/// Bytes of an Ethernet header with two tags.
const LINK: usize = 22;
/// The shortest frame, bytes: its header.
const LEAST: usize = 14;

/// Packets for a node.
#[derive(Clone, Debug)]
pub struct Inject {
    /// The node.
    pub node: String,
    /// Interface on which they come in.
    pub rx: Option<String>,
    /// Interface over which they leave.
    pub tx: Option<String>,
    /// The packets, from the header with which the node begins.
    pub packets: Arc<[Vec<u8>]>,
}

/// Why packets are not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, `node`, `rx_interface`, `tx_interface` or `packets[N]`.
    pub field: String,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// What it is.
    pub value: String,
    /// For who reads it.
    pub message: String,
}

fn fault(field: &str, rule: &'static str, value: &str, message: impl Into<String>) -> Fault {
    Fault { field: field.into(), rule, value: value.into(), message: message.into() }
}

/// Where packets enter the graph.
#[derive(Clone, Copy)]
struct Entry {
    node: &'static str,
    rx: u32,
    tx: u32,
    flags: u16,
    /// Features of the receive arc, where the packets are frames that come in.
    received: Option<u32>,
}

impl Entry {
    fn put(&self, w: &mut Worker, bytes: &[u8]) -> bool {
        // The last eighth of the buffers is for frames that devices receive.
        let pool = w.dispatcher.env.buffers.pool();
        if pool.global_free() <= pool.count() / 8 {
            return false;
        }
        match self.received {
            Some(features) => w.receive(self.node, self.rx, features, bytes),
            None => w.inject(self.node, bytes, |d| {
                (d.rx, d.tx) = (self.rx, self.tx);
                d.flags |= self.flags;
            }),
        }
    }
}

/// An interface that a field names.
fn named<'r>(router: &'r Router, field: &str, name: Option<&str>) -> Result<&'r IfState, Fault> {
    let Some(name) = name else {
        return Err(fault(field, "missing", "", "this node needs an interface"));
    };
    router.named(name).map_err(|e| fault(field, "unknown", name, e.to_string()))
}

/// An interface with frames of its own.
fn with_frames<'r>(router: &'r Router, field: &str, name: Option<&str>) -> Result<&'r IfState, Fault> {
    let i = named(router, field, name)?;
    match router.takes_no_frames(i.index) {
        Some(why) => Err(fault(field, "no-frames", &i.name, why)),
        None => Ok(i),
    }
}

impl Inject {
    /// Whether the packets are such as the node takes. What depends on the router is looked at in [`Inject::send`].
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), Fault> {
        let n = self.packets.len();
        if n == 0 || n > MOST_PACKETS {
            let why = format!("{n} packets: at least 1, at most {MOST_PACKETS}");
            return Err(fault("packets", "count", &n.to_string(), why));
        }
        for (n, bytes) in self.packets.iter().enumerate() {
            let wrong = |rule, why: String| {
                Err(fault(&format!("packets[{n}]"), rule, &format!("{} bytes", bytes.len()), why))
            };
            match self.node.as_str() {
                "ethernet-input" | "interface-output" if bytes.len() < LEAST => {
                    return wrong("length", format!("a frame has {LEAST} bytes at least"));
                }
                "ip4-input" | "ip6-input" if bytes.is_empty() || bytes.len() > usize::from(u16::MAX) => {
                    return wrong("length", "a packet has 1 to 65535 bytes".into());
                }
                "ip4-lookup" => match packet::ip4::check(bytes, bytes.len()) {
                    Err(e) => return wrong("ip4-header", e.to_string()),
                    Ok(h) if usize::from(Ip4Header(h).total_len()) != bytes.len() => {
                        return wrong("length", format!("its header says {}", Ip4Header(h).total_len()));
                    }
                    Ok(_) => {}
                },
                "ip6-lookup" => match packet::ip6::check(bytes, bytes.len()) {
                    Err(e) => return wrong("ip6-header", e.to_string()),
                    Ok(h) if Ip6Header(h).total_len() != bytes.len() => {
                        return wrong("length", format!("its header says {}", Ip6Header(h).total_len()));
                    }
                    Ok(_) => {}
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Where the packets enter, as the router is now.
    fn entry(&self, router: &Router) -> Result<Entry, Fault> {
        let (rx, tx) = (self.rx.as_deref(), self.tx.as_deref());
        let Some(node) = NODES.iter().copied().find(|n| *n == self.node) else {
            let why = match router.workers().node_names().contains(&self.node.as_str()) {
                true => "takes no packets from outside: it relies on what nodes before it have found out",
                false => "there is no such node",
            };
            return Err(fault("node", "unknown", &self.node, why));
        };
        let fits = |i: &IfState| {
            let most = usize::from(i.mtu) + LINK;
            match self.packets.iter().position(|p| p.len() > most) {
                Some(n) => {
                    let why = format!("a frame of {} has at most {most} bytes", i.name);
                    let value = format!("{} bytes", self.packets.get(n).map_or(0, Vec::len));
                    Err(fault(&format!("packets[{n}]"), "length", &value, why))
                }
                None => Ok(()),
            }
        };
        let entry = Entry { node, rx: u32::MAX, tx: u32::MAX, flags: 0, received: None };
        match node {
            "ethernet-input" => {
                let i = with_frames(router, "rx_interface", rx)?;
                if i.hw() != i.index {
                    let hw = router.interface_name(i.hw());
                    let why = format!("frames of a sub-interface come in on {hw}, with their tags");
                    return Err(fault("rx_interface", "sub-interface", &i.name, why));
                }
                fits(i)?;
                let features = router.seen(i.index).map_or(0, |seen: &Interface| seen.input);
                Ok(Entry { rx: i.index, received: Some(features), ..entry })
            }
            "ip4-input" | "ip6-input" => {
                let i = named(router, "rx_interface", rx)?;
                if !i.up {
                    return Err(fault("rx_interface", "down", &i.name, "the interface is down"));
                }
                Ok(Entry { rx: i.index, ..entry })
            }
            "interface-output" => {
                let i = with_frames(router, "tx_interface", tx)?;
                fits(i)?;
                Ok(Entry { rx: i.index, tx: i.index, flags: flags::LOCAL, ..entry })
            }
            _ => {
                let v6 = node == "ip6-lookup";
                let rx = match rx {
                    Some(_) => named(router, "rx_interface", rx)?.index,
                    None => {
                        let inside = |i: &&IfState| router.table_of_interface(i, v6) == 0;
                        let first = router.interfaces().find(inside).map(|i| i.index);
                        first.ok_or_else(|| {
                            fault("rx_interface", "missing", "", "no interface is in table 0")
                        })?
                    }
                };
                let to_link = self.packets.iter().any(|p| {
                    let to = p.first_chunk().map(|h| Ip6Header(h).dst());
                    v6 && to.is_some_and(|a| a.is_unicast_link_local() || a.is_multicast())
                });
                let tx = match to_link {
                    true => named(router, "tx_interface", tx)?.index,
                    false => u32::MAX,
                };
                Ok(Entry { rx, tx, flags: flags::LOCAL, ..entry })
            }
        }
    }

    /// Puts packets into the graph: `count` of them from place `from` on, over and over, or as many of them as may be put there at
    /// once. Answers how many that are; `done` gets to know how many were taken, on a worker.
    ///
    /// # Errors
    /// The router has no way for them.
    pub fn send(
        &self,
        router: &Router,
        from: usize,
        count: usize,
        done: impl FnOnce(u64) + Send + 'static,
    ) -> Result<usize, Fault> {
        let entry = self.entry(router)?;
        let packets = Arc::clone(&self.packets);
        let now = self.at_once(from, count);
        router.workers().on(0, move |w| {
            let some = packets.iter().cycle().skip(from).take(now);
            done(some.filter(|bytes| entry.put(w, bytes)).count() as u64);
        });
        Ok(now)
    }

    /// How many packets from a place on go at once: one at least, where there is one.
    fn at_once(&self, from: usize, count: usize) -> usize {
        let some = self.packets.iter().cycle().skip(from).take(count.min(MOST_PACKETS));
        let mut bytes = 0;
        let more = some.take_while(|p| {
            let first = bytes == 0;
            bytes += p.len();
            first || bytes <= MOST_BYTES
        });
        more.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_at_once_is_bounded_by_packets_and_bytes() {
        let of = |lengths: &[usize]| {
            let packets: Vec<Vec<u8>> = lengths.iter().map(|n| vec![0; *n]).collect();
            Inject { node: "ip4-input".into(), rx: None, tx: None, packets: packets.into() }
        };
        assert_eq!(of(&[60]).at_once(0, 1000), MOST_PACKETS);
        assert_eq!(of(&[60]).at_once(0, 3), 3);
        assert_eq!(of(&[65_535]).at_once(0, 1000), 4);
        assert_eq!(of(&[60, 65_535]).at_once(1, 1000), 6);
        assert_eq!(of(&[MOST_BYTES + 1]).at_once(0, 1000), 1);
    }
}
