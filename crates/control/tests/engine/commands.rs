//! Documents are applied beside whatever commands have made, and what a plan says is what then happens.

use super::brought::missing;
use super::{document, lines, same, try_start, words};
use command::{Access, Registry};
use control::engine::{Carry, Side};
use net::router::Router;
use proptest::prelude::*;

#[path = "../sequences/lines.rs"]
#[allow(dead_code, reason = "another test begins with lines of its own")]
mod drawn;

/// A command line of another test, whose names are those of documents here.
fn line((n, choice): (usize, u64)) -> Option<String> {
    let line = drawn::LINES[n];
    let unlike = ["create tap", "lcp ", "packet-generator"];
    if unlike.iter().any(|w| line.starts_with(w)) {
        return None;
    }
    let (long, longer) = ("x".repeat(65), "y".repeat(256));
    let bridge = ["10", "20", "30"][choice as usize % 3];
    let table = ["0", "10", "20", "30"][(choice >> 8) as usize % 4];
    let fixed = [
        ("dir", env!("CARGO_TARGET_TMPDIR")),
        ("pid", "engine"),
        ("long", &long),
        ("longer", &longer),
        ("bd", bridge),
        ("table", table),
    ];
    Some(drawn::fill(line, choice >> 16, &fixed))
}

fn told(router: &mut Router, registry: &Registry<Router>, line: &str) -> bool {
    let done = registry.run(router, Access::Write, line).and_then(|o| o.whole(router, false));
    done.is_ok()
}

/// What happens to `b` behind commands that `a` ran with; nothing where the router takes one of the documents by itself no more
/// than with the other.
fn case(a: &str, all: &[String], b: &str) -> Option<Result<(), String>> {
    let wanted = try_start(b)?.dump();
    let mut running = try_start(a)?;
    let registry = Registry::new(net::commands::all()).unwrap();
    let taken: Vec<&String> = all.iter().filter(|l| told(&mut running.router, &registry, l)).collect();
    let before = running.dump();
    let plan = running.plan_beside(b, a);
    let steps = words(&plan);
    let told = |what: String| {
        Some(Err(format!("{what}\n--- commands {taken:#?}\n--- steps\n{steps}\n--- ran\n{before}")))
    };
    if let Err(failed) = running.carry(Carry::new(plan)) {
        same(&running.dump(), &before, &steps, "refused");
        return told(format!("{failed:?}"));
    }
    let missing = missing(&running.side(), &Side::of(&super::parse(b)));
    if !missing.is_empty() {
        return told(format!("{missing:?} is not as the document says"));
    }
    let again = lines(&running.plan_beside(b, b));
    if !again.is_empty() {
        return told(format!("then it still differs: {again:?}"));
    }
    running.apply(b);
    same(&running.dump(), &wanted, &steps, "all of it");
    Some(Ok(()))
}

/// Commands behind `a`, and what of them stays beside `b`.
struct Case {
    a: &'static str,
    commands: &'static [&'static str],
    b: &'static str,
    stays: &'static [&'static str],
}

const PCAP: &str = "devices: {p0: {driver: pcap, pcap: {write: OUT/case0.pcap}}, p1: {driver: pcap, pcap: {write: OUT/case1.pcap}}}\n\
                    interfaces: {p0: {addresses: [10.0.0.1/24]}, p1: {}, BOTH}\n";

