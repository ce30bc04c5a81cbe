//! The scenarios: what is in the tables, and which packets come.

use super::feed::{Patch, Template, Traffic};
use super::many;
use super::prefixes::Prefixes;
use super::random::Random;
use super::rig::{Bridging, FIRST, Gre, Labels, Plan, Tags, VNI, Vrfs, list4, list6, prefix};
use super::special::{
    api, churn, converge, crowd, dpdk, growth, idle, io, latency, lines, objects, steering, tables,
};
use super::traffic;
use super::{Bench, Context, Emit};
use std::cell::OnceCell;
use std::path::PathBuf;

/// Destinations that the feed sends to in turn: more than any cache can learn.
pub const DESTINATIONS: usize = 1 << 20;
/// Next hops of the large tables.
pub const HOPS: usize = 256;
/// Interfaces towards them.
const EGRESS: usize = 4;

/// A scenario of the command line.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// How it runs.
    pub what: What,
}

/// Makes the plan of a forwarding scenario.
pub type Make = fn(&Input) -> Result<Plan, String>;

/// Runs a scenario of another kind.
pub type Special = fn(&Context, &Bench, Emit<'_>) -> Result<(), String>;

/// How a scenario runs.
#[derive(Clone, Copy)]
pub enum What {
    /// Packets through the graph.
    Forward(Make),
    /// Something else; only when it is asked for.
    Special(Special),
}

/// What the scenarios make their plans from.
pub struct Input {
    /// Bytes of a frame.
    pub size: usize,
    /// Files with prefixes.
    pub files: Vec<PathBuf>,
    /// What stands in them, once a scenario asked for it.
    pub loaded: OnceCell<(Prefixes, Prefixes)>,
}

impl Input {
    /// The table of the files.
    pub fn table(&self, v6: bool) -> Result<Prefixes, String> {
        let family = if v6 { "IPv6" } else { "IPv4" };
        let none = || format!("needs a table of {family} prefixes: give the file with --table");
        if self.files.is_empty() {
            return Err(none());
        }
        if self.loaded.get().is_none() {
            let mut all = (Prefixes::default(), Prefixes::default());
            for f in &self.files {
                let (four, six) = super::prefixes::load(f)?;
                all = (all.0.with(four), all.1.with(six));
            }
            let _ = self.loaded.set(all);
        }
        let found = self.loaded.get().map(|t| if v6 { &t.1 } else { &t.0 });
        found.filter(|t| t.len() != 0).cloned().ok_or_else(none)
    }
}

/// All scenarios; those that forward packets come first, in the order of a full run.
pub const ALL: &[Scenario] = &[
    forward("l2xc", "cross-connect of two interfaces", |i| {
        let traffic = one(traffic::ethernet(i.size, 0));
        Ok(Plan { xconnect: true, traffic, ..Plan::default() })
    }),
    forward("l2bd", "bridge domain, learning, one address at each end", |i| {
        let traffic = one(traffic::ethernet(i.size, 0));
        Ok(Plan { bridging: Bridging::Members, traffic, ..Plan::default() })
    }),
    forward("l2bd-1k", "the same, 512 addresses at each end", |i| bridged(i, 512)),
    forward("l2bd-1m", "the same, 524,288 addresses at each end", |i| bridged(i, 1 << 19)),
    forward("bvi", "as ip4, from a bridge domain through its BVI", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { bridging: Bridging::In, ..plan })
    }),
    forward("bvi-out", "as ip4, to a bridge domain through its BVI", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { bridging: Bridging::Out, ..plan })
    }),
    forward("ip4", "IPv4, one route", |i| plain(i, small_table(false)?, 1)),
    forward("ip4-1k", "IPv4, 1000 routes, lengths as in the Internet", |i| mix(i, false, 1000)),
    forward("ip4-100k", "IPv4, 100,000 routes", |i| mix(i, false, 100_000)),
    forward("ip4-1m", "IPv4, a million routes", |i| mix(i, false, 1_000_000)),
    forward("ip4-internet", "IPv4, the table of --table, 256 next hops", |i| plain(i, i.table(false)?, HOPS)),
    forward("ip4-internet-skew", "the same, destinations by Zipf's law", |i| {
        let table = i.table(false)?;
        let dst4 = list4(&table.zipf(DESTINATIONS, &mut Random::new(2)));
        let traffic = Traffic { dst4, ..one(traffic::ip4(i.size, 0)?) };
        Ok(spread(table, HOPS, traffic))
    }),
    forward("ip6", "IPv6, one route", |i| plain(i, small_table(true)?, 1)),
    forward("ip6-100k", "IPv6, 100,000 routes, lengths as in the Internet", |i| mix(i, true, 100_000)),
    forward("ip6-internet", "IPv6, the table of --table, 256 next hops", |i| plain(i, i.table(true)?, HOPS)),
    forward("ip6-1m", "IPv6, a million routes", |i| mix(i, true, 1_000_000)),
    forward("internet", "both tables of --table, as many packets of each in random order", |i| {
        internet(i, |random| traffic::order(&[1, 1], random))
    }),
    forward("internet-turns", "the same, 256 packets of each in turn", |i| {
        internet(i, |_| [0, 1].into_iter().flat_map(|family| std::iter::repeat_n(family, 256)).collect())
    }),
    forward("ip4-ecmp16", "IPv4, one route with 16 paths", |i| {
        let plan = plain(i, small_table(false)?, 16)?;
        Ok(Plan { paths: 16, ..plan })
    }),
    forward("ip4-beside", "IPv4, one route, frames of another interface mirrored", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { egress: 3, mirror_beside: true, ..plan })
    }),
    forward("urpf-strict", "IPv4, one route, sources checked strictly", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { urpf_strict: true, ..plan })
    }),
    forward("urpf-strict6", "the same over IPv6", |i| {
        let plan = plain(i, small_table(true)?, 1)?;
        Ok(Plan { urpf_strict: true, ..plan })
    }),
    forward("vrf", "IPv4, one route, in a routing table of its own", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { vrfs: Vrfs::One, ..plan })
    }),
    forward("vrf6", "the same over IPv6", |i| {
        let plan = plain(i, small_table(true)?, 1)?;
        Ok(Plan { vrfs: Vrfs::One, ..plan })
    }),
    forward("ip4-recursive", "IPv4, one route, its next hop found over three others", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { recursive: 3, ..plan })
    }),
    forward("mpls-ingress", "IPv4, one route that puts a label on", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { labels: Labels::Push(1), ..plan })
    }),
    forward("mpls-ingress2", "IPv4, one route that puts two labels on", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { labels: Labels::Push(2), ..plan })
    }),
    forward("mpls-ingress-1m", "IPv4, a million routes over 64 next hops, each with a label", |i| {
        let plan = plain(i, Prefixes::mix(false, 1_000_000, &mut Random::new(20_260_511)), 64)?;
        Ok(Plan { labels: Labels::Push(1), ..plan })
    }),
    forward("mpls-swap", "one label for another", |i| labelled(i, Labels::Swap(1), FIRST)),
    forward("mpls-swap-1m", "the same, a million labels over 64 next hops", |i| {
        let labels = 1_000_000;
        let mut all: Vec<u32> = (FIRST..FIRST + labels).collect();
        Random::new(5).shuffle(&mut all);
        let list: Vec<u32> = all.iter().map(|l| l << 12 | 1 << 8 | 64).collect();
        let template = Template { patch: Patch::Word(14), ..traffic::labelled(i.size, FIRST)? };
        let traffic = Traffic { dst4: list.into(), ..one(template) };
        Ok(Plan { labels: Labels::Swap(labels), ..spread(small_table(false)?, 64, traffic) })
    }),
    forward("mpls-egress", "a label taken off, the IPv4 packet looked up", |i| {
        labelled(i, Labels::Lookup, FIRST)
    }),
    forward("mpls-explicit-null", "the same for label 0", |i| labelled(i, Labels::Lookup, 0)),
    forward("mpls-php", "a label taken off, the IPv4 packet to the next hop", |i| {
        labelled(i, Labels::Pop, FIRST)
    }),
    forward("gre-encap", "IPv4, one route into a GRE tunnel over IPv4", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        Ok(Plan { gre: Gre::In, ..plan })
    }),
    forward("gre-decap", "IPv4, out of a GRE tunnel over IPv4, one route", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        let traffic = Traffic { templates: vec![traffic::gre(i.size)?], ..plan.traffic };
        Ok(Plan { gre: Gre::Out, traffic, ..plan })
    }),
    forward("vxlan-encap", "IPv4, from a bridge domain into a VXLAN tunnel over IPv4", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        let traffic = Traffic { templates: vec![traffic::to_station(i.size)?], ..plan.traffic };
        Ok(Plan { bridging: Bridging::IntoVxlan, traffic, ..plan })
    }),
    forward("vxlan-decap", "IPv4, out of a VXLAN tunnel over IPv4 into a bridge domain", |i| {
        let plan = plain(i, small_table(false)?, 1)?;
        let traffic = Traffic { templates: vec![traffic::vxlan(i.size, VNI)?], ..plan.traffic };
        Ok(Plan { bridging: Bridging::OutOfVxlan, traffic, ..plan })
    }),
    forward("vlan", "IPv4, 802.1Q in and out, one route", |i| {
        many::routed(i, Tags::One, 1, Vrfs::None, false)
    }),
    forward("vlan-4k", "the same, 4000 sub-interfaces on which packets come in random order", |i| {
        many::routed(i, Tags::One, 4000, Vrfs::None, false)
    }),
    forward("qinq", "IPv4, two tags in, one out, one route", |i| {
        many::routed(i, Tags::Two, 1, Vrfs::None, false)
    }),
    forward("qinq-10k", "the same, 10,000 sub-interfaces on which packets come in random order", |i| {
        many::routed(i, Tags::Two, 10_000, Vrfs::None, false)
    }),
    forward("vlan-vrf", "IPv4, 802.1Q in, one route in a routing table of its own", |i| {
        many::routed(i, Tags::One, 1, Vrfs::Each, false)
    }),
    forward("vlan-vrf-4k", "the same, 4000 sub-interfaces and tables in random order", |i| {
        many::routed(i, Tags::One, 4000, Vrfs::Each, false)
    }),
    forward("vlan-vrf6", "IPv6, 802.1Q in, one route in a routing table of its own", |i| {
        many::routed(i, Tags::One, 1, Vrfs::Each, true)
    }),
    forward("vlan-vrf6-4k", "the same, 4000 sub-interfaces and tables in random order", |i| {
        many::routed(i, Tags::One, 4000, Vrfs::Each, true)
    }),
    forward("l2bd-vlan", "bridge domain of two tagged sub-interfaces, tags popped and pushed", |i| {
        many::bridged(i, 1)
    }),
    forward("l2bd-vlan-4k", "the same, 4000 of them in random order", |i| many::bridged(i, 4000)),
    forward("imix", "IPv4, one route, frames of 64, 594 and 1518 bytes 7:4:1", |i| {
        let mut plan = plain(i, small_table(false)?, 1)?;
        let kinds = traffic::IMIX.map(|(size, _)| traffic::ip4(size, 0));
        plan.traffic.templates = kinds.into_iter().collect::<Result<_, _>>()?;
        plan.traffic.order = traffic::order(&traffic::IMIX.map(|k| k.1), &mut Random::new(4));
        Ok(plan)
    }),
    forward("mixed", "IPv4, IPv6, ARP and bad packets in one vector", |i| {
        let kinds = traffic::mixed(i.size)?;
        let (four, six) = (small_table(false)?, small_table(true)?);
        let mut random = Random::new(1);
        let traffic = Traffic {
            dst4: list4(&four.uniform(DESTINATIONS, &mut random)),
            dst6: list6(&six.uniform(DESTINATIONS, &mut random)),
            order: traffic::order(&kinds.iter().map(|k| k.1).collect::<Vec<_>>(), &mut random),
            templates: kinds.into_iter().map(|k| k.0).collect(),
            ..Traffic::default()
        };
        Ok(Plan { routes: vec![four, six], traffic, ..Plan::default() })
    }),
    special("tables", "each table alone: lookups, changes, memory", tables::run),
    special("lines", "what the memory takes for a cache line, from 16 KiB to 64 MiB of them", lines::run),
    special("objects", "what memory takes of each packet where there are thousands of objects", objects::run),
    special("churn", "full speed while the updates of --updates change the table of --table", churn::run),
    special("api", "routes over the API: a million set, read back, deleted; one at a time", api::run),
    special(
        "crowd",
        "what workers and others notice of many clients of the API, bad ones among them",
        crowd::run,
    ),
    special("converge", "a next hop of a million prefixes goes", converge::run),
    special("latency", "time in the graph at 1, 10, 50 and 90 % load", latency::run),
    special("dpdk", "ip4 from DPDK's net_null to net_null, in turns with ip4", dpdk::run),
    special(
        "io",
        "ip4 with testpmd on another core, over each kind of device: all of the following",
        io::run,
    ),
    special("io-memif", "two memif interfaces", io::memif),
    special("io-vhost-user", "two vhost-user interfaces", io::vhost),
    special(
        "steering",
        "one queue whose packets all workers of --workers share, in turns with one worker",
        steering::run,
    ),
    special("idle", "CPU without traffic, and the time to wake up", idle::run),
    special("growth", "clocks a packet against what grows: all of the following", growth::run),
    special("growth-routes4", "IPv4 routes, 1 to 4 million", growth::routes4),
    special("growth-routes6", "IPv6 routes, 1 to 2 million", growth::routes6),
    special("growth-flows", "different destinations in a large table", growth::flows),
    special("growth-size", "bytes of a frame, 64 to 9000", growth::sizes),
    special("growth-vector", "packets of a vector, 1 to 256, with one route and with many", growth::vectors),
    special("growth-subs", "sub-interfaces on which packets come, 1 to 1000", growth::subs),
    special(
        "growth-vrfs",
        "routing tables, each of a sub-interface on which packets come, 1 to 4000",
        growth::vrfs,
    ),
];

