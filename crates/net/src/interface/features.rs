//! What the operator switched on for an interface, as workers see it.

use crate::urpf;

/// Settings of the features of an interface; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Which IPv4 sources packets may come from.
    pub urpf4: urpf::Mode,
    /// The same for IPv6.
    pub urpf6: urpf::Mode,
    /// IPv4 fragments are put together.
    pub reassembly4: bool,
    /// IPv6 fragments are put together.
    pub reassembly6: bool,
    /// IPv4 fragments are told their ports.
    pub virtual4: bool,
    /// IPv6 fragments are told their ports.
    pub virtual6: bool,
}

/// A feature's bits on the arcs `ip4-unicast` and `ip6-unicast`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// On `ip4-unicast`.
    pub ip4: u32,
    /// On `ip6-unicast`.
    pub ip6: u32,
}

impl Features {
    /// The features that packets are to visit; `bit` answers that of a node on an arc.
    pub fn bits(&self, bit: impl Fn(&str, &str) -> u32) -> Bits {
        let when = |on: bool, arc: &str, node: &str| if on { bit(arc, node) } else { 0 };
        Bits {
            ip4: when(self.urpf4 != urpf::Mode::Off, "ip4-unicast", "ip4-urpf")
                | when(self.reassembly4, "ip4-unicast", "ip4-full-reassembly")
                | when(self.virtual4, "ip4-unicast", "ip4-sv-reassembly"),
            ip6: when(self.urpf6 != urpf::Mode::Off, "ip6-unicast", "ip6-urpf")
                | when(self.reassembly6, "ip6-unicast", "ip6-full-reassembly")
                | when(self.virtual6, "ip6-unicast", "ip6-sv-reassembly"),
        }
    }
}
