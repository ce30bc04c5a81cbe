//! Streams as the words of a command; see the module's grammar.

use super::def::{
    Arp, Checksum, Echo, Ethernet, Field, Ipv4, Ipv6, Layer, Mode, Payload, Rate, Size, StreamDef, Tcp, Udp,
    Value, Vlan,
};
use packet::MacAddr;
use std::fmt;
use std::str::FromStr;

/// A word that cannot stand where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Byte of the text at which it starts, from 0; the text's length when a word is missing.
    pub at: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.at + 1, self.message)
    }
}

impl std::error::Error for ParseError {}

type Result<T> = std::result::Result<T, ParseError>;

fn error<T>(at: usize, message: impl Into<String>) -> Result<T> {
    Err(ParseError { at, message: message.into() })
}

#[derive(Clone, Copy)]
struct Word<'a> {
    at: usize,
    text: &'a str,
}

struct Words<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<Word<'a>>>,
    end: usize,
}

impl<'a> Words<'a> {
    /// Splits at blanks; what stands in double quotes is one word, and in `/` a word of its own when `layers`.
    fn new(text: &'a str, base: usize, layers: bool) -> Result<Self> {
        let mut words = Vec::new();
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            let at = base + text.len() - rest.len();
            let Some(first) = rest.chars().next() else { break };
            let len = match first {
                '"' => {
                    let Some(len) = rest[1..].find('"') else {
                        return error(at, "the quotes do not end");
                    };
                    words.push(Word { at: at + 1, text: &rest[1..1 + len] });
                    rest = &rest[len + 2..];
                    continue;
                }
                '/' if layers => 1,
                _ => rest
                    .find(|c: char| c.is_whitespace() || c == '"' || (layers && c == '/'))
                    .unwrap_or(rest.len()),
            };
            words.push(Word { at, text: &rest[..len] });
            rest = &rest[len..];
        }
        Ok(Words { words: words.into_iter().peekable(), end: base + text.len() })
    }

    fn next(&mut self, wanted: &str) -> Result<Word<'a>> {
        match self.words.next() {
            Some(w) => Ok(w),
            None => error(self.end, format!("expected {wanted}")),
        }
    }

    /// Where the next word stands, or should.
    fn here(&mut self) -> usize {
        self.words.peek().map_or(self.end, |w| w.at)
    }

    fn take(&mut self, text: &str) -> bool {
        self.words.next_if(|w| w.text == text).is_some()
    }

    fn value<T: FromStr>(&mut self, wanted: &str) -> Result<T> {
        let w = self.next(wanted)?;
        w.text.parse().or_else(|_| error(w.at, format!("`{}` is not {wanted}", w.text)))
    }

    fn mode(&mut self) -> Option<Mode> {
        let w = self.words.next_if(|w| mode(w.text).is_some())?;
        mode(w.text)
    }
}

fn mode(text: &str) -> Option<Mode> {
    match text {
        "increment" | "incrementing" => Some(Mode::Increment),
        "random" => Some(Mode::Random),
        _ => None,
    }
}

/// Reads a stream from the words of a command: `[packet-generator new] [name] NAME ITEM...`.
pub fn parse_words(text: &str) -> Result<StreamDef> {
    const ITEMS: &str = "name, interface, node, rate, count, size, state, seed or data";
    let mut words = Words::new(text, 0, false)?;
    if words.take("packet-generator") && !words.take("new") {
        let at = words.next("`new`")?.at;
        return error(at, "expected `new`");
    }
    let mut s = StreamDef::new("", "");
    let mut first = true;
    while let Some(w) = words.words.next() {
        match w.text {
            "name" => s.name = name(words.next("a name")?)?,
            "interface" => s.interface = words.next("an interface")?.text.to_string(),
            "node" => s.node = words.next("a node")?.text.to_string(),
            "rate" => s.rate = rate(words.next("packets a second, or `max`")?)?,
            "count" => s.count = words.value("a number of packets")?,
            "seed" => s.seed = words.value("a number")?,
            "size" => {
                let size = words.next(SIZE)?;
                s.size = Some(self::size(size, words.mode())?);
            }
            "state" => {
                let state = words.next("`enabled` or `disabled`")?;
                s.enabled = match state.text {
                    "enabled" => true,
                    "disabled" => false,
                    _ => return error(state.at, "expected `enabled` or `disabled`"),
                };
            }
            "data" => {
                let data = words.next("layers in quotes")?;
                s.layers = layers(data.text, data.at)?;
            }
            _ if first => s.name = name(w)?,
            _ => return error(w.at, format!("`{}` is not expected here: {ITEMS}", w.text)),
        }
        first = false;
    }
    for (missing, what) in [
        (s.name.is_empty(), "a name for the stream"),
        (s.interface.is_empty(), "`interface IF`"),
        (s.layers.is_empty(), "`data \"LAYERS\"`"),
    ] {
        if missing {
            return error(words.end, format!("expected {what}"));
        }
    }
    Ok(s)
}

