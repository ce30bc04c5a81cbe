//! The types of arguments: what they take, how they are checked, what the help says of them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::{Completer, Value};

/// Which address families an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Either.
    Any,
}

/// The declared type of an argument: what stands after the colon in `<name:type>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ArgType {
    /// `u8`, `u16`, `u32`, `u64`, with an optional inclusive range and an optional unit for the help:
    /// `<mtu:u32 128..9216 bytes>`. Decimal, or hexadecimal after `0x`. `vlan` is `u16 1..4095`.
    /// `count` is a `u64` that takes the suffixes k, M and G (powers of 1000).
    Uint {
        /// The least value allowed.
        min: u64,
        /// The greatest value allowed.
        max: u64,
        /// What is counted, for the help.
        unit: String,
        /// Whether a suffix k, M or G multiplies.
        suffix: bool,
    },
    /// `float`: a finite number that is not negative, with the suffixes k, M and G.
    Float,
    /// `ip`, `ip4`, `ip6`: an address.
    Ip(Family),
    /// `prefix`, `prefix4`, `prefix6`: a prefix without host bits; an address alone is a host prefix.
    Prefix(Family),
    /// `cidr`, `cidr4`, `cidr6`: the address of an interface with its prefix length.
    Cidr(Family),
    /// `mac`: six hexadecimal bytes with colons.
    Mac,
    /// `duration`: a number and `us`, `ms`, `s`, `m` or `h`; without a unit seconds.
    Duration,
    /// `hex`: bytes, two digits each.
    Hex,
    /// `interface`, or `ref KIND`: the name of something that exists; the [`Completer`] knows which do.
    Ref(String),
    /// `number KIND`: a `u32`, or the name of something that has a number, which the [`Completer`] knows.
    Number(String),
    /// `string`, or `string KIND`: any word; the [`Completer`] may propose some.
    Text(String),
    /// `path`: a file's name.
    Path,
    /// `rest`: the rest of the line as it stands; last in its command.
    Rest,
}

/// Why a word is not of a type.
pub(crate) struct Mismatch {
    why: Why,
    /// It has the right form but a wrong value: worth telling even where other words could stand.
    pub close: bool,
}

enum Why {
    Said(String),
    /// It is no name of this kind. The names that are there are looked at when that is said: most mismatches are not, as the
    /// word is another thing, and there may be thousands.
    Unknown(String),
    /// The same where a number would do.
    NoNumber(String),
}

impl Mismatch {
    fn new(message: String) -> Self {
        Self { why: Why::Said(message), close: false }
    }

    /// What is wrong with `word`.
    pub fn message(self, word: &str, completer: &dyn Completer) -> String {
        match self.why {
            Why::Said(message) => message,
            Why::Unknown(kind) => unknown(&kind, word, completer),
            Why::NoNumber(kind) => {
                let names = completer.values(&kind, "").join(", ");
                let there = if names.is_empty() { names } else { format!(": {names}") };
                format!("'{word}' is not a number, nor a name{there}")
            }
        }
    }
}

/// How well a word fits a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// The word was checked: a keyword with this beginning is not meant.
    Checked,
    /// Any word would do.
    Loose,
}

