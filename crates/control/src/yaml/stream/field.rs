//! Fields that hold one value or a range: `V`, `LOW-HIGH`, `LOW-HIGH random`, or `{range: LOW-HIGH, mode: random}`.

use std::net::{Ipv4Addr, Ipv6Addr};

use drivers::generator::{Checksum, Field, Mode};
use packet::MacAddr;

use super::SIZE;
use crate::yaml::decode::{Decoder, Fields, list};
use crate::yaml::diag::Place;
use crate::yaml::scalar::{number, short};
use crate::yaml::tree::{Node, Value};

const MODES: &[(&str, Mode)] = &[("increment", Mode::Increment), ("random", Mode::Random)];

/// Reads one value; reports what is wrong with it.
pub(super) type ReadOne<'f, 'n, T> = &'f dyn Fn(&mut Decoder<'n>, Place, &str) -> Option<T>;

/// Sets the fields of one layer and remembers whether one was wrong.
pub(super) struct Layered<'d, 'n> {
    d: &'d mut Decoder<'n>,
    fields: &'d Fields<'n>,
    right: bool,
}

impl<'d, 'n> Layered<'d, 'n> {
    pub fn new(d: &'d mut Decoder<'n>, fields: &'d Fields<'n>) -> Self {
        Layered { d, fields, right: true }
    }

    /// The layer, unless one of its fields was wrong.
    pub fn done<L>(self, layer: L) -> Option<L> {
        self.right.then_some(layer)
    }

    /// A field whose absence is an error; `set` it afterwards.
    pub fn need(&mut self, name: &'static str, help: &str) -> &mut Self {
        if !self.fields.has(name) {
            self.d.required(self.fields, name, help, |_, _| Some(()));
            self.right = false;
        }
        self
    }

