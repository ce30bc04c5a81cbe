//! Commands that make interfaces and take them out.

use crate::cli::{check_namespace, commit, files, interface};
use crate::router::{
    Encap, HostConfig, HostDriver, IfState, Kind, Offload, Op, PcapConfig, Ring, Router, XdpMode,
    open_pcap_files,
};
use command::{Args, Command, CommandError, Output, Page};
use packet::eth::MacAddr;
use serde_json::json;
use std::fmt::Write;

/// Sub-interfaces of a range that are made in one go.
const SUBS_AT_ONCE: u16 = 8;

pub(super) fn all() -> Vec<Command<Router>> {
    let mut all = vec![
        Command::write(
            "create sub-interfaces <interface:interface> <id:u32 1..4294967295> \
             [default|untagged|tags:((dot1q|dot1ad) outer:(<vlan:vlan>|any) inner:[inner-dot1q (<vlan:vlan>|any)] [exact-match])]",
            "Make a sub-interface that takes some frames of an interface",
            create_sub,
        )
        .arg("id", "number of the sub-interface, which is called INTERFACE.ID")
        .arg("vlan", "VLAN of a tag")
        .arg("default", "the frames that no other sub-interface takes")
        .arg("untagged", "frames without a tag")
        .arg("dot1q", "frames with an 802.1Q tag outside")
        .arg("dot1ad", "frames with an 802.1ad tag outside")
        .arg("inner-dot1q", "and an 802.1Q tag inside")
        .arg("any", "whatever its VLAN")
        .arg("exact-match", "exactly these tags and not more; a sub-interface with addresses needs it")
        .details("Without tags, `ID` is the 802.1Q VLAN, with exact-match. The answer is the name.")
        .example("create sub-interfaces left 100")
        .example("create sub-interfaces left 200 dot1ad 200 inner-dot1q 10 exact-match")
        .example("create sub-interfaces left 300 dot1q any inner-dot1q 7")
        .example("create sub-interfaces left 1 untagged"),
        Command::write(
            "create sub-interfaces <interface:interface> <first-last:string>",
            "Make a sub-interface for each VLAN of a range",
            create_subs,
        )
        .arg("first-last", "the first and the last VLAN, with a hyphen between them")
        .details(
            "Each is called INTERFACE.VLAN and takes the frames with exactly one 802.1Q tag of this VLAN. All are made, or \
             none. The answer is their names.",
        )
        .example("create sub-interfaces left 110-120"),
        Command::write(
            "create loopback interface [mac <mac:mac>] [instance <instance:u32 0..4095>]",
            "Make a loopback interface",
            create_loopback,
        )
        .alias("loopback (create|create-interface) [mac <mac:mac>] [instance <instance:u32 0..4095>]")
        .arg("instance", "N of its name loopN; the first free one by default")
        .details("The answer is the name.")
        .example("create loopback interface instance 0"),
        super::tap::create(),
        host(),
        af_xdp(),
        Command::write(
            "create pcap-interface name <name:string> [read <read:path>] [write <write:path>] [overwrite] [rate <rate:count 1..1000000000>] [repeat]",
            "Make an interface of capture files",
            create_pcap,
        )
        .arg("name", "name of the interface")
        .arg("read", "file whose packets come in, relative to the router's working directory")
        .arg("write", "file for the packets that go out, relative to the router's working directory")
        .arg("overwrite", "the file to be written may be there: what is in it goes")
        .arg("rate", "packets a second; as fast as it goes by default")
        .arg("repeat", "begin again at the end of the file")
        .details(
            "The answer is the name. Packets come in once the interface is up. Files are opened with the rights of who gives \
             the command.",
        )
        .example("create pcap-interface name replay read in.pcap write out.pcap rate 10k"),
    ];
    all.extend(delete());
    all
}

const KEPT: &str = "leave Linux what comes for an ADDRESS, and of a PROTOCOL or PROTOCOL/PORT, with @ADDRESS behind only what is for that";

