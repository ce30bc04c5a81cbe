//! Places of a document: `interfaces.eth0.mtu`, `routes[prefix=10.0.0.0/8,table=7]`.
//!
//! A place is a row of elements. In one text a dot stands between them, or one stands in brackets, as it must where it has a dot
//! itself. What an element means says what stands at its place: of a mapping it is the name of a field. Of a list it is `+`, one more
//! item behind the others; `name=value` or several with commas, the item whose fields have these values; `=value` or the value alone,
//! the item that is this value; or the item's number, from 0.

use std::fmt;

/// The deepest place, and the longest element in bytes.
const DEEPEST: usize = 32;
const LONGEST: usize = 1024;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(Vec<String>);

impl Place {
    /// A place of these elements.
    ///
    /// # Errors
    /// There are too many, or one is empty or too long.
    pub fn of(elements: Vec<String>) -> Result<Place, String> {
        if elements.len() > DEEPEST {
            return Err(format!("a place has at most {DEEPEST} elements"));
        }
        for e in &elements {
            if e.is_empty() || e.len() > LONGEST || e.chars().any(char::is_control) {
                return Err(format!(
                    "an element of a place has 1 to {LONGEST} bytes, none of them a control character"
                ));
            }
        }
        Ok(Place(elements))
    }

    /// Reads a place out of one text; an empty one is the whole document.
    ///
    /// # Errors
    /// It is none; what would be right.
    pub fn parse(text: &str) -> Result<Place, String> {
        let (mut elements, mut rest) = (vec![], text);
        while !rest.is_empty() {
            let behind = match rest.strip_prefix('[') {
                Some(inner) => {
                    let (element, behind) =
                        inner.split_once(']').ok_or("a bracket of a place is not closed")?;
                    elements.push(element.to_owned());
                    behind
                }
                None => {
                    let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
                    let (element, behind) = rest.split_at(end);
                    elements.push(element.to_owned());
                    behind
                }
            };
            rest = match behind.strip_prefix('.') {
                Some("") => return Err("a place does not end with a dot".into()),
                Some(next) => next,
                None if behind.is_empty() || behind.starts_with('[') => behind,
                None => return Err("behind a bracket of a place stands a dot, or another one".into()),
            };
        }
        Place::of(elements)
    }

    /// The elements.
    pub fn elements(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.0.iter().enumerate() {
            match e.contains(['.', '[', ']', '=', '+', ' ', ',']) {
                true => write!(f, "[{e}]")?,
                false if i == 0 => f.write_str(e)?,
                false => write!(f, ".{e}")?,
            }
        }
        if self.0.is_empty() { f.write_str("the document") } else { Ok(()) }
    }
}

/// An element where a list stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'e> {
    /// One more.
    New,
    /// The one with a number.
    Number(usize),
    /// The one whose fields have these values.
    With(Vec<(&'e str, &'e str)>),
    /// The one that is this value.
    Value(&'e str),
}

impl Item<'_> {
    pub fn of(element: &str) -> Item<'_> {
        if element == "+" {
            return Item::New;
        }
        if let Some(value) = element.strip_prefix('=') {
            return Item::Value(value);
        }
        if let Some(fields) = element.split(',').map(|f| f.split_once('=')).collect::<Option<Vec<_>>>() {
            return Item::With(fields);
        }
        match element.parse() {
            Ok(number) if element.bytes().all(|b| b.is_ascii_digit()) => Item::Number(number),
            _ => Item::Value(element),
        }
    }

    /// Where nothing stands yet: whether it can only be of a list.
    pub fn is_of_a_list(element: &str) -> bool {
        matches!(Item::of(element), Item::New | Item::With(_)) || element.starts_with('=')
    }
}

/// Whether two values are the same: addresses and prefixes of IPv6 may be written in several ways.
pub(super) fn same(a: &str, b: &str) -> bool {
    if a == b || !a.contains(':') || !b.contains(':') {
        return a == b;
    }
    let net = |t: &str| t.parse::<ipnet::IpNet>().ok();
    let address = |t: &str| t.parse::<std::net::IpAddr>().ok();
    net(a).is_some_and(|n| net(b) == Some(n)) || address(a).is_some_and(|n| address(b) == Some(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_written() {
        for (text, elements) in [
            ("interfaces.eth0.mtu", &["interfaces", "eth0", "mtu"] as &[&str]),
            ("l3.interfaces[eth0.100].mtu", &["l3", "interfaces", "eth0.100", "mtu"]),
            ("routes[prefix=10.0.0.0/8,table=7]", &["routes", "prefix=10.0.0.0/8,table=7"]),
            ("loopbacks.loop0.addresses[+]", &["loopbacks", "loop0", "addresses", "+"]),
            ("a[b.c][d.e]", &["a", "b.c", "d.e"]),
        ] {
            let place = Place::parse(text).unwrap();
            assert_eq!(
                (place.elements(), place.to_string().as_str()),
                (&elements.iter().map(|e| e.to_string()).collect::<Vec<_>>()[..], text)
            );
        }
        assert_eq!(Place::parse("").unwrap(), Place::default());
    }

    #[test]
    fn what_is_no_place() {
        for text in [".", "a.", ".a", "a..b", "a[", "a[]", "a[b]c", "a]", "a\n"] {
            assert!(Place::parse(text).is_err(), "{text:?}");
        }
        assert!(Place::of(vec!["a".into(); DEEPEST + 1]).is_err());
        assert!(Place::of(vec!["a".repeat(LONGEST + 1)]).is_err());
    }

    #[test]
    fn items_of_lists() {
        assert_eq!(Item::of("+"), Item::New);
        assert_eq!(Item::of("12"), Item::Number(12));
        assert_eq!(Item::of("=12"), Item::Value("12"));
        assert_eq!(Item::of("10.0.0.1/24"), Item::Value("10.0.0.1/24"));
        assert_eq!(Item::of("a=b,c=d"), Item::With(vec![("a", "b"), ("c", "d")]));
        assert!(
            same("2001:DB8::/32", "2001:db8:0::/32")
                && same("::1", "0::1")
                && !same("10.0.0.1/8", "10.0.0.2/8")
        );
    }
}
