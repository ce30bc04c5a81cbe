//! The headers of a stream, each `name: {fields}` in a list from the outside in.

use drivers::generator::{Arp, Echo, Ethernet, Ipv4, Ipv6, Layer, Payload, Tcp, Udp, Vlan};
use net::first_layer::{first_layer, first_layer_fits};

use super::field::Layered;
use crate::yaml::decode::{Decoder, Fields, list};
use crate::yaml::diag::Place;
use crate::yaml::scalar::short;
use crate::yaml::tree::{Node, Value};

/// The layers with their fields. `raw` and `payload` have a value of their own.
pub(in crate::yaml) const LAYERS: &[(&str, &[&str])] = &[
    ("ethernet", &["src", "dst", "type"]),
    ("vlan", &["id", "pcp", "tpid", "type"]),
    ("arp", &["op", "sender-mac", "sender-ip", "target-mac", "target-ip"]),
    ("ipv4", &["src", "dst", "ttl", "dscp", "ecn", "id", "df", "mf", "fragment", "proto", "checksum"]),
    ("ipv6", &["src", "dst", "hop-limit", "traffic-class", "flow-label", "next-header"]),
    ("udp", &["sport", "dport", "checksum"]),
    ("tcp", &["sport", "dport", "seq", "ack", "flags", "window", "checksum"]),
    ("icmp-echo", &["reply", "id", "seq", "checksum"]),
    ("raw", &[]),
    ("payload", &[]),
];

/// Most layers of one stream.
const MAX_LAYERS: usize = 16;
const PORT: &str = "0 to 65535, or LOW-HIGH";
const PAYLOADS: &[(&str, Payload)] =
    &[("increment", Payload::Increment), ("random", Payload::Random), ("zero", Payload::Zero)];

fn names() -> String {
    list(&LAYERS.iter().map(|l| l.0).collect::<Vec<_>>())
}

/// The list `layers` of a stream for the graph node `to`.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, to: &str) -> Option<Vec<Layer>> {
    let items = d.items(node, "layers");
    if items.is_empty() || items.len() > MAX_LAYERS {
        d.error(node.place, "layers", format!("{} layers", items.len())).help(format!("1 to {MAX_LAYERS}"));
        return None;
    }
    let mut layers: Vec<Layer> = Vec::new();
    let mut whole = true;
    for (i, node) in items.iter().enumerate() {
        match d.index(i, |d| layer(d, node)) {
            Some(layer) => {
                if whole {
                    d.index(i, |d| order(d, node.place, layers.last(), &layer, to));
                }
                layers.push(layer);
            }
            None => whole = false,
        }
    }
    whole.then_some(layers)
}

/// A layer stands behind one that can carry it.
fn order(d: &mut Decoder<'_>, place: Place, before: Option<&Layer>, layer: &Layer, to: &str) {
    let name = layer.name();
    match before {
        None if layer.fits_behind(None) && first_layer_fits(to, layer).is_ok() => {}
        None if first_layer(to).is_some() => {
            let right = first_layer(to).unwrap_or_default();
            d.error(place, "layers", format!("the first layer is `{name}`")).help(format!(
                "a packet for {to} starts with `{right}` (or `raw`); for another start, name another `node`"
            ));
        }
        None => {
            d.error(place, "layers", format!("the first layer is `{name}`")).help(behind(layer));
        }
        Some(before) if !layer.fits_behind(Some(before)) => {
            d.error(place, "layers", format!("`{name}` cannot stand behind `{}`", before.name())).help(
                match before {
                    Layer::Payload(_) => "`payload` is the last layer".to_string(),
                    _ => behind(layer),
                },
            );
        }
        Some(_) => {}
    }
}

/// What a layer can stand behind, in words.
fn behind(layer: &Layer) -> String {
    let carriers = [
        Layer::Ethernet(Ethernet::default()),
        Layer::Vlan(Vlan::default()),
        Layer::Ipv4(Ipv4::default()),
        Layer::Ipv6(Ipv6::default()),
    ];
    let fitting: Vec<&str> =
        carriers.iter().filter(|c| layer.fits_behind(Some(c))).map(|c| c.name()).collect();
    match fitting.as_slice() {
        [] => format!("`{}` is the first layer", layer.name()),
        _ => format!("`{}` stands behind {}", layer.name(), list(&fitting)),
    }
}

