//! What followers are told.

use super::queue::Kinds;
use crate::saved;
use net::neighbor::Known;
use net::router::LinkState;
use packet::eth::MacAddr;
use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::time::SystemTime;

/// Bytes of a line of the log that are told.
const LONGEST: usize = 1024;
/// The longest word that says what part of the router a line is about, in bytes.
const PART: usize = 64;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Interfaces.
    Link,
    /// Stations on links.
    Neighbor,
    /// Documents that are applied, and what becomes of them.
    Configuration,
    /// Lines of the log.
    Log,
    /// Packets that are dropped.
    Drops,
    /// Routes: [`crate::clients::Watch`] tells of them, and here they are only counted.
    Routes,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] =
        [Kind::Link, Kind::Neighbor, Kind::Configuration, Kind::Log, Kind::Drops, Kind::Routes];

    /// Whether there is something that is told as a whole first.
    pub fn is_state(self) -> bool {
        matches!(self, Kind::Link | Kind::Neighbor)
    }
}

/// A number for each kind.
pub type Counts = [u64; Kind::ALL.len()];

/// How much a line of the log matters, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something that an operator should look at.
    Warn,
    /// What happened.
    Info,
    /// For who looks for a fault.
    Debug,
    /// For who looks very closely.
    Trace,
}

/// Names of interfaces, and beginnings of names: however many there are, a name is looked up among them.
#[derive(Clone, Debug, Default)]
struct Names {
    count: usize,
    whole: HashSet<String>,
    beginnings: HashSet<String>,
    /// Bytes of the beginnings, each length once.
    lengths: BTreeSet<usize>,
}

impl Names {
    fn take(&self, name: &str) -> bool {
        let begins = |n: &usize| name.get(..*n).is_some_and(|beginning| self.beginnings.contains(beginning));
        self.count == 0 || self.whole.contains(name) || self.lengths.iter().any(begins)
    }
}

/// What a follower wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub(super) kinds: Kinds,
    names: Names,
    /// Lines of the log of this level, and those that matter more.
    pub level: Level,
}

impl Wanted {
    /// Some kinds, of all interfaces, and from information on.
    pub fn new(kinds: impl IntoIterator<Item = Kind>) -> Wanted {
        Wanted { kinds: kinds.into_iter().collect(), names: Names::default(), level: Level::Info }
    }

    /// Links and neighbours of these interfaces alone, or of those whose names begin so where a name ends in `*`; of all
    /// where there is no name.
    #[must_use]
    pub fn of(mut self, interfaces: Vec<String>) -> Wanted {
        self.names = Names { count: interfaces.len(), ..Names::default() };
        for name in interfaces {
            match name.strip_suffix('*') {
                Some(beginning) => {
                    self.names.lengths.insert(beginning.len());
                    self.names.beginnings.insert(beginning.to_owned());
                }
                None => _ = self.names.whole.insert(name),
            }
        }
        self
    }

    /// Names of interfaces that are asked for; 0: all.
    pub fn names(&self) -> usize {
        self.names.count
    }

    /// Whether the name is that of an interface that is asked for.
    pub fn takes(&self, interface: &str) -> bool {
        self.names.take(interface)
    }

    /// Whether this kind is asked for.
    pub fn has(&self, kind: Kind) -> bool {
        self.kinds.has(kind)
    }
}

/// Something that has happened, or a piece of what there is.
#[derive(Clone, Debug)]
pub struct Event {
    /// When it was told.
    pub time: SystemTime,
    /// What.
    pub what: What,
}

impl Event {
    pub(super) fn now(what: What) -> Event {
        Event { time: SystemTime::now(), what }
    }
}

/// What has happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// To an interface.
    Link(LinkEvent),
    /// To a neighbour.
    Neighbor(NeighborEvent),
    /// To the configuration.
    Configuration(Configured),
    /// A line of the log was written.
    Log(Line),
    /// Packets are dropped.
    Drops(Dropping),
    /// All that there is of a kind was told.
    SnapshotEnd(Kind),
}

