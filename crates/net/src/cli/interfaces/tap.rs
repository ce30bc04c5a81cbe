//! `create tap` and `show tap`.

use super::create::{free, made_with_mac, offload};
use crate::cli::{check_namespace, find, is_privileged, listing};
use crate::router::{IfState, Offload, Op, Router, TapAddresses, TapConfig};
use command::{Args, Command, CommandError, Output};
use packet::eth::MacAddr;
use serde_json::{Value as Json, json};
use std::fmt::Write;

pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read(
            "show tap [<interface:interface>]...",
            "TAPs and their Linux sides, as they were made",
            show,
        )
        .example("show tap")
        .example("show tap tap0"),
    ]
}

/// `create tap`, which stands among the commands that make interfaces.
pub(super) fn create() -> Command<Router> {
    Command::write(
        "create tap [id <id:u32 0..1024>] [host-if-name <host-if-name:string>] [hw-addr <mac:mac>] [host-ns <host-ns:string>] \
         [host-ns-create] [host-mac-addr <host-mac:mac>] [host-mtu-size <host-mtu:u32 128..9216 bytes>] \
         [host-ip4-addr <host-ip4:cidr4>] [host-ip4-gw <host-gw4:ip4>] [host-ip6-addr <host-ip6:cidr6>] \
         [host-ip6-gw <host-gw6:ip6>] [host-bridge <host-bridge:string>] [host-bridge-create] [rx-ring-size <rx-ring:u32 8..32768>] \
         [num-rx-queues <queues:u8 1..64>] [persist] [offload (auto|on|off)]",
        "Make a TAP: a Linux device whose other end is an interface",
        create_tap,
    )
    .arg("id", "N of the interface's name tapN; the first free one by default")
    .arg("host-if-name", "name of the Linux device; that of the interface by default")
    .arg("hw-addr", "MAC address of the interface")
    .arg("host-ns", "network namespace of the Linux device; for root only")
    .arg("host-ns-create", "make the namespace when there is none")
    .arg("host-mac-addr", "MAC address of the Linux device")
    .arg("host-mtu-size", "MTU of the Linux device")
    .arg("host-ip4-addr", "IPv4 address of the Linux device; for root only")
    .arg("host-ip4-gw", "gateway of Linux's IPv4 default route, over the device; for root only")
    .arg("host-ip6-addr", "IPv6 address of the Linux device; for root only")
    .arg("host-ip6-gw", "gateway of Linux's IPv6 default route, over the device; for root only")
    .arg("host-bridge", "Linux bridge that the device joins")
    .arg("host-bridge-create", "make the bridge when there is none")
    .arg("rx-ring-size", "packets that may wait from Linux to the router, a power of two; 256 by default")
    .arg("num-rx-queues", "receive queues, spread over the workers")
    .arg("persist", "the Linux device outlives the router")
    .arg("auto", "super-frames both ways, with complete checksums towards Linux: the default")
    .arg("on", "partial checksums and super-frames both ways")
    .arg("off", "complete checksums and no super-frames, both ways")
    .details(
        "The answer is the name. A gateway needs an address of its family, and is in its prefix (or an IPv6 link-local \
         address). Where the namespace has a default route of that family over another device, whatever its metric, the \
         command fails.",
    )
    .example("create tap id 0 host-if-name lan0 host-ns blue host-mtu-size 1500")
    .example("create tap id 1 host-ns blue host-ip4-addr 10.0.1.2/24 host-ip4-gw 10.0.1.1")
}

