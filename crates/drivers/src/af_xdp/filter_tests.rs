//! The kernel runs the program on random frames, and a plain reading of the rules says what it must answer.

use super::super::program::instruction;
use super::*;
use crate::bpf::{self, Attach, ProgramKind};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

#[test]
fn rules_read_as_they_are_written() {
    for text in ["192.0.2.9", "2001:db8::9", "tcp/22", "udp/161@192.0.2.9", "ospf", "3@2001:db8::9", "icmp6"]
    {
        assert_eq!(text.parse::<Kept>().unwrap().to_string(), text);
    }
    assert_eq!("6/22".parse::<Kept>().unwrap().to_string(), "tcp/22");
    for (text, error) in [
        ("tcp/0", "`0` is no port, 1 to 65535"),
        ("tcp/x", "`x` is no port, 1 to 65535"),
        ("icmp/8", "icmp has no ports: tcp, udp and sctp have"),
        ("ssh", "`ssh` is no protocol"),
        ("256", "`256` is no protocol"),
        ("", "`` is no protocol"),
        ("tcp/22@host", "`host` is no IP address"),
        ("192.0.2.0/24", "`192.0.2.0` is no protocol"),
    ] {
        let e = text.parse::<Kept>().unwrap_err();
        assert!(e.starts_with(error), "{e}");
    }
}

/// What stands for the router: `XDP_DROP`.
const REST: u32 = 1;

fn load(kept: &[Kept]) -> std::io::Result<std::os::fd::OwnedFd> {
    let rest = vec![instruction(MOVE_NUMBER, ANSWER, 0, 0, REST as i32), instruction(EXIT, 0, 0, 0, 0)];
    bpf::load(ProgramKind::Xdp, Attach::Xdp, &code(kept, rest), 0)
}

/// Whether a frame stays Linux's.
fn stays(kept: &[Kept], f: &[u8]) -> bool {
    let u16_at = |at: usize| Some(u16::from_be_bytes(f.get(at..at + 2)?.try_into().ok()?));
    let v4 = |at: usize| Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(f.get(at..at + 4)?).ok()?)));
    let v6 = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(f.get(at..at + 16)?).ok()?)));
    let whole = |a: Option<IpAddr>| kept.iter().any(|k| k.protocol.is_none() && k.to == a);
    let (to, protocol, port) = match u16_at(12) {
        Some(0x0806) => return v4(38).is_some() && whole(v4(38)),
        Some(0x0800) => {
            let first = u16_at(20).is_some_and(|f| f & 0x1fff == 0);
            let port = 14 + 4 * usize::from(f.get(14).copied().unwrap_or(0) & 15);
            (v4(30), f.get(23), u16_at(port + 2).filter(|_| first))
        }
        Some(0x86dd) => {
            if f.get(20) == Some(&58) && f.get(54) == Some(&135) && v6(62).is_some() && whole(v6(62)) {
                return true;
            }
            (v6(38), f.get(20), u16_at(56))
        }
        _ => return false,
    };
    let (Some(to), Some(protocol)) = (to, protocol) else { return false };
    kept.iter().any(|k| {
        k.to.is_none_or(|t| t == to)
            && k.protocol.is_none_or(|(p, n)| p == *protocol && (n.is_none() || n == port))
    })
}

fn address() -> impl Strategy<Value = IpAddr> {
    (any::<bool>(), 0..3u8).prop_map(|(v6, n)| {
        if v6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()).into()
        } else {
            Ipv4Addr::new(192, 0, 2, n).into()
        }
    })
}

fn kept() -> impl Strategy<Value = Kept> {
    let protocol = (prop::sample::select(vec![6u8, 17, 89]), prop::option::of(1..4u16));
    let protocol = protocol.prop_map(|(p, port)| (p, port.filter(|_| p != 89)));
    (prop::option::of(address()), prop::option::of(protocol))
        .prop_filter("says something", |(to, p)| to.is_some() || p.is_some())
        .prop_map(|(to, protocol)| Kept { to, protocol })
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ports = (
        0..4u16,
        prop::sample::select(vec![6u8, 17, 58, 89]),
        4..8u8,
        prop::sample::select(vec![0u16, 0x2000, 0x4000, 7]),
    );
    (address(), address(), ports, any::<bool>(), prop::sample::select(vec![0u8, 134, 135]), 14..100usize)
        .prop_map(|(to, target, (port, protocol, ihl, fragment), arp, kind, len)| {
            let mut f = vec![0u8; 110];
            match to {
                IpAddr::V4(to) if arp => {
                    f[12..14].copy_from_slice(&[8, 6]);
                    f[38..42].copy_from_slice(&to.octets());
                }
                IpAddr::V4(to) => {
                    f[12..14].copy_from_slice(&[8, 0]);
                    f[14] = 0x40 | ihl;
                    f[20..22].copy_from_slice(&fragment.to_be_bytes());
                    f[23] = protocol;
                    f[30..34].copy_from_slice(&to.octets());
                    let at = 16 + 4 * usize::from(ihl);
                    f[at..at + 2].copy_from_slice(&port.to_be_bytes());
                }
                IpAddr::V6(to) => {
                    f[12..14].copy_from_slice(&[0x86, 0xdd]);
                    f[20] = protocol;
                    f[38..54].copy_from_slice(&to.octets());
                    f[56..58].copy_from_slice(&port.to_be_bytes());
                    f[54] = kind;
                    if let IpAddr::V6(target) = target {
                        f[62..78].copy_from_slice(&target.octets());
                    }
                }
            }
            f.truncate(len);
            f
        })
}

#[test]
fn the_kernel_takes_the_most_rules() {
    let all: Vec<Kept> = (0..MOST_KEPT as u16)
        .map(|n| Kept {
            to: Some(Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, n).into()),
            protocol: (n % 2 == 0).then_some((6, Some(22))),
        })
        .collect();
    match load(&all) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => eprintln!("skipped: no right to load programs"),
        loaded => drop(loaded.unwrap()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn the_kernel_runs_it_as_the_rules_read(
        kept in prop::collection::vec(kept(), 1..6), frames in prop::collection::vec(frame(), 100),
    ) {
        let Ok(program) = load(&kept).inspect_err(|e| assert_eq!(e.raw_os_error(), Some(libc::EPERM), "{e}")) else {
            return Ok(());
        };
        for f in frames {
            let want = if stays(&kept, &f) { XDP_PASS as u32 } else { REST };
            prop_assert_eq!(bpf::answer(&program, &f).unwrap(), want, "{:?} {:02x?}", kept, f);
        }
    }
}