fn host() -> Command<Router> {
    Command::write(
        "create host-interface name <device:string> [if-name <name:string>] [rx-queue-size <slots:u32 64..65536>] \
         [num-rx-queues (all|<queues:u8 1..64>)] [netns <netns:string>] by:[driver (af-packet|auto)] [ring (v2|v3)] \
         [offload (auto|on|off)] [left-to-linux <kept:string>...]",
        "Take over a Linux device through AF_PACKET, or through what suits it",
        create_host,
    )
    .arg("device", "the Linux device")
    .arg("if-name", "name of the interface; host-DEVICE by default")
    .arg("rx-queue-size", "frames that each ring holds, a power of two")
    .arg("num-rx-queues", "receive queues, spread over the workers")
    .arg("all", "as many as the device has")
    .arg("netns", "network namespace of the device; for root only")
    .arg("driver", "by whom its packets come; by AF_PACKET by default")
    .arg("v2", "TPACKET_V2: each frame is handed over at once")
    .arg("v3", "TPACKET_V3: blocks of frames, up to a millisecond late")
    .arg("auto", "Quiver completes checksums and cuts super-frames that it sends: the default")
    .arg("on", "the kernel or the device does that")
    .arg("off", "as auto")
    .arg("left-to-linux", KEPT)
    .details("The answer is the name. The interface is down at first. What `left-to-linux` says holds where `driver auto` takes AF_XDP.")
    .example("create host-interface name eth1 num-rx-queues 2")
    .example("create host-interface name eth1 rx-queue-size 4096 driver auto left-to-linux 192.0.2.9 tcp/22@192.0.2.1")
}

fn af_xdp() -> Command<Router> {
    Command::write(
        "create interface af_xdp host-if <device:string> [name <name:string>] [rx-queue-size <slots:u32 64..65536>] \
         [num-rx-queues (all|<queues:u8 1..64>)] [netns <netns:string>] [native|generic] [no-zero-copy] \
         [left-to-linux <kept:string>...]",
        "Take over a Linux device through AF_XDP",
        create_af_xdp,
    )
    .arg("device", "the Linux device")
    .arg("name", "name of the interface; xdp-DEVICE by default")
    .arg("rx-queue-size", "frames that each ring holds, a power of two")
    .arg("num-rx-queues", "receive queues, spread over the workers; the device gets as many")
    .arg("all", "as many as the device has")
    .arg("netns", "network namespace of the device; for root only")
    .arg("native", "in the device's driver, or not at all")
    .arg("generic", "in Linux's own receive path")
    .arg("no-zero-copy", "as always: frames are copied once, between the driver's memory and the router's")
    .arg("left-to-linux", KEPT)
    .details("The answer is the name. The interface is down at first. Linux sees nothing of what comes but what is left to it.")
    .example("create interface af_xdp host-if eth2 num-rx-queues 4")
    .example("create interface af_xdp host-if eth2 left-to-linux 192.0.2.9 tcp/22@192.0.2.1")
}

fn delete() -> Vec<Command<Router>> {
    vec![
        Command::write("delete sub-interface <interface:interface>", "Take a sub-interface out", |r, a| {
            delete_kind(r, a, "sub-interface", |i| matches!(i.kind, Kind::Sub { .. }))
        })
        .example("delete sub-interface left.100"),
        Command::write(
            "delete loopback interface [intfc] <interface:interface>",
            "Take a loopback interface out",
            |r, a| delete_kind(r, a, "loopback", |i| i.kind == Kind::Loopback),
        )
        .alias("loopback (delete|delete-interface) [intfc] <interface:interface>")
        .arg("intfc", "may stand before the name")
        .example("delete loopback interface loop0"),
        Command::write("delete tap <interface:interface>", "Take a TAP out with its Linux device", |r, a| {
            delete_kind(r, a, "TAP", |i| matches!(i.origin, Op::CreateTap { .. }))
        })
        .details("A persistent Linux device stays.")
        .example("delete tap tap0"),
        Command::write("delete host-interface name <device:string>", "Give a Linux device back", |r: &mut Router, a| {
            let device: String = a.get("device")?;
            let is = |o: &Op| matches!(o, Op::CreateHost { config, .. } if config.host == device);
            let mut names = r.interfaces().filter(|i| is(&i.origin)).map(|i| i.name.clone());
            let (Some(name), more) = (names.next(), names.next()) else {
                return Err(a.error("device", format!("no interface stands on the Linux device {device}")));
            };
            if more.is_some() {
                let why = format!("several interfaces stand on devices called {device}: name one in 'delete interface'");
                return Err(a.error("device", why));
            }
            drop(names);
            delete_named(r, name)
        })
        .arg("device", "the Linux device")
        .example("delete host-interface name eth1"),
        Command::write(
            "delete interface af_xdp <interface:interface>",
            "Give a Linux device back that came through AF_XDP",
            |r, a| {
                let is = |i: &IfState| matches!(&i.origin, Op::CreateHost { config, .. } if config.driver == HostDriver::AfXdp);
                delete_kind(r, a, "Linux device through AF_XDP", is)
            },
        )
        .example("delete interface af_xdp xdp-eth2"),
        Command::write("delete interface <interface:interface>", "Take an interface of any kind out", |r, a| {
            delete_named(r, a.get("interface")?)
        })
        .details(
            "Its sub-interfaces, addresses and neighbors go with it, many sub-interfaces some at a time before it. Static routes over it, streams into it and \
             cross-connects to it must be gone before.",
        )
        .example("delete interface left"),
    ]
}

