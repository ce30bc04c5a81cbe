//! Answering for others: proxy ARP (RFC 1027) for ranges of addresses, and neighbour discovery proxies (RFC 4861 section 7.2.8)
//! for single ones.
//!
//! A request for an address of a range is answered on interfaces where the operator allows it, when packets to the address leave
//! the router over another interface: whoever is on the same link answers for itself. Requests of duplicate detection (RFC 5227)
//! are never answered: the asker may be the one who has the address. A proxied IPv6 address stands behind one interface, which
//! becomes its route, and is answered for on all others. What is answered for the router holds ([`crate::neighbor::Proxies`]) as
//! plain data, since ARP and neighbour discovery read it.

pub mod commands;
mod part;

pub(crate) use part::Proxy;
pub use part::{NdProxy, ProxyArp, arp_ranges, nd_proxies};

use crate::interface::{Declared, Setting};

/// Whether ARP requests for addresses of the ranges are answered.
pub static ARP: Setting<bool> =
    Setting::new("answers for proxied ranges", "set interface proxy-arp {} disable");

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 1] = [&ARP.declared];
