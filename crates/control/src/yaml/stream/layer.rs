//! The headers of a stream, each `name: {fields}` in a list from the outside in.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::MacAddr;

use super::field::range;
use super::{PgField, PgLayer};
use crate::yaml::decode::{Decoder, Fields, list};
use crate::yaml::diag::Place;
use crate::yaml::scalar::{number, short};
use crate::yaml::tree::{Node, Value};

/// The layers with their fields.
pub(in crate::yaml) const LAYERS: &[(&str, &[&str])] = &[
    ("ethernet", &["src", "dst", "type"]),
    ("vlan", &["id", "pcp", "tpid"]),
    ("ipv4", &["src", "dst", "ttl", "proto", "tos", "df"]),
    ("ipv6", &["src", "dst", "hop-limit", "next-header", "traffic-class", "flow-label"]),
    ("udp", &["sport", "dport"]),
    ("tcp", &["sport", "dport", "flags", "seq"]),
    ("icmp-echo", &["id", "seq"]),
    ("raw", &[]),
];
const NAMES: &[&str] = &["ethernet", "vlan", "ipv4", "ipv6", "udp", "tcp", "icmp-echo", "raw"];

/// Most layers of one stream.
const MAX_LAYERS: usize = 16;
/// What stands for any MAC when none is given: locally administered.
const DEFAULT_SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DEFAULT_DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// The list `layers`; `on_wire` when the first one must be Ethernet.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, on_wire: bool) -> Option<Vec<PgLayer>> {
    let items = d.items(node, "layers");
    if items.is_empty() || items.len() > MAX_LAYERS {
        d.error(node.place, "layers", format!("{} layers", items.len())).help(format!("1 to {MAX_LAYERS}"));
        return None;
    }
    let mut layers: Vec<PgLayer> = Vec::new();
    let mut whole = true;
    for (i, node) in items.iter().enumerate() {
        match d.index(i, |d| layer(d, node)) {
            Some(layer) => {
                if whole {
                    d.index(i, |d| order(d, node.place, layers.last(), &layer, on_wire));
                }
                layers.push(layer);
            }
            None => whole = false,
        }
    }
    whole.then_some(layers)
}

/// A layer stands behind one that can carry it.
fn order(d: &mut Decoder<'_>, place: Place, before: Option<&PgLayer>, layer: &PgLayer, on_wire: bool) {
    const LINK: &[&str] = &["ethernet", "vlan"];
    const IP: &[&str] = &["ipv4", "ipv6"];
    let behind: &[&str] = match layer {
        PgLayer::Raw(_) => return,
        PgLayer::Ethernet { .. } => &[],
        PgLayer::Vlan { .. } => LINK,
        PgLayer::Ipv4 { .. } | PgLayer::Ipv6 { .. } => &["ethernet", "vlan", "ipv4", "ipv6"],
        PgLayer::Udp { .. } | PgLayer::Tcp { .. } | PgLayer::Echo { .. } => IP,
    };
    let name = layer.name();
    match before {
        None if on_wire && name != "ethernet" => {
            d.error(place, "layers", format!("the first layer is `{name}`"))
                .help("a packet for ethernet-input starts with `ethernet` (or `raw`); for another start, name another `node`");
        }
        Some(before) if !behind.contains(&before.name()) => {
            let help = match behind {
                [] => "`ethernet` is the first layer".to_string(),
                _ => format!("`{name}` stands behind {}", list(behind)),
            };
            d.error(place, "layers", format!("`{name}` cannot stand behind `{}`", before.name())).help(help);
        }
        _ => {}
    }
}

fn layer<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<PgLayer> {
    let entry = match &node.value {
        // A layer with all defaults may be its name alone.
        Value::Scalar { text, .. } if !node.is_null() => return layer_named(d, node.place, text, None),
        _ => d.entries(node, "one layer"),
    };
    let [(name, place, node)] = entry.as_slice() else {
        if matches!(node.value, Value::Map(_)) || node.is_null() {
            d.error(node.place, "layers", "an item of `layers` is one layer")
                .help(format!("- NAME: {{FIELDS}}, NAME one of {}", list(NAMES)));
        }
        return None;
    };
    d.key(name, |d| layer_named(d, *place, name, Some(node)))
}

