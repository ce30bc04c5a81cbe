//! Single values: numbers, switches, names, addresses. Each says what is wrong and what would be right.

use std::net::IpAddr;

use ipnet::IpNet;
use net::router::{MOST_DESCRIPTION, check_description, is_tap_host};
use packet::MacAddr;

use super::decode::{Decoder, list, nearest};
use super::diag::Place;
#[cfg(test)]
use super::schema::{Fact, Form};
use super::tree::{Node, Value};

/// A name that stands for an interface, with its place for the rules that look it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// Where it is used.
    pub place: Place,
}

/// Reads a whole number: decimal without sign or leading zeros, or hexadecimal after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return hex
            .bytes()
            .all(|b| b.is_ascii_hexdigit())
            .then(|| u64::from_str_radix(hex, 16).ok())
            .flatten();
    }
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

impl<'n> Decoder<'n> {
    /// A whole number from `low` to `high`.
    pub fn int<T>(&mut self, node: &'n Node<'n>, low: T, high: T) -> Option<T>
    where
        T: Copy + Into<u64> + TryFrom<u64>,
    {
        let (low, high) = (low.into(), high.into());
        #[cfg(test)]
        self.fact(Fact::Int(low, high));
        let help = format!("a whole number from {low} to {high}");
        let text = self.scalar(node, &help)?;
        if matches!(node.value, Value::Scalar { plain: false, .. }) {
            self.error(node.place, "type", "a number is written without quotes").value(text).help(help);
            return None;
        }
        self.int_text(node.place, text, low, high).and_then(|n| T::try_from(n).ok())
    }