/// Packets of both families to all prefixes of the real tables; `order` says which family follows which.
fn internet(i: &Input, order: impl FnOnce(&mut Random) -> Vec<u16>) -> Result<Plan, String> {
    both(i, i.table(false)?, i.table(true)?, order)
}

/// As `internet`; without real tables with made ones of about their size.
pub fn internet_or_mix(i: &Input) -> Result<Plan, String> {
    let made = |v6, routes| Prefixes::mix(v6, routes, &mut Random::new(20_260_511));
    let four = i.table(false).unwrap_or_else(|_| made(false, 1_000_000));
    let six = i.table(true).unwrap_or_else(|_| made(true, 250_000));
    both(i, four, six, |random| traffic::order(&[1, 1], random))
}

fn both(
    i: &Input,
    four: Prefixes,
    six: Prefixes,
    order: impl FnOnce(&mut Random) -> Vec<u16>,
) -> Result<Plan, String> {
    let mut random = Random::new(1);
    let traffic = Traffic {
        templates: vec![traffic::ip4(i.size, 0)?, traffic::ip6(i.size, 0)?],
        order: order(&mut random),
        dst4: list4(&four.uniform(DESTINATIONS, &mut random)),
        dst6: list6(&six.uniform(DESTINATIONS, &mut random)),
        ..Traffic::default()
    };
    Ok(Plan { routes: vec![four, six], hops: HOPS, egress: EGRESS, traffic, ..Plan::default() })
}