const CASES: &[Case] = &[
    // A tunnel of frames becomes one of packets: nothing of frames stays on it.
    Case {
        a: "mpls: {tunnels: {mpls-tunnel0: {l2-only: true, via: [10.0.0.9 p0 out-labels 100]}}}",
        commands: &[
            "set interface promiscuous on mpls-tunnel0",
            "set interface span mpls-tunnel0 destination p1 rx",
            "set interface span p0 destination mpls-tunnel0",
            "set interface span p1 destination p0",
            "create sub-interfaces mpls-tunnel0 7",
            "set interface description mpls-tunnel0 mine",
        ],
        b: "mpls: {tunnels: {mpls-tunnel0: {via: [10.0.0.9 p0 out-labels 100]}}}",
        stays: &["interface mpls-tunnel0: description: \"mine\"", "interface p1: mirror to p0"],
    },
    // No addresses either.
    Case {
        a: "mpls: {tunnels: {mpls-tunnel0: {l2-only: true, via: [10.0.0.9 p0 out-labels 100]}}}",
        commands: &["set interface ip address mpls-tunnel0 10.7.0.1/24", "create bridge-domain 5"],
        b: "mpls: {tunnels: {mpls-tunnel0: {via: [10.0.0.9 p0 out-labels 100]}}}",
        stays: &["bridge domain 5"],
    },
    Case {
        a: "gre_tunnels: {gre0: {local: 10.0.0.1, remote: 10.77.0.1, teb: true}}",
        commands: &[
            "set interface promiscuous on gre0",
            "set interface ip address gre0 10.7.0.1/24",
            "ip neighbor gre0 10.7.0.9 02:00:00:00:00:09 static",
            "create sub-interfaces gre0 7",
        ],
        b: "gre_tunnels: {gre0: {local: 10.0.0.1, remote: 10.77.0.1}}",
        stays: &["interface gre0: address 10.7.0.1/24"],
    },
    Case {
        a: "gre_tunnels: {gre0: {local: 10.0.0.1, remote: 10.77.0.1, teb: true}}",
        commands: &["create bridge-domain 5", "set interface l2 bridge gre0 5"],
        b: "gre_tunnels: {gre0: {local: 10.0.0.1, remote: 10.77.0.1}}",
        stays: &["bridge domain 5"],
    },
    // A table that the document takes away goes with what commands put there.
    Case {
        a: "tables: {7: {}}",
        commands: &[
            "set interface ip table p1 7",
            "set interface ip address p1 10.8.0.1/24",
            "ip route add 10.9.0.0/16 table 7 via 10.8.0.9",
            "ip route add 10.9.0.0/16 via 10.0.0.9",
            "create gre tunnel src 10.0.0.1 dst 10.77.0.1 instance 0 outer-table-id 7",
            "mpls local-label add 100 eos via ip4-lookup-in-table 7",
        ],
        b: "",
        stays: &["route 10.9.0.0/16: via 10.0.0.9"],
    },
    // The addresses of a document make others nobody's, and the router's own: who leads there gives way.
    Case {
        a: "tables: {7: {}}",
        commands: &[
            "ip route add 10.9.0.0/16 via 10.5.0.255",
            "ip route add 10.10.0.0/16 via 10.5.0.0",
            "ip route add 2001:db8:9::/48 via 2001:db8:5::",
            "ip route add 10.11.0.0/16 via 10.5.0.254",
            "ip route add 10.12.0.0/16 table 7 via 10.5.0.255",
            "ip route add 10.13.0.0/16 table 7 via 10.5.0.1 next-hop-table 0",
            "mpls local-label add 100 eos via 10.5.0.255",
            "mpls local-label add 101 eos via 10.5.0.254",
            "mpls tunnel add instance 3 via 10.5.0.255 out-labels 70",
            "mpls tunnel add instance 4 via 10.5.0.254 out-labels 70",
        ],
        b: "tables: {7: {}}\nloopbacks: {loop0: {addresses: [10.5.0.1/24, \"2001:db8:5::1/64\"]}}",
        stays: &[
            "route 10.11.0.0/16: via 10.5.0.254",
            "route 10.12.0.0/16 table 7: via 10.5.0.255",
            "label 101 eos: via 10.5.0.254",
            "interface mpls-tunnel4: paths",
        ],
    },
    // And who has an address gives it up to what a document leads there.
    Case {
        a: "loopbacks: {loop0: {addresses: [10.5.0.1/16]}}",
        commands: &[
            "set interface ip address p1 10.6.0.1/24",
            "create loopback interface instance 1",
            "set interface ip address loop1 10.7.0.9/24",
            "set interface ip address loop0 10.5.0.2/16",
            "set interface ip address loop0 10.5.0.3/16",
        ],
        b: "loopbacks: {loop0: {addresses: [10.5.0.1/16]}}\nroutes: [10.9.0.0/16 via 10.6.0.255, 10.10.0.0/16 via 10.7.0.9]\n\
            mpls: {local-labels: [100 via 10.5.0.2]}\n",
        stays: &["interface loop1", "interface loop0: address 10.5.0.3/16"],
    },
    // Other tables have addresses of their own.
    Case {
        a: "tables: {7: {}}\nl3: {interfaces: {p1: {table: 7}}}",
        commands: &[
            "set interface ip address p1 10.8.0.1/24",
            "ip route add 10.9.0.0/16 table 7 via 10.8.0.9",
            "ip route add 10.10.0.0/16 table 7 via 10.8.0.8 p1",
        ],
        b: "tables: {7: {}}\nl3: {interfaces: {p1: {table: 7}}}\nloopbacks: {loop0: {addresses: [10.8.0.9/25, 10.8.0.8/25]}}\n\
            routes: [10.11.0.0/16 via 10.8.0.1]\n",
        stays: &[
            "interface p1: address 10.8.0.1/24",
            "route 10.9.0.0/16 table 7: via 10.8.0.9",
            "route 10.10.0.0/16 table 7: via 10.8.0.8 p1",
        ],
    },
    Case {
        a: "tables: {7: {}}",
        commands: &["set interface ip table p1 7", "set interface ip address p1 10.0.0.9/24"],
        b: "tables: {7: {}}",
        stays: &[],
    },
    // What names a worker that goes, goes with it.
    Case {
        a: "quiver: {workers: 3}",
        commands: &[
            "set workers polling power worker 2",
            "set workers polling power worker 0",
            "set interface handoff p1 workers 0-2",
        ],
        b: "quiver: {workers: 1}",
        stays: &["polling of worker 0"],
    },
    // What a command made under a name that the document has is the document's from then on.
    Case {
        a: "",
        commands: &[
            "create loopback interface instance 0",
            "set interface ip address loop0 10.5.0.1/24",
            "create bridge-domain 5 learn 0",
            "create sub-interfaces p0 7 dot1q 70 exact-match",
            "ip table add 7 mine",
            "create gre tunnel src 10.0.0.1 dst 10.77.0.1 instance 0",
            "ip route add 10.9.0.0/16 via 10.0.0.8",
            "mpls tunnel add instance 0 via 10.0.0.9 p0 out-labels 70",
            "create vxlan tunnel src 10.0.0.1 dst 10.77.0.1 vni 7 instance 0",
        ],
        b: "loopbacks: {loop0: {addresses: [10.6.0.1/24]}}\n\
            bridgedomains: {bd5: {description: ours}}\n\
            tables: {7: {name: ours}}\n\
            gre_tunnels: {gre0: {local: 10.0.0.1, remote: 10.77.0.2}}\n\
            vxlan_tunnels: {vxlan_tunnel1: {local: 10.0.0.1, remote: 10.77.0.1, vni: 7}}\n\
            mpls: {tunnels: {mpls-tunnel0: {l2-only: true, via: [10.0.0.9 p0 out-labels 80]}}}\n\
            routes: [10.9.0.0/16 via 10.0.0.9]\n",
        stays: &["interface loop0: address 10.5.0.1/24", "interface p0.7"],
    },
];

