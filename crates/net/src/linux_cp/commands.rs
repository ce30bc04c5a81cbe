//! `lcp`, `show lcp`.

use super::{FpmListen, LcpSetting, LinuxPair, PairInfo, Paired, pair, part, refused_vlans, settings};
use crate::cli::listing::{self, Frame};
use crate::cli::{check_namespace, commit, interface};
use crate::router::{IfState, Op, Router};
use command::{Args, Command, CommandError, Output, Table};
use serde_json::json;

/// The commands.
pub(crate) fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "lcp create <interface:interface> host-if <host-if:string> [netns <netns:string>] [tun]",
            "Give an interface a pair in Linux",
            create,
        )
        .arg("interface", "a device, a loopback or BVI, a tunnel, or a sub-interface with exact-match")
        .arg("host-if", "name of the device in Linux")
        .arg("netns", "its network namespace; that of `lcp default netns` without, else Quiver's own")
        .arg("tun", "not here: what carries packets gets a TAP on which Linux looks for no neighbors")
        .details(
            "What comes on the interface for the router itself goes to this device with its headers: ICMP, TCP, UDP and all \
             protocols above IP that no feature of Quiver takes, multicast on the link, IS-IS, LLDP and slow protocols. ARP, \
             neighbor discovery and ICMP errors go to Quiver and to Linux. What Linux sends on the device leaves by the \
             interface as it is; that of a loopback is routed, that of a BVI bridged. The device has the interface's MAC \
             address and carrier, is up, and has at first its MTU; `lcp lcp-sync` has it follow MTU and state.",
        )
        .example("lcp create left host-if e0")
        .example("lcp create right host-if e1 netns dataplane"),
        Command::write("lcp delete <interface:interface>", "Take the pair of an interface away", delete)
            .example("lcp delete left"),
        Command::write(
            "lcp default netns <netns:string>",
            "The network namespace of pairs that are made without one",
            |r: &mut Router, args: &Args| {
                check_namespace(args, "netns")?;
                set(r, LcpSetting::DefaultNetns(Some(args.get("netns")?)))
            },
        )
        .details("Pairs that there are stay where they are.")
        .example("lcp default netns dataplane"),
        Command::write(
            "lcp default clear netns",
            "Make pairs in Quiver's own namespace again",
            |r: &mut Router, _: &Args| commit(r, vec![LcpSetting::DefaultNetns(None).into()]),
        )
        .example("lcp default clear netns"),
        Command::write(
            "lcp lcp-sync (on|off|enable|disable)",
            "Have Linux follow state, MTU, table and addresses of interfaces with a pair",
            |r: &mut Router, args: &Args| {
                commit(r, vec![LcpSetting::Sync(args.has("on") || args.has("enable")).into()])
            },
        )
        .arg("on", "what is set for the interface, is set for the device in Linux as well")
        .arg("off", "the device is Linux's, but for MAC address and carrier: the default")
        .example("lcp lcp-sync on"),
        Command::write(
            "lcp lcp-auto-subint (on|off|enable|disable)",
            "Give new sub-interfaces a pair where their interface has one",
            |r: &mut Router, args: &Args| {
                commit(r, vec![LcpSetting::AutoSubint(args.has("on") || args.has("enable")).into()])
            },
        )
        .arg("on", "sub-interface ID gets HOST-IF.ID, in the same namespace")
        .arg("off", "they get none by themselves: the default")
        .example("lcp lcp-auto-subint on"),
        Command::write(
            "lcp netlink (on|off|enable|disable)",
            "Forward by the routes of Linux",
            |r: &mut Router, args: &Args| {
                commit(r, vec![LcpSetting::Netlink(args.has("on") || args.has("enable")).into()])
            },
        )
        .arg("on", "routes over devices of pairs, whoever made them, are forwarded by: the default")
        .arg("off", "Linux's routes are its own; those that the router has of them go")
        .example("lcp netlink off"),
        Command::write(
            "lcp nl-sync (on|off|enable|disable)",
            "Have interfaces with a pair follow what is changed on it in Linux",
            |r: &mut Router, args: &Args| {
                commit(r, vec![LcpSetting::NlSync(args.has("on") || args.has("enable")).into()])
            },
        )
        .arg("on", "state, MTU, MAC address, VRF, addresses and neighbors that `ip` changes are the interface's as well: the default")
        .arg("off", "they are Linux's own affair; interfaces have again what was set here")
        .details(
            "What comes from Linux is no configuration: `dump` and `apply` leave it alone, and it goes when Linux takes it away, or with \
             the pair. What is set here later takes its place. `show lcp` tells what an interface has from Linux.",
        )
        .example("lcp nl-sync off"),
        Command::write(
            "lcp fpm on [address <address:ip>] [port <port:u16 1..65535>] [netns <netns:string>] [hold <hold:u32 0..3600 seconds>]",
            "Listen for FRR's zebra, and forward by the routes that it tells",
            fpm,
        )
        .arg("address", "of Linux's; 127.0.0.1 by default, as zebra has it. Whoever can connect there can set routes")
        .arg("port", "TCP port; 2620 by default")
        .arg("netns", "its network namespace; that of `lcp default netns` without, else Quiver's own")
        .arg("hold", "how long the routes stay when zebra is gone, unless it tells them again; 60 by default")
        .details(
            "zebra runs with `-M dplane_fpm_nl`, and `fpm address 127.0.0.1` in its configuration. Its routes come before the kernel's, \
             which need not have them; labels are among them. On each connection zebra tells all: what it has not told again goes, \
             when it has said nothing for three seconds and the connection before has been gone for `hold`. `show fpm` tells how it stands.",
        )
        .example("lcp fpm on")
        .example("lcp fpm on port 2621 netns dataplane hold 10"),
        Command::write("lcp fpm off", "Listen for FRR's zebra no more", |r: &mut Router, _: &Args| {
            commit(r, vec![LcpSetting::Fpm(None).into()])
        })
        .details("Its routes go.")
        .example("lcp fpm off"),
        Command::write(
            "lcp nl-rx-buffer-size <bytes:u32 4096..1073741824 bytes>",
            "How much the kernel keeps of changes of its routes until they are read",
            |r: &mut Router, args: &Args| commit(r, vec![LcpSetting::RxBuffer(args.get("bytes")?).into()]),
        )
        .arg("bytes", "33554432 by default; a change of a route takes about 1000")
        .details("What finds no room is lost: then all routes are read anew, and what differs is made up for. `show netlink` counts.")
        .example("lcp nl-rx-buffer-size 67108864"),
        Command::read("show lcp [phy <interface:interface>]", "Pairs in Linux, and what holds for all", show)
            .arg("interface", "only the pair of this one")
            .example("show lcp")
            .example("show lcp phy left"),
    ]
}

