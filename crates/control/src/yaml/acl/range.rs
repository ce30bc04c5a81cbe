//! Ports and ICMP types and codes: `N`, `-N`, `N-`, `N-M`, `any`, or the name of a service.

use crate::yaml::decode::Decoder;
use crate::yaml::diag::Place;
use crate::yaml::scalar::{number, short};

/// Numbers from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The lowest.
    pub low: u16,
    /// The highest.
    pub high: u16,
}

/// Reads a range up to `most`; `service` finds the number of a name.
pub(super) fn decode(
    d: &mut Decoder<'_>,
    place: Place,
    text: &str,
    most: u16,
    service: Option<fn(&str) -> Option<u16>>,
) -> Option<Range> {
    if text == "any" {
        return Some(Range { low: 0, high: most });
    }
    if let Some(port) = service.and_then(|find| find(text)) {
        return Some(Range { low: port, high: port });
    }
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || b == b'-') && text.bytes().any(|b| b != b'-');
    let ends = match text.split_once('-') {
        _ if !numeric => None,
        None => Some((text, "=")),
        Some(("", high)) => Some(("0", high)),
        Some((low, "")) => Some((low, "")),
        Some(ends) => Some(ends),
    };
    let name = if service.is_some() { ", the name of a service" } else { "" };
    let help = format!("0 to {most}, -N, N-, N-M, `any`{name}");
    let Some((low, high)) = ends.filter(|(low, high)| !low.contains('-') && !high.contains('-')) else {
        let what =
            if service.is_some() { "neither a number, a range nor a known service" } else { "no range" };
        d.error(place, "range-form", format!("{} is {what}", short(text))).value(text).help(help);
        return None;
    };
    let mut one = |text: &str| {
        let n = number(text).and_then(|n| u16::try_from(n).ok()).filter(|n| *n <= most);
        if n.is_none() {
            d.error(place, "range", format!("{} is out of range", short(text))).value(text).help(&*help);
        }
        n
    };
    let low = one(low);
    let high = match high {
        "" => Some(most),
        "=" => low,
        high => one(high),
    };
    let (low, high) = (low?, high?);
    if low > high {
        d.error(place, "range-order", "the range ends before it starts")
            .value(text)
            .help(format!("{high}-{low}"));
        return None;
    }
    Some(Range { low, high })
}