fn layer<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Layer> {
    let entry = match &node.value {
        // A layer with all defaults may be its name alone.
        Value::Scalar { text, .. } if !node.is_null() => return layer_named(d, node.place, text, None),
        _ => {
            #[cfg(test)]
            d.fact(super::super::schema::Fact::Fields(&LAYERS.iter().map(|l| l.0).collect::<Vec<_>>()));
            d.entries(node, "one layer")
        }
    };
    let [(name, place, node)] = entry.as_slice() else {
        if matches!(node.value, Value::Map(_)) || node.is_null() {
            d.error(node.place, "layers", "an item of `layers` is one layer")
                .help(format!("- NAME: {{FIELDS}}, NAME one of {}", names()));
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
) -> Option<Layer> {
    let Some((name, known)) = LAYERS.iter().find(|(n, _)| *n == name) else {
        d.error(place, "unknown-field", format!("there is no layer {}", short(name)))
            .help(format!("layers: {}", names()));
        return None;
    };
    match (*name, node) {
        ("raw", Some(node)) => return raw(d, node),
        ("raw", None) => {
            d.error(place, "required", "`raw` needs bytes").help("raw: hexadecimal digits");
            return None;
        }
        ("payload", Some(node)) => return d.choice(node, PAYLOADS).map(Layer::Payload),
        ("payload", None) => {
            d.error(place, "required", "`payload` needs a word").help("payload: increment, random or zero");
            return None;
        }
        _ => {}
    }
    let fields = match node {
        Some(node) => d.fields(node, known)?,
        None => Fields::none(place),
    };
    with_fields(Layered::new(d, &fields), name)
}

fn with_fields(mut f: Layered<'_, '_>, name: &str) -> Option<Layer> {
    match name {
        "ethernet" => {
            let mut l = Ethernet::default();
            f.mac("src", &mut l.src);
            f.mac("dst", &mut l.dst);
            f.derived("type", &mut l.ethertype, u16::MAX);
            f.done(Layer::Ethernet(l))
        }
        "vlan" => {
            let mut l = Vlan::default();
            f.need("id", "id: 0 to 4095").number("id", &mut l.id, 4095);
            f.number("pcp", &mut l.pcp, 7);
            f.fixed("tpid", &mut l.tpid, 0x0600, u16::MAX);
            f.derived("type", &mut l.ethertype, u16::MAX);
            f.done(Layer::Vlan(l))
        }
        "arp" => {
            let mut l = Arp::default();
            f.number("op", &mut l.op, u16::MAX);
            f.mac("sender-mac", &mut l.sender_mac);
            f.ip4("sender-ip", &mut l.sender_ip);
            f.mac("target-mac", &mut l.target_mac);
            f.ip4("target-ip", &mut l.target_ip);
            f.done(Layer::Arp(l))
        }
        "ipv4" => {
            let mut l = Ipv4::default();
            f.need("src", "src: ADDRESS or LOW-HIGH").ip4("src", &mut l.src);
            f.need("dst", "dst: ADDRESS or LOW-HIGH").ip4("dst", &mut l.dst);
            f.number("ttl", &mut l.ttl, u8::MAX);
            f.number("dscp", &mut l.dscp, 63);
            f.number("ecn", &mut l.ecn, 3);
            f.number("id", &mut l.id, u16::MAX);
            f.switch("df", &mut l.df);
            f.switch("mf", &mut l.mf);
            f.number("fragment", &mut l.fragment, 0x1fff);
            f.derived("proto", &mut l.proto, u8::MAX);
            f.checksum(&mut l.checksum);
            f.done(Layer::Ipv4(l))
        }
        "ipv6" => {
            let mut l = Ipv6::default();
            f.need("src", "src: ADDRESS or LOW-HIGH").ip6("src", &mut l.src);
            f.need("dst", "dst: ADDRESS or LOW-HIGH").ip6("dst", &mut l.dst);
            f.number("hop-limit", &mut l.hop_limit, u8::MAX);
            f.number("traffic-class", &mut l.traffic_class, u8::MAX);
            f.number("flow-label", &mut l.flow_label, 0xf_ffff);
            f.derived("next-header", &mut l.next_header, u8::MAX);
            f.done(Layer::Ipv6(l))
        }
        "udp" => {
            let mut l = Udp::default();
            f.need("sport", PORT).number("sport", &mut l.sport, u16::MAX);
            f.need("dport", PORT).number("dport", &mut l.dport, u16::MAX);
            f.checksum(&mut l.checksum);
            f.done(Layer::Udp(l))
        }
        "tcp" => {
            let mut l = Tcp::default();
            f.need("sport", PORT).number("sport", &mut l.sport, u16::MAX);
            f.need("dport", PORT).number("dport", &mut l.dport, u16::MAX);
            f.number("seq", &mut l.seq, u32::MAX);
            f.number("ack", &mut l.ack, u32::MAX);
            f.tcp_flags(&mut l.flags);
            f.number("window", &mut l.window, u16::MAX);
            f.checksum(&mut l.checksum);
            f.done(Layer::Tcp(l))
        }
        _ => {
            let mut l = Echo::default();
            f.switch("reply", &mut l.reply);
            f.number("id", &mut l.id, u16::MAX);
            f.number("seq", &mut l.seq, u16::MAX);
            f.checksum(&mut l.checksum);
            f.done(Layer::Echo(l))
        }
    }
}

/// Bytes as hexadecimal digits; spaces, colons and line breaks may stand between bytes.
fn raw<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Layer> {
    let text = d.text(node, "hexadecimal digits")?;
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b':').collect();
    let nibble = |b: u8| char::from(b).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let bytes: Option<Vec<u8>> =
        digits.chunks(2).map(|pair| Some(nibble(*pair.first()?)? << 4 | nibble(*pair.get(1)?)?)).collect();
    match bytes {
        Some(bytes) if !bytes.is_empty() && bytes.len() <= usize::from(super::MAX_SIZE) => {
            Some(Layer::Raw(bytes))
        }
        _ => {
            d.error(node.place, "raw", "these are not bytes in hexadecimal")
                .value(short(text))
                .help(format!("pairs of hexadecimal digits, at most {} bytes", super::MAX_SIZE));
            None
        }
    }
}
