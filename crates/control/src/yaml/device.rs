//! The section `devices`: which driver stands behind an interface.

use std::collections::BTreeMap;

use super::decode::{Decoder, Fields, list};
use super::diag::{Diagnostic, Place};
use super::interface::numbered;
use super::model::{
    Device, Driver, HostDriver, Interface, InterfaceKind, Kept, Offload, QueuePlace, Rate, RingVersion, Tap,
    XdpMode,
};
use super::scalar::short;
use super::tap::namespace;
use super::tree::Node;
use super::virtuals;
use net::dpdk::{DpdkConfig, DpdkDevice};
use net::router::{MOST_KEPT, check_held, rings_hold};
use net::steering::HandoffConfig;

pub(super) const DEVICE: &[&str] = &[
    "driver",
    "device",
    "mode",
    "left-to-linux",
    "host",
    "namespace",
    "rx-queues",
    "tx-queues",
    "rx-placement",
    "handoff",
    "rx-ring",
    "offload",
    "pcap",
    "persistent",
    "promiscuous",
    "routed",
];
pub(super) const HANDOFF: &[&str] = &["workers", "symmetrical"];
pub(super) const RX_RING: &[&str] = &["slots", "version"];
pub(super) const PCAP: &[&str] = &["read", "write", "rate", "loop"];

/// Fields that make sense with a driver; of those of a Linux device, `mode` with AF_XDP only, `offload` without, and `left-to-linux` where it
/// may be AF_XDP.
const LINUX_FIELDS: &[&str] = &[
    "driver",
    "mode",
    "left-to-linux",
    "host",
    "namespace",
    "rx-queues",
    "tx-queues",
    "rx-placement",
    "handoff",
    "rx-ring",
    "offload",
    "promiscuous",
];
const DPDK_FIELDS: &[&str] = &[
    "driver",
    "device",
    "rx-queues",
    "tx-queues",
    "rx-placement",
    "handoff",
    "rx-ring",
    "offload",
    "promiscuous",
];
const PCAP_FIELDS: &[&str] = &["driver", "pcap", "rx-placement", "handoff", "promiscuous"];
const TAP_FIELDS: &[&str] = &[
    "driver",
    "rx-queues",
    "tx-queues",
    "rx-placement",
    "handoff",
    "offload",
    "persistent",
    "promiscuous",
    "routed",
];

/// An entry of the section, before it meets its interface.
#[derive(Debug)]
pub(super) struct DeviceEntry {
    pub place: Place,
    driver: Driver,
    rx_queues: u16,
    tx_queues: u16,
    offload: Offload,
    persistent: bool,
    /// Of a TAP: it may have addresses and sub-interfaces.
    routed: bool,
    pub promiscuous: bool,
    pub placement: Vec<QueuePlace>,
    pub handoff: Option<(Place, HandoffConfig)>,
    /// It says nothing but `promiscuous`, as it may of an interface without a device.
    pub only_promiscuous: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Linux(HostDriver),
    Dpdk,
    Pcap,
    Tap,
}

/// The section, by interface name.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<BTreeMap<&'n str, DeviceEntry>> {
    let mut devices = BTreeMap::new();
    for (name, place, node) in d.entries(node, "interface names") {
        let entry = d.key(name, |d| entry(d, name, place, node));
        devices.insert(name, entry);
    }
    Some(devices)
}