fn whole(text: &str) -> String {
    let more = match text.contains("vxlan_tunnel1") {
        true => "vxlan_tunnel1: {}, mpls-tunnel0: {mac: \"02:00:00:00:00:71\"}",
        false => "",
    };
    let out = PCAP.replace("OUT", env!("CARGO_TARGET_TMPDIR")).replace(", BOTH", &format!(", {more}"));
    out.replace(", }", "}") + text + "\n"
}

#[test]
fn what_cannot_stand_beside_a_document_goes() {
    let registry = Registry::new(net::commands::all()).unwrap();
    for Case { a, commands, b, stays } in CASES {
        let (a, b) = (whole(a), whole(b));
        let mut running = super::start(&a);
        for line in *commands {
            assert!(told(&mut running.router, &registry, line), "{line}");
        }
        let (told, _) = control::engine::stays(&running.plan_beside(&b, &a), 100);
        for one in *stays {
            assert!(told.iter().any(|t| t.starts_with(one)), "{one}: {told:#?}");
        }
        drop(running);
        let all: Vec<String> = commands.iter().map(|l| l.to_string()).collect();
        case(&a, &all, &b).unwrap().unwrap_or_else(|e| panic!("{e}"));
    }
}

proptest! {
    #![proptest_config(super::cases(16))]

    /// Whatever commands do after `a`, `b` is there as it says, or its plan says why not.
    #[test]
    fn commands_are_in_no_documents_way(
        a in document(),
        all in prop::collection::vec((0..drawn::LINES.len(), any::<u64>()), 1..60),
        b in document(),
    ) {
        let all: Vec<String> = all.into_iter().filter_map(line).collect();
        let done = case(&a, &all, &b);
        prop_assume!(done.is_some());
        done.unwrap().map_err(TestCaseError::fail)?;
    }
}
