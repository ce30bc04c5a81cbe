//! `l3.reassembly`, and what interfaces do with fragments.

use std::time::Duration;

use net::reassembly::{Kind, SetLimits, Settings};

use super::super::decode::{Decoder, Fields};
use super::super::tree::Node;
use super::{Scope, Setting, families};

/// The kinds, in the order of [`Kind::ALL`].
pub(crate) const KINDS: &[&str] = &["ip4", "ip6", "ip4-virtual", "ip6-virtual"];
pub(crate) const LIMITS: &[&str] =
    &["max-reassemblies", "max-reassembly-length", "timeout-ms", "expire-walk-interval-ms"];

/// The limits of all kinds.
pub(super) fn settings<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, out: &mut Vec<Setting>) -> Option<()> {
    let fields = d.fields(node, KINDS)?;
    for kind in Kind::ALL {
        let name = kind.name();
        d.field(&fields, name, |d, node| {
            let settings = limits(d, node, kind.defaults())?;
            let (place, path) = (fields.key_place(name), d.path());
            out.push(Setting { place, path, op: SetLimits { kind, settings }.into() });
            Some(())
        });
    }
    Some(())
}

fn limits<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, defaults: Settings) -> Option<Settings> {
    let fields = d.fields(node, LIMITS)?;
    let datagrams =
        d.field(&fields, "max-reassemblies", |d, node| d.int(node, 0, Settings::MOST_REASSEMBLIES));
    let length = d.field(&fields, "max-reassembly-length", |d, node| d.int(node, 1, Settings::MOST_LENGTH));
    let mut time = |name, default| {
        let ms = d.field(&fields, name, |d, node| d.int(node, 1, Settings::MOST_MS));
        ms.map_or(default, |ms| Duration::from_millis(ms.into()))
    };
    Some(Settings {
        max_reassemblies: datagrams.unwrap_or(defaults.max_reassemblies),
        max_length: length.unwrap_or(defaults.max_length),
        timeout: time("timeout-ms", defaults.timeout),
        walk: time("expire-walk-interval-ms", defaults.walk),
    })
}

/// The fields of an interface.
pub(super) fn features<'n>(scope: &mut Scope<'_, 'n>, fields: &Fields<'n>) {
    for (name, shallow) in [("reassembly", false), ("virtual-reassembly", true)] {
        let switches = scope.d.field(fields, name, |d, node| families(d, node, |d, node| d.boolean(node)));
        for (v6, place, on) in switches.unwrap_or_default() {
            scope.set(place, name, Kind { v6, shallow }.setting().to(on));
        }
    }
}
