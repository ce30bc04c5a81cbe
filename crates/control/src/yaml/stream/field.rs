//! Fields that hold one value or a range: `V`, `LOW-HIGH`, `LOW-HIGH random`, or `{range: LOW-HIGH, mode: random}`.

use super::{PgField, PgMode, SIZE};
use crate::yaml::decode::Decoder;
use crate::yaml::diag::Place;
use crate::yaml::scalar::short;
use crate::yaml::tree::{Node, Value};

const MODES: &[(&str, PgMode)] = &[("increment", PgMode::Increment), ("random", PgMode::Random)];

/// Reads one value; reports what is wrong with it.
pub(super) type ReadOne<'f, 'n, T> = &'f dyn Fn(&mut Decoder<'n>, Place, &str) -> Option<T>;

/// A value or range whose ends `one` reads.
pub(super) fn range<'n, T: Ord + Copy>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    wanted: &str,
    one: ReadOne<'_, 'n, T>,
) -> Option<PgField<T>> {
    if let Value::Map(_) = &node.value {
        // `mix` belongs to sizes, which are asked for it before they come here.
        let fields = d.fields(node, &SIZE[..2])?;
        let mode = d.field(&fields, "mode", |d, node| d.choice(node, MODES));
        let field = d.required(&fields, "range", "range: LOW-HIGH", |d, node| {
            let text = d.text(node, wanted)?;
            ends(d, node.place, text, one)
        })?;
        return Some(match field {
            PgField::Range { low, high, .. } => {
                PgField::Range { low, high, mode: mode.unwrap_or(PgMode::Increment) }
            }
            fixed => fixed,
        });
    }
    let text = d.text(node, wanted)?;
    let (text, mode) = match text.split_once(' ') {
        None => (text, PgMode::Increment),
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
        PgField::Range { low, high, .. } => PgField::Range { low, high, mode },
        fixed => fixed,
    })
}

fn ends<'n, T: Ord + Copy>(
    d: &mut Decoder<'n>,
    place: Place,
    text: &str,
    one: ReadOne<'_, 'n, T>,
) -> Option<PgField<T>> {
    let Some((low, high)) = text.split_once('-').filter(|(low, _)| !low.is_empty()) else {
        return one(d, place, text).map(PgField::Fixed);
    };
    let (low, high) = (one(d, place, low), one(d, place, high));
    let (low, high) = (low?, high?);
    if low > high {
        d.error(place, "range-order", "the range ends before it starts").value(text).help("LOW-HIGH");
        return None;
    }
    if low == high {
        return Some(PgField::Fixed(low));
    }
    Some(PgField::Range { low, high, mode: PgMode::Increment })
}