pub(crate) fn delete_kind(
    router: &mut Router,
    args: &Args,
    kind: &str,
    is: impl Fn(&IfState) -> bool,
) -> Result<Output, CommandError> {
    let i = interface(router, args, "interface")?;
    let name = i.name.clone();
    if !is(i) {
        return Err(args.error("interface", format!("{name} is not a {kind}")));
    }
    delete_named(router, name)
}

/// Deletes an interface. Of many sub-interfaces some go at a time before it, so that others have their turn.
fn delete_named(router: &mut Router, name: String) -> Result<Output, CommandError> {
    let mut gone = router.check_deletable(&name).map_err(|e| CommandError::new(e.message))?;
    let index = gone.pop();
    if gone.len() <= usize::from(SUBS_AT_ONCE) {
        return commit(router, vec![Op::Delete { name }]);
    }
    // By name: their numbers may be given to others meanwhile. Cross-connects among them go first, for no sub-interface goes
    // before what leads to it.
    let subs: Vec<&IfState> = gone.iter().rev().filter_map(|index| router.interface(*index)).collect();
    let connected = subs.iter().filter(|i| i.xconnect.is_some()).map(|i| i.name.clone());
    let mut ops: Vec<Op> = connected.map(|name| Op::SetXconnect { name, peer: None }).collect();
    let connects = ops.len();
    ops.extend(subs.iter().map(|i| Op::Delete { name: i.name.clone() }));
    ops.push(Op::Delete { name: name.clone() });
    let (mut ops, mut done) = (ops.into_iter(), 0);
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        while router.interface_index(&name) == index && !ops.as_slice().is_empty() {
            if page.is_full() {
                return Ok(true);
            }
            let mut some: Vec<Op> = ops.by_ref().take(SUBS_AT_ONCE.into()).collect();
            let took = some.len();
            some.retain(|op| match op {
                Op::SetXconnect { name, .. } | Op::Delete { name } => router.interface_index(name).is_some(),
                _ => true,
            });
            commit(router, some).map_err(|e| match done {
                0 => e,
                _ => CommandError::new(format!(
                    "{}; {} of its sub-interfaces are deleted",
                    e.message,
                    usize::saturating_sub(done, connects)
                )),
            })?;
            done += took;
        }
        Ok(false)
    }))
}

/// Applies the operations that make the interface `name`, and answers its name.
pub(crate) fn made(router: &mut Router, name: String, ops: Vec<Op>) -> Result<Output, CommandError> {
    commit(router, ops)?;
    Ok(created(router, name))
}

/// The same, with the MAC address of the argument `mac` where it is there.
pub(crate) fn made_with_mac(
    router: &mut Router,
    args: &Args,
    name: String,
    make: Op,
) -> Result<Output, CommandError> {
    let mac = args.opt("mac")?.map(|mac| Op::SetMac { name: name.clone(), mac: Some(MacAddr(mac)) });
    made(router, name, [make].into_iter().chain(mac).collect())
}

fn created(router: &Router, name: String) -> Output {
    let index = router.interface_index(&name);
    let json = serde_json::json!({ "name": name, "index": index });
    Output::new(name, json)
}