/// IPv4 packets behind a label.
fn labelled(i: &Input, labels: Labels, label: u32) -> Result<Plan, String> {
    let plan = plain(i, small_table(false)?, 1)?;
    let traffic = Traffic { templates: vec![traffic::labelled(i.size, label)?], ..plan.traffic };
    Ok(Plan { labels, traffic, ..plan })
}

/// Frames between `each` stations on one side of a bridge domain and as many on the other, in random order.
fn bridged(i: &Input, each: usize) -> Result<Plan, String> {
    let mac = |side: u8, n: usize| [2, side, 0, (n >> 16) as u8, (n >> 8) as u8, n as u8];
    let mut random = Random::new(3);
    let (mut to, mut from): (Vec<usize>, Vec<usize>) = ((0..each).collect(), (0..each).collect());
    random.shuffle(&mut to);
    random.shuffle(&mut from);
    let pair = |(to, from): (&usize, &usize)| {
        let [a, b, c, d, e, f] = mac(0xb, *to);
        let [g, h, i, j, k, l] = mac(0xa, *from);
        [a, b, c, d, e, f, g, h, i, j, k, l]
    };
    let macs = to.iter().zip(&from).map(pair).collect();
    let template = Template { patch: Patch::Macs, ..traffic::ethernet(i.size, 0) };
    let traffic = Traffic { macs, ..one(template) };
    Ok(Plan { bridging: Bridging::Members, traffic, ..Plan::default() })
}