impl ArgType {
    /// Reads a type out of a syntax string.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or("string");
        let word = |words: &mut std::str::SplitWhitespace<'_>| words.next().unwrap_or_default().to_owned();
        let parsed = match name {
            "u8" => Self::uint(u8::MAX.into(), &mut words)?,
            "u16" => Self::uint(u16::MAX.into(), &mut words)?,
            "u32" => Self::uint(u32::MAX.into(), &mut words)?,
            "u64" => Self::uint(u64::MAX, &mut words)?,
            "count" => match Self::uint(u64::MAX, &mut words)? {
                Self::Uint { min, max, unit, .. } => Self::Uint { min, max, unit, suffix: true },
                other => other,
            },
            "vlan" => Self::Uint { min: 1, max: 4095, unit: String::new(), suffix: false },
            "float" => Self::Float,
            "ip" => Self::Ip(Family::Any),
            "ip4" => Self::Ip(Family::V4),
            "ip6" => Self::Ip(Family::V6),
            "prefix" => Self::Prefix(Family::Any),
            "prefix4" => Self::Prefix(Family::V4),
            "prefix6" => Self::Prefix(Family::V6),
            "cidr" => Self::Cidr(Family::Any),
            "cidr4" => Self::Cidr(Family::V4),
            "cidr6" => Self::Cidr(Family::V6),
            "mac" => Self::Mac,
            "duration" => Self::Duration,
            "hex" => Self::Hex,
            "interface" => Self::Ref("interface".to_owned()),
            "ref" => match words.next() {
                Some(kind) => Self::Ref(kind.to_owned()),
                None => return Err("'ref' needs a kind".to_owned()),
            },
            "number" => match words.next() {
                Some(kind) => Self::Number(kind.to_owned()),
                None => return Err("'number' needs a kind".to_owned()),
            },
            "string" => Self::Text(word(&mut words)),
            "path" => Self::Path,
            "rest" => Self::Rest,
            other => return Err(format!("no type '{other}'")),
        };
        match words.next() {
            Some(extra) => Err(format!("'{extra}' after type '{name}'")),
            None => Ok(parsed),
        }
    }

    fn uint(limit: u64, words: &mut std::str::SplitWhitespace<'_>) -> Result<Self, String> {
        let (mut min, mut max, mut unit) = (0, limit, String::new());
        for word in words {
            if let Some((low, high)) = word.split_once("..") {
                min = low.parse().map_err(|_| format!("'{low}' is not a number"))?;
                max = high.parse().map_err(|_| format!("'{high}' is not a number"))?;
            } else if unit.is_empty() {
                unit = word.to_owned();
            } else {
                return Err(format!("second unit '{word}'"));
            }
        }
        if min > max || max > limit {
            return Err(format!("range {min}..{max} does not fit 0..{limit}"));
        }
        Ok(Self::Uint { min, max, unit, suffix: false })
    }

    /// The kind to ask the [`Completer`] for, if any.
    pub(crate) fn kind(&self) -> Option<&str> {
        match self {
            Self::Ref(kind) | Self::Number(kind) | Self::Text(kind) if !kind.is_empty() => Some(kind),
            _ => None,
        }
    }

    /// Checks `word` for the argument `name`. `lenient` takes names that do not exist.
    pub(crate) fn check(
        &self,
        name: &str,
        word: &str,
        completer: &dyn Completer,
        lenient: bool,
    ) -> Result<(Value, Fit), Mismatch> {
        let wrong = || Mismatch::new(format!("'{word}' is not {self}"));
        let close = |message: String| Mismatch { close: true, ..Mismatch::new(message) };
        let value = match self {
            Self::Uint { min, max, suffix, .. } => {
                let number = parse_uint(word, *suffix).ok_or_else(wrong)?;
                let number = u64::try_from(number).ok().filter(|n| (min..=max).contains(&n));
                let range = self.range();
                Value::Uint(
                    number.ok_or_else(|| close(format!("{word} is out of range: <{name}> is {range}")))?,
                )
            }
            Self::Float => Value::Float(parse_float(word).ok_or_else(wrong)?),
            Self::Ip(family) => {
                Value::Ip(word.parse().ok().filter(|ip| fits(*family, ip)).ok_or_else(wrong)?)
            }
            Self::Prefix(family) => {
                let host = || word.parse::<IpAddr>().ok().map(IpNet::from);
                let net = word.parse::<IpNet>().ok().or_else(host).or_else(|| default_route(*family, word));
                let net = net.filter(|net| fits(*family, &net.addr())).ok_or_else(wrong)?;
                if net != net.trunc() {
                    return Err(close(format!("{net} has host bits; the prefix is {}", net.trunc())));
                }
                Value::Net(net)
            }
            Self::Cidr(family) => {
                if word.parse::<IpAddr>().is_ok_and(|ip| fits(*family, &ip)) {
                    let length = if word.contains(':') { 64 } else { 24 };
                    return Err(close(format!("{word} needs a prefix length, as in {word}/{length}")));
                }
                let net = word.parse::<IpNet>().ok().filter(|net| fits(*family, &net.addr()));
                Value::Net(net.ok_or_else(wrong)?)
            }
            Self::Mac => Value::Mac(parse_mac(word).ok_or_else(wrong)?),
            Self::Duration => Value::Duration(parse_duration(word).ok_or_else(wrong)?),
            Self::Hex => Value::Bytes(parse_hex(word).ok_or_else(wrong)?),
            Self::Ref(kind) => {
                return match completer.known(kind, word) {
                    Some(false) if !lenient => {
                        Err(Mismatch { why: Why::Unknown(kind.clone()), close: false })
                    }
                    Some(true) => Ok((Value::Text(word.to_owned()), Fit::Checked)),
                    _ => Ok((Value::Text(word.to_owned()), Fit::Loose)),
                };
            }
            Self::Number(kind) => {
                let number = parse_uint(word, false).and_then(|n| u32::try_from(n).ok()).map(u64::from);
                match number.or_else(|| completer.number(kind, word)) {
                    Some(number) => Value::Uint(number),
                    // It may have its number only once the script runs.
                    None if lenient && !word.is_empty() => return Ok((Value::Uint(0), Fit::Loose)),
                    None => return Err(Mismatch { why: Why::NoNumber(kind.clone()), close: false }),
                }
            }
            Self::Text(_) | Self::Path | Self::Rest => {
                return Ok((Value::Text(word.to_owned()), Fit::Loose));
            }
        };
        Ok((value, Fit::Checked))
    }

    fn range(&self) -> String {
        match self {
            Self::Uint { min, max, unit, .. } if unit.is_empty() => format!("{min}..{max}"),
            Self::Uint { min, max, unit, .. } => format!("{min}..{max} {unit}"),
            other => other.to_string(),
        }
    }
}