/// Makes a setting that may name a namespace which is not there.
fn set(router: &mut Router, setting: LcpSetting) -> Result<Output, CommandError> {
    let missing = setting.names_missing();
    let done = commit(router, vec![setting.into()])?;
    Ok(match missing {
        Some(missing) => Output::new(format!("{missing}\n"), serde_json::Value::Null),
        None => done,
    })
}

fn fpm(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    check_namespace(args, "netns")?;
    let d = FpmListen::default();
    let listen = FpmListen {
        address: args.opt("address")?.unwrap_or(d.address),
        port: args.opt("port")?.unwrap_or(d.port),
        netns: args.opt("netns")?,
        hold: args.opt("hold")?.unwrap_or(d.hold),
    };
    set(router, LcpSetting::Fpm(Some(listen)))
}

fn create(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    check_namespace(args, "netns")?;
    if args.has("tun") {
        let why = "tun: what carries packets gets a TAP on which Linux looks for no neighbors, by itself: leave the word out";
        return Err(CommandError::new(why));
    }
    let i = interface(router, args, "interface")?;
    if let Some(p) = pair(router, i.index) {
        let why = format!("{} has the pair {} already: lcp delete {} first", p.name, p.linux.host, p.name);
        return Err(args.error("interface", why));
    }
    let netns = args.opt("netns")?.or_else(|| settings(router).default_netns);
    let linux = Paired { host: args.get("host-if")?, netns };
    let name = i.name.clone();
    commit(router, vec![Op::SetFeature { name, feature: LinuxPair(Some(linux)).into() }])
}

