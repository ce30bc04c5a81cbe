//! Command lines on a router without Linux devices: loopbacks, capture files and made packets.
#![allow(clippy::unwrap_used, clippy::panic)]

use command::{Access, CommandError, Completer, Registry};
use graph::{PoolConfig, PoolMemory};
use net::interface::MtuOf;
use net::router::{Op, Router, RouterConfig};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

struct Bench {
    registry: Registry<Router>,
    router: Router,
    dir: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let pool = PoolConfig { buffers: 2048, memory: PoolMemory::Normal };
        let router = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
        let dir = std::env::temp_dir().join(format!("quiver-commands-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Bench { registry: Registry::new(net::commands::all()).unwrap(), router, dir }
    }

    fn try_run(&mut self, line: &str) -> Result<(String, Json), CommandError> {
        let text = self.registry.run(&mut self.router, Access::Write, line)?;
        let text = text.whole(&mut self.router, command::asks_json(line))?;
        Ok((text.to_text(), text.to_json()))
    }

    #[track_caller]
    fn run(&mut self, line: &str) -> String {
        self.try_run(line).unwrap_or_else(|e| panic!("{}", e.render(line))).0
    }

    #[track_caller]
    fn json(&mut self, line: &str) -> Json {
        self.try_run(&format!("{line} --json")).unwrap_or_else(|e| panic!("{}", e.render(line))).1
    }

    #[track_caller]
    fn refused(&mut self, line: &str) -> String {
        match self.try_run(line) {
            Ok((text, _)) => panic!("'{line}' was taken: {text}"),
            Err(e) => e.render(line),
        }
    }

    #[track_caller]
    fn wait(&mut self, what: &str, done: impl Fn(&mut Bench) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !done(self) {
            if Instant::now() > end {
                let seen = ["show packet-generator", "show errors", "show interface", "show runtime"];
                panic!("{what} did not come\n{}", seen.map(|line| self.run(line)).join("\n"));
            }
            std::thread::yield_now();
        }
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// `p0` 10.0.1.1/24 and `p1` 10.0.2.1/24, which writes to p1.pcap and has the neighbor 10.0.2.2.
    fn two_ports(&mut self) {
        let (in_file, out_file) = (self.file("p0.pcap"), self.file("p1.pcap"));
        assert_eq!(self.run(&format!("create pcap-interface name p0 write {in_file}")), "p0\n");
        assert_eq!(self.run(&format!("create pcap-interface name p1 write {out_file}")), "p1\n");
        for line in [
            "set interface mac address p0 02:fe:00:00:00:01",
            "set interface mac address p1 02:fe:00:00:00:02",
            "set interface mtu packet 1500 p1",
            "set interface state p0 up",
            "set interface state p1 up",
            "set interface ip address p0 10.0.1.1/24",
            "set interface ip address p1 10.0.2.1/24",
            "ip neighbor p1 10.0.2.2 02:00:00:00:00:22 static",
        ] {
            self.run(line);
        }
        // Each address announces itself once, and its group of all routers is told; what follows counts from there.
        self.wait("announcements", |b| {
            let all = b.json("show interface p0 p1");
            all.as_array().unwrap().iter().all(|i| i["tx"]["packets"] == 2)
        });
        self.run("clear interfaces");
        self.run("clear runtime");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.router.shutdown();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn every_example_parses() {
    let registry = Registry::new(net::commands::all()).unwrap();
    assert_eq!(registry.check_examples(), Vec::<String>::new());
}

/// The line without the marks of its values, and the words that are none.
fn vpp_line(line: &str) -> (String, Vec<&str>) {
    let plain = line.split(' ').map(|w| w.trim_start_matches('=')).collect::<Vec<_>>().join(" ");
    (plain, line.split(' ').filter(|w| !w.starts_with('=')).collect())
}

#[test]
fn words_of_vpp_mean_the_same_or_are_refused() {
    let registry = Registry::new(net::commands::all()).unwrap().elsewhere(net::vpp::MISSING);
    // The control side's own.
    let others = ["exec", "ping"];
    let command = |line: &str| match registry.check(line) {
        Ok(command::Parsed::Command(n, _)) => {
            let command = &registry.commands()[n];
            Ok(format!("{} {}", command.syntax(), command.aliases().join(" ")))
        }
        Ok(other) => Err(format!("{line}: {other:?}")),
        Err(e) => Err(e.render(line)),
    };
    let mut faults: Vec<String> = vec![];
    for line in net::vpp::KNOWN {
        let (plain, words) = vpp_line(line);
        if others.contains(&words[0]) {
            continue;
        }
        match command(&plain) {
            Err(e) => faults.push(e),
            Ok(syntax) => {
                let ours: Vec<&str> =
                    syntax.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)).collect();
                let strange = words.into_iter().filter(|w| !ours.contains(w));
                faults.extend(strange.map(|w| format!("{line}: `{w}` is no word of {syntax}")));
            }
        }
    }
    for (line, words) in net::vpp::SHORTER {
        match command(&vpp_line(line).0) {
            Ok(syntax) if syntax.starts_with(words) => {}
            other => faults.push(format!("{line}: {other:?}")),
        }
    }
    // No interface and no node has such a name.
    struct Nothing;
    impl Completer for Nothing {
        fn known(&self, _: &str, _: &str) -> Option<bool> {
            Some(false)
        }
    }
    let ends = ["", " left", " 7", " 10.0.0.1", " left 10", " left disable", " 7 left"];
    for words in net::vpp::MISSING {
        let known = net::vpp::KNOWN.iter().any(|k| vpp_line(k).1.join(" ") == *words);
        faults.extend(known.then(|| format!("{words}: stands in both lists")));
        let lines = ends.iter().map(|end| format!("{words}{end}"));
        let taken = lines.filter(|line| registry.parse(line, &Nothing).is_ok());
        faults.extend(taken.map(|line| format!("{line}: is taken for a command")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_log_tells_what_was_changed_and_only_that() {
    let mut b = Bench::new("log");
    b.run("create loopback interface");
    b.run("set interface state loop0 up");
    b.refused("set interface ip address loop0 127.0.0.1/8");
    b.run("set interface ip address loop0 10.0.0.1/32");
    b.run("delete loopback interface loop0");
    let lines: Vec<String> = b.router.take_log().into_iter().map(|l| l.text).collect();
    let want = [
        "interface loop0: made",
        "interface loop0: set up",
        "interface loop0: address 10.0.0.1/32 added",
        "interface loop0: deleted",
    ];
    assert_eq!(lines, want);
}

#[test]
fn loopbacks_and_addresses() {
    let mut b = Bench::new("loopbacks");
    assert_eq!(b.run("create loopback interface"), "loop0\n");
    assert_eq!(b.run("create loopback interface instance 7 mac 02:00:00:00:00:07"), "loop7\n");
    b.run("set interface state loop0 up");
    b.run("set interface ip address loop0 10.0.0.1/32");
    b.run("set interface ip address loop0 2001:db8::1/128");
    for bad in
        ["255.255.255.255/32", "240.0.0.1/24", "0.1.2.3/24", "127.0.0.1/8", "224.0.0.1/24", "ff02::1/64"]
    {
        let why = b.refused(&format!("set interface ip address loop0 {bad}"));
        assert!(why.contains("cannot be the address of an interface"), "{bad}: {why}");
    }
    b.run("set interface description loop7 \"spare one\"");
    assert_eq!(
        b.run("show interface addr loop0 loop7"),
        "loop0 (up):\n  L3 10.0.0.1/32\n  L3 2001:db8::1/128\n  L3 fe80::dcad:ff:fe00:0/64 (link-local)\nloop7 (dn):\n"
    );
    let shown = b.run("show int");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 4, "{shown}");
    assert!(lines[2].split_whitespace().collect::<Vec<_>>() == ["loop0", "1", "up", "1500/0/0/0"], "{shown}");
    let all = b.json("show interface");
    assert_eq!(all[2]["name"], "loop7");
    assert_eq!(all[2]["mac"], "02:00:00:00:00:07");
    assert_eq!(all[2]["description"], "spare one");
    assert_eq!(all[1]["rx"], json!({ "packets": 0, "bytes": 0 }));
    assert_eq!(b.run("show mode"), "l3 local0\nl3 loop0\nl3 loop7\n");
    let hardware = b.run("show hardware-interfaces loop7");
    assert!(
        hardware.contains("Ethernet address 02:00:00:00:00:07") && hardware.contains("spare one"),
        "{hardware}"
    );
    b.run("set interface ip address del loop0 all");
    assert_eq!(b.run("show interface addr loop0"), "loop0 (up):\n");
    b.run("delete loopback interface loop7");
    assert!(b.refused("delete tap loop0").ends_with("^ loop0 is not a TAP"));
    assert_eq!(b.json("show interface address").as_array().unwrap().len(), 2);
}

#[test]
fn sub_interfaces_and_cross_connects() {
    let mut b = Bench::new("subs");
    b.two_ports();
    assert_eq!(b.run("create sub-interfaces p0 100"), "p0.100\n");
    assert_eq!(b.run("create sub-interfaces p0 200 dot1ad 20 inner-dot1q any"), "p0.200\n");
    assert_eq!(b.run("create sub-interfaces p0 5 untagged"), "p0.5\n");
    let refused = b.refused("create sub-interfaces p0 5000");
    assert!(refused.contains("5000 is not a VLAN"), "{refused}");
    assert!(
        b.refused("create sub-interfaces p0 101 dot1q 100 exact-match")
            .contains("p0.100 takes these frames already")
    );
    assert!(b.run("show hardware-interfaces p0.100 p0.200").contains("dot1ad 20 inner-dot1q any on p0"));
    let rows = b.json("show hardware-interfaces p0.100");
    assert_eq!(rows[0]["encapsulation"], "dot1q 100 exact-match");
    b.run("set interface mtu 1500 p0.200");
    b.run("create sub-interfaces p1 9");
    b.run("set interface l2 xconnect p0.200 p1.9");
    assert!(b.run("show mode p0.200 p1.9").contains("l2 xconnect p0.200 p1.9\nl3 p1.9\n"));
    b.run("set interface l3 p0.200");
    assert_eq!(b.json("show mode p0.200"), json!([{ "name": "p0.200", "mode": "l3", "peer": null }]));
    b.run("delete sub-interface p0.200");
    assert!(b.refused("delete sub-interface p0").contains("p0 is not a sub-interface"));
}

#[test]
fn routes_are_listed_and_explained() {
    let mut b = Bench::new("routes");
    b.two_ports();
    b.run("ip route add 10.8.0.0/16 via 10.0.2.2 weight 3 via 10.0.1.9 p0");
    b.run("ip route add 10.8.1.0/24 via drop");
    b.run("ip route add 10.9.0.0/16 via 10.0.2.2");
    let list = b.run("show ip fib");
    let row = list.lines().find(|l| l.starts_with("10.8.0.0/16")).unwrap();
    assert!(row.contains("static") && row.ends_with("via 10.0.2.2 weight 3, via 10.0.1.9 p0"), "{list}");
    let json = b.json("show ip fib");
    let route = json["routes"].as_array().unwrap().iter().find(|r| r["prefix"] == "10.8.1.0/24").unwrap();
    assert_eq!((&route["source"], &json["left-out"]), (&json!("static"), &json!(0)));
    assert_eq!(json["groups"][route["group"].to_string()]["paths"][0]["kind"], "drop");
    assert!(b.run("show ip fib max 2").contains("more: 'all' lists them"));
    assert!(b.run("show ip fib summary").starts_with("ip4: "));

    let why = b.run("show ip fib 10.8.1.77");
    assert!(why.contains("\n    10.8.0.0/16 static") && why.contains("\n  > 10.8.1.0/24 static"), "{why}");
    assert!(why.ends_with("result: dropped\n") && why.contains("the same as the control side's"), "{why}");

    let why = b.run("show ip fib 10.8.2.1");
    assert!(why.contains("[0] forward, weight 1") || why.contains("[1] forward, weight 1"), "{why}");
    assert!(why.contains("rewrite: 02:fe:00:00:00:02 -> 02:00:00:00:00:22, 14 bytes"), "{why}");
    assert!(why.contains("neighbor 10.0.2.2: static 02:00:00:00:00:22"), "{why}");
    assert!(why.contains("neighbor 10.0.1.9: not known"), "{why}");
    assert!(why.contains("one of 2 paths"), "{why}");
    let paths = b.json("show ip fib 10.8.2.1")["group"].clone();
    let of = |weight: u64| {
        let all = paths["paths"].as_array().unwrap().iter().find(|p| p["weight"] == weight);
        all.unwrap()["buckets"].as_u64().unwrap()
    };
    assert_eq!(of(3), 3 * of(1));

    // What a longer prefix does not take is explained by the shorter one.
    let why = b.run("show ip fib 10.8.0.0/15");
    assert!(why.contains("no route: packets are dropped"), "{why}");
    assert!(
        why.contains("longer prefixes at its first address") && why.contains("    10.8.0.0/16 static"),
        "{why}"
    );
    assert!(b.run("show ip fib 10.0.2.2").contains("sent to 10.0.2.2 on p1"));
    assert!(b.run("show ip fib 10.0.1.1").contains("taken by the router, as an address of p0"));
    assert!(b.run("show ip fib 10.0.1.255").contains("broadcast of a connected prefix"));
    assert!(b.run("show ip fib 10.0.1.50").contains("10.0.1.50 itself is resolved, then sent on p0"));

    b.run("set interface state p1 down");
    let why = b.run("show ip fib 10.9.0.1");
    assert!(why.contains("via 10.0.2.2: left out, p1 is down"), "{why}");
    assert!(why.contains("no path can be used"), "{why}");
    assert_eq!(b.json("show ip fib 192.0.2.1")["group"], Json::Null);
}

#[test]
fn route_commands_add_replace_and_remove_paths() {
    let mut b = Bench::new("paths");
    b.two_ports();
    let paths = |b: &mut Bench| {
        let all = b.json("show ip fib 10.8.0.0/16");
        all["group"]["wanted"].as_str().map(str::to_owned)
    };
    b.run("ip route add 10.8.0.0/16 via 10.0.2.2");
    b.run("ip route add 10.8.0.0/16 via 10.0.2.3 weight 2");
    assert_eq!(paths(&mut b).unwrap(), "via 10.0.2.2, via 10.0.2.3 weight 2");
    // The second path is wrong, so the first is not added.
    let refused = b.refused("ip route add 10.8.0.0/16 via 10.0.2.4 via 10.0.1.1");
    assert!(refused.contains("10.0.1.1 is the router's own address"), "{refused}");
    assert_eq!(paths(&mut b).unwrap(), "via 10.0.2.2, via 10.0.2.3 weight 2");
    assert!(b.refused("ip route add 10.8.0.0/16 via drop").contains("ip route set"));
    assert!(b.refused("ip route add 10.7.0.0/16 via drop via 10.0.2.2").contains("stand alone"));
    b.run("ip route del 10.8.0.0/16 via 10.0.2.2");
    assert_eq!(paths(&mut b).unwrap(), "via 10.0.2.3 weight 2");
    b.run("ip route set 10.8.0.0/16 via prohibit");
    assert_eq!(paths(&mut b).unwrap(), "prohibit");
    assert!(b.refused("ip route del 10.8.0.0/16 via drop").contains("does something else"));
    b.run("ip route del 10.8.0.0/16 via prohibit");
    assert_eq!(paths(&mut b), None);
    assert!(b.refused("ip route del 10.8.0.0/16").contains("there is no static route 10.8.0.0/16"));
}

#[test]
fn neighbors_and_adjacencies() {
    let mut b = Bench::new("neighbors");
    b.two_ports();
    let json = b.json("show ip neighbors p1");
    assert_eq!(json[0]["ip"], "10.0.2.2");
    assert_eq!(json[0]["ethernet"], "02:00:00:00:00:22");
    assert_eq!((&json[0]["flags"], &json[0]["state"]), (&json!("S"), &json!("static")));
    assert!(b.run("show ip neighbors").contains("10.0.2.2"));
    assert_eq!(b.json("show ip6 neighbors"), json!([]));
    let line = b.run("show adjacency");
    assert!(
        line.contains("ipv4 via 10.0.2.2 p1: complete, mtu:1500 02000000002202fe000000020800\n"),
        "{line}"
    );
    assert!(b.refused("show adjacency 999").contains("there is no adjacency 999"));
    b.run("set ip neighbor del p1 10.0.2.2");
    assert_eq!(b.json("show ip neighbors"), json!([]));
    b.run("ip neighbor p1 10.9.9.9 02:00:00:00:00:01");
    assert_eq!(b.json("show ip neighbors")[0]["ip"], "10.9.9.9", "a prefix that holds it is not needed");
    b.run("set ip neighbor del p1 10.9.9.9");
    assert_eq!(b.json("show ip neighbors"), json!([]));
}

#[test]
fn made_packets_are_forwarded_traced_counted_and_captured() {
    let mut b = Bench::new("traffic");
    b.two_ports();
    let file = b.file("seen.pcap");
    b.run(&format!("pcap trace tx drop intfc any max 8 file {file}"));
    assert!(b.refused("pcap trace rx").contains("a capture runs already"));
    assert_eq!(b.json("pcap trace status")["running"], true);
    b.run("trace add pg-input 2");
    b.run(
        "packet-generator new s1 interface p0 count 10 size 100 data \"ethernet dst 02:fe:00:00:00:01 / ipv4 src \
         10.0.1.2 dst 10.0.2.2 / udp dport 9\"",
    );
    b.run(
        "packet-generator new s2 interface p0 count 3 data \"ethernet dst 02:fe:00:00:00:01 / ipv4 src 10.0.1.2 dst \
         10.0.2.2 ttl 64 checksum bad / udp\"",
    );
    assert_eq!(b.json("show packet-generator")[0]["enabled"], false);
    b.run("packet-generator enable s1");
    b.wait("10 packets out of p1", |b| b.json("show interface p1")[0]["tx"]["packets"] == 10);
    b.run("packet-generator enable s2");
    b.wait("3 drops", |b| b.json("show interface p0")[0]["drops"]["packets"] == 3);

    let shown = b.run("show interface p0 p1");
    assert!(shown.contains("ip4-bad-checksum") && shown.contains("tx packets"), "{shown}");
    let errors = b.run("show errors");
    let row: Vec<&str> = errors.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["3", "ip4-input", "ip4-bad-checksum", "error"]);
    assert!(b.run("show errors verbose").contains("The header checksum is wrong"));

    let trace = b.run("show trace max 1");
    for part in [
        "Start of thread 1 quiver_wk_0",
        "Packet 1\n",
        ": pg-input\n",
        ": ethernet-input\n  rx interface p0\n",
        "UDP: 10.0.1.2 -> 10.0.2.2 1024 -> 9",
        ": ip4-rewrite\n",
        ": interface-tx\n",
    ] {
        assert!(trace.contains(part), "no '{part}' in:\n{trace}");
    }
    assert!(trace.contains("Limiting display to 1 packets"), "{trace}");
    let json = b.json("show trace");
    let nodes: Vec<&str> =
        json[0]["steps"].as_array().unwrap().iter().map(|s| s["node"].as_str().unwrap()).collect();
    assert_eq!(nodes.first(), Some(&"pg-input"));
    assert_eq!((json.as_array().unwrap().len(), nodes.last()), (2, Some(&"interface-tx")));

    let runtime = b.run("show runtime");
    assert!(runtime.starts_with("Thread 1 quiver_wk_0\nTime "), "{runtime}");
    assert!(runtime.contains("ip4-lookup") && !runtime.contains("ip6-lookup"), "{runtime}");
    assert!(b.run("show runtime verbose").contains("ip6-lookup"));
    let lookup = |b: &mut Bench| {
        let all = b.json("show runtime");
        let nodes = all[0]["nodes"].as_array().unwrap().clone();
        nodes.into_iter().find(|n| n["name"] == "ip4-lookup").map(|n| n["vectors"].clone())
    };
    assert_eq!(lookup(&mut b), Some(json!(10)));

    // Eight fit; five came too late.
    let status = b.json("pcap trace status");
    assert_eq!((&status["packets"], &status["missed"]), (&json!(8), &json!(5)));
    let end = b.run("pcap trace off");
    assert_eq!(end, format!("wrote 8 packets to {file}, 5 more came after it was full\n"));
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes.len(), 24 + 8 * (16 + 100));
    assert_eq!(bytes[40..54], [2, 0, 0, 0, 0, 0x22, 2, 0xfe, 0, 0, 0, 2, 8, 0]);
    assert!(b.refused("pcap trace off").contains("no capture runs"));

    for line in ["clear runtime", "clear errors", "clear interfaces", "clear trace"] {
        b.run(line);
    }
    assert_eq!(lookup(&mut b), None);
    assert_eq!(b.json("show errors"), json!([]));
    assert_eq!(b.json("show interface p1")[0]["tx"]["packets"], 0);
    assert!(b.run("show trace").contains("No packets in trace buffer"));
    b.wait("all buffers back", |b| b.json("show buffers")["pools"][0]["used"] == 0);
    b.run("packet-generator delete s1");
    assert_eq!(b.json("packet-generator show").as_array().unwrap().len(), 1);
}

#[test]
fn capture_follows_the_interface_asked_for() {
    let mut b = Bench::new("capture");
    b.two_ports();
    let file = b.file("x.pcap");
    b.run(&format!("pcap trace rx tx intfc p1 snaplen 64 file {file}"));
    assert_eq!(
        b.json("show features p1")[0]["arcs"][0],
        json!({ "arc": "device-input", "enabled": ["pcap-rx"] })
    );
    assert_eq!(b.json("show features p0")[0]["arcs"][0]["enabled"], json!([]));
    b.run("pcap trace off");
    assert_eq!(b.json("show features p1")[0]["arcs"][0]["enabled"], json!([]));
    assert!(b.refused("pcap trace max 5").contains("nothing to capture"));
    assert!(b.refused("pcap trace rx file /nowhere/at/all").contains("cannot write /nowhere/at/all"));
    assert_eq!(b.json("pcap trace status"), json!({ "running": false }));
    // What is there stays, unless the operator says otherwise.
    assert!(b.refused(&format!("pcap trace rx file {file}")).contains("say 'overwrite'"));
    b.run(&format!("pcap trace rx overwrite file {file}"));
    let fresh = b.file("fresh.pcap");
    assert_eq!(b.run(&format!("pcap trace off file {fresh}")), format!("wrote 0 packets to {fresh}\n"));
    assert_eq!(std::fs::read(&fresh).unwrap().len(), 24);
    assert!(b.refused("pcap trace discard").contains("there is no capture"));
}

#[test]
fn a_file_is_not_read_and_written_at_once() {
    let mut b = Bench::new("same-file");
    let (file, other) = (b.file("a.pcap"), b.file("b.pcap"));
    let bytes = [0xd4u8, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    std::fs::write(&file, bytes).unwrap();
    std::fs::hard_link(&file, &other).unwrap();
    for (to, why) in
        [(&file, "read from and written to one file"), (&other, "read and written at the same time")]
    {
        let refused = b.refused(&format!("create pcap-interface name p read {file} write {to} overwrite"));
        assert!(refused.contains(why), "{refused}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
    assert!(b.refused(&format!("create pcap-interface name p write {file}")).contains("say 'overwrite'"));
    std::fs::remove_file(&other).unwrap();
    b.run(&format!("create pcap-interface name p read {file} write {other}"));
}

#[test]
fn what_the_router_is() {
    let mut b = Bench::new("about");
    assert_eq!(b.run("show version"), format!("quiver v{}\n", env!("CARGO_PKG_VERSION")));
    assert!(b.run("show version verbose").contains("Buffers:     2048 on 4 KiB pages\n"));
    assert_eq!(b.json("show buffers")["pools"][0]["total"], 2048);
    let threads = b.json("show threads");
    assert_eq!(
        (threads[0]["name"].clone(), threads[1]["name"].clone()),
        (json!("quiver_main"), json!("quiver_wk_0"))
    );
    let features = b.run("show features");
    assert!(
        features.contains(
            "device-input:\n  worker-handoff\n  pcap-rx\n  span-input\n  linux-cp-xc\n  bond-input\n  ethernet-input (end of the arc)\n"
        ),
        "{features}"
    );
    let node = b.run("show node ip4-input");
    assert!(
        node.contains("next: @ip4-unicast, ip4-options") && node.contains("error ip4-bad-checksum: "),
        "{node}"
    );
    assert!(b.run("show graph dot").starts_with("digraph quiver {"));
    assert!(b.run("show node").lines().count() > 20);
    assert_eq!(b.json("show graph")[0]["next"], json!(["@device-input"]));
}

#[test]
fn a_wrong_word_is_answered_with_its_place() {
    let mut b = Bench::new("wrong");
    b.two_ports();
    for (line, place, says) in [
        ("set interface state p9 up", "p9", "no interface 'p9'; there are: local0, p0, p1"),
        ("set interface state p0 sideways", "sideways", "expected one of: up, down"),
        ("set interface mtu packet 100 p0", "100", "100 is out of range: <mtu> is 128..9216 bytes"),
        ("set interface ip address p0 10.0.9.1", "10.0.9.1", "10.0.9.1 needs a prefix length"),
        ("ip route add 10.0.0.1/8 via drop", "10.0.0.1/8", "the prefix is 10.0.0.0/8"),
        ("ip route add 10.0.0.0/8 via nowhere", "nowhere", "expected one of: drop, unreachable, prohibit"),
        ("ip route add 10.0.0.0/8 via 10.0.2.2 weight 0", "0", "<weight> is 1..255"),
        ("trace add no-such-node 5", "no-such-node", "no node 'no-such-node'"),
        ("show ip6 fib 10.0.0.1", "10.0.0.1", "expected one of: table, all, max, <prefix>"),
        ("create sub-interfaces p0 1 dot1q 4096", "4096", "4096 is out of range"),
        ("packet-generator enable s9", "s9", "no stream 's9'"),
        ("packet-generator new s1 interface p0 rate fast data \"udp\"", "fast", "`fast` is not a rate"),
        ("packet-generator new s1 interface p0 data \"ethernet / ipv9\"", "ipv9", ""),
        (
            "packet-generator new s1 interface p0 node ip4-input data \"ethernet / ipv4 src 10.0.1.2 dst 10.0.2.2\"",
            "ethernet /",
            "packets for ip4-input start with ipv4 (or raw), not with ethernet",
        ),
        ("show nonsense", "nonsense", "unknown word"),
        ("show interface lefft", "lefft", "expected one of: <interface> (local0, p0, p1), brief, address"),
    ] {
        let error = b.try_run(line).err().unwrap_or_else(|| panic!("'{line}' was taken"));
        let at = error.span.as_ref().unwrap_or_else(|| panic!("'{line}': no place: {error}")).start;
        assert_eq!(&line[at..], &line[line.rfind(place).unwrap()..], "{line}: {error}");
        assert!(error.message.contains(says), "{line}: {error}");
    }
    assert_eq!(
        b.refused("ip neighbor p0"),
        "ip neighbor p0\n               ^ incomplete command; expected <address>"
    );
}

#[test]
fn names_are_completed() {
    let b = Bench::new("names");
    let offered = |line: &str| -> Vec<String> {
        let all = b.registry.complete(line, line.len(), &b.router);
        all.candidates.into_iter().map(|c| c.text).collect()
    };
    assert_eq!(offered("set interface state lo"), ["local0"]);
    assert_eq!(offered("trace add pg"), ["pg-input"]);
    assert_eq!(offered("show ip fib su"), ["summary"]);
    assert_eq!(offered("create l"), ["loopback"]);
    assert_eq!(b.router.values("stream", ""), Vec::<String>::new());
}

#[test]
fn the_mtu_of_a_protocol_has_its_range_whoever_sets_it() {
    let mut b = Bench::new("mtu-of");
    let file = b.dir.join("port.pcap");
    b.run(&format!("create pcap-interface name port write {}", file.display()));
    let set = |b: &mut Bench, of: MtuOf, mtu| {
        let feature = of.setting().to(mtu).into();
        b.router.commit(vec![Op::SetFeature { name: "port".into(), feature }]).map_err(|e| e.to_string())
    };
    let e = set(&mut b, MtuOf::Ip6, 1279).unwrap_err();
    assert!(e.contains("ip6 MTU 1279 is out of range, 1280 to 9216 bytes"), "{e}");
    assert!(set(&mut b, MtuOf::Ip4, 67).is_err() && set(&mut b, MtuOf::Mpls, 9217).is_err());
    set(&mut b, MtuOf::Ip6, 1400).unwrap();
    b.run("ip6 nd port no ra-suppress");
    b.run("ip6 nd port ra-mtu 1400");
    let e = set(&mut b, MtuOf::Ip6, 1300).unwrap_err();
    assert!(e.contains("less than its router advertisements tell"), "{e}");
}