fn create_sub(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let id: u32 = args.get("id")?;
    let encap = match args.group("tags") {
        Some(tags) => tags_of(tags)?,
        None if args.has("default") => Encap::Default,
        None if args.has("untagged") => Encap::Untagged,
        None => {
            let vlan = u16::try_from(id).ok().filter(|v| (1..=4095).contains(v));
            let vlan = vlan.ok_or_else(|| {
                args.error(
                    "id",
                    format!("{id} is not a VLAN: say which frames, as in 'dot1q 100 exact-match'"),
                )
            })?;
            Encap::Tags { dot1ad: false, outer: Some(vlan), inner: None, exact: true }
        }
    };
    let parent: String = args.get("interface")?;
    let name = format!("{parent}.{id}");
    made(router, name, vec![Op::CreateSub { parent, id, encap }])
}

fn create_subs(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let (parent, range): (String, String) = (args.get("interface")?, args.get("first-last")?);
    let vlan = |text: &str| text.parse::<u16>().ok().filter(|v| (1..=4095).contains(v));
    let ends = range.split_once('-').and_then(|(first, last)| Some((vlan(first)?, vlan(last)?)));
    let Some((first, last)) = ends.filter(|(first, last)| first <= last) else {
        let why = format!("'{range}' is neither a number 1..4294967295 nor a range of VLANs such as 110-120");
        return Err(args.error("first-last", why));
    };
    let whole = parent.clone();
    let name = move |vlan: u16| format!("{whole}.{vlan}");
    let encap = |vlan| Encap::Tags { dot1ad: false, outer: Some(vlan), inner: None, exact: true };
    let sub = move |vlan| Op::CreateSub { parent: parent.clone(), id: u32::from(vlan), encap: encap(vlan) };
    if let Some(there) = (first..=last).map(&name).find(|n| router.interface_index(n).is_some()) {
        return Err(args.error("first-last", format!("there is an interface {there} already")));
    }
    // The one that is made next, and the one that the answer names next.
    let (mut next, mut untold, mut failed) = (first, first, None);
    let mut begun = false;
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        while failed.is_none() && next <= last {
            if page.is_full() {
                return Ok(true);
            }
            let end = last.min(next + SUBS_AT_ONCE - 1);
            match commit(router, (next..=end).map(&sub).collect()) {
                Ok(_) => next = end + 1,
                Err(e) => failed = Some(e),
            }
        }
        let Some(error) = &failed else {
            if page.wants_json() && !std::mem::replace(&mut begun, true) {
                page.open("[");
            }
            while untold <= last {
                if page.is_full() {
                    return Ok(true);
                }
                let name = name(untold);
                untold += 1;
                match page.wants_json() {
                    true => page.item(&json!({ "name": name, "index": router.interface_index(&name) })),
                    false => _ = writeln!(page, "{name}"),
                }
            }
            if page.wants_json() {
                page.close("]");
            }
            return Ok(false);
        };
        // Those before it go again.
        while next > first {
            if page.is_full() {
                return Ok(true);
            }
            let from = first.max(next.saturating_sub(SUBS_AT_ONCE));
            commit(router, (from..next).map(|vlan| Op::Delete { name: name(vlan) }).collect()).map_err(
                |e| {
                    CommandError::new(format!(
                        "{}; some of those made before it stay: {}",
                        error.message, e.message
                    ))
                },
            )?;
            next = from;
        }
        Err(error.clone())
    }))
}

fn tags_of(args: &Args) -> Result<Encap, CommandError> {
    let vlan = |label: &str| args.group(label).map(|g| g.opt::<u16>("vlan")).transpose();
    let (outer, inner) = (vlan("outer")?, vlan("inner")?);
    let exact = args.has("exact-match");
    Ok(Encap::Tags { dot1ad: args.has("dot1ad"), outer: outer.flatten(), inner, exact })
}

pub(crate) fn free(router: &Router, name: &str, mut range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    range.find(|n| router.interface_index(&format!("{name}{n}")).is_none())
}

fn create_loopback(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let instance: Option<u32> = args.opt("instance")?;
    let instance = instance.or_else(|| free(router, "loop", 0..=4095));
    let instance = instance.ok_or("there are 4096 loopbacks already")?;
    let mac = args.opt::<[u8; 6]>("mac")?.map(MacAddr);
    made(router, format!("loop{instance}"), vec![Op::CreateLoopback { instance: Some(instance), mac }])
}