fn create_tap(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    check_namespace(args, "host-ns")?;
    check_host_side(args)?;
    let id: Option<u32> = args.opt("id")?;
    let id = id.or_else(|| free(router, "tap", 0..=1024)).ok_or("there are 1025 TAPs already")?;
    let name = format!("tap{id}");
    let host: Option<String> = args.opt("host-if-name")?;
    // As in the document.
    let rx_ring: u32 = args.opt("rx-ring")?.unwrap_or(256);
    if !rx_ring.is_power_of_two() {
        let (low, high) = (rx_ring.next_power_of_two() / 2, rx_ring.next_power_of_two());
        return Err(args.error("rx-ring", format!("{rx_ring} is not a power of two: {low} or {high}")));
    }
    let config = TapConfig {
        netns: args.opt("host-ns")?,
        netns_create: args.has("host-ns-create"),
        host_mac: args.opt::<[u8; 6]>("host-mac")?.map(MacAddr),
        host_mtu: args.opt("host-mtu")?,
        addresses: TapAddresses {
            ip4: args.opt("host-ip4")?,
            ip6: args.opt("host-ip6")?,
            gw4: args.opt("host-gw4")?,
            gw6: args.opt("host-gw6")?,
        },
        bridge: args.opt("host-bridge")?,
        bridge_create: args.has("host-bridge-create"),
        persist: args.has("persist"),
        rx_queues: args.opt("queues")?.unwrap_or(1),
        rx_ring: Some(rx_ring),
        offload: offload(args),
        ..TapConfig::new(host.as_deref().unwrap_or(&name))
    };
    for (what, needs) in [("host-ns-create", "host-ns"), ("host-bridge-create", "host-bridge")] {
        if args.has(what) && !args.has(needs) {
            return Err(CommandError::new(format!("{what} needs {needs}")));
        }
    }
    let make = Op::CreateTap { name: name.clone(), config };
    made_with_mac(router, args, name, make)
}

/// Linux's addresses and default routes are the machine's: they are for who may change them without the router too.
fn check_host_side(args: &Args) -> Result<(), CommandError> {
    let all = ["host-ip4-addr", "host-ip4-gw", "host-ip6-addr", "host-ip6-gw"];
    match all.iter().find(|what| args.has(what)) {
        Some(what) if !is_privileged(args) => {
            Err(CommandError::new(format!("{what}: only root may give Linux addresses and default routes")))
        }
        _ => Ok(()),
    }
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    for name in args.all::<String>("interface")? {
        let i = find(router, args, &name)?;
        if !matches!(i.origin, Op::CreateTap { .. }) {
            return Err(args.error("interface", format!("{name} is not a TAP")));
        }
    }
    listing::list(router, args, "", |_, i, text| one(i, text))
}

/// What is said of an interface that is a TAP.
fn one(i: &IfState, text: &mut String) -> Option<Json> {
    let Op::CreateTap { config: c, .. } = &i.origin else { return None };
    let offload = match c.offload {
        Offload::Auto => "auto",
        Offload::On => "on",
        Offload::Off => "off",
    };
    let within = c.netns.as_ref().map_or(String::new(), |n| format!(" in namespace {n}"));
    let _ = writeln!(text, "{} (index {}): Linux device {}{within}", i.name, i.index, c.host_name);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "  {name}: {value}");
        }
    };
    line("MAC address", c.host_mac.map(|m| m.to_string()));
    line("MTU", Some(i.mtu.to_string()));
    c.addresses.nets().for_each(|n| line("address", Some(n.to_string())));
    c.addresses.gateways().for_each(|g| line("default gateway", Some(g.to_string())));
    line("bridge", c.bridge.clone());
    line("receive queues", Some(c.rx_queues.to_string()));
    line("receive ring", c.rx_ring.map(|n| n.to_string()));
    line("offload", Some(offload.to_owned()));
    line("persistent", c.persist.then(|| "yes".to_owned()));
    let a = &c.addresses;
    Some(json!({
        "name": i.name,
        "index": i.index,
        "host-if-name": c.host_name,
        "host-ns": c.netns,
        "host-mac-addr": c.host_mac.map(|m| m.to_string()),
        "host-mtu-size": i.mtu,
        "host-ip4-addr": a.ip4.map(|n| n.to_string()),
        "host-ip4-gw": a.gw4.map(|g| g.to_string()),
        "host-ip6-addr": a.ip6.map(|n| n.to_string()),
        "host-ip6-gw": a.gw6.map(|g| g.to_string()),
        "host-bridge": c.bridge,
        "num-rx-queues": c.rx_queues,
        "rx-ring-size": c.rx_ring,
        "offload": offload,
        "persist": c.persist,
    }))
}