fn entry<'n>(d: &mut Decoder<'n>, name: &'n str, place: Place, node: &'n Node<'n>) -> DeviceEntry {
    let mut entry = DeviceEntry {
        place,
        driver: linux(name),
        rx_queues: 1,
        tx_queues: 1,
        offload: Offload::Auto,
        persistent: false,
        routed: false,
        promiscuous: false,
        placement: vec![],
        handoff: None,
        only_promiscuous: false,
    };
    let Some(fields) = d.fields(node, DEVICE) else { return entry };
    let tap = numbered(name, "tap").is_some();
    let drivers = match tap {
        true => vec![("tap", Kind::Tap)],
        false => {
            let linux = HostDriver::ALL.into_iter().map(|(name, by)| (name, Kind::Linux(by)));
            linux.chain([("dpdk", Kind::Dpdk), ("pcap", Kind::Pcap)]).collect()
        }
    };
    let driver = d.field(&fields, "driver", |d, node| d.choice(node, &drivers));
    if fields.has("driver") && driver.is_none() {
        return entry;
    }
    let kind = driver.unwrap_or(if tap { Kind::Tap } else { Kind::Linux(HostDriver::default()) });
    only_for_driver(d, &fields, kind);

    let queues = |d: &mut Decoder<'n>, name| d.field(&fields, name, |d, node| d.int(node, 1u16, 64));
    entry.rx_queues = queues(d, "rx-queues").unwrap_or(1);
    entry.tx_queues = queues(d, "tx-queues").unwrap_or(1);
    entry.placement = d.field(&fields, "rx-placement", placement).unwrap_or_default();
    entry.handoff = d.field(&fields, "handoff", handoff);
    entry.offload = d.field(&fields, "offload", offload).unwrap_or_default();
    entry.persistent = d.field(&fields, "persistent", |d, node| d.boolean(node)).unwrap_or(false);
    entry.promiscuous = d.field(&fields, "promiscuous", |d, node| d.boolean(node)).unwrap_or(false);
    entry.routed = d.field(&fields, "routed", |d, node| d.boolean(node)).unwrap_or(false);
    entry.only_promiscuous = DEVICE.iter().all(|name| fields.has(name) == (*name == "promiscuous"));
    let host = d.field(&fields, "host", linux_device);
    let namespace = d.field(&fields, "namespace", namespace);
    let ring = d.field(&fields, "rx-ring", rx_ring);
    match kind {
        Kind::Linux(by) => {
            if by == HostDriver::AfXdp && ring.is_some_and(|(_, version)| version.is_some()) {
                d.key("rx-ring", |d| {
                    d.error(
                        fields.key_place("rx-ring"),
                        "driver-field",
                        "the rings of AF_XDP have no version".to_string(),
                    )
                    .help("leave `version` out");
                });
            }
            let (rx_slots, version) = ring.unwrap_or((None, None));
            let ring = version.unwrap_or(RingVersion::TpacketV2);
            // A wrong name was reported; the default must not be judged in its place.
            let host = match (host, fields.has("host")) {
                (Some(host), _) => host,
                (None, true) => "?".into(),
                (None, false) => name.to_string(),
            };
            let offload = entry.offload;
            let modes = [XdpMode::Native, XdpMode::Generic].map(|m| (m.name(), m));
            let mode = d.field(&fields, "mode", |d, node| d.choice(node, &modes));
            let kept = d.field(&fields, "left-to-linux", left_to_linux).unwrap_or_default();
            entry.driver = Driver::Linux { by, mode, kept, host, namespace, rx_slots, ring, offload };
        }
        Kind::Dpdk => {
            if let Some(driver) = dpdk(d, &fields, &entry, ring) {
                entry.driver = driver;
            }
        }
        Kind::Pcap => {
            const HELP: &str = "pcap: {read: FILE} or pcap: {write: FILE} or both";
            if let Some(driver) = d.required(&fields, "pcap", HELP, pcap) {
                entry.driver = driver;
            }
        }
        Kind::Tap => {}
    }
    entry
}

fn only_for_driver(d: &mut Decoder<'_>, fields: &Fields<'_>, kind: Kind) {
    let (driver, allowed, except) = match kind {
        Kind::Linux(HostDriver::AfXdp) => (HostDriver::AfXdp.name(), LINUX_FIELDS, &["offload"][..]),
        Kind::Linux(HostDriver::Auto) => (HostDriver::Auto.name(), LINUX_FIELDS, &["mode"][..]),
        Kind::Linux(by) => (by.name(), LINUX_FIELDS, &["mode", "left-to-linux"][..]),
        Kind::Dpdk => ("dpdk", DPDK_FIELDS, &[][..]),
        Kind::Pcap => ("pcap", PCAP_FIELDS, &[][..]),
        Kind::Tap => ("tap", TAP_FIELDS, &[][..]),
    };
    let allowed: Vec<&str> = allowed.iter().copied().filter(|n| !except.contains(n)).collect();
    for name in DEVICE.iter().filter(|n| fields.has(n) && !allowed.contains(n)) {
        d.key(name, |d| {
            d.error(fields.key_place(name), "driver-field", format!("means nothing to the driver {driver}"))
                .help(format!("it takes {}", list(&allowed)));
        });
    }
}