    fn set<T>(
        &mut self,
        name: &'static str,
        to: &mut T,
        read: impl FnOnce(&mut Decoder<'n>, &'n Node<'n>) -> Option<T>,
    ) {
        if self.fields.has(name) {
            match self.d.field(self.fields, name, read) {
                Some(value) => *to = value,
                None => self.right = false,
            }
        }
    }

    /// A number from 0 to `high`, or a range of them.
    pub fn number<T>(&mut self, name: &'static str, to: &mut Field<T>, high: T)
    where
        T: Copy + Ord + Into<u64> + TryFrom<u64>,
    {
        self.set(name, to, |d, node| numbers(d, node, high));
    }

    /// A number that stays the same.
    pub fn fixed<T>(&mut self, name: &'static str, to: &mut T, low: T, high: T)
    where
        T: Copy + Into<u64> + TryFrom<u64>,
    {
        self.set(name, to, |d, node| d.int(node, low, high));
    }

    /// A number that otherwise follows from the next layer.
    pub fn derived<T>(&mut self, name: &'static str, to: &mut Option<T>, high: T)
    where
        T: Copy + Into<u64> + TryFrom<u64> + From<u8>,
    {
        self.set(name, to, |d, node| d.int(node, T::from(0), high).map(Some));
    }

    pub fn switch(&mut self, name: &'static str, to: &mut bool) {
        self.set(name, to, |d, node| d.boolean(node));
    }

    pub fn mac(&mut self, name: &'static str, to: &mut Field<MacAddr>) {
        const HELP: &str = "six pairs of hexadecimal digits, such as 02:00:00:00:00:01";
        self.parsed(name, to, ("mac", "a MAC address", HELP));
    }

    pub fn ip4(&mut self, name: &'static str, to: &mut Field<Ipv4Addr>) {
        let what = ("address", "an IPv4 address", "an address such as 192.0.2.1, or LOW-HIGH");
        self.parsed(name, to, what);
    }

    pub fn ip6(&mut self, name: &'static str, to: &mut Field<Ipv6Addr>) {
        let what = ("address", "an IPv6 address", "an address such as 2001:db8::1, or LOW-HIGH");
        self.parsed(name, to, what);
    }

    /// A value of a type that reads itself; with the rule, what is wanted, and the help.
    fn parsed<T>(&mut self, name: &'static str, to: &mut Field<T>, what: (&'static str, &str, &str))
    where
        T: Copy + Ord + std::str::FromStr,
    {
        let (rule, wanted, help) = what;
        self.set(name, to, |d, node| {
            range(d, node, &format!("{wanted}, or LOW-HIGH"), &|d, place, text| {
                let value = text.parse().ok();
                if value.is_none() {
                    d.error(place, rule, format!("{} is not {wanted}", short(text))).value(text).help(help);
                }
                value
            })
        });
    }

    /// `correct`, `bad`, `none` or a number.
    pub fn checksum(&mut self, to: &mut Checksum) {
        const WORDS: &[(&str, Checksum)] =
            &[("correct", Checksum::Correct), ("bad", Checksum::Bad), ("none", Checksum::Value(0))];
        self.set("checksum", to, |d, node| {
            let text = d.text(node, "`correct`, `bad`, `none` or a number")?;
            match number(text) {
                Some(_) => d.int(node, 0u16, u16::MAX).map(Checksum::Value),
                None => d.choice(node, WORDS),
            }
        });
    }

    /// A number or a range, or names such as `syn` or `syn,ack`.
    pub fn tcp_flags(&mut self, to: &mut Field<u8>) {
        self.set("flags", to, |d, node| match &node.value {
            Value::Scalar { text, .. } if text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                flag_names(d, node.place, text).map(Field::Fixed)
            }
            _ => numbers(d, node, u8::MAX),
        });
    }
}

fn numbers<'n, T>(d: &mut Decoder<'n>, node: &'n Node<'n>, high: T) -> Option<Field<T>>
where
    T: Copy + Ord + Into<u64> + TryFrom<u64>,
{
    let high: u64 = high.into();
    range(d, node, &format!("0 to {high}, or LOW-HIGH"), &|d, place, text| {
        d.int_text(place, text, 0, high).and_then(|n| T::try_from(n).ok())
    })
}

fn flag_names(d: &mut Decoder<'_>, place: Place, text: &str) -> Option<u8> {
    const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    let mut flags = 0u8;
    for word in text.split(',').map(str::trim) {
        let Some(bit) = FLAGS.iter().position(|name| *name == word) else {
            d.error(place, "choice", format!("{} is not a TCP flag", short(word)))
                .value(text)
                .help(format!("a number, or {} with commas between them", list(&FLAGS)));
            return None;
        };
        flags |= 1 << bit;
    }
    Some(flags)
}

/// A value or range whose ends `one` reads.
pub(super) fn range<'n, T: Ord + Copy>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    wanted: &str,
    one: ReadOne<'_, 'n, T>,
) -> Option<Field<T>> {
    if let Value::Map(_) = &node.value {
        // `mix` belongs to sizes, which are asked for it before they come here.
        let fields = d.fields(node, &SIZE[..2])?;
        let mode = d.field(&fields, "mode", |d, node| d.choice(node, MODES));
        let field = d.required(&fields, "range", "range: LOW-HIGH", |d, node| {
            let text = d.text(node, wanted)?;
            ends(d, node.place, text, one)
        })?;
        return Some(match field {
            Field::Range { low, high, .. } => {
                Field::Range { low, high, mode: mode.unwrap_or(Mode::Increment) }
            }
            fixed => fixed,
        });
    }
    let text = d.text(node, wanted)?;
    let (text, mode) = match text.split_once(' ') {
        None => (text, Mode::Increment),
        Some((range, word)) => match MODES.iter().find(|(name, _)| *name == word.trim()) {
            Some((_, mode)) => (range, *mode),
            None => {
                d.error(node.place, "choice", format!("{} is not expected here", short(word)))
                    .value(text)
                    .help("LOW-HIGH, LOW-HIGH increment or LOW-HIGH random");
                return None;
            }
        },
    };
    Some(match ends(d, node.place, text, one)? {
        Field::Range { low, high, .. } => Field::Range { low, high, mode },
        fixed => fixed,
    })
}

fn ends<'n, T: Ord + Copy>(
    d: &mut Decoder<'n>,
    place: Place,
    text: &str,
    one: ReadOne<'_, 'n, T>,
) -> Option<Field<T>> {
    let Some((low, high)) = text.split_once('-').filter(|(low, _)| !low.is_empty()) else {
        return one(d, place, text).map(Field::Fixed);
    };
    let (low, high) = (one(d, place, low), one(d, place, high));
    let (low, high) = (low?, high?);
    if low > high {
        d.error(place, "range-order", "the range ends before it starts").value(text).help("LOW-HIGH");
        return None;
    }
    if low == high {
        return Some(Field::Fixed(low));
    }
    Some(Field::Range { low, high, mode: Mode::Increment })
}