impl What {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            What::Link(_) => Kind::Link,
            What::Neighbor(_) => Kind::Neighbor,
            What::Configuration(_) => Kind::Configuration,
            What::Log(_) => Kind::Log,
            What::Drops(_) => Kind::Drops,
            What::SnapshotEnd(kind) => *kind,
        }
    }

    pub(super) fn link(was: Option<&LinkState>, now: Option<&LinkState>) -> What {
        let change = match (was, now) {
            (None, _) => Change::Came,
            (_, None) => Change::Gone,
            _ => Change::Changed,
        };
        let none =
            LinkState { index: 0, name: String::new(), up: false, link: false, mtu: 0, mac: MacAddr::ZERO };
        let link = now.or(was).cloned().unwrap_or(none);
        let was = was.filter(|_| now.is_some()).cloned();
        What::Link(LinkEvent { change, link, was })
    }

    pub(super) fn neighbor(
        interface: &str,
        index: u32,
        address: IpAddr,
        was: Option<Known>,
        now: Option<Known>,
    ) -> What {
        let change = match (was, now) {
            (_, None) => Change::Gone,
            (None, _) => Change::Came,
            _ => Change::Changed,
        };
        let known = now.or(was);
        What::Neighbor(NeighborEvent {
            change,
            interface: interface.into(),
            index,
            address,
            mac: known.map_or(MacAddr::ZERO, |k| k.mac),
            fixed: known.is_some_and(|k| k.fixed),
            was: was.filter(|_| now.is_some()).map(|k| k.mac),
        })
    }
}

/// What became of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there.
    There,
    /// It came.
    Came,
    /// It is another than before.
    Changed,
    /// It went.
    Gone,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// What became of it.
    pub change: Change,
    /// What it is now, or was last.
    pub link: LinkState,
    /// What it was before, where it has changed.
    pub was: Option<LinkState>,
}

/// A neighbour with a known MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighborEvent {
    /// What became of it.
    pub change: Change,
    /// Name of the interface.
    pub interface: String,
    /// Its number.
    pub index: u32,
    /// The neighbour's IP address.
    pub address: IpAddr,
    /// Its MAC address, or the last one.
    pub mac: MacAddr,
    /// The operator has set it.
    pub fixed: bool,
    /// The MAC address before, where something has changed.
    pub was: Option<MacAddr>,
}

/// Where a change of the configuration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It runs, and waits to be confirmed.
    Began,
    /// It runs.
    Applied,
    /// An earlier one runs again.
    RolledBack,
    /// What waited was confirmed.
    Confirmed,
    /// What waited was taken back: what ran before runs again.
    WentBack,
    /// What waited was to be taken back, and could not be: it still runs.
    Stuck,
    /// What runs was kept.
    Saved,
}

/// What became of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Where it stands.
    pub phase: Phase,
    /// Who has done that.
    pub author: saved::Author,
    /// Its number in the history, where it is kept.
    pub number: Option<u64>,
    /// Seconds within which it is to be confirmed.
    pub within: Option<u64>,
    /// In words.
    pub text: String,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How much it matters.
    pub level: Level,
    /// The part of the router or the interface that it is about: what stands before its first colon, where that is a word.
    pub part: String,
    /// The whole line.
    pub text: String,
}

impl Line {
    pub(super) fn of(level: Level, text: &str) -> Line {
        let part = text.split_once(": ").map(|(part, _)| part);
        let part = part.filter(|p| !p.is_empty() && p.len() <= PART && !p.contains(char::is_whitespace));
        let mut end = text.len().min(LONGEST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Line {
            level,
            part: part.unwrap_or_default().into(),
            text: text.get(..end).unwrap_or_default().into(),
        }
    }
}

/// Packets that are dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropping {
    /// The node that drops them.
    pub node: String,
    /// Why.
    pub reason: String,
    /// The interface on which they came, with its number; none: on all together.
    pub interface: Option<(String, u32)>,
    /// How many in a second.
    pub rate: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_are_those_of_a_list_that_is_gone_through(
            asked in prop::collection::vec("[ab]{0,3}\\*?", 0..5),
            name in "[ab]{0,4}",
        ) {
            let fits = |w: &String| match w.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => name == *w,
            };
            let fit = asked.is_empty() || asked.iter().any(fits);
            prop_assert_eq!(Wanted::new([Kind::Link]).of(asked).takes(&name), fit);
        }
    }
}
