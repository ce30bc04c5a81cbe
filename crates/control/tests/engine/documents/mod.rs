//! Random documents over few names, so that two of them have much in common. A fuzz target draws them too.

mod above;
mod devices;
mod draw;
mod layer2;
mod layer3;
mod machine;

use draw::Draw;
use std::fmt::Write as _;

/// Where capture files go.
const OUT: &str = match option_env!("CARGO_TARGET_TMPDIR") {
    Some(folder) => folder,
    None => "/tmp",
};

struct Doc {
    d: Draw,
    devices: String,
    interfaces: String,
    loopbacks: String,
    l2: String,
    l3: String,
    rest: String,
    routed: Vec<String>,
    bridged: Vec<(String, u64)>,
    bare: Vec<String>,
    /// Interfaces that come behind those of the devices.
    others: String,
    /// What is said of stations of bridge domains.
    stations: String,
    /// Interfaces that use addresses of others.
    unnumbered: Vec<String>,
    /// Numbers of [`NETS`] that interfaces have.
    taken: Vec<u8>,
    /// Routing tables that there are: number, and whether of IPv6.
    tables: Vec<(u32, bool)>,
    /// What the machine has a part in may be drawn: pairs in Linux, TAPs, sockets, files that are read.
    machine: bool,
}

/// Addresses; those of a number overlap.
const NETS: [(u8, &str); 6] = [
    (0, "10.0.0.1/24"),
    (1, "10.0.1.1/24"),
    (1, "10.0.1.2/24"),
    (2, "10.0.2.1/30"),
    (3, "172.16.0.1/16"),
    (3, "172.16.9.1/24"),
];
const NETS6: [(u8, &str); 3] = [(4, "2001:db8:1::1/64"), (5, "2001:db8:2::1/64"), (5, "2001:db8:2::2/64")];

/// Tables of these numbers, for IPv6 or IPv4.
type Needs = [(u32, bool)];

impl Doc {
    fn addresses(&mut self) -> String {
        let (mut out, mut mine): (Vec<&str>, Vec<u8>) = (vec![], vec![]);
        for _ in 0..self.d.below(4) {
            let (number, net) = if self.d.one_in(3) { self.d.of(&NETS6) } else { self.d.of(&NETS) };
            // Interfaces of different tables may have the same.
            let free = !self.taken.contains(&number) || self.d.one_in(12);
            if !out.contains(&net) && (free || mine.contains(&number)) {
                out.push(net);
                mine.push(number);
            }
        }
        self.taken.extend(mine);
        if out.is_empty() {
            String::new()
        } else {
            format!("addresses: [{}]", out.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", "))
        }
    }

    /// One of the texts whose tables are there.
    fn of_tables<'a>(&mut self, all: &[(&'a str, &Needs)]) -> Option<&'a str> {
        let are_there = |(_, needs): &&(&str, &Needs)| needs.iter().all(|n| self.tables.contains(n));
        let all: Vec<&str> = all.iter().filter(are_there).map(|(text, _)| *text).collect();
        (!all.is_empty()).then(|| self.d.of(&all))
    }

    /// A device whose addresses another one may use as its own.
    fn lender(&mut self) -> Option<String> {
        let all: Vec<&String> = self.routed.iter().filter(|i| !i.contains('.')).collect();
        let last = all.last().map(|i| (*i).clone())?;
        // One that is unnumbered lends nothing.
        (self.d.one_in(7) && !self.unnumbered.contains(&last)).then_some(last)
    }
}

/// The document of some bytes and a seed.
pub fn drawn(bytes: &[u8], seed: u64) -> String {
    written(bytes, seed, false)
}

/// A document of a seed that has a part in Linux, for a network namespace of its own.
#[allow(dead_code, reason = "a fuzz target has none")]
pub fn drawn_with_machine(seed: u64) -> String {
    written(&[], seed, true)
}

fn written(bytes: &[u8], seed: u64, machine: bool) -> String {
    let mut doc = Doc {
        d: Draw { seed, bytes: bytes.iter().copied().collect() },
        devices: String::new(),
        interfaces: String::new(),
        loopbacks: String::new(),
        l2: String::new(),
        l3: String::new(),
        rest: String::new(),
        routed: vec![],
        bridged: vec![],
        bare: vec![],
        stations: String::new(),
        unnumbered: vec![],
        taken: vec![],
        tables: vec![],
        others: String::new(),
        machine,
    };
    doc.tables();
    let mut order: Vec<u64> = (0..4).collect();
    if doc.d.one_in(2) {
        order.swap(0, 2);
    }
    order.into_iter().for_each(|n| doc.device(n));
    let others = std::mem::take(&mut doc.others);
    doc.interfaces += &others;
    let mut bvi = vec![];
    (0..3).for_each(|n| doc.loopback(n, &mut bvi));
    doc.bridges(bvi);
    doc.tunnels();
    doc.layer3();
    doc.above();
    doc.bond();
    if machine {
        doc.sockets();
        doc.pairs();
    }
    doc.workers();
    let mut out = String::new();
    let mut l2 = if doc.l2.is_empty() { String::new() } else { format!("  interfaces:\n{}", doc.l2) };
    if !doc.stations.is_empty() {
        l2 += &format!("  bridgedomains:\n{}", doc.stations);
    }
    if doc.d.one_in(5) {
        l2 += &format!("  learn-limit: {}\n", doc.d.of(&[1000, 2000]));
    }
    for (name, body) in [
        ("devices", &doc.devices),
        ("interfaces", &doc.interfaces),
        ("loopbacks", &doc.loopbacks),
        ("l2", &l2),
        ("l3", &doc.l3),
    ] {
        if !body.is_empty() {
            let _ = write!(out, "{name}:\n{body}");
        }
    }
    out + &doc.rest
}