fn linux(name: &str) -> Driver {
    Driver::Linux {
        by: HostDriver::default(),
        mode: None,
        kept: vec![],
        host: name.to_string(),
        namespace: None,
        rx_slots: None,
        ring: RingVersion::TpacketV2,
        offload: Offload::Auto,
    }
}

/// What comes that stays Linux's.
fn left_to_linux<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<Kept>> {
    let items = d.items(node, "addresses, protocols and ports");
    if items.len() > MOST_KEPT {
        d.error(node.place, "too-many", format!("{} rules, where {MOST_KEPT} are the most", items.len()));
        return None;
    }
    let rule = |d: &mut Decoder<'n>, node: &'n Node<'n>| {
        let text = d.text(node, "an address, a protocol or a port")?;
        text.parse().map_err(|e: String| _ = d.error(node.place, "type", e).value(text)).ok()
    };
    Some(items.iter().enumerate().filter_map(|(i, node)| d.index(i, |d| rule(d, node))).collect())
}

/// `auto`, or a switch.
fn offload<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Offload> {
    const HELP: &str = "`auto`, `on` or `off`";
    let text = d.text(node, HELP)?;
    match text.to_ascii_lowercase().as_str() {
        "auto" => Some(Offload::Auto),
        "on" | "true" | "yes" => Some(Offload::On),
        "off" | "false" | "no" => Some(Offload::Off),
        _ => {
            d.error(node.place, "type", format!("{} is not known here", short(text))).value(text).help(HELP);
            None
        }
    }
}

/// Numbers of receive queues, each with the number of its worker.
fn placement<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<QueuePlace>> {
    let mut all: Vec<QueuePlace> = vec![];
    for (text, place, node) in d.entries(node, "numbers of receive queues") {
        d.key(text, |d| match text.parse() {
            Ok(queue @ 0..=63) if all.iter().any(|p| p.queue == queue) => {
                d.error(place, "duplicate-key", format!("queue {queue} stands here a second time"))
                    .help("remove one of the two");
            }
            Ok(queue @ 0..=63) => {
                all.extend(d.int(node, 0u16, 63).map(|worker| QueuePlace { place, queue, worker }));
            }
            _ => {
                d.error(place, "type", format!("{} is not the number of a receive queue", short(text)))
                    .help("0 to 63, with the number of a worker, as in {0: 1}");
            }
        });
    }
    Some(all)
}

/// Among which workers packets are shared out.
fn handoff<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<(Place, HandoffConfig)> {
    let fields = d.fields(node, HANDOFF)?;
    let workers = d.field(&fields, "workers", |d, node| {
        let mut all: Vec<usize> = vec![];
        for (i, node) in d.items(node, "numbers of workers").iter().enumerate() {
            d.index(i, |d| match d.int(node, 0u16, 63).map(usize::from) {
                Some(w) if all.contains(&w) => {
                    d.error(node.place, "duplicate-worker", format!("worker {w} stands here a second time"))
                        .help("remove one of the two");
                }
                worker => all.extend(worker),
            });
        }
        all.sort_unstable();
        Some(all)
    });
    let symmetrical = d.field(&fields, "symmetrical", |d, node| d.boolean(node)).unwrap_or(false);
    Some((node.place, HandoffConfig { workers: workers.unwrap_or_default(), symmetrical }))
}

fn rx_ring<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<(Option<u32>, Option<RingVersion>)> {
    let fields = d.fields(node, RX_RING)?;
    let slots = d.field(&fields, "slots", |d, node| super::tap::power_of_two(d, node, 64, 65536));
    let version = d.field(&fields, "version", |d, node| {
        d.choice(node, &[("tpacket-v2", RingVersion::TpacketV2), ("tpacket-v3", RingVersion::TpacketV3)])
    });
    Some((slots, version))
}

