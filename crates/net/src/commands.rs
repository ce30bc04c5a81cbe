//! All commands of the protocols, in one list; each feature's folder has its own in `commands.rs`.

use crate::router::Router;
use crate::{cli, fib, ip4, l2, mss, nodes, runtime};
use command::Command;

/// Every command over a router.
pub fn all() -> Vec<Command<Router>> {
    let mut all = vec![];
    all.extend(cli::interfaces::all());
    all.extend(l2::commands::all());
    all.extend(fib::commands::all());
    all.extend(cli::neighbors::all());
    all.extend(mss::commands::all());
    all.extend(crate::arp::commands::all());
    all.extend(ip4::commands::all());
    all.extend(crate::redirect::commands::all());
    all.extend(crate::local::commands());
    all.extend(runtime::commands::all());
    all.extend(nodes::PARTS.iter().flat_map(|p| p.commands()));
    all
}

/// Help on keywords that several commands share.
pub const TOPICS: &[(&str, &str)] = &[
    ("show", "Look at the router"),
    ("clear", "Start counters or traces anew"),
    ("set", "Change an interface or a setting"),
    ("create", "Make an interface"),
    ("delete", "Take an interface out"),
    ("ip", "Routes and neighbors"),
    ("packet-generator", "Streams of made packets"),
    ("pcap", "Packet capture"),
    ("trace", "Packet trace"),
    ("set interface", "Change an interface"),
    ("set interface ip", "Addresses and table of an interface"),
    ("set interface arp", "Whose ARP requests are answered"),
    ("set interface l2", "Layer 2: bridge domains, cross-connect, tags"),
    ("set bridge-domain", "Change a bridge domain"),
    ("set bridge-domain arp", "ARP and neighbor discovery in a bridge domain"),
    ("set l2fib", "Addresses of bridge domains"),
    ("l2fib", "Addresses of bridge domains"),
    ("ip route", "Static routes"),
    ("set workers", "How workers wait for packets and share out receive queues"),
    ("mpls", "Label tables and labels"),
    ("mpls table", "Label tables"),
    ("mpls local-label", "Labels that packets come with"),
    ("mpls tunnel", "MPLS tunnels as interfaces"),
    ("show mpls", "Labels, tunnels, and interfaces that take labels"),
    ("set punt", "Limits of packets for the router itself"),
    ("ip neighbor", "Static neighbors, and forgetting neighbors"),
    ("show interface", "Counters or addresses of interfaces"),
    ("show ip", "IPv4 routes, and neighbors of both families"),
    ("show ip6", "IPv6 routes and neighbors"),
    ("create loopback", "Make a loopback interface"),
    ("delete loopback", "Take a loopback interface out"),
];
