//! From layers to template bytes: which bits change, which lengths and checksums depend on them.

use super::compile::CompileError;
use super::def::{
    Arp, Checksum, Echo, Ethernet, Field, Ipv4, Ipv6, Layer, Mode, Payload, Tcp, Udp, Value, Vlan,
};
use std::ops::Range;

/// Most layers of a stream.
pub const MAX_LAYERS: usize = 16;
/// EtherType of what no EtherType names (local experimental, IEEE 802).
const EXPERIMENTAL_TYPE: u16 = 0x88b5;
/// Protocol of what no protocol number names (experimentation, RFC 3692).
const EXPERIMENTAL_PROTO: u8 = 253;

/// Bits of the template that change with every packet; they are zero in the template.
pub struct Change {
    /// First bit, from the start of the packet.
    pub bit: usize,
    /// How many.
    pub bits: usize,
    /// First value.
    pub low: u128,
    /// Last value.
    pub high: u128,
    /// Order.
    pub mode: Mode,
}

/// A length field, or a length that only a pseudo header holds.
pub struct Length {
    /// Where it stands, if it does.
    pub at: Option<usize>,
    /// It counts the packet's bytes from here.
    pub from: usize,
    /// How often it counts in which checksum.
    pub counted: Option<(usize, u64)>,
}

/// A checksum to compute.
pub struct Check {
    /// Where it stands.
    pub at: usize,
    /// Header bytes that it covers.
    pub covers: Range<usize>,
    /// Addresses of the pseudo header.
    pub addresses: Range<usize>,
    /// It also covers everything to the packet's end.
    pub to_end: bool,
    /// Words that it counts and that no byte of the packet holds.
    pub extra: u64,
    /// 0 is sent as ffff.
    pub nonzero: bool,
    /// It is to be wrong.
    pub bad: bool,
}

/// What the layers say.
#[derive(Default)]
pub struct Template {
    /// All bytes but the fill.
    pub bytes: Vec<u8>,
    /// Changing bits.
    pub changes: Vec<Change>,
    /// Lengths.
    pub lengths: Vec<Length>,
    /// Checksums.
    pub checks: Vec<Check>,
    /// What fills the packet up.
    pub fill: Option<Payload>,
}

/// The innermost IP header so far.
struct Ip {
    addresses: Range<usize>,
    six: bool,
}

struct Builder<'a> {
    t: Template,
    layer: &'static str,
    next: Option<&'a Layer>,
    ip: Option<Ip>,
}

/// Builds the template of these layers.
pub fn build(layers: &[Layer]) -> Result<Template, CompileError> {
    if layers.is_empty() || layers.len() > MAX_LAYERS {
        return Err(CompileError::Layers(layers.len()));
    }
    let mut b = Builder { t: Template::default(), layer: "", next: None, ip: None };
    for (i, layer) in layers.iter().enumerate() {
        b.layer = layer.name();
        b.next = layers.get(i + 1);
        check_order(i.checked_sub(1).map(|i| &layers[i]), layer)?;
        match layer {
            Layer::Ethernet(l) => b.ethernet(l)?,
            Layer::Vlan(l) => b.vlan(l)?,
            Layer::Arp(l) => b.arp(l)?,
            Layer::Ipv4(l) => b.ipv4(l)?,
            Layer::Ipv6(l) => b.ipv6(l)?,
            Layer::Udp(l) => b.udp(l)?,
            Layer::Tcp(l) => b.tcp(l)?,
            Layer::Echo(l) => b.echo(l)?,
            Layer::Raw(bytes) => b.t.bytes.extend_from_slice(bytes),
            Layer::Payload(p) => b.t.fill = Some(*p),
        }
    }
    Ok(b.t)
}

fn check_order(before: Option<&Layer>, layer: &Layer) -> Result<(), CompileError> {
    match layer.fits_behind(before) {
        true => Ok(()),
        false => Err(CompileError::Order { layer: layer.name(), before: before.map(Layer::name) }),
    }
}