fn dpdk<'n>(
    d: &mut Decoder<'n>,
    fields: &Fields<'n>,
    entry: &DeviceEntry,
    ring: Option<(Option<u32>, Option<RingVersion>)>,
) -> Option<Driver> {
    const HELP: &str = "device: 0000:01:00.0, the address of a device, or a virtual one as in net_null0";
    let device = d.required(fields, "device", HELP, |d, node| {
        let text = d.text(node, "a device of DPDK")?;
        DpdkDevice::parse(text).map_err(|why| _ = d.error(node.place, "dpdk-device", why).value(text)).ok()
    })?;
    let (slots, version) = ring.unwrap_or((None, None));
    let config = DpdkConfig {
        rx_queues: entry.rx_queues.into(),
        tx_queues: entry.tx_queues.into(),
        slots,
        offload: entry.offload,
        ..DpdkConfig::new(device)
    };
    let wrong = match version {
        Some(_) => Some("the rings of DPDK have no version".to_owned()),
        None => config.check().err(),
    };
    if let Some(why) = wrong {
        d.key("rx-ring", |d| _ = d.error(fields.key_place("rx-ring"), "driver-field", why));
        return None;
    }
    Some(Driver::Dpdk(config))
}

fn pcap<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Driver> {
    let fields = d.fields(node, PCAP)?;
    let read = d.field(&fields, "read", |d, node| d.string(node, "the path of a file", 4096));
    let write = d.field(&fields, "write", |d, node| d.string(node, "the path of a file", 4096));
    let rate = d.field(&fields, "rate", rate).unwrap_or(Rate::Max);
    let repeat = d.field(&fields, "loop", |d, node| d.boolean(node)).unwrap_or(false);
    if !fields.has("read") && !fields.has("write") {
        d.error(fields.place, "required", "neither `read` nor `write` is given")
            .help("read: FILE to receive from, write: FILE to send to, or both");
        return None;
    }
    for name in ["rate", "loop"] {
        if fields.has(name) && !fields.has("read") {
            d.key(name, |d| {
                d.error(fields.key_place(name), "needs", "there is no file to read from").help("add `read`");
            });
        }
    }
    if read.is_some() && read == write {
        d.error(fields.key_place("write"), "same-file", "packets are read from and written to one file")
            .help("write to another file");
    }
    Some(Driver::Pcap { read, write, rate, repeat })
}

/// `max`, or packets a second from 1.
pub(super) fn rate<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Rate> {
    match d.text(node, "packets a second, or `max`")? {
        "max" => Some(Rate::Max),
        _ => d.int(node, 1u64, 1_000_000_000).map(Rate::Pps),
    }
}

/// The name of a Linux device, as the kernel accepts them.
pub(super) fn linux_device<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<String> {
    let name = d.text(node, "the name of a Linux device")?;
    if !is_linux_device(name) {
        d.error(node.place, "linux-name", format!("{} cannot name a Linux device", short(name)))
            .value(name)
            .help("1 to 15 characters without `/`, `:` and spaces, as `ip link` shows it");
        return None;
    }
    Some(name.to_string())
}

fn is_linux_device(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.chars().any(|c| c == '/' || c == ':' || c.is_whitespace() || c.is_control())
}

/// The device of an interface: its entry, or the Linux device of the same name. Whether that exists shows at the start.
pub(super) fn take(name: &str, place: Place, entry: Option<DeviceEntry>) -> Device {
    match entry {
        Some(e) => {
            Device { place: e.place, driver: e.driver, rx_queues: e.rx_queues, tx_queues: e.tx_queues }
        }
        None => Device { place, driver: linux(name), rx_queues: 1, tx_queues: 1 },
    }
}

/// Gives loopbacks, sub-interfaces and tunnels of frames what an entry may say of them.
pub(super) fn promiscuity(interfaces: &mut [Interface], devices: &mut BTreeMap<&str, DeviceEntry>) {
    if devices.is_empty() {
        return;
    }
    let mut take = |name: &str, to: &mut bool| {
        if devices.get(name).is_some_and(|e| e.only_promiscuous) {
            *to = devices.remove(name).is_some_and(|e| e.promiscuous);
        }
    };
    for i in interfaces {
        if i.kind.is_tunnel_of_frames() || i.kind == InterfaceKind::Loopback {
            take(&i.name, &mut i.promiscuous);
        }
        i.sub_interfaces.iter_mut().for_each(|s| take(&s.name, &mut s.promiscuous));
    }
}