    /// A whole number in a text, such as a key.
    pub fn int_text(&mut self, place: Place, text: &str, low: u64, high: u64) -> Option<u64> {
        let help = format!("a whole number from {low} to {high}");
        let digits = text.strip_prefix('-').unwrap_or(text);
        match number(text) {
            Some(n) if (low..=high).contains(&n) => return Some(n),
            None if number(digits).is_none()
                && (digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit())) =>
            {
                self.error(place, "type", "this is not a whole number").value(text).help(help)
            }
            None if digits.len() > 1 && digits.starts_with('0') => {
                self.error(place, "type", "a number has no leading zeros").value(text).help(help)
            }
            _ => {
                self.error(place, "range", format!("{} is out of range", short(text))).value(text).help(help)
            }
        };
        None
    }

    /// `true` or `false`, and the other spellings that YAML readers of this format accept.
    pub fn boolean(&mut self, node: &'n Node<'n>) -> Option<bool> {
        #[cfg(test)]
        self.fact(Fact::Bool);
        let text = self.scalar(node, "true or false")?;
        let plain = matches!(node.value, Value::Scalar { plain: true, .. });
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" if plain => Some(true),
            "false" | "no" | "off" if plain => Some(false),
            _ => {
                self.error(node.place, "type", "this is neither true nor false")
                    .value(text)
                    .help("`true` or `false`, without quotes");
                None
            }
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, node: &'n Node<'n>, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        #[cfg(test)]
        self.fact(Fact::Choice(&names));
        let help = format!("one of {}", list(&names));
        let text = self.scalar(node, &help)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let message = match nearest(text, names.iter().copied().filter(|_| !self.errors.is_full())) {
            Some(near) => format!("{} is not known here; did you mean `{near}`?", short(text)),
            None => format!("{} is not known here", short(text)),
        };
        self.error(node.place, "choice", message).value(text).help(help);
        None
    }

    /// A description, without quotes.
    pub fn description(&mut self, node: &'n Node<'n>) -> Option<String> {
        let text = self.text(node, "a description")?;
        if let Err(why) = check_description(text) {
            self.error(node.place, "description", why)
                .value(text)
                .help(format!("at most {MOST_DESCRIPTION} characters on one line, without quotes inside"));
            return None;
        }
        Some(text.to_string())
    }

    /// A unicast Ethernet address.
    pub fn mac(&mut self, node: &'n Node<'n>) -> Option<MacAddr> {
        let mac = self.any_mac(node)?;
        if mac.is_multicast() || mac == MacAddr::ZERO {
            let [first, ..] = mac.0;
            let mut right = mac;
            right.0[0] = first & 0xfe | 0x02;
            self.error(node.place, "mac", format!("{mac} is not a unicast address"))
                .value(mac)
                .help(format!("the first byte is even: {right}, for example"));
            return None;
        }
        Some(mac)
    }

    /// An Ethernet address, group addresses included.
    pub fn any_mac(&mut self, node: &'n Node<'n>) -> Option<MacAddr> {
        let text = self.text(node, "a MAC address")?;
        #[cfg(test)]
        self.fact(Fact::Form(Form::Mac, text));
        let mac = text.parse().ok();
        if mac.is_none() {
            self.error(node.place, "mac", "this is not a MAC address")
                .value(text)
                .help("six pairs of hexadecimal digits, such as 52:54:00:12:34:56");
        }
        mac
    }

    /// The name of a Linux device that Quiver makes.
    pub fn linux_name(&mut self, node: &'n Node<'n>) -> Option<Reference> {
        self.device_name(node, false)
    }

    /// Like [`Decoder::linux_name`], with dots: the format's users name VLAN devices `bond0.10`.
    pub fn lcp_name(&mut self, node: &'n Node<'n>) -> Option<Reference> {
        self.device_name(node, true)
    }

    fn device_name(&mut self, node: &'n Node<'n>, dots: bool) -> Option<Reference> {
        let text = self.text(node, "a device name")?;
        let plain = if dots { text.replace('.', "-") } else { text.to_string() };
        if !is_tap_host(&plain) {
            let message = format!("{} is not a device name for this format", short(text));
            self.error(node.place, "linux-name", message)
                .value(text)
                .help("a lower-case letter, then lower-case letters, digits and `-`; at most 15 characters");
            return None;
        }
        Some(Reference { name: text.to_string(), place: node.place })
    }

    /// The name of another interface.
    pub fn reference(&mut self, node: &'n Node<'n>) -> Option<Reference> {
        let text = self.text(node, "the name of an interface")?;
        Some(Reference { name: text.to_string(), place: node.place })
    }

    /// A list of interfaces, or one.
    pub fn references(&mut self, node: &'n Node<'n>) -> Vec<Reference> {
        if matches!(node.value, Value::Scalar { .. }) {
            return self.reference(node).into_iter().collect();
        }
        let items = self.items(node, "interface names");
        items.iter().enumerate().filter_map(|(i, n)| self.index(i, |d| d.reference(n))).collect()
    }

    /// Any text of 1 to `most` characters without control characters, such as a path.
    pub fn string(&mut self, node: &'n Node<'n>, what: &str, most: usize) -> Option<String> {
        let text = self.text(node, what)?;
        if text.is_empty() || text.chars().count() > most || text.chars().any(char::is_control) {
            self.error(node.place, "type", format!("this is not {what}"))
                .value(text)
                .help(format!("1 to {most} characters, no control characters"));
            return None;
        }
        Some(text.to_string())
    }

    /// An address without a prefix length.
    pub fn address(&mut self, place: Place, text: &str) -> Option<IpAddr> {
        #[cfg(test)]
        self.fact(Fact::Form(Form::Address, text));
        match text.parse() {
            Ok(address) => Some(address),
            Err(_) => {
                let help = match text.split_once('/') {
                    Some((address, _)) if address.parse::<IpAddr>().is_ok() => {
                        format!("without the prefix length: {address}")
                    }
                    _ => "an IPv4 or IPv6 address, such as 192.0.2.1 or 2001:db8::1".into(),
                };
                self.error(place, "address", format!("{} is not an address", short(text)))
                    .value(text)
                    .help(help);
                None
            }
        }
    }

    /// An interface address with its prefix length, in canonical spelling, of a host.
    pub fn interface_address(&mut self, node: &'n Node<'n>) -> Option<IpNet> {
        let text = self.text(node, "an address with its prefix length")?;
        let net = self.cidr(node.place, text)?;
        let address = net.addr();
        let reserved = matches!(address, IpAddr::V4(a) if a.octets()[0] == 0 || a.octets()[0] >= 240);
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() || reserved {
            self.error(
                node.place,
                "address-unicast",
                format!("{address} cannot be an interface's own address"),
            )
            .value(text)
            .help("a unicast address that is neither unspecified nor of the host's loopback");
            return None;
        }
        Some(net)
    }

    /// A prefix: CIDR in canonical spelling, without host bits.
    pub fn prefix(&mut self, place: Place, text: &str) -> Option<IpNet> {
        let net = self.cidr(place, text)?;
        if net.trunc() != net {
            self.error(place, "host-bits", format!("{net} has bits set behind its prefix length"))
                .value(text)
                .help(format!("{}", net.trunc()));
            return None;
        }
        Some(net)
    }

    fn cidr(&mut self, place: Place, text: &str) -> Option<IpNet> {
        #[cfg(test)]
        self.fact(Fact::Form(Form::Cidr, text));
        let (message, help) = match text.parse::<IpNet>() {
            Ok(net) if net.to_string() == text => return Some(net),
            Ok(net) => (format!("{} is not the canonical spelling", short(text)), format!("{net}")),
            Err(_) => match text.parse::<IpAddr>() {
                Ok(ip) => {
                    let full = if ip.is_ipv4() { 32 } else { 128 };
                    (
                        "the prefix length is missing".to_string(),
                        format!("for this address alone: {ip}/{full}"),
                    )
                }
                Err(_) => (
                    format!("{} is not an address with a prefix length", short(text)),
                    "ADDRESS/LENGTH, such as 192.0.2.1/24 or 2001:db8::1/64".to_string(),
                ),
            },
        };
        self.error(place, "cidr", message).value(text).help(help);
        None
    }
}

/// A value in a message, cut when it is long.
pub(super) fn short(text: &str) -> String {
    if text.chars().count() <= 60 {
        format!("`{text}`")
    } else {
        format!("`{}...`", text.chars().take(57).collect::<String>())
    }
}