pub(crate) fn offload(args: &Args) -> Offload {
    match args.one_of(&["auto", "on", "off"]) {
        Some("on") => Offload::On,
        Some("off") => Offload::Off,
        _ => Offload::Auto,
    }
}

/// What all ways to take over a Linux device say in the same words.
fn host_config(driver: HostDriver, args: &Args) -> Result<HostConfig, CommandError> {
    check_namespace(args, "netns")?;
    let mut config = HostConfig { driver, ..HostConfig::new(&args.get::<String>("device")?) };
    config.netns = args.opt("netns")?;
    config.rx_queues = args.opt("queues")?.unwrap_or(1);
    config.slots = args.opt::<u32>("slots")?.map(|n| n as usize);
    if let Some(slots) = config.slots.filter(|n| !n.is_power_of_two()) {
        let near = slots.next_power_of_two();
        return Err(args.error("slots", format!("{slots} is not a power of two: {} or {near}", near / 2)));
    }
    for kept in args.all::<String>("kept")? {
        config.kept.push(kept.parse().map_err(|e: String| args.error("kept", e))?);
    }
    Ok(config)
}

fn create_host(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let auto = args.group("by").is_some_and(|by| by.has("auto"));
    let mut config = host_config(if auto { HostDriver::Auto } else { HostDriver::AfPacket }, args)?;
    config.offload = offload(args);
    if let Some(ring) = args.one_of(&["v2", "v3"]) {
        config.ring = if ring == "v2" { Ring::V2 } else { Ring::V3 };
    }
    take_over(router, args, "host", config)
}

fn create_af_xdp(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let mut config = host_config(HostDriver::AfXdp, args)?;
    config.mode = match args.one_of(&["native", "generic"]) {
        Some("native") => Some(XdpMode::Native),
        Some("generic") => Some(XdpMode::Generic),
        _ => None,
    };
    take_over(router, args, "xdp", config)
}

/// Makes the interface, whose name begins with `prefix` where none was given.
fn take_over(
    router: &mut Router,
    args: &Args,
    prefix: &str,
    mut config: HostConfig,
) -> Result<Output, CommandError> {
    config.check().map_err(|why| match config.kept.is_empty() {
        true => CommandError::new(why),
        false => args.error("kept", why),
    })?;
    let device = config.host.clone();
    let name: String = args.opt("name")?.unwrap_or_else(|| format!("{prefix}-{device}"));
    if !args.has("all") {
        return made(router, name.clone(), vec![Op::CreateHost { name, config }]);
    }
    let mut no_device = args.error("device", "");
    // Linux may be busy with another device.
    Ok(Output::work(async move || {
        let netns = config.netns.clone();
        let ask = move || drivers::af_xdp::receive_queues(&device, netns.as_deref());
        let queues = crate::background::run(ask).await.map_err(CommandError::new)?;
        config.rx_queues = queues.map_err(|e| {
            no_device.message = e.to_string();
            no_device
        })?;
        Ok(Output::then(move |router: &mut Router| {
            made(router, name.clone(), vec![Op::CreateHost { name, config }])
        }))
    }))
}

fn create_pcap(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let config = PcapConfig {
        read: args.opt("read")?,
        write: args.opt("write")?,
        pps: args.opt("rate")?,
        repeat: args.has("repeat"),
    };
    let name: String = args.get("name")?;
    config.check().map_err(|e| CommandError::new(format!("{name}: {e}")))?;
    router.check_new_device(&name).map_err(|e| CommandError::new(e.message))?;
    let (files, wanted) = (files(args), config.clone());
    // A file may be large, or far away: the router does not wait for it.
    Ok(Output::work(async move || {
        let open = move || Ok(open_pcap_files(&wanted, &files));
        let opened = crate::background::run(open).await.flatten().map_err(|e| e.to_string());
        let opened = opened.flatten().map_err(|e| CommandError::new(format!("{name}: {e}")))?;
        Ok(Output::then(move |router: &mut Router| {
            router.create_pcap(&name, config, opened).map_err(|e| CommandError::new(e.message))?;
            Ok(created(router, name))
        }))
    }))
}