const fn special(name: &'static str, about: &'static str, run: Special) -> Scenario {
    Scenario { name, about, what: What::Special(run) }
}

const fn forward(name: &'static str, about: &'static str, make: Make) -> Scenario {
    Scenario { name, about, what: What::Forward(make) }
}

/// One route, in the address space for benchmarks (RFC 2544) or documentation (RFC 3849).
pub fn small_table(v6: bool) -> Result<Prefixes, String> {
    prefix(if v6 { "2001:db8::/32" } else { "198.18.0.0/15" })
}

/// The route that holds every address.
pub fn default_route(v6: bool) -> Result<Prefixes, String> {
    prefix(if v6 { "::/0" } else { "0.0.0.0/0" })
}

/// Traffic of one kind.
pub fn one(template: Template) -> Traffic {
    Traffic { templates: vec![template], order: vec![0], ..Traffic::default() }
}

/// Routes spread over next hops.
pub fn spread(table: Prefixes, hops: usize, traffic: Traffic) -> Plan {
    Plan { routes: vec![table], hops, egress: EGRESS.min(hops), traffic, ..Plan::default() }
}

/// Destinations at random over all of a table.
pub fn plain(i: &Input, table: Prefixes, hops: usize) -> Result<Plan, String> {
    let list = table.uniform(DESTINATIONS, &mut Random::new(1));
    let traffic = match table.v6 {
        false => Traffic { dst4: list4(&list), ..one(traffic::ip4(i.size, 0)?) },
        true => Traffic { dst6: list6(&list), ..one(traffic::ip6(i.size, 0)?) },
    };
    Ok(spread(table, hops, traffic))
}

/// A made table.
pub fn mix(i: &Input, v6: bool, routes: usize) -> Result<Plan, String> {
    plain(i, Prefixes::mix(v6, routes, &mut Random::new(20_260_511)), 1)
}