fn delete(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let i = interface(router, args, "interface")?;
    if pair(router, i.index).is_none() {
        return Err(args.error("interface", format!("{} has no pair (show lcp)", i.name)));
    }
    let name = i.name.clone();
    commit(router, vec![Op::SetFeature { name, feature: LinuxPair(None).into() }])
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let s = settings(router);
    let word = |on| if on { "on" } else { "off" };
    let netns = s.default_netns.as_deref();
    let mut text = format!(
        "lcp default netns {}\nlcp lcp-sync {}\nlcp lcp-auto-subint {}\nlcp netlink {}\nlcp nl-sync {}\nlcp fpm {}\nlcp nl-rx-buffer-size {}\n",
        netns.unwrap_or("-"),
        word(s.sync),
        word(s.auto_subint),
        word(s.netlink),
        word(s.nl_sync),
        s.fpm.as_ref().map_or_else(|| "off".to_owned(), |f| format!("on {}", f.words())),
        s.rx_buffer
    );
    let refused: Vec<_> = refused_vlans(router).collect();
    for (netns, device, why) in &refused {
        let of = netns.map_or_else(String::new, |n| format!(" of namespace {n}"));
        text += &format!("VLAN device {device}{of} is not followed: {why}\n");
    }
    let refused =
        refused.iter().map(|(n, device, why)| json!({"netns": n, "host-if": device, "reason": why}));
    let json = json!({
        "default-netns": s.default_netns,
        "lcp-sync": s.sync,
        "lcp-auto-subint": s.auto_subint,
        "netlink": s.netlink,
        "nl-sync": s.nl_sync,
        "fpm": s.fpm.is_some(),
        "nl-rx-buffer-size": s.rx_buffer,
        "not-followed": refused.collect::<Vec<_>>(),
    });
    let open = format!("{},\"pairs\":[", json.to_string().trim_end_matches('}'));
    let table = Table::new()
        .left("Interface")
        .left("Tap")
        .left("Host-if")
        .right("Ifindex")
        .left("Netns")
        .left("From Linux");
    let row = |router: &Router, i: &IfState, table: &mut Table| {
        if let Some(p) = pair(router, i.index) {
            table.row([
                p.name.clone().into(),
                router.interface_name(p.tap).into(),
                p.linux.host.clone().into(),
                p.ifindex.map_or("-".into(), Into::into),
                p.linux.netns.clone().unwrap_or_else(|| "-".into()).into(),
                missing(router, &p)
                    .map_or_else(|| from_linux(router, i), |why| format!("missing: {why}"))
                    .into(),
            ]);
        }
    };
    let item = |router: &Router, i: &IfState| {
        let p = pair(router, i.index)?;
        Some(json!({
            "interface": p.name,
            "tap": router.interface_name(p.tap),
            "host-if": p.linux.host,
            "ifindex": p.ifindex,
            "netns": p.linux.netns,
            "missing": missing(router, &p),
            "from-linux": from_linux_json(router, i),
            "refused-table": part::refused_table(router, i.index)
                .map(|(id, why)| json!({"table": id, "reason": why})),
            "refused": part::refused_addresses(router, i.index)
                .map(|(net, why)| json!({"address": net.to_string(), "reason": why}))
                .collect::<Vec<_>>(),
        }))
    };
    listing::framed(router, args, Frame { text, open, close: "]}" }, table, row, item)
}

/// Why the device of a pair is not there.
fn missing(router: &Router, p: &PairInfo) -> Option<String> {
    p.ifindex.is_none().then(|| router.companion_missing(p.tap)).flatten()
}

/// What an interface has from Linux, in words.
fn from_linux(router: &Router, i: &IfState) -> String {
    let e = &i.elsewhere;
    let state = e.up.map(|_| if i.up { "up" } else { "down" }.to_owned());
    let mtu = e.mtu.map(|_| format!("mtu {}", i.mtu));
    let mac = e.mac.map(|_| i.mac.to_string());
    let table = vrf_table(router, i).map(|id| format!("table {id}"));
    let addresses = e.addresses.iter().map(ToString::to_string);
    let neighbors = match e.neighbors.len() {
        0 => None,
        n => Some(format!("{n} neighbors")),
    };
    let refused = part::refused_addresses(router, i.index).map(|(net, _)| format!("not {net}"));
    let refused = part::refused_table(router, i.index)
        .map(|(id, _)| format!("not table {id}"))
        .into_iter()
        .chain(refused);
    let all: Vec<String> = state
        .into_iter()
        .chain(mtu)
        .chain(mac)
        .chain(table)
        .chain(addresses)
        .chain(neighbors)
        .chain(refused)
        .collect();
    if all.is_empty() { "-".into() } else { all.join(", ") }
}

/// The table in which an interface is for its VRF in Linux.
fn vrf_table(router: &Router, i: &IfState) -> Option<u32> {
    let v6 = [false, true].into_iter().find(|v6| i.elsewhere.tables[usize::from(*v6)].is_some())?;
    Some(router.table_of_interface(i, v6))
}

fn from_linux_json(router: &Router, i: &IfState) -> serde_json::Value {
    let e = &i.elsewhere;
    json!({
        "state": e.up.map(|_| if i.up { "up" } else { "down" }),
        "mtu": e.mtu.map(|_| i.mtu),
        "mac": e.mac.map(|_| i.mac.to_string()),
        "table": vrf_table(router, i),
        "addresses": e.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "neighbors": e.neighbors.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