/// The kind of an interface `tapN`, which `taps` must declare; `None` when it does not.
pub(super) fn tap_kind<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    taps: &mut BTreeMap<&'n str, Tap>,
    entry: Option<DeviceEntry>,
) -> Option<InterfaceKind> {
    match taps.remove(name) {
        Some(mut tap) => {
            apply_to_tap(&mut tap, entry);
            Some(InterfaceKind::Tap(tap))
        }
        None => {
            d.error(place, "undeclared", format!("the TAP `{name}` is not declared"))
                .help(format!("add `{name}` with its host side to the section `taps`"));
            None
        }
    }
}

/// Gives a TAP what `devices` says about it.
pub(super) fn apply_to_tap(tap: &mut Tap, entry: Option<DeviceEntry>) {
    if let Some(entry) = entry {
        tap.rx_queues = entry.rx_queues;
        tap.tx_queues = entry.tx_queues;
        tap.offload = entry.offload;
        tap.persistent = entry.persistent;
        tap.routed = entry.routed;
    }
}

/// Reports receive queues and workers that are not there.
pub(super) fn placement_fits(d: &mut Decoder<'_>, interfaces: &[Interface], workers: u16) {
    for i in interfaces {
        let queues = match &i.kind {
            InterfaceKind::Device(Device { driver: Driver::Pcap { read, .. }, .. }) => {
                u16::from(read.is_some())
            }
            InterfaceKind::Device(device) => device.rx_queues,
            InterfaceKind::Tap(tap) => tap.rx_queues,
            _ => 0,
        };
        for q in &i.placement {
            let path = format!("devices.{}.rx-placement.{}", i.name, q.queue);
            let mut refuse = |rule, message, help| {
                d.errors.add(Diagnostic::new(q.place, path.clone(), rule, message)).help(help);
            };
            if q.queue >= queues {
                let message = format!("`{}` has no receive queue {}", i.name, q.queue);
                let help = match queues {
                    0 => "a device that receives nothing has none: remove the entry".to_string(),
                    n => format!("0 to {}, or more with `rx-queues`", n - 1),
                };
                refuse("no-queue", message, help);
            }
            if q.worker >= workers {
                let message = format!("there is no worker {}", q.worker);
                refuse("no-worker", message, format!("0 to {}, or more with quiver.workers", workers - 1));
            }
        }
        if let Some((place, config)) = &i.handoff
            && let Some(w) = config.workers.iter().find(|w| **w >= usize::from(workers))
        {
            let path = format!("devices.{}.handoff.workers", i.name);
            d.errors
                .add(Diagnostic::new(*place, path, "no-worker", format!("there is no worker {w}")))
                .help(format!("0 to {}, or more with quiver.workers", workers - 1));
        }
    }
}

/// Reports devices whose rings would take more of the buffers than they may, at the first of them that is one too many.
pub(super) fn rings_fit(d: &mut Decoder<'_>, interfaces: &[Interface], buffers: u32) {
    let buffers = buffers as usize;
    let mut held = 0;
    for i in interfaces {
        let InterfaceKind::Device(Device {
            place,
            driver: Driver::Linux { by, rx_slots, .. },
            rx_queues,
            ..
        }) = &i.kind
        else {
            continue;
        };
        let need = rings_hold(*by, usize::from(*rx_queues), rx_slots.map(|n| n as usize), buffers);
        if need == 0 {
            continue;
        }
        held += need;
        if let Err(why) = check_held(held, buffers) {
            let path = format!("devices.{}", i.name);
            d.errors.add(Diagnostic::new(
                *place,
                path,
                "too-many-buffers",
                format!("with `{}` {why}", i.name),
            ));
            return;
        }
    }
}

/// Reports the entries that no interface took.
pub(super) fn unused<'n>(d: &mut Decoder<'n>, devices: BTreeMap<&'n str, DeviceEntry>) {
    for (name, entry) in devices {
        d.key(name, |d| {
            let bonded = virtuals::section_of(name).is_some();
            let help = if numbered(name, "loop").is_some() {
                "a loopback has no device, and may only be `promiscuous`: remove the entry".to_string()
            } else if bonded {
                "it has no device of its own: remove the entry".to_string()
            } else {
                format!("add `{name}: {{}}` to the section `interfaces`, or remove the entry")
            };
            d.error(entry.place, "device-unused", format!("there is no interface {}", short(name)))
                .help(help);
        });
    }
}