fn layer_named<'n>(
    d: &mut Decoder<'n>,
    place: Place,
    name: &str,
    node: Option<&'n Node<'n>>,
) -> Option<PgLayer> {
    let Some((_, known)) = LAYERS.iter().find(|(n, _)| *n == name) else {
        d.error(place, "unknown-field", format!("there is no layer {}", short(name)))
            .help(format!("layers: {}", list(NAMES)));
        return None;
    };
    if name == "raw" {
        let Some(node) = node else {
            d.error(place, "required", "`raw` needs bytes").help("raw: hexadecimal digits");
            return None;
        };
        return raw(d, node);
    }
    let fields = match node {
        Some(node) => d.fields(node, known)?,
        None => Fields::none(place),
    };
    let f = &fields;
    match name {
        "ethernet" => {
            let src = opt(f, "src", DEFAULT_SRC, |name| mac(d, f, name));
            let dst = opt(f, "dst", DEFAULT_DST, |name| mac(d, f, name));
            let ethertype = small(d, f, "type", 0u16, 0xffff);
            Some(PgLayer::Ethernet { src: src?, dst: dst?, ethertype: ethertype? })
        }
        "vlan" => {
            let id = needed(d, f, "id", "id: 0 to 4095", |d, node| int_range(d, node, 4095));
            let pcp = small(d, f, "pcp", 0u8, 7);
            let tpid = small(d, f, "tpid", 0x0600u16, 0xffff);
            Some(PgLayer::Vlan { id: id?, pcp: pcp?.unwrap_or(0), tpid: tpid?.unwrap_or(0x8100) })
        }
        "ipv4" => {
            let src = needed(d, f, "src", "src: ADDRESS or LOW-HIGH", ipv4);
            let dst = needed(d, f, "dst", "dst: ADDRESS or LOW-HIGH", ipv4);
            let ttl = small(d, f, "ttl", 0u8, 255);
            let proto = small(d, f, "proto", 0u8, 255);
            let tos = small(d, f, "tos", 0u8, 255);
            let df = d.field(f, "df", |d, node| d.boolean(node)).unwrap_or(false);
            Some(PgLayer::Ipv4 {
                src: src?,
                dst: dst?,
                ttl: ttl?.unwrap_or(64),
                proto: proto?,
                tos: tos?.unwrap_or(0),
                df,
            })
        }
        "ipv6" => {
            let src = needed(d, f, "src", "src: ADDRESS or LOW-HIGH", ipv6);
            let dst = needed(d, f, "dst", "dst: ADDRESS or LOW-HIGH", ipv6);
            let hop_limit = small(d, f, "hop-limit", 0u8, 255);
            let next_header = small(d, f, "next-header", 0u8, 255);
            let traffic_class = small(d, f, "traffic-class", 0u8, 255);
            let flow_label = small(d, f, "flow-label", 0u32, 0xf_ffff);
            Some(PgLayer::Ipv6 {
                src: src?,
                dst: dst?,
                hop_limit: hop_limit?.unwrap_or(64),
                next_header: next_header?,
                traffic_class: traffic_class?.unwrap_or(0),
                flow_label: flow_label?.unwrap_or(0),
            })
        }
        "udp" => {
            let (sport, dport) = ports(d, f);
            Some(PgLayer::Udp { sport: sport?, dport: dport? })
        }
        "tcp" => {
            let (sport, dport) = ports(d, f);
            let flags = match f.has("flags") {
                true => d.field(f, "flags", tcp_flags),
                false => Some(0x10),
            };
            let seq = small(d, f, "seq", 0u32, u32::MAX);
            Some(PgLayer::Tcp { sport: sport?, dport: dport?, flags: flags?, seq: seq?.unwrap_or(0) })
        }
        _ => {
            let id = opt(f, "id", 1, |name| d.field(f, name, |d, node| int_range(d, node, 0xffff)));
            let seq = opt(f, "seq", 1, |name| d.field(f, name, |d, node| int_range(d, node, 0xffff)));
            Some(PgLayer::Echo { id: id?, seq: seq? })
        }
    }
}

/// A field with a default: `None` only when it is given wrong.
fn opt<T>(
    fields: &Fields<'_>,
    name: &'static str,
    default: T,
    read: impl FnOnce(&'static str) -> Option<PgField<T>>,
) -> Option<PgField<T>> {
    if fields.has(name) { read(name) } else { Some(PgField::Fixed(default)) }
}

fn needed<'n, T>(
    d: &mut Decoder<'n>,
    fields: &Fields<'n>,
    name: &'static str,
    help: &str,
    read: impl FnOnce(&mut Decoder<'n>, &'n Node<'n>) -> Option<T>,
) -> Option<T> {
    d.required(fields, name, help, read)
}

/// A fixed number: `Some(None)` when absent, `None` when wrong.
fn small<'n, T>(
    d: &mut Decoder<'n>,
    fields: &Fields<'n>,
    name: &'static str,
    low: T,
    high: T,
) -> Option<Option<T>>
where
    T: Copy + Into<u64> + TryFrom<u64>,
{
    if !fields.has(name) {
        return Some(None);
    }
    d.field(fields, name, |d, node| d.int(node, low, high)).map(Some)
}