impl Builder<'_> {
    fn at(&self) -> usize {
        self.t.bytes.len()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.t.bytes.extend_from_slice(bytes);
    }

    /// Sets `bits` bits from bit `bit` of the packet, all zero so far, to the field's value, or notes that they change.
    fn field<T: Value>(
        &mut self,
        name: &'static str,
        bit: usize,
        bits: usize,
        field: Field<T>,
    ) -> Result<(), CompileError> {
        let layer = self.layer;
        let (low, high, mode) = match field {
            Field::Fixed(v) => (v.number(), v.number(), Mode::Increment),
            Field::Range { low, high, mode } => (low.number(), high.number(), mode),
        };
        if low > high {
            return Err(CompileError::Range { layer, field: name });
        }
        if bits < 128 && high >> bits != 0 {
            return Err(CompileError::TooBig { layer, field: name, value: high, max: (1 << bits) - 1 });
        }
        if low == high {
            for i in (0..bits).filter(|i| low >> (bits - 1 - i) & 1 == 1) {
                self.t.bytes[(bit + i) / 8] |= 0x80 >> ((bit + i) % 8);
            }
        } else {
            self.t.changes.push(Change { bit, bits, low, high, mode });
        }
        Ok(())
    }

    /// The checksum field at `at`, zero so far.
    fn check(&mut self, at: usize, kind: Checksum, check: Check) {
        match kind {
            Checksum::Value(v) => self.t.bytes[at..at + 2].copy_from_slice(&v.to_be_bytes()),
            Checksum::Correct => self.t.checks.push(check),
            Checksum::Bad => self.t.checks.push(Check { bad: true, ..check }),
        }
    }

    fn ethertype(&self, given: Option<u16>) -> u16 {
        given.unwrap_or(match self.next {
            Some(Layer::Vlan(v)) => v.tpid,
            Some(Layer::Arp(_)) => 0x0806,
            Some(Layer::Ipv4(_)) => 0x0800,
            Some(Layer::Ipv6(_)) => 0x86dd,
            _ => EXPERIMENTAL_TYPE,
        })
    }

    fn protocol(&self, given: Option<u8>, six: bool) -> u8 {
        given.unwrap_or(match self.next {
            Some(Layer::Udp(_)) => 17,
            Some(Layer::Tcp(_)) => 6,
            Some(Layer::Echo(_)) if six => 58,
            Some(Layer::Echo(_)) => 1,
            Some(Layer::Ipv4(_)) => 4,
            Some(Layer::Ipv6(_)) => 41,
            _ => EXPERIMENTAL_PROTO,
        })
    }

    fn ethernet(&mut self, l: &Ethernet) -> Result<(), CompileError> {
        let bit = self.at() * 8;
        self.put(&[0; 12]);
        self.put(&self.ethertype(l.ethertype).to_be_bytes());
        self.field("dst", bit, 48, l.dst)?;
        self.field("src", bit + 48, 48, l.src)
    }

    fn vlan(&mut self, l: &Vlan) -> Result<(), CompileError> {
        let bit = self.at() * 8;
        self.put(&[0; 2]);
        self.put(&self.ethertype(l.ethertype).to_be_bytes());
        self.field("pcp", bit, 3, l.pcp)?;
        self.field("id", bit + 4, 12, l.id)
    }

    fn arp(&mut self, l: &Arp) -> Result<(), CompileError> {
        let bit = self.at() * 8;
        self.put(&[0, 1, 8, 0, 6, 4]);
        self.put(&[0; 22]);
        self.t.fill = Some(Payload::Zero);
        self.field("op", bit + 48, 16, l.op)?;
        self.field("sender-mac", bit + 64, 48, l.sender_mac)?;
        self.field("sender-ip", bit + 112, 32, l.sender_ip)?;
        self.field("target-mac", bit + 144, 48, l.target_mac)?;
        self.field("target-ip", bit + 192, 32, l.target_ip)
    }

    fn ipv4(&mut self, l: &Ipv4) -> Result<(), CompileError> {
        let (at, bit) = (self.at(), self.at() * 8);
        self.put(&[0x45]);
        self.put(&[0; 5]);
        self.put(&[u8::from(l.df) << 6 | u8::from(l.mf) << 5]);
        self.put(&[0; 2]);
        self.put(&[self.protocol(l.proto, false)]);
        self.put(&[0; 10]);
        self.field("dscp", bit + 8, 6, l.dscp)?;
        self.field("ecn", bit + 14, 2, l.ecn)?;
        self.field("id", bit + 32, 16, l.id)?;
        self.field("fragment", bit + 51, 13, l.fragment)?;
        self.field("ttl", bit + 64, 8, l.ttl)?;
        self.field("src", bit + 96, 32, l.src)?;
        self.field("dst", bit + 128, 32, l.dst)?;
        let index = self.t.checks.len();
        self.check(
            at + 10,
            l.checksum,
            Check {
                at: at + 10,
                covers: at..at + 20,
                addresses: 0..0,
                to_end: false,
                extra: 0,
                nonzero: false,
                bad: false,
            },
        );
        let counted = (self.t.checks.len() > index).then_some((index, 1));
        self.t.lengths.push(Length { at: Some(at + 2), from: at, counted });
        self.ip = Some(Ip { addresses: at + 12..at + 20, six: false });
        Ok(())
    }

    fn ipv6(&mut self, l: &Ipv6) -> Result<(), CompileError> {
        let (at, bit) = (self.at(), self.at() * 8);
        self.put(&[0x60, 0, 0, 0, 0, 0, self.protocol(l.next_header, true), 0]);
        self.put(&[0; 32]);
        self.field("traffic-class", bit + 4, 8, l.traffic_class)?;
        self.field("flow-label", bit + 12, 20, l.flow_label)?;
        self.field("hop-limit", bit + 56, 8, l.hop_limit)?;
        self.field("src", bit + 64, 128, l.src)?;
        self.field("dst", bit + 192, 128, l.dst)?;
        self.t.lengths.push(Length { at: Some(at + 4), from: at + 40, counted: None });
        self.ip = Some(Ip { addresses: at + 8..at + 40, six: true });
        Ok(())
    }

    /// The checksum at `sum_at` over header and payload from `start` on; `proto` is that of the pseudo header. Returns
    /// the index of the check if there is one to compute.
    fn transport(&mut self, start: usize, sum_at: usize, kind: Checksum, proto: Option<u8>) -> Option<usize> {
        let index = self.t.checks.len();
        let covers = start..self.at();
        let (mut addresses, mut extra) = (0..0, 0);
        if let Some(proto) = proto {
            addresses = self.ip.as_ref().map_or(0..0, |ip| ip.addresses.clone());
            extra = u64::from(u16::from(proto).to_be());
        }
        let nonzero = proto == Some(17);
        self.check(
            sum_at,
            kind,
            Check { at: sum_at, covers, addresses, to_end: true, extra, nonzero, bad: false },
        );
        (self.t.checks.len() > index).then_some(index)
    }

    fn udp(&mut self, l: &Udp) -> Result<(), CompileError> {
        let at = self.at();
        self.put(&[0; 8]);
        self.field("sport", at * 8, 16, l.sport)?;
        self.field("dport", at * 8 + 16, 16, l.dport)?;
        let check = self.transport(at, at + 6, l.checksum, Some(17));
        // Its length counts twice: in its header and in the pseudo header.
        self.t.lengths.push(Length { at: Some(at + 4), from: at, counted: check.map(|i| (i, 2)) });
        Ok(())
    }

    fn tcp(&mut self, l: &Tcp) -> Result<(), CompileError> {
        let (at, bit) = (self.at(), self.at() * 8);
        self.put(&[0; 12]);
        self.put(&[0x50, 0, 0, 0, 0, 0, 0, 0]);
        self.field("sport", bit, 16, l.sport)?;
        self.field("dport", bit + 16, 16, l.dport)?;
        self.field("seq", bit + 32, 32, l.seq)?;
        self.field("ack", bit + 64, 32, l.ack)?;
        self.field("flags", bit + 104, 8, l.flags)?;
        self.field("window", bit + 112, 16, l.window)?;
        let check = self.transport(at, at + 16, l.checksum, Some(6));
        self.t.lengths.push(Length { at: None, from: at, counted: check.map(|i| (i, 1)) });
        Ok(())
    }

    fn echo(&mut self, l: &Echo) -> Result<(), CompileError> {
        let at = self.at();
        let six = self.ip.as_ref().is_some_and(|ip| ip.six);
        let kind = match (six, l.reply) {
            (true, reply) => 128 + u8::from(reply),
            (false, true) => 0,
            (false, false) => 8,
        };
        self.put(&[kind, 0, 0, 0, 0, 0, 0, 0]);
        self.field("id", at * 8 + 32, 16, l.id)?;
        self.field("seq", at * 8 + 48, 16, l.seq)?;
        let check = self.transport(at, at + 2, l.checksum, six.then_some(58));
        if six {
            self.t.lengths.push(Length { at: None, from: at, counted: check.map(|i| (i, 1)) });
        }
        Ok(())
    }
}