/// `default` as the prefix of all addresses of a family; of which one, where both may stand, the command must tell.
fn default_route(family: Family, word: &str) -> Option<IpNet> {
    let all = match family {
        Family::V4 => IpNet::V4(ipnet::Ipv4Net::default()),
        Family::V6 => IpNet::V6(ipnet::Ipv6Net::default()),
        Family::Any => return None,
    };
    (word == "default").then_some(all)
}

fn unknown(kind: &str, word: &str, completer: &dyn Completer) -> String {
    if let Some(instead) = completer.instead(kind, word) {
        return format!("no {kind} '{word}': {instead}");
    }
    let mut names = completer.values(kind, "");
    if let Some(like) = crate::near::near(word, names.iter().map(String::as_str)) {
        return format!("no {kind} '{word}'; did you mean '{like}'?");
    }
    let more = if names.len() > 8 { ", ..." } else { "" };
    names.truncate(8);
    match names.is_empty() {
        true => format!("no {kind} '{word}'; there is none"),
        false => format!("no {kind} '{word}'; there are: {}{more}", names.join(", ")),
    }
}

fn fits(family: Family, ip: &IpAddr) -> bool {
    match family {
        Family::V4 => ip.is_ipv4(),
        Family::V6 => ip.is_ipv6(),
        Family::Any => true,
    }
}

fn scale(word: &str) -> (&str, u32) {
    match word.as_bytes().last() {
        Some(b'k' | b'K') => (&word[..word.len() - 1], 1_000),
        Some(b'm' | b'M') => (&word[..word.len() - 1], 1_000_000),
        Some(b'g' | b'G') => (&word[..word.len() - 1], 1_000_000_000),
        _ => (word, 1),
    }
}

/// A number as wide as any digits that are reasonable, so that 2^64 is "out of range", not "no number".
fn parse_uint(word: &str, suffix: bool) -> Option<u128> {
    if let Some(hex) = word.strip_prefix("0x") {
        return hex.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u128::from_str_radix(hex, 16).ok())?;
    }
    let (digits, factor) = if suffix { scale(word) } else { (word, 1) };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse::<u128>().unwrap_or(u128::MAX).saturating_mul(factor.into()))
}

fn parse_float(word: &str) -> Option<f64> {
    let (digits, factor) = scale(word);
    if !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let number = digits.parse::<f64>().ok()? * f64::from(factor);
    number.is_finite().then_some(number)
}

fn parse_mac(word: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = word.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|p| (1..=2).contains(&p.len()))?;
        if !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

fn parse_duration(word: &str) -> Option<Duration> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match word.get(digits.len()..)? {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(parse_float(digits)? * factor).ok()
}