/// Reads layers, with `/` between them.
pub fn parse_layers(text: &str) -> Result<Vec<Layer>> {
    layers(text, 0)
}

fn name(w: Word<'_>) -> Result<String> {
    let right = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if w.text.is_empty() || w.text.len() > 63 || !w.text.bytes().all(right) {
        return error(w.at, "a name is 1 to 63 letters, digits, `-`, `_` and `.`");
    }
    Ok(w.text.to_string())
}

fn rate(w: Word<'_>) -> Result<Rate> {
    if w.text == "max" {
        return Ok(Rate::Max);
    }
    let (digits, factor) = match w.text.char_indices().last() {
        Some((i, 'k' | 'K')) => (&w.text[..i], 1e3),
        Some((i, 'm' | 'M')) => (&w.text[..i], 1e6),
        _ => (w.text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(n) if (n * factor).is_finite() && n > 0.0 => Ok(Rate::Pps(n * factor)),
        _ => error(w.at, format!("`{}` is not a rate: packets a second (1000, 2.5k, 1m), or max", w.text)),
    }
}

const SIZE: &str = "a size: BYTES, LOW-HIGH, imix or BYTES:WEIGHT,...";

fn size(w: Word<'_>, mode: Option<Mode>) -> Result<Size> {
    let wrong = || ParseError { at: w.at, message: format!("`{}` is not {SIZE}", w.text) };
    let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let size = if w.text == "imix" {
        Size::imix()
    } else if w.text.contains(':') {
        let pair = |item: &str| {
            let (size, weight) = item.split_once(':').ok_or_else(wrong)?;
            Ok((number(size)?, number(weight)?))
        };
        Size::Mix(w.text.split(',').map(pair).collect::<Result<_>>()?)
    } else if let Some((low, high)) = w.text.split_once('-') {
        Size::Range { low: number(low)?, high: number(high)?, mode: mode.unwrap_or(Mode::Increment) }
    } else {
        Size::Fixed(number(w.text)?)
    };
    match (&size, mode) {
        (Size::Fixed(_) | Size::Mix(_), Some(_)) => error(w.at, "only a range of sizes has a mode"),
        _ => Ok(size),
    }
}

fn layers(text: &str, base: usize) -> Result<Vec<Layer>> {
    let mut words = Words::new(text, base, true)?;
    let mut layers = Vec::new();
    loop {
        layers.push(layer(&mut words)?);
        match words.words.next() {
            None => return Ok(layers),
            Some(w) if w.text == "/" => {}
            Some(w) => return error(w.at, format!("`{}` is not expected here", w.text)),
        }
    }
}

/// A field being read: its word, and where a range without mode waits for one.
trait Slot {
    fn read(&mut self, w: Word<'_>) -> Result<bool>;
    fn set(&mut self, to: Mode);
}

/// A value as a word of a command.
trait Text: Value {
    const WANTED: &'static str;
    fn read(text: &str) -> Option<Self>;
}

macro_rules! numbers {
    ($($t:ty),+) => {$(
        impl Text for $t {
            const WANTED: &'static str = "a number in the field's range";
            fn read(text: &str) -> Option<Self> {
                match text.strip_prefix("0x") {
                    Some(hex) => <$t>::from_str_radix(hex, 16).ok(),
                    None => text.parse().ok(),
                }
            }
        }
    )+};
}
numbers!(u8, u16, u32);

impl Text for std::net::Ipv4Addr {
    const WANTED: &'static str = "an IPv4 address";
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Text for std::net::Ipv6Addr {
    const WANTED: &'static str = "an IPv6 address";
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Text for MacAddr {
    const WANTED: &'static str = "a MAC address";
    fn read(text: &str) -> Option<Self> {
        let Some((front, back)) = text.split_once("::") else { return text.parse().ok() };
        // `::` stands for as many zero bytes as are missing, as in IPv6.
        let mut mac = [0; 6];
        let bytes = |part: &str| -> Option<Vec<u8>> {
            let items = part.split(':').filter(|_| !part.is_empty());
            items.map(|b| u8::from_str_radix(b, 16).ok().filter(|_| b.len() <= 2)).collect()
        };
        let (front, back) = (bytes(front)?, bytes(back)?);
        let gap = 6usize.checked_sub(front.len() + back.len()).filter(|gap| *gap > 0)?;
        for (to, from) in mac.iter_mut().zip(front.iter()) {
            *to = *from;
        }
        for (to, from) in mac.iter_mut().skip(front.len() + gap).zip(back.iter()) {
            *to = *from;
        }
        Some(MacAddr(mac))
    }
}

fn wrong<T>(w: Word<'_>, wanted: &str) -> Result<T> {
    error(w.at, format!("`{}` is not {wanted}", w.text))
}

impl<T: Text> Slot for Field<T> {
    fn read(&mut self, w: Word<'_>) -> Result<bool> {
        if let Some(v) = T::read(w.text) {
            *self = Field::Fixed(v);
            return Ok(false);
        }
        let ends = w.text.split_once('-').and_then(|(low, high)| Some((T::read(low)?, T::read(high)?)));
        let Some((low, high)) = ends else { return wrong(w, &format!("{} or LOW-HIGH", T::WANTED)) };
        if low.number() > high.number() {
            return error(w.at, "the range ends before it starts");
        }
        *self = Field::Range { low, high, mode: Mode::Increment };
        Ok(true)
    }

    fn set(&mut self, to: Mode) {
        if let Field::Range { mode, .. } = self {
            *mode = to;
        }
    }
}

impl<T: Text> Slot for Option<T> {
    fn read(&mut self, w: Word<'_>) -> Result<bool> {
        *self = T::read(w.text);
        if self.is_some() { Ok(false) } else { wrong(w, T::WANTED) }
    }

    fn set(&mut self, _: Mode) {}
}

impl Slot for Checksum {
    fn read(&mut self, w: Word<'_>) -> Result<bool> {
        *self = match w.text {
            "correct" => Checksum::Correct,
            "bad" => Checksum::Bad,
            "none" => Checksum::Value(0),
            text => match u16::read(text) {
                Some(v) => Checksum::Value(v),
                None => return wrong(w, "a checksum: correct, bad, none or a number"),
            },
        };
        Ok(false)
    }

    fn set(&mut self, _: Mode) {}
}

/// TCP flags: a number or names with commas between them.
struct TcpFlags<'f>(&'f mut Field<u8>);

impl Slot for TcpFlags<'_> {
    fn read(&mut self, w: Word<'_>) -> Result<bool> {
        const NAMES: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
        let mut flags = 0u8;
        for name in w.text.split(',') {
            match NAMES.iter().position(|n| *n == name) {
                Some(bit) => flags |= 1 << bit,
                None => return self.0.read(w),
            }
        }
        *self.0 = Field::Fixed(flags);
        Ok(false)
    }

    fn set(&mut self, to: Mode) {
        self.0.set(to);
    }
}

/// Reads `FIELD VALUE` pairs and modes up to the layer's end; `flags` are words without a value.
fn fields(
    words: &mut Words<'_>,
    layer: &str,
    slots: &mut [(&str, &mut dyn Slot)],
    flags: &mut [(&str, &mut bool)],
) -> Result<()> {
    // Slots with a range that waits for its mode.
    let mut waiting: Vec<usize> = Vec::new();
    while let Some(w) = words.words.next_if(|w| w.text != "/") {
        if let Some(mode) = mode(w.text) {
            if waiting.is_empty() {
                return error(w.at, format!("`{}` stands behind no range", w.text));
            }
            for i in waiting.drain(..) {
                if let Some((_, slot)) = slots.get_mut(i) {
                    slot.set(mode);
                }
            }
            continue;
        }
        if let Some((_, flag)) = flags.iter_mut().find(|(name, _)| *name == w.text) {
            **flag = true;
            continue;
        }
        let Some(i) = slots.iter().position(|(name, _)| *name == w.text) else {
            let known: Vec<&str> = slots.iter().map(|s| s.0).chain(flags.iter().map(|f| f.0)).collect();
            return error(w.at, format!("{layer} has no field `{}`, but {}", w.text, known.join(", ")));
        };
        let Some(value) = words.words.next_if(|v| v.text != "/") else {
            return error(words.here(), format!("expected a value for {layer} {}", w.text));
        };
        waiting.retain(|n| *n != i);
        if let Some((_, slot)) = slots.get_mut(i)
            && slot.read(value)?
        {
            waiting.push(i);
        }
    }
    Ok(())
}

fn layer(words: &mut Words<'_>) -> Result<Layer> {
    const LAYERS: &str = "ethernet, vlan, arp, ipv4, ipv6, udp, tcp, icmp-echo, raw or payload";
    let w = words.next(&format!("a layer: {LAYERS}"))?;
    Ok(match w.text {
        "ethernet" => {
            let mut l = Ethernet::default();
            fields(
                words,
                "ethernet",
                &mut [("src", &mut l.src), ("dst", &mut l.dst), ("type", &mut l.ethertype)],
                &mut [],
            )?;
            Layer::Ethernet(l)
        }
        "vlan" => {
            let mut l = Vlan::default();
            let mut tpid = None;
            fields(
                words,
                "vlan",
                &mut [
                    ("id", &mut l.id),
                    ("pcp", &mut l.pcp),
                    ("tpid", &mut tpid),
                    ("type", &mut l.ethertype),
                ],
                &mut [],
            )?;
            l.tpid = tpid.unwrap_or(l.tpid);
            Layer::Vlan(l)
        }
        "arp" => {
            let mut l = Arp::default();
            fields(
                words,
                "arp",
                &mut [
                    ("op", &mut l.op),
                    ("sender-mac", &mut l.sender_mac),
                    ("sender-ip", &mut l.sender_ip),
                    ("target-mac", &mut l.target_mac),
                    ("target-ip", &mut l.target_ip),
                ],
                &mut [],
            )?;
            Layer::Arp(l)
        }
        "ipv4" => {
            let mut l = Ipv4::default();
            fields(
                words,
                "ipv4",
                &mut [
                    ("src", &mut l.src),
                    ("dst", &mut l.dst),
                    ("ttl", &mut l.ttl),
                    ("dscp", &mut l.dscp),
                    ("ecn", &mut l.ecn),
                    ("id", &mut l.id),
                    ("fragment", &mut l.fragment),
                    ("proto", &mut l.proto),
                    ("checksum", &mut l.checksum),
                ],
                &mut [("df", &mut l.df), ("mf", &mut l.mf)],
            )?;
            Layer::Ipv4(l)
        }
        "ipv6" => {
            let mut l = Ipv6::default();
            fields(
                words,
                "ipv6",
                &mut [
                    ("src", &mut l.src),
                    ("dst", &mut l.dst),
                    ("hop-limit", &mut l.hop_limit),
                    ("traffic-class", &mut l.traffic_class),
                    ("flow-label", &mut l.flow_label),
                    ("next-header", &mut l.next_header),
                ],
                &mut [],
            )?;
            Layer::Ipv6(l)
        }
        "udp" => {
            let mut l = Udp::default();
            fields(
                words,
                "udp",
                &mut [("sport", &mut l.sport), ("dport", &mut l.dport), ("checksum", &mut l.checksum)],
                &mut [],
            )?;
            Layer::Udp(l)
        }
        "tcp" => {
            let mut l = Tcp::default();
            fields(
                words,
                "tcp",
                &mut [
                    ("sport", &mut l.sport),
                    ("dport", &mut l.dport),
                    ("seq", &mut l.seq),
                    ("ack", &mut l.ack),
                    ("flags", &mut TcpFlags(&mut l.flags)),
                    ("window", &mut l.window),
                    ("checksum", &mut l.checksum),
                ],
                &mut [],
            )?;
            Layer::Tcp(l)
        }
        "icmp-echo" => {
            let mut l = Echo::default();
            fields(
                words,
                "icmp-echo",
                &mut [("id", &mut l.id), ("seq", &mut l.seq), ("checksum", &mut l.checksum)],
                &mut [("reply", &mut l.reply)],
            )?;
            Layer::Echo(l)
        }
        "payload" => {
            let p = words.next("increment, random or zero")?;
            Layer::Payload(match p.text {
                "increment" | "incrementing" => Payload::Increment,
                "random" => Payload::Random,
                "zero" => Payload::Zero,
                _ => return wrong(p, "a payload: increment, random or zero"),
            })
        }
        "raw" => Layer::Raw(raw(words)?),
        _ => return error(w.at, format!("there is no layer `{}`: {LAYERS}", w.text)),
    })
}

/// Hexadecimal bytes; blanks and colons may stand between them.
fn raw(words: &mut Words<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut w = match words.words.next_if(|w| w.text != "/") {
        Some(w) => w,
        None => return error(words.here(), "expected hexadecimal bytes"),
    };
    loop {
        let digits: Option<Vec<u8>> = w
            .text
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16).and_then(|n| u8::try_from(n).ok()))
            .collect();
        let Some(digits) = digits.filter(|d| d.len().is_multiple_of(2) && !d.is_empty()) else {
            return wrong(w, "pairs of hexadecimal digits");
        };
        bytes.extend(digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low));
        match words.words.next_if(|w| w.text != "/") {
            Some(next) => w = next,
            None => return Ok(bytes),
        }
    }
}
