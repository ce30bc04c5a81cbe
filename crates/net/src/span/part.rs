//! Mirrors as a part of the control side.

use super::{Directions, MOST_DESTINATIONS, Mirrors, Pair, SPAN_INPUT, SPAN_OUTPUT};
use crate::router::{BoxedOp, IfState, InterfaceOp, Kind, Op, OpError, Part, Router};
use command::Command;
use graph::arcs::Feature;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;

/// The part.
pub(crate) struct Span;

/// Its state.
#[derive(Default)]
struct Sessions {
    /// What is mirrored to where.
    all: BTreeMap<Pair, Directions>,
    /// Destinations with their sources.
    to: BTreeSet<Pair>,
    /// Devices with the sources on them of which received frames are mirrored.
    received: BTreeSet<Pair>,
}

/// All pairs that begin with an interface.
fn pairs(first: u32) -> RangeInclusive<Pair> {
    (first, 0)..=(first, u32::MAX)
}

impl Sessions {
    /// Mirrors `source`, which is on `device`, to `to` as this says, or no more.
    fn set(&mut self, device: u32, source: u32, to: u32, directions: Directions) {
        if directions.is_off() {
            self.all.remove(&(source, to));
            self.to.remove(&(to, source));
        } else {
            self.all.insert((source, to), directions);
            self.to.insert((to, source));
        }
        if self.all.range(pairs(source)).any(|(_, d)| d.rx) {
            self.received.insert((device, source));
        } else {
            self.received.remove(&(device, source));
        }
    }

    /// As workers see it.
    fn published(&self) -> Mirrors {
        let of = |is: fn(&Directions) -> bool| self.all.iter().filter(|m| is(m.1)).map(|m| *m.0).collect();
        let mut devices: Vec<u32> = self.received.iter().filter(|(d, s)| d != s).map(|r| r.0).collect();
        devices.dedup();
        Mirrors { rx: of(|d| d.rx), tx: of(|d| d.tx), devices: devices.into() }
    }
}

/// The destinations to which an interface is mirrored, and what of it.
pub fn mirrors(router: &Router, index: u32) -> impl Iterator<Item = (u32, Directions)> + '_ {
    let all = router.state::<Sessions>().into_iter();
    all.flat_map(move |s| s.all.range(pairs(index))).map(|((_, to), directions)| (*to, *directions))
}

/// The frames of an interface that are mirrored to another one from now on; off: none any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// Name of the other one.
    pub destination: String,
    /// Which of them.
    pub directions: Directions,
}

impl Mirror {
    /// Nothing is mirrored to `destination`.
    pub fn off(destination: String) -> Mirror {
        Mirror { destination, directions: Directions::default() }
    }
}

/// Why no frames come and go on an interface.
fn carries_no_frames(router: &Router, i: &IfState) -> Option<String> {
    match i.kind {
        Kind::Local => Some(format!("{} stands for the router itself and carries no frames", i.name)),
        Kind::Loopback => Some(format!(
            "{} is a loopback, over which no frames go: name the interfaces that its packets take",
            i.name
        )),
        _ => router.takes_no_frames(i.index),
    }
}

/// Whether frames of one can be mirrored to the other.
fn check(router: &Router, from: &IfState, to: &IfState) -> Result<(), OpError> {
    let (source, destination) = (&from.name, &to.name);
    let fail = |why: String| Err(OpError::new(why));
    if from.index == to.index {
        return fail(format!("{source} cannot be mirrored to itself"));
    }
    if let Some(why) = [from, to].into_iter().find_map(|i| carries_no_frames(router, i)) {
        return fail(why);
    }
    if from.hw() == to.index || to.hw() == from.index {
        return fail(format!(
            "{source} cannot be mirrored to {destination}: one is a sub-interface of the other, and the copies would be \
             among its own frames"
        ));
    }
    let others = mirrors(router, from.index).filter(|m| m.0 != to.index);
    if others.count() >= MOST_DESTINATIONS {
        return fail(format!(
            "{source} is mirrored to {MOST_DESTINATIONS} interfaces already, as many as may be"
        ));
    }
    Ok(())
}

