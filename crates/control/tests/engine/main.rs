//! A router that a document is applied to is as one that was started with it, byte for byte of what it dumps; and one to which it
//! could not be applied is as it was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod brought;
mod commands;
mod documents;
mod edits;
mod fields;

use control::dump::{Dump, Source};
use control::engine::{self, Carry, Failed, Plan, Progress, Reading, Session, Side};
use control::{apply, yaml};
use net::router::{Router, RouterConfig};
use proptest::prelude::*;
use std::time::Duration;

/// Whether the test's thread has a network namespace of its own from now on.
fn own_namespace() -> bool {
    thread_local! {
        static OWN: bool = {
            let flags = rustix::thread::UnshareFlags::NEWNET;
            // SAFETY: a network namespace of its own shares nothing that another thread of the process would miss.
            #[allow(unsafe_code)]
            let own = unsafe { rustix::thread::unshare_unsafe(flags) }.is_ok();
            own
        };
    }
    OWN.with(|own| *own)
}

/// A document of a seed. In a namespace of its own Linux has a part in it.
fn seeded(seed: u64) -> String {
    match own_namespace() {
        true => documents::drawn_with_machine(seed),
        false => documents::drawn(&[], seed),
    }
}

/// A document that is right.
fn document() -> impl Strategy<Value = String> {
    let good = |text: &String| yaml::load("test.yaml", text).is_ok();
    any::<u64>().prop_map(move |seed| (0..).map(|n| seeded(seed.wrapping_add(n))).find(good).unwrap())
}

struct Running {
    router: Router,
    settings: yaml::Settings,
}

