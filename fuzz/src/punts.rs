//! What the control side does with the packets that workers hand over: reads them into neighbour and address tables.

use net::neighbor::address::{AddressState, LinkSettings};
use net::neighbor::wire::{self, Local};
use net::neighbor::{AddressConfig, AddressTable, DadMode, Millis, NeighborConfig, NeighborTable};
use net::punt::{Message, PuntKind, Punted, Request};
use packet::MacAddr;
use std::net::IpAddr;

struct Ours<'a>(&'a AddressTable, u32);

impl Local for Ours<'_> {
    fn mac(&self) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, 1])
    }

    fn address(&self, addr: IpAddr) -> Option<AddressState> {
        self.0.state(self.1, addr)
    }

    fn on_link(&self, _: IpAddr) -> bool {
        true
    }
}

/// New tables, so that an input means the same whatever came before it.
pub struct Control {
    neighbors: NeighborTable,
    addresses: AddressTable,
    now: Millis,
}

impl Control {
    /// Tables of interfaces that are up.
    pub fn new(interfaces: u32) -> Self {
        let mut c = Control {
            neighbors: NeighborTable::new(NeighborConfig::default(), 1),
            addresses: AddressTable::new(AddressConfig::default(), 1),
            now: Millis(1000),
        };
        let ours: [IpAddr; 3] =
            ["192.0.2.1", "2001:db8:1::1", "fe80::1"].map(|a| a.parse().expect("an address"));
        let link = LinkSettings { mac: MacAddr([2, 0, 0, 0, 0, 1]), dad: DadMode::Optimistic, shared: true };
        for i in 0..interfaces {
            c.neighbors.interface_up(i, &mut vec![]);
            c.addresses.link_up(c.now, i, link, &mut vec![]);
            for a in ours {
                c.addresses.added(c.now, i, a, &mut vec![]);
            }
        }
        c
    }

    /// Takes a message and lets time pass.
    pub fn take(&mut self, m: Message) {
        let mut out = vec![];
        match m {
            Message::Request(Request::Resolve { interface, address }) => {
                self.neighbors.resolve_wanted(self.now, interface, address, &mut out);
            }
            Message::Packet(Punted { kind: PuntKind::Icmp, .. }) | Message::Request(Request::MacTable) => {}
            Message::Packet(Punted { kind: PuntKind::Group, bytes, .. }) => {
                let _ = net::multicast::Query::parse(&bytes);
            }
            Message::Packet(Punted { interface, l3, bytes, .. }) => {
                assert!(usize::from(l3) <= bytes.len());
                let Ok(r) = wire::read(&bytes, &Ours(&self.addresses, interface)) else {
                    return;
                };
                if let Some(n) = r.neighbor {
                    self.neighbors.heard(self.now, interface, n.addr, n.mac, n.what, &mut out);
                }
                if let Some(c) = r.conflict {
                    self.addresses.conflict_seen(self.now, interface, c.addr, c.by, c.kind, &mut vec![]);
                }
            }
        }
        self.now = self.now.after(700);
        self.neighbors.tick(self.now, &mut out);
        self.addresses.tick(self.now, &mut vec![]);
    }
}