impl InterfaceOp for Mirror {
    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let Mirror { destination, directions } = self;
        let Some(from) = router.interface(index) else { return Ok(Mirror::off(destination)) };
        let found = router.interface_index(&destination).and_then(|to| router.interface(to));
        let Some(to) = found else {
            return Err(OpError::new(format!("there is no interface {destination}")));
        };
        let was = mirrors(router, index).find(|m| m.0 == to.index).map_or_else(Directions::default, |m| m.1);
        if !directions.is_off() {
            check(router, from, to)?;
        } else if was.is_off() {
            return Err(OpError::new(format!("{} is not mirrored to {destination}", from.name)));
        }
        let (device, to) = (from.hw(), to.index);
        change(router, |s| s.set(device, index, to, directions));
        if device != index {
            // Frames of a sub-interface are received on its device.
            router.publish_interface(device);
        }
        Ok(Mirror { destination, directions: was })
    }

    fn switches_on(&self) -> bool {
        false
    }

    fn names_others(&self) -> bool {
        true
    }

    fn words(&self, name: &str) -> (String, String) {
        let to = &self.destination;
        (format!("is mirrored to {to}"), format!("set interface span {name} destination {to} disable"))
    }
}

/// Changes the mirrors and tells workers.
fn change(router: &mut Router, change: impl FnOnce(&mut Sessions)) {
    let Some(s) = router.state_mut::<Sessions>() else { return };
    change(s);
    let published = s.published();
    router.publish(published);
}

impl Part for Span {
    fn state(&self, _seed: u64) -> Box<dyn Any + Send> {
        Box::new(Sessions::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        let to = |(to, directions)| Mirror { destination: router.interface_name(to), directions };
        mirrors(router, index).map(|m| BoxedOp::new(to(m))).collect()
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        let Some(s) = router.state::<Sessions>() else { return vec![] };
        let received = s.received.range(pairs(index)).next().map(|_| &SPAN_INPUT);
        let sent = s.all.range(pairs(index)).any(|(_, d)| d.tx).then_some(&SPAN_OUTPUT);
        received.into_iter().chain(sent).collect()
    }

    fn needs(&self, router: &Router, gone: &HashSet<u32>) -> Option<String> {
        let s = router.state::<Sessions>()?;
        let mut to = gone.iter().flat_map(|g| s.to.range(pairs(*g)));
        let (to, source) = to.find(|(_, source)| !gone.contains(source))?;
        let (source, to) = (router.interface_name(*source), router.interface_name(*to));
        Some(format!(
            "{source} is mirrored to {to}: undo that first (set interface span {source} destination {to} disable)"
        ))
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let all = router.state::<Sessions>().into_iter().flat_map(|s| s.all.keys());
        all.map(|(source, to)| Op::SetFeature {
            name: router.interface_name(*source),
            feature: Mirror::off(router.interface_name(*to)).into(),
        })
        .collect()
    }

    /// What refers to it from outside was refused to go; what goes with it may be in any order.
    fn removed(&self, router: &mut Router, index: u32) {
        let Some(s) = router.state::<Sessions>() else { return };
        let sources = s.to.range(pairs(index)).map(|(to, source)| (*source, *to));
        let all = s.all.range(pairs(index)).map(|m| *m.0).chain(sources);
        let device = |source| router.interface(source).map_or(source, IfState::hw);
        let gone: Vec<(u32, Pair)> = all.map(|pair| (device(pair.0), pair)).collect();
        if gone.is_empty() {
            return;
        }
        change(router, |s| {
            for (device, (source, to)) in gone {
                s.set(device, source, to, Directions::default());
            }
        });
    }
}