fn parse(text: &str) -> yaml::Document {
    yaml::load("test.yaml", text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// None where the router refuses what the document may say.
fn try_start(text: &str) -> Option<Running> {
    let document = parse(text);
    let pool = graph::PoolConfig { buffers: 4096, memory: graph::PoolMemory::Normal };
    let config = apply::router_config(&document);
    let mut router = Router::new(RouterConfig { pool, cpus: vec![], ..config }).unwrap();
    match apply::start(&document, &mut router) {
        Ok(_) => Some(Running { router, settings: document.settings }),
        Err(e) => {
            if std::env::var_os("ENGINE_LOUD").is_some() {
                eprintln!("{e}");
            }
            router.shutdown();
            None
        }
    }
}

fn start(text: &str) -> Running {
    try_start(text).unwrap_or_else(|| panic!("{text}"))
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its devices go before another router opens them.
        self.router.shutdown();
    }
}

impl Running {
    fn dump(&self) -> String {
        Dump::text(Source { router: &self.router, settings: &self.settings })
    }

    fn plan(&self, text: &str) -> Plan {
        engine::plan(&Reading::whole(&self.router, &self.settings).unwrap(), &Side::of(&parse(text))).unwrap()
    }

    fn carry(&mut self, mut carry: Carry) -> Result<(), Failed> {
        let done = loop {
            match carry.go_on(&mut self.router, Duration::ZERO) {
                Progress::More | Progress::Waits => {}
                Progress::Done => break Ok(()),
                Progress::Failed(failed) => break Err(failed),
            }
        };
        // Of several routes of a prefix the best one takes over in turns.
        (0..32).for_each(|_| self.router.tick());
        done
    }

    fn apply(&mut self, text: &str) {
        let plan = self.plan(text);
        let steps = words(&plan);
        if let Err(e) = self.carry(Carry::new(plan)) {
            panic!("{e:?}\n{}\n{steps}\n---\n{text}", self.dump());
        }
    }
}

/// The steps, one a line.
fn words(plan: &Plan) -> String {
    plan.steps.iter().map(|s| format!("{:?} {:?} {:?}\n", s.phase, s.id, s.anew)).collect()
}

fn lines(plan: &Plan) -> Vec<String> {
    plan.lines().iter().map(|l| format!("{} {}", l.sign, l.text)).collect()
}

const TWO: &str = "\
loopbacks:
  loop0: {addresses: [10.0.0.1/24, 10.0.0.2/24], mtu: 9000}
  loop1: {description: second}
routes:
  - 10.1.0.0/16 via 10.0.0.9
  - 10.2.0.0/16 via 10.0.0.9 weight 2, 10.0.0.8
";

#[test]
fn what_runs_differs_in_nothing_from_its_document() {
    for text in ["", TWO] {
        let running = start(text);
        assert_eq!(words(&running.plan(text)), "", "{text}");
    }
}

#[test]
fn a_default_route_of_linux_moves_from_one_tap_to_another() {
    if !own_namespace() {
        return;
    }
    let tap = |n: u8| {
        format!(
            "taps: {{tap{n}: {{host: {{name: qg{n}, ip4-address: 10.43.{n}.2/24, ip4-gateway: 10.43.{n}.1, \
             mac: \"02:00:00:00:0e:0{n}\"}}}}}}\ninterfaces: {{tap{n}: {{mac: \"02:00:00:00:0f:0{n}\"}}}}\n"
        )
    };
    let wanted = start(&tap(1)).dump();
    let mut running = start(&tap(2));
    running.apply(&tap(1));
    same(&running.dump(), &wanted, "", "moved");
}

/// What outlives its router is not in the way of one that wants another number of queues: Linux makes a device for one or for several.
#[test]
fn a_persistent_tap_gets_another_number_of_queues() {
    if !own_namespace() {
        return;
    }
    let tap = |device: &str| {
        format!(
            "devices: {{tap0: {{driver: tap, {device}}}}}\ntaps: {{tap0: {{host: {{name: qp0, mac: \"02:00:00:00:0e:00\"}}}}}}\n\
             interfaces: {{tap0: {{mac: \"02:00:00:00:0f:00\"}}}}\n"
        )
    };
    let all = ["persistent: true", "persistent: true, rx-queues: 2", "rx-queues: 3", "offload: auto"];
    for (n, a) in all.iter().enumerate() {
        for b in all.iter().skip(n + 1).chain(all.iter().take(n)) {
            let wanted = start(&tap(b)).dump();
            let mut running = start(&tap(a));
            running.apply(&tap(b));
            same(&running.dump(), &wanted, a, b);
        }
    }
}

#[test]
fn a_plan_touches_only_what_differs() {
    let running = start(TWO);
    let other =
        TWO.replace("mtu: 9000", "mtu: 8000").replace("10.0.0.8", "10.0.0.7").replace("second", "2nd");
    let plan = running.plan(&other);
    assert_eq!(
        lines(&plan),
        [
            "~ interface loop0: MTU: 9000 -> 8000",
            "~ interface loop1: description: \"second\" -> \"2nd\"",
            "~ 1 route (10.2.0.0/16)",
        ]
    );
    let (all, _) = engine::differences(&plan, (0, 0), 100);
    let last = &all.last().unwrap().text;
    assert_eq!(
        last,
        "route 10.2.0.0/16: via 10.0.0.9 weight 2 via 10.0.0.8 -> via 10.0.0.9 weight 2 via 10.0.0.7"
    );
}

/// One of both is made anew, as no order leads there in place: it differs all the same.
#[test]
fn both_halves_of_an_exchange_differ() {
    let a = "loopbacks: {loop0: {lcp: e0, mtu: 9000}, loop1: {lcp: e1}}\n";
    let b = "loopbacks: {loop0: {lcp: e1, mtu: 9000}, loop1: {lcp: e0}}\n";
    let plan = engine::plan(&Side::of(&parse(a)), &Side::of(&parse(b))).unwrap();
    let (all, _) = engine::differences(&plan, (0, 0), 100);
    let mut all: Vec<String> = all.into_iter().map(|l| format!("{} {}", l.sign, l.text)).collect();
    all.sort();
    let of = |loopback: &str, from: &str, to: &str| {
        format!(
            "~ interface {loopback}: pair in Linux: has the pair {from} in Linux -> has the pair {to} in Linux"
        )
    };
    assert_eq!(all, [of("loop0", "e0", "e1"), of("loop1", "e1", "e0")]);
}

#[test]
fn routes_move_from_an_interface_that_goes_to_one_that_comes() {
    let a = "loopbacks: {loop0: {addresses: [10.0.0.1/24]}, loop7: {}}\nroutes: [10.9.0.0/16 via loop0]\n";
    let b = "loopbacks: {loop1: {addresses: [10.1.0.1/24]}, loop7: {}}\nroutes: [10.9.0.0/16 via loop1]\n";
    let mut running = start(a);
    let plan = running.plan(b);
    let all = lines(&plan);
    let at = |what: &str| {
        all.iter().position(|l| l.starts_with(what)).unwrap_or_else(|| panic!("{what} {all:#?}"))
    };
    assert!(at("+ interface loop1") < at("~ 1 route"), "{all:#?}");
    assert!(at("~ 1 route") < at("- interface loop0"), "{all:#?}");
    running.apply(b);
    assert_eq!(running.dump(), start(b).dump());
}

/// What has the interface's layer 3 to itself comes behind the bridge domain, whatever that waits for.
#[test]
fn a_loopback_leaves_its_bridge_domain_before_it_is_routed_by_itself() {
    let a = "loopbacks: {loop0: {addresses: [10.5.0.1/24]}}\nbridgedomains: {bd5: {bvi: loop0}}\n\
             mpls: {local-labels: [100 via 10.5.0.9 loop0]}\n";
    let b = "loopbacks: {loop0: {}, loop1: {addresses: [10.6.0.1/24]}}\nl3: {interfaces: {loop0: {urpf: strict}}}\n\
             mpls: {local-labels: [100 via 10.6.0.9 loop1]}\n";
    let mut running = start(a);
    running.apply(b);
    same(&running.dump(), &start(b).dump(), "", "moved");
}

/// Without a prefix of its own it could not stay there alone, so the way back has to take it along.
#[test]
fn a_neighbor_of_an_interface_that_becomes_unnumbered_goes_back_with_it() {
    let out = env!("CARGO_TARGET_TMPDIR");
    let devices =
        ["p0", "p1"].map(|p| format!("{p}: {{driver: pcap, pcap: {{write: {out}/lends-{p}.pcap}}}}"));
    let of = |p0: &str, p1: &str| {
        format!(
            "devices: {{{}}}\ninterfaces: {{p0: {{{p0}}}, p1: {{{p1}}}}}\n\
             neighbors: [{{interface: p1, address: \"2001:db8:1::7\", mac: \"02:00:00:00:00:07\"}}]\n",
            devices.join(", ")
        )
    };
    let (a, b) = (
        of("", "addresses: [\"2001:db8:5::1/64\"]"),
        of("addresses: [\"2001:db8:6::1/64\"]", "unnumbered: p0"),
    );
    // A step behind all others.
    let b = b + "routes: [10.9.0.0/16 drop]\n";
    let mut running = start(&a);
    let before = running.dump();
    for step in 0..running.plan(&b).steps.len() {
        let plan = running.plan(&b);
        let told = words(&plan);
        let failed = running.carry(Carry::new(plan).failing_at(step)).unwrap_err();
        assert!(failed.left.is_empty(), "{step}: {failed:?}\n{told}");
        same(&running.dump(), &before, &told, "undone");
    }
    running.apply(&b);
}

#[test]
fn a_million_routes_are_compared_in_a_moment() {
    let mut text = String::from("loopbacks: {loop0: {addresses: [10.0.0.1/24]}}\nroutes:\n");
    for n in 0..200_000u32 {
        text += &format!("  - 20.{}.{}.{}/32 via 10.0.0.{}\n", n >> 16, (n >> 8) & 255, n & 255, 2 + n % 100);
    }
    let mut running = start(&text);
    let other = text.replace("20.1.2.3/32 via 10.0.0.", "20.1.2.3/32 via 10.0.1.");
    let plan = running.plan(&other);
    assert_eq!(lines(&plan), ["~ 1 route (20.1.2.3/32)"]);
    running.apply(&other);
    assert_eq!(words(&running.plan(&other)), "");
}

/// The warnings of the way from one document to another, for who comes from 192.0.2.7 over SSH.
fn warned(a: &str, b: &str) -> Vec<String> {
    let (a, b) = (Side::of(&parse(a)), Side::of(&parse(b)));
    let session = Session { client: "192.0.2.7".parse().unwrap(), server: Some("10.0.0.1".parse().unwrap()) };
    let beside = Session { server: Some("10.0.0.2".parse().unwrap()), ..session };
    let routed = Session { server: None, ..session };
    let plan = engine::plan(&a, &b).unwrap();
    let all = engine::warnings(&plan, &a, &b, Some(session));
    // A host behind the address, and nothing but where the operator is, say the same.
    for other in [beside, routed] {
        assert_eq!(engine::warnings(&plan, &a, &b, Some(other)), all);
    }
    let without = engine::warnings(&plan, &a, &b, None);
    assert!(all.ends_with(&without), "{all:?} {without:?}");
    all
}

#[test]
fn what_would_be_regretted_is_told() {
    let a = "\
loopbacks:
  loop0: {addresses: [10.0.0.1/24], mtu: 1600}
  loop1: {addresses: [10.1.0.1/24]}
  loop2: {}
  loop3: {}
gre_tunnels:
  gre0: {local: 10.0.0.1, remote: 198.51.100.1}
vxlan_tunnels:
  vxlan_tunnel0: {local: 10.0.0.1, remote: 10.0.0.77, vni: 7}
interfaces:
  gre0: {mtu: 1476}
  vxlan_tunnel0: {mtu: 1500}
tables: {7: {}}
l3: {interfaces: {loop2: {table: 7}}}
routes:
  - 0.0.0.0/0 via 10.0.0.9
  - 10.5.0.0/16 via 10.1.0.9
  - 10.6.0.0/16 via 10.1.0.9
  - 10.7.0.0/16 via 10.5.0.1
";
    let session = |how: &str| format!("the interface over which your session comes, loop0, {how}");
    assert_eq!(warned(a, a), [""; 0]);
    // What is of no account.
    assert_eq!(warned(a, &a.replace("loop3: {}", "loop3: {mtu: 1400}")), [""; 0]);
    assert_eq!(warned(a, &a.replace("[10.0.0.1/24]", "[10.0.0.1/24, 10.0.9.1/24]")), [""; 0]);
    // 1476 + 24 still fit, 1500 + 50 do not.
    assert_eq!(
        warned(a, &a.replace("1600", "1540")),
        ["vxlan_tunnel0 needs 1550 bytes of loop0, whose MTU becomes 1540: its large packets are cut up"]
    );
    assert_eq!(warned(a, &a.replace("1600", "1499")).len(), 2);
    // It was too small before.
    assert_eq!(warned(&a.replace("1600", "1499"), &a.replace("1600", "1400")), [""; 0]);
    let device = "devices: {p0: {driver: pcap, pcap: {write: /dev/null}}}\ninterfaces:\n  p0: {addresses: [10.0.0.1/24]}\n\
                  routes: [192.0.0.0/8 via 10.0.0.9]\n";
    let of_device = |how: &str| format!("the interface over which your session comes, p0, {how}");
    assert_eq!(
        warned(device, &device.replace("}\nroutes", ", state: down}\nroutes"))[0],
        of_device("goes down")
    );
    assert_eq!(warned(device, "")[0], of_device("goes"));
    let anew = device.replace("/dev/null", "/tmp/other");
    assert_eq!(warned(device, &anew), [of_device("is made anew")]);
    assert_eq!(
        warned(a, &a.replace("10.0.0.1/24", "10.0.0.3/24"))[0],
        session("loses its address 10.0.0.1/24")
    );
    assert_eq!(
        warned(a, &a.replace("l3: {interfaces: {loop2: {table: 7}}}\n", "")),
        ["IPv4 table 7 has no interface any more", "IPv6 table 7 has no interface any more"]
    );
    assert_eq!(
        warned(a, &a.replace("  - 0.0.0.0/0 via 10.0.0.9\n", "")),
        [&session("does not lead to 192.0.2.7 any more"), "the default route 0.0.0.0/0 goes"]
    );
    // A default route is a way to all that there is no other way to.
    let without = a.replace("  - 0.0.0.0/0 via 10.0.0.9\n", "");
    let lost = ["nothing leads to 10.1.0.9, the next hop of route 10.5.0.0/16 and 1 more"];
    let gone = |text: &str| text.replace("  loop1: {addresses: [10.1.0.1/24]}\n", "  loop1: {}\n");
    let routes = |text: &str| text.replace("10.7.0.0/16 via 10.5.0.1", "10.7.0.0/16 via loop3");
    let of = |a: &str, b: &str| {
        let (a, b) = (Side::of(&parse(a)), Side::of(&parse(b)));
        engine::warnings(&engine::plan(&a, &b).unwrap(), &a, &b, None)
    };
    assert_eq!(of(&routes(&without), &gone(&routes(&without))), lost);
    assert_eq!(of(&routes(a), &gone(&routes(a))), [""; 0]);
    // It led nowhere before.
    assert_eq!(of(&gone(&without), &gone(&without).replace("loop3: {}", "loop3: {mtu: 1400}")), [""; 0]);
    assert_eq!(of("", "routes: [10.9.0.0/16 via 10.8.0.1]").len(), 1);
    // A default route that itself leads nowhere is no way.
    let dead = routes(&gone(a)).replace("loop0: {addresses: [10.0.0.1/24], mtu: 1600}", "loop0: {mtu: 1600}");
    let all = of(&routes(a), &dead);
    assert!(all.contains(&lost[0].to_owned()), "{all:?}");
    // Of two default routes one stays.
    let two = a.replace("routes:\n", "routes:\n  - {prefix: 0.0.0.0/0, preference: 9, via: 10.1.0.9}\n");
    assert_eq!(warned(&two, a), [""; 0]);
    assert_eq!(
        of(a, &a.replace("0.0.0.0/0 via 10.0.0.9", "0.0.0.0/0 drop")),
        ["the default route 0.0.0.0/0 drops packets from now on"]
    );
    // One of two ways of a tunnel gets too small.
    let ways = a
        .replace("routes:\n", "routes:\n  - {prefix: 198.51.100.0/24, via: [10.0.0.9, loop1]}\n")
        .replace("loop1: {addresses: [10.1.0.1/24]}", "loop1: {addresses: [10.1.0.1/24], mtu: 1500}");
    let small = ways.replace("mtu: 1500}\n  loop2", "mtu: 1400}\n  loop2");
    assert_eq!(
        warned(&ways, &small),
        ["gre0 needs 1500 bytes of loop1, whose MTU becomes 1400: its large packets are cut up"]
    );
}

/// To an address of a loopback interface, as of a router's id: over another one.
#[test]
fn a_session_needs_its_way_as_well() {
    let a = "\
devices: {p0: {driver: pcap, pcap: {write: /dev/null}}}
loopbacks: {loop0: {addresses: [10.99.0.1/32]}}
interfaces:
  p0: {sub-interfaces: {7: {state: follow, addresses: [10.0.0.1/24]}}}
tables: {7: {}}
routes: [192.0.2.0/24 via 10.0.0.9]
";
    let session =
        Session { client: "192.0.2.7".parse().unwrap(), server: Some("10.99.0.1".parse().unwrap()) };
    let of = |b: &str| {
        let (a, b) = (Side::of(&parse(a)), Side::of(&parse(b)));
        engine::warnings(&engine::plan(&a, &b).unwrap(), &a, &b, Some(session))
    };
    let told = |how: &str| format!("the interface over which your session comes, p0.7, {how}");
    assert_eq!(of(a), [""; 0]);
    assert_eq!(of(&a.replace("p0: {sub", "p0: {state: down, sub"))[0], told("goes down"));
    assert_eq!(of(&a.replace("10.0.0.1/24", "10.0.1.1/24"))[0], told("loses its address 10.0.0.1/24"));
    assert_eq!(of(&a.replace("192.0.2.0/24", "192.0.3.0/24")), [told("does not lead to 192.0.2.7 any more")]);
    let moved = a.replace("tables: {7: {}}", "tables: {7: {}}\nl3: {interfaces: {p0.7: {table: 7}}}");
    assert_eq!(of(&moved)[0], told("moves from table 0 to table 7"));
    let own = of(&a.replace("10.99.0.1/32", "10.99.0.2/32"));
    assert_eq!(own, ["the interface over which your session comes, loop0, loses its address 10.99.0.1/32"]);
}

/// What a document may say twice, or in another order, without that it differs.
#[test]
fn documents_converge() {
    let ports = ["p0", "p1"].map(|p| {
        format!("  {p}: {{driver: pcap, pcap: {{write: {}/{p}.converge}}}}\n", env!("CARGO_TARGET_TMPDIR"))
    });
    let bridged = format!(
        "devices:\n{}interfaces: {{p0: {{}}, p1: {{}}}}\nbridgedomains: {{bd1: {{interfaces: [p0, p1]}}}}\n\
         l2: {{interfaces: {{p0: {{tag-rewrite: disable}}}}}}\n",
        ports.concat()
    );
    let link_local = "loopbacks: {loop0: {addresses: [10.0.2.1/24, \"fe80::2/64\"]}}\n";
    for text in [link_local, &bridged] {
        assert_eq!(words(&start(text).plan(text)), "", "{text}");
    }
}

#[test]
fn a_plan_tells_whose_packets_are_lost() {
    let a = "loopbacks: {loop0: {addresses: [10.0.0.1/24]}}\ntables: {7: {}}\nroutes: [10.5.0.0/16 via 10.0.0.9]\n";
    let touched = |b: &str| {
        let all: Vec<String> = start(a).plan(b).lines().into_iter().filter_map(|l| l.touches).collect();
        all.join("; ")
    };
    assert_eq!(touched(a), "");
    assert_eq!(
        touched(&a.replace("via 10.0.0.9", "unreachable")),
        "packets of 1 route that drop them from now on"
    );
    let moved = touched(
        &format!("{a}l3: {{interfaces: {{loop0: {{table: 7}}}}}}\n").replace(" via 10.0.0.9", " drop"),
    );
    assert!(moved.contains("IPv4 packets that come in over loop0: another table"), "{moved}");
}

/// Of a tunnel all changes while its interface stands, but what it carries.
#[test]
fn tunnels_change_in_place() {
    let document = |gre: &str, vxlan: &str, table: &str| {
        format!(
            "\
gre_tunnels:
  gre0: {{local: 10.0.0.1, remote: 198.51.100.{gre}}}
vxlan_tunnels:
  vxlan_tunnel0: {{local: 10.0.0.1, remote: {vxlan}}}
interfaces:
  ge0: {{}}
  gre0: {{addresses: [10.9.0.1/30]}}
  vxlan_tunnel0: {{addresses: [10.8.0.1/24]}}
devices:
  ge0: {{driver: pcap, pcap: {{write: {}/tunnels.pcap}}}}
{table}routes: [10.3.0.0/16 via gre0, 10.4.0.0/16 via 10.8.0.9]
",
            env!("CARGO_TARGET_TMPDIR")
        )
    };
    let first = document("1", "198.51.100.2, vni: 7", "");
    let all = "2, key: 9, sequence: true, checksum: true, ttl: 9, dscp: copy, table: 7";
    let table = "tables: {7: {}}\n";
    let second =
        document(all, "198.51.100.3, vni: 8, local-port: 5, remote-port: 6, ttl: copy, table: 7", table);
    let mut running = start(&first);
    let of = |running: &Running, name: &str| {
        let i = running.router.interface_index(name).unwrap();
        (i, running.router.interface(i).unwrap().mac)
    };
    let before = ["gre0", "vxlan_tunnel0"].map(|n| of(&running, n));
    assert_eq!(
        lines(&running.plan(&second)),
        [
            "+ IPv4 table 7",
            "~ interface gre0: from 10.0.0.1 to 198.51.100.1 -> from 10.0.0.1 to 198.51.100.2, outer-table-id 7, \
             key 9, sequence, checksum, ttl 9, dscp copy-dscp",
            "~ interface gre0: MTU: 1476 -> 1464",
            "~ interface vxlan_tunnel0: VNI 7 from 10.0.0.1 to 198.51.100.2 -> VNI 8 from 10.0.0.1 to 198.51.100.3, \
             encap-vrf-id 7, src_port 5, dst_port 6, ttl copy",
            "+ IPv6 table 7",
        ]
    );
    let commands: Vec<String> = running
        .plan(&second)
        .lines()
        .into_iter()
        .flat_map(|l| l.commands)
        .filter(|c| c.contains("tunnel"))
        .collect();
    assert_eq!(
        commands,
        [
            "set gre tunnel gre0 dst 198.51.100.2 outer-table-id 7 key 9 sequence checksum ttl 9 dscp copy-dscp",
            "set vxlan tunnel vxlan_tunnel0 dst 198.51.100.3 vni 8 encap-vrf-id 7 src_port 5 dst_port 6 ttl copy",
        ]
    );
    running.apply(&second);
    same(&running.dump(), &start(&second).dump(), "", "forth");
    assert_eq!(["gre0", "vxlan_tunnel0"].map(|n| of(&running, n)), before);
    running.apply(&first);
    same(&running.dump(), &start(&first).dump(), "", "back");
    // A TTL is nobody's but this end's.
    let ttl = document("1, ttl: 5", "198.51.100.2, vni: 7", "");
    let touched = running.plan(&ttl).lines().remove(0).touches;
    assert_eq!(touched, None);
    let anew = document("1, teb: true", "239.1.1.1, group-interface: ge0, vni: 7", "");
    let told = lines(&running.plan(&anew)).join("\n");
    for why in ["for frames is another interface", "to a multicast group is another member"] {
        assert!(told.contains(why), "{told}");
    }
    running.apply(&anew);
    same(&running.dump(), &start(&anew).dump(), "", "anew");
}

/// Every command that a plan names is one that the router takes.
#[test]
fn commands_of_plans_are_commands() {
    let registry = control::commands::registry().unwrap();
    let mut seen = 0;
    for seed in 0..200u64 {
        let text = seeded(seed);
        if yaml::load("test.yaml", &text).is_err() {
            continue;
        }
        let (nothing, side) = (Side::default(), Side::of(&parse(&text)));
        for plan in [engine::plan(&nothing, &side).unwrap(), engine::plan(&side, &nothing).unwrap()] {
            for line in plan.lines() {
                for command in line.commands {
                    seen += 1;
                    registry.check(&command).unwrap_or_else(|e| panic!("{command}: {e}"));
                }
            }
        }
    }
    assert!(seen > 500, "{seen}");
}

fn same(a: &str, b: &str, steps: &str, of: &str) {
    if a != b {
        let mut out = String::new();
        let (x, y): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
        x.iter().filter(|l| !y.contains(l)).for_each(|l| out += &format!("- {l}\n"));
        y.iter().filter(|l| !x.contains(l)).for_each(|l| out += &format!("+ {l}\n"));
        panic!("{of}\n{out}\nsteps\n{steps}\nis\n{a}\nshould be\n{b}");
    }
}

/// So many, unless the environment says otherwise.
fn cases(n: u32) -> ProptestConfig {
    let told = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: told.unwrap_or(n), max_global_rejects: 20_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn any_document_is_applied_to_any_other(a in document(), b in document()) {
        // One after the other: both may have the same devices.
        let wanted = try_start(&b).map(|r| r.dump());
        let first = try_start(&a);
        prop_assume!(first.is_some() && wanted.is_some());
        let (mut running, wanted) = (first.unwrap(), wanted.unwrap());
        let before = running.dump();
        let there = words(&running.plan(&b));
        running.apply(&b);
        same(&running.dump(), &wanted, &there, "there");
        prop_assert_eq!(words(&running.plan(&b)), "");
        let back = words(&running.plan(&a));
        running.apply(&a);
        same(&running.dump(), &before, &back, "back");
    }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn what_fails_at_any_step_leaves_nothing_behind(a in document(), b in document()) {
        let second = try_start(&b).is_some();
        let first = try_start(&a);
        prop_assume!(first.is_some() && second);
        let mut running = first.unwrap();
        let before = running.dump();
        let plan = running.plan(&b);
        for at in 0..plan.steps.len() {
            let failed = running.carry(Carry::new(plan.clone()).failing_at(at)).unwrap_err();
            prop_assert_eq!((failed.step, &failed.left), (at, &vec![]), "{}", words(&plan));
            same(&running.dump(), &before, &words(&plan), &format!("failed at {at}"));
        }
    }
}
