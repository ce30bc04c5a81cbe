//! The section `packet-generator`, by name.

use super::Source;
use crate::written::{Map, Node};
use drivers::generator::{
    Arp, Checksum, Echo, Ethernet, Field, Ipv4, Ipv6, Layer, Mode, Payload, Rate, Size, StreamDef, Tcp, Udp,
    Vlan,
};
use std::fmt::Display;

pub(super) fn write(from: Source<'_>, to: &mut Map) {
    for s in net::generator::streams(from.router) {
        to.put(s.def.name.clone(), stream(&s.def));
    }
}

fn stream(def: &StreamDef) -> Map {
    let normal = StreamDef::new("", "");
    let mut to = Map::new();
    to.put_unless("node", def.node.as_str(), normal.node.as_str());
    to.put("interface", def.interface.as_str());
    to.put("layers", def.layers.iter().map(layer).collect::<Vec<_>>());
    to.put_some("size", def.size.as_ref().map(size));
    if let Rate::Pps(pps) = def.rate {
        to.put("rate", pps.round().max(1.0) as u64);
    }
    to.put_unless("count", def.count, normal.count);
    to.put_unless("seed", def.seed, normal.seed);
    to.put_some("state", def.enabled.then_some("enabled"));
    to
}

fn size(size: &Size) -> Node {
    match size {
        Size::Fixed(n) => (*n).into(),
        Size::Range { low, high, mode } => range(low, high, *mode),
        Size::Mix(mix) => {
            let one = |(size, weight): &(u16, u16)| {
                let mut item = Map::new();
                item.put("size", *size).put_unless("weight", *weight, 1);
                Node::Flow(item)
            };
            let mut to = Map::new();
            to.put("mix", Node::Row(mix.iter().map(one).collect()));
            Node::Flow(to)
        }
    }
}

fn range(low: impl Display, high: impl Display, mode: Mode) -> Node {
    let random = if mode == Mode::Random { " random" } else { "" };
    Node::Text(format!("{low}-{high}{random}"))
}

/// A value of a field: numbers plain, the rest as text.
trait Value: Display + PartialEq + Copy {
    fn node(self) -> Node;
}

macro_rules! values {
    ($how:expr; $($t:ty),+) => {
        $(impl Value for $t {
            fn node(self) -> Node {
                $how(self)
            }
        })+
    };
}
values!(Node::from; u8, u16, u32);
values!(Node::text; packet::MacAddr, std::net::Ipv4Addr, std::net::Ipv6Addr);

fn value<T: Value>(f: Field<T>) -> Node {
    match f {
        Field::Fixed(v) => v.node(),
        Field::Range { low, high, mode } => range(low, high, mode),
    }
}

/// The fields of a layer that are not as they are by themselves.
struct Fields(Map);

impl Fields {
    fn field<T: Value>(mut self, name: &'static str, is: Field<T>, normal: Field<T>) -> Self {
        if is != normal {
            self.0.put(name, value(is));
        }
        self
    }

    fn always<T: Value>(mut self, name: &'static str, is: Field<T>) -> Self {
        self.0.put(name, value(is));
        self
    }

    fn plain<T: PartialEq + Into<Node>>(mut self, name: &'static str, is: T, normal: T) -> Self {
        self.0.put_unless(name, is, normal);
        self
    }

    fn derived<T: Into<Node>>(mut self, name: &'static str, is: Option<T>) -> Self {
        self.0.put_some(name, is);
        self
    }

    fn checksum(mut self, is: Checksum) -> Self {
        match is {
            Checksum::Correct => {}
            Checksum::Bad => drop(self.0.put("checksum", "bad")),
            Checksum::Value(v) => drop(self.0.put("checksum", v)),
        }
        self
    }

    fn under(self, name: &'static str) -> Node {
        if self.0.is_empty() {
            return name.into();
        }
        let mut layer = Map::new();
        layer.put(name, Node::Flow(self.0));
        layer.into()
    }
}

fn layer(layer: &Layer) -> Node {
    let f = Fields(Map::new());
    let named = match layer {
        Layer::Raw(bytes) => {
            let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
            Err(("raw", Node::Text(hex.join(" "))))
        }
        Layer::Payload(p) => Err((
            "payload",
            match p {
                Payload::Increment => "increment".into(),
                Payload::Random => "random".into(),
                Payload::Zero => "zero".into(),
            },
        )),
        Layer::Ethernet(l) => {
            let n = Ethernet::default();
            Ok(f.field("src", l.src, n.src).field("dst", l.dst, n.dst).derived("type", l.ethertype))
        }
        Layer::Vlan(l) => {
            let n = Vlan::default();
            let f = f.always("id", l.id).field("pcp", l.pcp, n.pcp).plain("tpid", l.tpid, n.tpid);
            Ok(f.derived("type", l.ethertype))
        }
        Layer::Arp(l) => {
            let n = Arp::default();
            let f = f.field("op", l.op, n.op).field("sender-mac", l.sender_mac, n.sender_mac);
            let f = f.field("sender-ip", l.sender_ip, n.sender_ip);
            Ok(f.field("target-mac", l.target_mac, n.target_mac).field("target-ip", l.target_ip, n.target_ip))
        }
        Layer::Ipv4(l) => Ok(ipv4(f, l)),
        Layer::Ipv6(l) => {
            let n = Ipv6::default();
            let f = f.always("src", l.src).always("dst", l.dst).field("hop-limit", l.hop_limit, n.hop_limit);
            let f = f.field("traffic-class", l.traffic_class, n.traffic_class);
            Ok(f.field("flow-label", l.flow_label, n.flow_label).derived("next-header", l.next_header))
        }
        Layer::Udp(Udp { sport, dport, checksum }) => {
            Ok(f.always("sport", *sport).always("dport", *dport).checksum(*checksum))
        }
        Layer::Tcp(l) => {
            let n = Tcp::default();
            let f = f.always("sport", l.sport).always("dport", l.dport).field("seq", l.seq, n.seq);
            let f = f.field("ack", l.ack, n.ack).field("flags", l.flags, n.flags);
            Ok(f.field("window", l.window, n.window).checksum(l.checksum))
        }
        Layer::Echo(l) => {
            let n = Echo::default();
            let f = f.plain("reply", l.reply, n.reply).field("id", l.id, n.id).field("seq", l.seq, n.seq);
            Ok(f.checksum(l.checksum))
        }
    };
    match named {
        Ok(fields) => fields.under(layer.name()),
        Err((name, value)) => {
            let mut to = Map::new();
            to.put(name, value);
            to.into()
        }
    }
}

fn ipv4(f: Fields, l: &Ipv4) -> Fields {
    let n = Ipv4::default();
    let f = f.always("src", l.src).always("dst", l.dst).field("ttl", l.ttl, n.ttl);
    let f = f.field("dscp", l.dscp, n.dscp).field("ecn", l.ecn, n.ecn).field("id", l.id, n.id);
    let f = f.plain("df", l.df, n.df).plain("mf", l.mf, n.mf).field("fragment", l.fragment, n.fragment);
    f.derived("proto", l.proto).checksum(l.checksum)
}
