//! What counters by interface and by adjacency mean.

use graph::registry::{Group, Meaning, Unit};

const fn packets(help: &'static str) -> Meaning {
    Meaning { name: "packets", unit: Unit::Packets, help }
}

const fn bytes(help: &'static str) -> Meaning {
    Meaning { name: "bytes", unit: Unit::Bytes, help }
}

const INTERFACE: &[&str] = &["interface"];

pub(super) const RX: Group = Group {
    name: "interface-rx",
    by: INTERFACE,
    fields: &[
        packets(
            "Packets received, without those of interface-rx-ip4 and interface-rx-ip6: add them for all.",
        ),
        bytes("Bytes received, without those of interface-rx-ip4 and interface-rx-ip6: add them for all."),
    ],
};

pub(super) const RX4: Group = Group {
    name: "interface-rx-ip4",
    by: INTERFACE,
    fields: &[
        packets("IPv4 packets received on sub-interfaces and BVIs, as far as they are known at once."),
        bytes("Bytes of the frames of such packets."),
    ],
};

pub(super) const RX6: Group = Group {
    name: "interface-rx-ip6",
    by: INTERFACE,
    fields: &[
        packets("IPv6 packets received on sub-interfaces and BVIs, as far as they are known at once."),
        bytes("Bytes of the frames of such packets."),
    ],
};

pub(super) const IP4: Group = Group {
    name: "interface-ip4",
    by: INTERFACE,
    fields: &[
        packets("Packets of interface-rx that came to ip4-input: add interface-rx-ip4 for all."),
        bytes("Not counted."),
    ],
};

pub(super) const IP6: Group = Group {
    name: "interface-ip6",
    by: INTERFACE,
    fields: &[
        packets("Packets of interface-rx that came to ip6-input: add interface-rx-ip6 for all."),
        bytes("Not counted."),
    ],
};

pub(super) const TX: Group =
    Group { name: "interface-tx", by: INTERFACE, fields: &[packets("Packets sent."), bytes("Bytes sent.")] };

pub(super) const DROPS: Group = Group {
    name: "interface-drop",
    by: &["interface", "reason"],
    fields: &[packets("Packets that came on an interface and were dropped for a reason.")],
};

pub(super) const ADJACENCY: Group = Group {
    name: "adjacency-tx",
    by: &["adjacency"],
    fields: &[packets("Packets sent over an adjacency."), bytes("Bytes sent over an adjacency.")],
};

pub(super) const BRIDGE: Group = Group {
    name: "bridge",
    by: &["bridge"],
    fields: &[
        Meaning {
            name: "macs-refused",
            unit: Unit::Times,
            help: "MAC addresses that a bridge domain did not learn for want of room.",
        },
        Meaning {
            name: "macs-moved",
            unit: Unit::Times,
            help: "MAC addresses of a bridge domain that came from another port than before.",
        },
    ],
};

pub(super) const PORT: Group = Group {
    name: "bridge-port",
    by: INTERFACE,
    fields: &[
        Meaning {
            name: "macs-refused",
            unit: Unit::Times,
            help: "MAC addresses that were not learnt on a port for want of room.",
        },
        Meaning {
            name: "macs-moved",
            unit: Unit::Times,
            help: "MAC addresses that came to a port from another.",
        },
    ],
};