fn int_range<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, high: u16) -> Option<PgField<u16>> {
    range(d, node, &format!("0 to {high}, or LOW-HIGH"), &|d, place, text| {
        d.int_text(place, text, 0, high.into()).and_then(|n| u16::try_from(n).ok())
    })
}

fn ports<'n>(d: &mut Decoder<'n>, f: &Fields<'n>) -> (Option<PgField<u16>>, Option<PgField<u16>>) {
    let sport = needed(d, f, "sport", "sport: 0 to 65535 or LOW-HIGH", |d, node| int_range(d, node, 0xffff));
    let dport = needed(d, f, "dport", "dport: 0 to 65535 or LOW-HIGH", |d, node| int_range(d, node, 0xffff));
    (sport, dport)
}

fn mac<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>, name: &'n str) -> Option<PgField<MacAddr>> {
    d.field(fields, name, |d, node| {
        range(d, node, "a MAC address, or LOW-HIGH", &|d, place, text| {
            let mac = text.parse().ok();
            if mac.is_none() {
                d.error(place, "mac", format!("{} is not a MAC address", short(text)))
                    .value(text)
                    .help("six pairs of hexadecimal digits, such as 02:00:00:00:00:01");
            }
            mac
        })
    })
}

fn ipv4<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<PgField<Ipv4Addr>> {
    range(d, node, "an IPv4 address, or LOW-HIGH", &|d, place, text| {
        let address = text.parse().ok();
        if address.is_none() {
            d.error(place, "address", format!("{} is not an IPv4 address", short(text)))
                .value(text)
                .help("an address such as 192.0.2.1, or LOW-HIGH");
        }
        address
    })
}

fn ipv6<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<PgField<Ipv6Addr>> {
    range(d, node, "an IPv6 address, or LOW-HIGH", &|d, place, text| {
        let address = text.parse().ok();
        if address.is_none() {
            d.error(place, "address", format!("{} is not an IPv6 address", short(text)))
                .value(text)
                .help("an address such as 2001:db8::1, or LOW-HIGH");
        }
        address
    })
}

/// A number, or names such as `syn` or `syn,ack`.
fn tcp_flags<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<u8> {
    const FLAGS: &[(&str, u8)] = &[
        ("fin", 1),
        ("syn", 2),
        ("rst", 4),
        ("psh", 8),
        ("ack", 16),
        ("urg", 32),
        ("ece", 64),
        ("cwr", 128),
    ];
    let text = d.text(node, "TCP flags")?;
    if number(text).is_some() {
        return d.int(node, 0u8, 255);
    }
    let mut flags = 0;
    for word in text.split(',').map(str::trim) {
        match FLAGS.iter().find(|(name, _)| *name == word) {
            Some((_, bit)) => flags |= bit,
            None => {
                let names: Vec<&str> = FLAGS.iter().map(|f| f.0).collect();
                d.error(node.place, "choice", format!("{} is not a TCP flag", short(word)))
                    .value(text)
                    .help(format!("{} with commas between them", list(&names)));
                return None;
            }
        }
    }
    Some(flags)
}

/// Bytes as hexadecimal digits; spaces, colons and line breaks may stand between bytes.
fn raw<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<PgLayer> {
    let text = d.text(node, "hexadecimal digits")?;
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b':').collect();
    let nibble = |b: u8| char::from(b).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let bytes: Option<Vec<u8>> =
        digits.chunks(2).map(|pair| Some(nibble(*pair.first()?)? << 4 | nibble(*pair.get(1)?)?)).collect();
    match bytes {
        Some(bytes) if !bytes.is_empty() && bytes.len() <= usize::from(super::MAX_SIZE) => {
            Some(PgLayer::Raw(bytes))
        }
        _ => {
            d.error(node.place, "raw", "these are not bytes in hexadecimal")
                .value(short(text))
                .help(format!("pairs of hexadecimal digits, at most {} bytes", super::MAX_SIZE));
            None
        }
    }
}
