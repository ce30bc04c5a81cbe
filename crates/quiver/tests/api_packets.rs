//! Packets over the API, with the binary: captured and traced as they pass, put into the graph, taken out of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod started;

use quiver_client::v1::punt_request::{Filter, filter::What};
use quiver_client::v1::{
    CaptureRequest, InjectRequest, PacketDirection, TraceRequest, capture_response, trace_response,
};
use quiver_client::{Passed, Router};
use started::{PATIENCE, Started};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_stream::{Stream, StreamExt};

fn run(name: &str, interfaces: &str, test: impl AsyncFnOnce(&mut Started, Router)) {
    started::run(Started::with(name, "", interfaces), test);
}

const LOOPBACKS: &str =
    "loopbacks: {loop0: {addresses: [10.255.0.1/16]}, loop1: {addresses: [10.254.0.1/16]}}";

async fn tell(router: &Router, line: &str) -> String {
    router.command(line).await.unwrap_or_else(|e| panic!("{line}: {e}")).text
}

/// The next of what a stream tells.
async fn next<T>(
    stream: &mut (impl Stream<Item = Result<Passed<T>, quiver_client::Error>> + Unpin),
) -> Passed<T> {
    tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A frame for nobody, told from others by a number.
fn frame(n: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0xfe, 0, 0, 0, 9, 2, 1, 1, 1, 1, 1, 0x88, 0xb5];
    frame.extend((0..len - 14).map(|i| (i * 7) as u8 ^ n));
    frame
}