fn parse_hex(word: &str) -> Option<Vec<u8>> {
    let digits = word.strip_prefix("0x").unwrap_or(word).as_bytes();
    let nibble = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

impl fmt::Display for ArgType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = |f: &mut fmt::Formatter<'_>, family: &Family, what: &str| match family {
            Family::V4 => write!(f, "an IPv4 {what}"),
            Family::V6 => write!(f, "an IPv6 {what}"),
            Family::Any => write!(f, "an IPv4 or IPv6 {what}"),
        };
        match self {
            Self::Uint { .. } => write!(f, "a number {}", self.range()),
            Self::Float => f.write_str("a number"),
            Self::Ip(of) => family(f, of, "address"),
            Self::Prefix(of) => family(f, of, "prefix"),
            Self::Cidr(of) => family(f, of, "address with a prefix length"),
            Self::Mac => f.write_str("a MAC address"),
            Self::Duration => f.write_str("a time such as 500ms, 2s or 1m"),
            Self::Hex => f.write_str("bytes in hexadecimal"),
            Self::Ref(kind) if kind.starts_with(['a', 'e', 'i', 'o', 'u']) => write!(f, "an {kind}"),
            Self::Ref(kind) => write!(f, "a {kind}"),
            Self::Number(kind) => write!(f, "the number or name of a {kind}"),
            Self::Text(_) => f.write_str("a word"),
            Self::Path => f.write_str("a file name"),
            Self::Rest => f.write_str("the rest of the line"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, word: &str) -> Result<Value, String> {
        let kind = ArgType::parse(kind).unwrap();
        kind.check("x", word, &(), false).map(|(value, _)| value).map_err(|m| m.message(word, &()))
    }

    #[test]
    fn numbers() {
        assert_eq!(check("u32 1..10", "10"), Ok(Value::Uint(10)));
        assert_eq!(check("u32", "0xff"), Ok(Value::Uint(255)));
        assert_eq!(check("count pps", "10k"), Ok(Value::Uint(10_000)));
        assert_eq!(check("u32 1..10 ms", "11").unwrap_err(), "11 is out of range: <x> is 1..10 ms");
        assert_eq!(check("u8", "256").unwrap_err(), "256 is out of range: <x> is 0..255");
        assert!(check("u64", "18446744073709551616").unwrap_err().contains("out of range"));
        assert!(check("u64", &"9".repeat(100)).unwrap_err().contains("out of range"));
        assert_eq!(check("u64", "18446744073709551615"), Ok(Value::Uint(u64::MAX)));
        assert!(
            check("count", "99999999999999999999999999999999999999G").unwrap_err().contains("out of range")
        );
        for word in ["-1", "+1", "", "1.5", "0x", "1k", "0x+1", "١"] {
            assert!(check("u32", word).is_err(), "{word}");
        }
        assert_eq!(check("float", "1.5M"), Ok(Value::Float(1.5e6)));
        assert!(
            check("float", "nan").is_err() && check("float", "-1").is_err() && check("float", "").is_err()
        );
    }

    #[test]
    fn addresses() {
        assert_eq!(check("ip", "::1"), Ok(Value::Ip("::1".parse().unwrap())));
        assert_eq!(check("ip4", "::1").unwrap_err(), "'::1' is not an IPv4 address");
        assert_eq!(check("prefix", "10.0.0.0/8"), Ok(Value::Net("10.0.0.0/8".parse().unwrap())));
        assert_eq!(check("prefix", "10.0.0.1"), Ok(Value::Net("10.0.0.1/32".parse().unwrap())));
        assert_eq!(
            check("prefix", "10.0.0.1/8").unwrap_err(),
            "10.0.0.1/8 has host bits; the prefix is 10.0.0.0/8"
        );
        assert_eq!(check("cidr", "10.0.0.1/8"), Ok(Value::Net("10.0.0.1/8".parse().unwrap())));
        assert_eq!(
            check("cidr", "10.0.0.1").unwrap_err(),
            "10.0.0.1 needs a prefix length, as in 10.0.0.1/24"
        );
        assert_eq!(check("cidr", "1::1").unwrap_err(), "1::1 needs a prefix length, as in 1::1/64");
        assert!(check("prefix6", "10.0.0.0/8").is_err() && check("prefix", "10.0.0.0/33").is_err());
        assert_eq!(check("mac", "02:fe:0:0:0:1"), Ok(Value::Mac([2, 0xfe, 0, 0, 0, 1])));
        for word in
            ["02:fe:00:00:00", "02:fe:00:00:00:01:02", "02:fe:00:00:00:001", "02:fe:00:00:00:+1", "::::: "]
        {
            assert!(check("mac", word).is_err(), "{word}");
        }
    }

    #[test]
    fn times_and_bytes() {
        assert_eq!(check("duration", "500ms"), Ok(Value::Duration(Duration::from_millis(500))));
        assert_eq!(check("duration", "1.5"), Ok(Value::Duration(Duration::from_millis(1500))));
        assert_eq!(check("duration", "2h"), Ok(Value::Duration(Duration::from_secs(7200))));
        assert!(check("duration", "5 d").is_err() && check("duration", "ms").is_err());
        assert!(check("duration", &"9".repeat(300)).is_err());
        assert_eq!(check("hex", "0x00ff"), Ok(Value::Bytes(vec![0, 255])));
        assert!(check("hex", "0").is_err() && check("hex", "zz").is_err() && check("hex", "é").is_err());
    }

    #[test]
    fn faulty_types_are_refused() {
        for text in ["u99", "u8 1..300", "u32 5..1", "u32 a..b", "ref", "ip 1..2", "u32 a b"] {
            assert!(ArgType::parse(text).is_err(), "{text}");
        }
    }
}
