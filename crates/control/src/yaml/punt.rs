//! The section `punt`: limits of packets for the router itself, by class.

use net::punt::class::NAMES;
use net::punt::{Class, Limit};

use super::decode::Decoder;
use super::model::PuntLimit;
use super::scalar::short;
use super::tree::{Node, Value};

pub(super) const LIMIT: &[&str] = &["rate", "burst"];

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<PuntLimit>> {
    let fields = d.fields(node, NAMES)?;
    let mut limits = Vec::new();
    for &class in Class::ALL {
        let limit = d.field(&fields, class.name(), limit);
        limits.extend(limit.map(|limit| PuntLimit { class, limit, place: fields.key_place(class.name()) }));
    }
    Some(limits)
}

const HELP: &str = "`off`, or a limit such as {rate: 1000, burst: 200}";

/// The word `off`, or a rate with its burst.
fn limit<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Option<Limit>> {
    if let Value::Scalar { .. } = &node.value {
        let text = d.text(node, HELP)?;
        if text != "off" {
            d.error(node.place, "choice", format!("{} is not known here", short(text)))
                .value(text)
                .help(HELP);
        }
        return (text == "off").then_some(None);
    }
    let fields = d.fields(node, LIMIT)?;
    let rate = d.required(&fields, "rate", "packets a second", |d, node| d.int(node, 0, Limit::MOST));
    let burst = d.field(&fields, "burst", |d, node| d.int(node, 1, Limit::MOST));
    let plain = Limit::of_rate(rate?);
    Some(Some(Limit { burst: burst.unwrap_or(plain.burst), ..plain }))
}