/// Has packets come on loop0, as fast as that goes, and waits until all were sent.
async fn flood(router: &Router, count: u64) {
    let raw = hex(&frame(1, 60));
    let line = format!("packet-generator new s interface loop0 rate max count {count} data \"raw {raw}\"");
    tell(router, &line).await;
    tell(router, "packet-generator enable s").await;
    let until = Instant::now() + PATIENCE;
    loop {
        let text = router.command_json("show packet-generator").await.unwrap().text;
        let streams: serde_json::Value = serde_json::from_str(&text).unwrap();
        if streams[0]["packets"] == count {
            break;
        }
        assert!(Instant::now() < until, "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Begins as many streams as a client may have, some times: one more is refused as `full` says, and their places are given back.
async fn places<T>(begin: impl AsyncFn() -> Result<T, quiver_client::Error>, full: &str) {
    for round in 0..3 {
        let mut held = vec![];
        let refused = loop {
            match begin().await {
                Ok(stream) => held.push(stream),
                Err(e) => break e,
            }
            assert!(held.len() <= 4);
        };
        assert!(refused.to_string().contains(full), "{round}: {refused}");
        drop(held);
        // The router gets to know a little later.
        let until = Instant::now() + PATIENCE;
        while begin().await.is_err() {
            assert!(Instant::now() < until);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The packets of a pcap file.
fn packets_of(file: &Path) -> Vec<(i64, Vec<u8>)> {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut all) = (24, vec![]);
    while at < bytes.len() {
        let time = i64::from(word(at)) * 1_000_000_000 + i64::from(word(at + 4));
        let len = word(at + 8) as usize;
        all.push((time, bytes[at + 16..at + 16 + len].to_vec()));
        at += 16 + len;
    }
    all
}

#[test]
fn a_capture_tells_each_byte_that_passes_as_the_file_of_pcap_trace_does() {
    run("bytes", LOOPBACKS, async |started, router| {
        let of = |interface: &str, direction: PacketDirection, count, snap_length| CaptureRequest {
            interface: interface.into(),
            directions: vec![direction.into()],
            snap_length,
            count,
        };
        let mut all =
            router.capture(CaptureRequest { count: 16, ..CaptureRequest::default() }).await.unwrap();
        let mut short = router.capture(of("loop0", PacketDirection::Rx, 0, 20)).await.unwrap();
        let mut other = router.capture(of("loop1", PacketDirection::Rx, 1, 0)).await.unwrap();
        let file = started.folder.join("both.pcap");
        tell(&router, &format!("pcap trace rx tx drop file {}", file.display())).await;
        let frames: Vec<Vec<u8>> = (0..8).map(|n| frame(n, 60 + usize::from(n) * 200)).collect();
        for (n, frame) in frames.iter().enumerate() {
            let raw = hex(frame);
            let line = format!("packet-generator new s{n} interface loop0 count 1 data \"raw {raw}\"");
            tell(&router, &line).await;
            tell(&router, &format!("packet-generator enable s{n}")).await;
            // One after another, received and dropped: nobody is at that address.
            for direction in [PacketDirection::Rx, PacketDirection::Drop] {
                let Passed::Packet(p) = next(&mut all).await else { panic!("lost") };
                assert_eq!((&p.data, p.direction(), p.interface.as_str()), (frame, direction, "loop0"));
                assert_eq!(p.length as usize, frame.len());
            }
            let Passed::Packet(p) = next(&mut short).await else { panic!("lost") };
            assert_eq!((&p.data[..], p.length as usize), (&frame[..20], frame.len()));
        }
        assert!(all.next().await.is_none(), "so many were asked for");
        tell(&router, "pcap trace off").await;
        let kept: Vec<Vec<u8>> = packets_of(&file).into_iter().map(|p| p.1).collect();
        let twice: Vec<&Vec<u8>> = frames.iter().flat_map(|f| [f, f]).collect();
        assert_eq!(kept.iter().collect::<Vec<_>>(), twice);
        tell(
            &router,
            &format!("packet-generator new o interface loop1 count 1 data \"raw {}\"", hex(&frames[0])),
        )
        .await;
        tell(&router, "packet-generator enable o").await;
        let Passed::Packet(p) = next(&mut other).await else { panic!("lost") };
        assert_eq!((p.interface.as_str(), &p.data), ("loop1", &frames[0]), "nothing of loop0");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let ago = i64::try_from(now.as_nanos()).unwrap() - p.time_ns;
        assert!((0..i64::try_from(PATIENCE.as_nanos()).unwrap()).contains(&ago), "{ago} ns ago");
    });
}

#[test]
fn a_capture_says_what_is_wrong_and_ends_with_its_interface() {
    run("wrong", LOOPBACKS, async |_, router| {
        let wrong = async |request: CaptureRequest| router.capture(request).await.unwrap_err();
        let e = wrong(CaptureRequest { interface: "nothing".into(), ..CaptureRequest::default() }).await;
        assert_eq!((e.infos[0].object.as_str(), e.infos[0].value.as_str()), ("interface", "nothing"));
        for snap_length in [1, 13, 9217] {
            let e = wrong(CaptureRequest { snap_length, ..CaptureRequest::default() }).await;
            assert!(e.to_string().contains("14 to 9216"), "{e}");
        }
        let e = wrong(CaptureRequest { directions: vec![7], ..CaptureRequest::default() }).await;
        assert_eq!(e.infos[0].expected, ["RX", "TX", "DROP"]);
        tell(&router, "create loopback interface instance 7").await;
        let mut gone = router
            .capture(CaptureRequest { interface: "loop7".into(), ..CaptureRequest::default() })
            .await
            .unwrap();
        tell(&router, "delete loopback interface loop7").await;
        let end = tokio::time::timeout(PATIENCE, gone.next()).await.unwrap().unwrap().unwrap_err();
        assert!(end.to_string().contains("the interface is gone"), "{end}");
        places(async || router.capture(CaptureRequest::default()).await, "uid:0 has 4 captures").await;
    });
}

#[test]
fn who_does_not_read_a_capture_is_told_how_many_were_lost() {
    const SENT: u64 = 30_000;
    run("slow", LOOPBACKS, async |_, router| {
        let rx = vec![PacketDirection::Rx.into()];
        let what = CaptureRequest { directions: rx, interface: "loop0".into(), ..CaptureRequest::default() };
        let mut slow = router.capture(what.clone()).await.unwrap();
        // All were sent before anything is read.
        flood(&router, SENT).await;
        let (mut received, mut lost) = (0, 0);
        while received + lost < SENT {
            match next::<capture_response::Packet>(&mut slow).await {
                Passed::Packet(_) => received += 1,
                Passed::Lost(n) => lost += n,
            }
        }
        assert_eq!(received + lost, SENT, "{received} and {lost}");
        assert!(lost > 0 && received > 1000, "{received} and {lost}");
        // Nothing comes behind it, and the next packet is told.
        tell(
            &router,
            &format!("packet-generator new t interface loop0 count 1 data \"raw {}\"", hex(&frame(2, 60))),
        )
        .await;
        tell(&router, "packet-generator enable t").await;
        let Passed::Packet(p) = next(&mut slow).await else { panic!("lost twice") };
        assert_eq!(p.data, frame(2, 60));
    });
}

/// An Ethernet header and an IPv4 header with its checksum, and what is in it.
fn ip4(source: [u8; 4], to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(20 + payload.len()).unwrap();
    let mut header = vec![0x45, 0, 0, 0, 0, 9, 0, 0, 64, protocol, 0, 0];
    header[2..4].copy_from_slice(&len.to_be_bytes());
    header.extend(source);
    header.extend(to);
    let sum: u32 = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.extend_from_slice(payload);
    header
}

fn udp(source: u16, port: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).unwrap();
    let words = [source, port, len, 0];
    let mut datagram: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
    datagram.extend_from_slice(payload);
    datagram
}

fn ask(what: What) -> Filter {
    Filter { what: Some(what), ..Filter::default() }
}

fn at(node: &str, rx: &str, tx: &str, packets: Vec<Vec<u8>>) -> InjectRequest {
    let (rx_interface, tx_interface) = (rx.into(), tx.into());
    InjectRequest { node: node.into(), rx_interface, tx_interface, packets, count: 0 }
}

async fn mac(router: &Router, interface: &str) -> Vec<u8> {
    let text = router.command_json(&format!("show hardware-interfaces {interface}")).await.unwrap().text;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mac = json.pointer("/0/mac").or_else(|| json.pointer("/mac")).unwrap().as_str().unwrap().to_owned();
    mac.split(':').map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
}

#[test]
fn packets_that_a_program_puts_in_come_out_at_one_that_asked_for_them() {
    run("punt", LOOPBACKS, async |_, router| {
        let mut injector = router.injector().await.unwrap();
        let here = mac(&router, "loop0").await;
        let ethernet = |kind: u16, payload: &[u8]| {
            let mut frame = here.clone();
            frame.extend([2, 1, 1, 1, 1, 1]);
            frame.extend(kind.to_be_bytes());
            frame.extend_from_slice(payload);
            frame
        };
        let to = [10, 255, 0, 1];
        let filters = vec![ask(What::UdpPort(7777)), ask(What::IpProtocol(99)), ask(What::Ethertype(0x88b5))];
        let mut mine = router.punt(filters).await.unwrap();
        let only = Filter { interface: "loop1".into(), ..ask(What::TcpPort(7777)) };
        let mut other = router.punt(vec![only]).await.unwrap();
        let source = [10, 255, 0, 2];
        let datagram = ip4(source, to, 17, &udp(5, 7777, b"hello"));
        let segment =
            ip4(source, to, 6, &[&[0, 9, 0x1e, 0x61][..], &[0; 8], &[0x50, 2, 0, 0, 0, 0, 0, 0]].concat());
        let long = ip4(source, to, 99, &vec![7; 1400]);
        let frames = [
            (ethernet(0x0800, &datagram), 14),
            (ethernet(0x0800, &long), 14),
            (ethernet(0x88b5, b"of no protocol"), 14),
        ];
        for (frame, network) in &frames {
            let taken =
                injector.inject(at("ethernet-input", "loop0", "", vec![frame.clone()])).await.unwrap();
            assert_eq!(taken, Ok(1));
            let Passed::Packet(p) = next(&mut mine).await else { panic!("lost") };
            assert_eq!((&p.data, p.network_offset, p.interface.as_str()), (frame, *network, "loop0"));
        }
        // Without an Ethernet header, and on an interface for which another one has asked.
        for (interface, packet) in [("loop0", &datagram), ("loop1", &segment)] {
            let taken = injector.inject(at("ip4-input", interface, "", vec![packet.clone()])).await.unwrap();
            assert_eq!(taken, Ok(1));
            let stream = if interface == "loop0" { &mut mine } else { &mut other };
            let Passed::Packet(p) = next(stream).await else { panic!("lost") };
            assert_eq!((&p.data, p.network_offset, p.interface.as_str()), (packet, 0, interface));
        }
        // Of the same port on the other interface it is not.
        injector.inject(at("ip4-input", "loop0", "", vec![segment])).await.unwrap().unwrap();
        injector.inject(at("ip4-input", "loop0", "", vec![datagram.clone()])).await.unwrap().unwrap();
        let Passed::Packet(p) = next(&mut mine).await else { panic!("lost") };
        assert_eq!(p.data, datagram);
        let none = tokio::time::timeout(Duration::from_millis(50), other.next()).await;
        assert!(none.is_err(), "{none:?}");
        // What one has no other gets, until it is given back.
        let refused = router.punt(vec![ask(What::UdpPort(9)), ask(What::UdpPort(7777))]).await.unwrap_err();
        assert!(refused.infos[0].object == "filters[1]" && refused.message.contains("has it"), "{refused}");
        drop(mine);
        let until = Instant::now() + PATIENCE;
        while router.punt(vec![ask(What::UdpPort(7777))]).await.is_err() {
            assert!(Instant::now() < until);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn who_does_not_read_loses_packets_of_its_own() {
    const SENT: u32 = 20_000;
    run("behind", LOOPBACKS, async |_, router| {
        tell(&router, "set punt policer api off").await;
        let mut injector = router.injector().await.unwrap();
        let mut slow = router.punt(vec![ask(What::UdpPort(7777))]).await.unwrap();
        let mut quick = router.punt(vec![ask(What::UdpPort(7778))]).await.unwrap();
        // More in all than the windows and queues on the way hold.
        let to = |port| ip4([10, 255, 0, 2], [10, 255, 0, 1], 17, &udp(5, port, &[7; 1400]));
        let flood = InjectRequest { count: SENT, ..at("ip4-input", "loop0", "", vec![to(7777)]) };
        // Where the control thread lags behind, fewer: the last buffers are for devices.
        let sent = injector.inject(flood).await.unwrap().unwrap();
        assert!(sent > u64::from(SENT) / 2, "{sent}");
        let until = Instant::now() + PATIENCE;
        while injector.inject(at("ip4-input", "loop0", "", vec![to(7778)])).await.unwrap() != Ok(1) {
            assert!(Instant::now() < until, "no buffer");
        }
        let Passed::Packet(p) = next(&mut quick).await else { panic!("lost") };
        assert_eq!(p.data, to(7778));
        let (mut received, mut lost) = (0, 0);
        while received + lost < sent {
            match next(&mut slow).await {
                Passed::Packet(_) => received += 1,
                Passed::Lost(n) => lost += n,
            }
        }
        assert_eq!(received + lost, sent, "{received} and {lost}");
        assert!(lost > 0 && received >= 1024, "{received} and {lost}");
    });
}

#[test]
fn what_a_node_cannot_take_is_refused_with_what_it_could() {
    run("refused", LOOPBACKS, async |_, router| {
        let mut injector = router.injector().await.unwrap();
        let good = ip4([10, 255, 0, 1], [10, 254, 0, 9], 99, b"hello");
        let mut bad = good.clone();
        bad[10] ^= 1;
        let frame = frame(1, 60);
        for (request, field, rule) in [
            (at("ip4-rewrite", "loop0", "", vec![good.clone()]), "node", "unknown"),
            (at("nothing", "loop0", "", vec![good.clone()]), "node", "unknown"),
            (at("ip4-input", "", "", vec![good.clone()]), "rx_interface", "missing"),
            (at("ip4-input", "loop9", "", vec![good.clone()]), "rx_interface", "unknown"),
            (at("interface-output", "loop0", "", vec![frame.clone()]), "tx_interface", "missing"),
            (at("ip4-lookup", "", "", vec![good.clone(), bad]), "packets[1]", "ip4-header"),
            (at("ip4-lookup", "", "", vec![[&good[..], &[0]].concat()]), "packets[0]", "length"),
            (at("ip6-lookup", "", "", vec![good.clone()]), "packets[0]", "ip6-header"),
            (at("ethernet-input", "loop0", "", vec![frame[..13].to_vec()]), "packets[0]", "length"),
            (at("ethernet-input", "loop0", "", vec![vec![0; 20_000]]), "packets[0]", "length"),
            (at("ethernet-input", "loop0", "", vec![]), "packets", "count"),
            (
                InjectRequest { count: 2_000_000, ..at("ip4-lookup", "", "", vec![good.clone()]) },
                "count",
                "range",
            ),
        ] {
            let refused = injector.inject(request.clone()).await.unwrap().unwrap_err();
            assert_eq!(
                (refused.object.as_str(), refused.rule.as_str()),
                (field, rule),
                "{request:?}: {refused:?}"
            );
            assert_eq!(field == "node", refused.expected.contains(&"ip4-lookup".to_owned()));
        }
        // The stream goes on.
        assert_eq!(injector.inject(at("ip4-lookup", "", "", vec![good])).await.unwrap(), Ok(1));
        for (filter, why) in [
            (ask(What::Ethertype(0x0800)), "the router itself takes"),
            (ask(What::Ethertype(0x05dc)), "is a length"),
            (ask(What::Ethertype(0x8100)), "is a tag"),
            (ask(What::IpProtocol(17)), "udp_port"),
            (ask(What::IpProtocol(1)), "the router itself speaks it"),
            (ask(What::UdpPort(0)), "port 0"),
            (ask(What::UdpPort(70_000)), "at most 65535"),
            (Filter { ip_version: 5, ..ask(What::UdpPort(9)) }, "no version of IP"),
            (Filter { interface: "loop9".into(), ..ask(What::UdpPort(9)) }, "loop9"),
            (Filter::default(), "which packets"),
        ] {
            let refused = router.punt(vec![filter]).await.unwrap_err();
            assert!(refused.message.contains(why), "{refused}");
        }
        tell(&router, "create vxlan tunnel src 10.255.0.1 dst 10.255.0.9 vni 5").await;
        let refused = router.punt(vec![ask(What::UdpPort(4789))]).await.unwrap_err();
        assert!(refused.message.contains("vxlan4-input has it"), "{refused}");
        let v6 = Filter { ip_version: 6, ..ask(What::UdpPort(4789)) };
        router.punt(vec![v6]).await.unwrap();
    });
}

/// What the shell shows of each packet in its trace: nodes, where they send it, and what they say.
async fn shown(router: &Router) -> Vec<Vec<(String, String, String, String, u64)>> {
    let text = router.command_json("show trace max 10000").await.unwrap().text;
    let packets: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let word = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    let step = |s: &serde_json::Value| {
        let drop = s.pointer("/drop/reason").map(word).unwrap_or_default();
        (word(&s["node"]), word(&s["next"]), drop, word(&s["text"]), s["length"].as_u64().unwrap())
    };
    packets.iter().map(|p| p["steps"].as_array().unwrap().iter().map(step).collect()).collect()
}

fn steps_of(p: &trace_response::Packet) -> Vec<(String, String, String, String, u64)> {
    let step = |s: &trace_response::Step| {
        (s.node.clone(), s.next.clone(), s.drop_reason.clone(), s.text.clone(), s.length.into())
    };
    p.steps.iter().map(step).collect()
}

fn from(nodes: &[&str], interface: &str, count: u64) -> TraceRequest {
    TraceRequest {
        nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
        interface: interface.into(),
        count,
    }
}

#[test]
fn a_trace_tells_what_the_shell_shows_and_takes_nothing_from_it() {
    run("trace", LOOPBACKS, async |_, router| {
        let mut injector = router.injector().await.unwrap();
        let (here, source) = ([10, 255, 0, 1], [10, 255, 0, 2]);
        let mut all = router.trace(from(&["ip4-input", "ip4-lookup"], "", 4)).await.unwrap();
        let mut of = router.trace(from(&["ip4-input"], "loop1", 0)).await.unwrap();
        tell(&router, "trace add ip4-input 10").await;
        // One for nobody, one with a wrong checksum, one that comes on another interface, and one of the router's own.
        let mut wrong = ip4(source, here, 99, b"wrong");
        wrong[10] ^= 1;
        for (node, interface, packet) in [
            ("ip4-input", "loop0", ip4(source, [192, 0, 2, 9], 17, &udp(5, 7, b"nowhere"))),
            ("ip4-input", "loop0", wrong.clone()),
            ("ip4-input", "loop1", ip4([10, 254, 0, 2], here, 99, b"other")),
            ("ip4-lookup", "", ip4(here, [192, 0, 2, 9], 99, b"own")),
        ] {
            let taken = injector.inject(at(node, interface, "", vec![packet])).await.unwrap();
            assert_eq!(taken, Ok(1));
        }
        let mut packets = vec![];
        for _ in 0..4 {
            let Passed::Packet(p) = next(&mut all).await else { panic!("lost") };
            packets.push(p);
        }
        assert!(all.next().await.is_none(), "so many were asked for");
        assert_eq!(packets.iter().map(|p| p.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(packets.iter().all(|p| !p.continued && !p.incomplete && p.worker == 0));
        let told: Vec<_> = packets.iter().map(steps_of).collect();
        // The shell has the same but for the last, which begins at a node that it does not trace.
        let log = shown(&router).await;
        assert_eq!((&told[..3], log.len()), (&log[..], 3));
        assert_eq!(told[3][0].0, "ip4-lookup");
        let dropped = &packets[1].steps[0];
        assert_eq!((dropped.node.as_str(), dropped.next.as_str()), ("ip4-input", "error-drop"));
        assert!(dropped.drop_reason.contains("checksum") && !dropped.drop_meaning.is_empty(), "{dropped:?}");
        assert_eq!((dropped.data.as_slice(), dropped.length as usize), (&wrong[..], wrong.len()));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let ago = i64::try_from(now.as_nanos()).unwrap() - dropped.time_ns;
        assert!((0..i64::try_from(PATIENCE.as_nanos()).unwrap()).contains(&ago), "{ago} ns ago");
        // Of one interface alone, and on after the log is forgotten.
        let Passed::Packet(p) = next(&mut of).await else { panic!("lost") };
        assert_eq!((p.number, steps_of(&p)), (1, told[2].clone()));
        tell(&router, "clear trace").await;
        let packet = ip4([10, 254, 0, 2], here, 99, b"again");
        assert_eq!(injector.inject(at("ip4-input", "loop1", "", vec![packet])).await.unwrap(), Ok(1));
        let Passed::Packet(p) = next(&mut of).await else { panic!("lost") };
        assert_eq!((p.number, p.steps[0].node.as_str()), (2, "ip4-input"));
        assert!(shown(&router).await.is_empty());
    });
}

#[test]
fn a_trace_says_what_is_wrong_and_ends_with_its_interface() {
    run("untraceable", LOOPBACKS, async |_, router| {
        let wrong = async |request: TraceRequest| router.trace(request).await.unwrap_err();
        let e = wrong(from(&["ip4-input", "nothing"], "", 0)).await;
        let info = &e.infos[0];
        assert_eq!(
            (info.object.as_str(), info.rule.as_str(), info.value.as_str()),
            ("nodes", "unknown", "nothing")
        );
        let e = wrong(from(&["ip4-input"], "nowhere", 0)).await;
        assert_eq!((e.infos[0].object.as_str(), e.infos[0].value.as_str()), ("interface", "nowhere"));
        for nodes in [0, 33] {
            let e = wrong(from(&vec!["ip4-input"; nodes], "", 0)).await;
            assert!(e.to_string().contains("1 to 32"), "{e}");
        }
        tell(&router, "create loopback interface instance 7").await;
        let mut gone = router.trace(from(&["ip4-input"], "loop7", 0)).await.unwrap();
        tell(&router, "delete loopback interface loop7").await;
        let end = tokio::time::timeout(PATIENCE, gone.next()).await.unwrap().unwrap().unwrap_err();
        assert!(end.to_string().contains("the interface is gone"), "{end}");
        places(async || router.trace(from(&["ip4-input"], "", 0)).await, "uid:0 has 4 traces").await;
    });
}

#[test]
fn who_does_not_read_a_trace_is_told_how_many_were_lost() {
    const SENT: u64 = 30_000;
    run("slow-trace", LOOPBACKS, async |_, router| {
        let mut slow = router.trace(from(&["pg-input"], "loop0", 0)).await.unwrap();
        // All were sent before anything is read.
        flood(&router, SENT).await;
        let (mut received, mut lost) = (0, 0);
        while received + lost < SENT {
            match next::<trace_response::Packet>(&mut slow).await {
                Passed::Packet(p) => received += u64::from(!p.continued),
                Passed::Lost(n) => lost += n,
            }
        }
        assert_eq!(received + lost, SENT, "{received} and {lost}");
        assert!(lost > 0 && received > 100, "{received} and {lost}");
    });
}
