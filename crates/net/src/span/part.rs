//! Mirrors as a part of the control side.

use super::{
    Directions, MOST_DESTINATIONS, Mirrors, Pair, SPAN_INPUT, SPAN_L2_INPUT, SPAN_L2_OUTPUT, SPAN_OUTPUT,
};
use crate::router::{BoxedOp, IfState, InterfaceOp, Kind, Named, Op, OpError, Part, PartOp, Router, Start};
use command::Command;
use graph::arcs::Feature;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;

/// The part.
pub(crate) struct Span;

/// Whose frames are mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// Those of an interface.
    Interface(u32),
    /// Those of all members of a bridge domain.
    Bridge(u32),
}

/// What the operator wants of a source and one of its destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which frames.
    pub directions: Directions,
    /// Only for as long as the interface is in a bridge domain or cross-connected.
    pub l2: bool,
}

/// Its state.
#[derive(Default)]
struct Sessions {
    told: BTreeMap<(Source, u32), Told>,
    /// Destinations with their sources.
    to: BTreeSet<(u32, Source)>,
    /// What of interfaces is mirrored to where on that account.
    all: BTreeMap<Pair, Frames>,
    /// Devices with the interfaces on them of which received frames are mirrored.
    received: BTreeSet<Pair>,
}

/// Which frames of an interface are mirrored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Frames {
    /// Of all, those of its sub-interfaces among them.
    all: Directions,
    /// Of those of the sub-interface that it is.
    own: Directions,
    /// Of those that layer 2 has from it and for it.
    l2: Directions,
}

impl Frames {
    /// Of those that it receives and sends, whoever has them.
    fn on_wire(&self) -> Directions {
        Directions { rx: self.all.rx || self.own.rx, tx: self.all.tx || self.own.tx }
    }
}

/// All pairs that begin with an interface.
fn pairs(first: u32) -> RangeInclusive<Pair> {
    (first, 0)..=(first, u32::MAX)
}

impl Sessions {
    /// What is wanted of a source, by destination.
    fn of(&self, source: Source) -> impl Iterator<Item = (u32, Told)> + '_ {
        self.told.range((source, 0)..=(source, u32::MAX)).map(|((_, to), told)| (*to, *told))
    }

    /// Sources that are mirrored to `to`.
    fn sources(&self, to: u32) -> impl Iterator<Item = Source> + '_ {
        self.to.range((to, Source::Interface(0))..=(to, Source::Bridge(u32::MAX))).map(|t| t.1)
    }

    /// Takes in what is wanted of a source and a destination.
    fn tell(&mut self, source: Source, to: u32, told: Told) {
        if told.directions.is_off() {
            self.told.remove(&(source, to));
            self.to.remove(&(to, source));
        } else {
            self.told.insert((source, to), told);
            self.to.insert((to, source));
        }
    }

    /// Mirrors `source`, which is on `device`, to these and nothing else.
    fn set(&mut self, device: u32, source: u32, to: &BTreeMap<u32, Frames>) {
        let was: Vec<Pair> = self.all.range(pairs(source)).map(|m| *m.0).collect();
        was.iter().for_each(|pair| _ = self.all.remove(pair));
        self.all.extend(to.iter().map(|(to, frames)| ((source, *to), *frames)));
        if to.values().any(|f| f.on_wire().rx) {
            self.received.insert((device, source));
        } else {
            self.received.remove(&(device, source));
        }
    }

    /// As workers see it.
    fn published(&self) -> Mirrors {
        let of = |is: fn(&Frames) -> bool| self.all.iter().filter(|m| is(m.1)).map(|m| *m.0).collect();
        let has_own = |source: u32| self.all.range(pairs(source)).any(|(_, f)| f.own.rx);
        let mut devices: Vec<u32> = self.received.iter().filter(|r| has_own(r.1)).map(|r| r.0).collect();
        devices.dedup();
        Mirrors {
            rx: of(|f| f.all.rx),
            tx: of(|f| f.all.tx),
            rx_own: of(|f| f.own.rx),
            tx_own: of(|f| f.own.tx),
            rx_l2: of(|f| f.l2.rx),
            tx_l2: of(|f| f.l2.tx),
            devices: devices.into(),
        }
    }
}

/// The destinations to which an interface is mirrored, and what of it, as the operator wants it.
pub fn mirrors(router: &Router, index: u32) -> impl Iterator<Item = (u32, Told)> + '_ {
    router.state::<Sessions>().into_iter().flat_map(move |s| s.of(Source::Interface(index)))
}

/// The bridge domains that are mirrored, with their destinations, and what of them.
pub fn bridges(router: &Router) -> impl Iterator<Item = (u32, u32, Told)> + '_ {
    let first = (Source::Bridge(0), 0);
    let all = router.state::<Sessions>().into_iter().flat_map(move |s| s.told.range(first..));
    all.filter_map(|((source, to), told)| match source {
        Source::Bridge(id) => Some((*id, *to, *told)),
        Source::Interface(_) => None,
    })
}

/// To where the frames of an interface go, and which: as it was told itself, and its bridge domain.
fn due(router: &Router, index: u32) -> BTreeMap<u32, Frames> {
    let mut due: BTreeMap<u32, Frames> = BTreeMap::new();
    let (Some(s), Some(i)) = (router.state::<Sessions>(), router.interface(index)) else { return due };
    let bridge = i.membership.filter(|m| !m.bvi).map(|m| Source::Bridge(m.bridge));
    let on_l2 = bridge.is_some() || i.xconnect.is_some();
    let own = s.of(Source::Interface(index)).filter(|(_, told)| on_l2 || !told.l2);
    let of_bridge = bridge.into_iter().flat_map(|b| s.of(b));
    // The destination may be a member itself.
    let apart = of_bridge.filter(|(to, _)| router.interface(*to).is_some_and(|to| !is_within(i, to)));
    let own = own.map(|(to, told)| (to, told.directions, told.l2));
    for (to, wanted, l2) in own.chain(apart.map(|(to, told)| (to, told.directions, true))) {
        let f = due.entry(to).or_default();
        let d = match l2 {
            true => &mut f.l2,
            // A sub-interface has none itself.
            false if i.hw() != index => &mut f.own,
            false => &mut f.all,
        };
        (d.rx, d.tx) = (d.rx || wanted.rx, d.tx || wanted.tx);
    }
    due
}

/// Whether frames of one are among those of the other.
fn is_within(from: &IfState, to: &IfState) -> bool {
    from.index == to.index || from.hw() == to.index || to.hw() == from.index
}

/// The frames of an interface, or of a bridge domain, that are mirrored to another one from now on; off: none any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// Name of the other one.
    pub destination: String,
    /// Which of them.
    pub directions: Directions,
    /// Only for as long as the interface is in a bridge domain or cross-connected.
    pub l2: bool,
}

impl Mirror {
    /// Nothing is mirrored to `destination`.
    pub fn off(destination: String) -> Mirror {
        Mirror { destination, directions: Directions::default(), l2: false }
    }

    /// What of the frames is copied, as commands say it.
    fn word(&self) -> &'static str {
        if self.directions.is_off() { "disable" } else { self.directions.name() }
    }

    /// Of `source`, which is called so; `fits` says whether it can be mirrored there.
    fn tell(
        self,
        router: &mut Router,
        source: Source,
        name: &str,
        fits: impl FnOnce(&Router, &IfState) -> Result<(), OpError>,
    ) -> Result<Mirror, OpError> {
        let Mirror { destination, directions, l2 } = self;
        let found = router.interface_index(&destination).and_then(|to| router.interface(to));
        let Some(to) = found else {
            return Err(OpError::new(format!("there is no interface {destination}")));
        };
        let index = to.index;
        let all = || router.state::<Sessions>().into_iter().flat_map(|s| s.of(source));
        let was = all().find(|m| m.0 == index).map(|m| m.1);
        if !directions.is_off() {
            fits(router, to)?;
            if was.is_none() && all().count() >= MOST_DESTINATIONS {
                return Err(OpError::new(format!(
                    "{name} is mirrored to {MOST_DESTINATIONS} interfaces already, as many as may be"
                )));
            }
        } else if was.is_none() {
            return Err(OpError::new(format!("{name} is not mirrored to {destination}")));
        }
        if let Some(s) = router.state_mut::<Sessions>() {
            s.tell(source, index, Told { directions, l2 });
        }
        Ok(match was {
            Some(Told { directions, l2 }) => Mirror { destination, directions, l2 },
            None => Mirror::off(destination),
        })
    }
}

/// How a bridge domain is called.
fn bridge_name(id: u32) -> String {
    format!("bridge domain {id}")
}

/// What undoes the mirror of a bridge domain.
fn undo_bridge(id: u32, to: &str) -> String {
    format!("set bridge-domain span {id} destination {to} disable")
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
    if is_within(from, to) {
        return fail(format!(
            "{source} cannot be mirrored to {destination}: one is a sub-interface of the other, and the copies would be \
             among its own frames"
        ));
    }
    Ok(())
}

impl InterfaceOp for Mirror {
    fn subject(&self) -> String {
        format!("mirror to {}", self.destination)
    }

    fn off(&self) -> Self {
        Mirror::off(self.destination.clone())
    }

    fn names(&self) -> Vec<Named> {
        vec![Named::Frames(self.destination.clone())]
    }

    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let name = router.interface_name(index);
        self.tell(router, Source::Interface(index), &name, |router, to| {
            router.interface(index).map_or(Ok(()), |from| check(router, from, to))
        })
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

    fn commands(&self, name: &str, _: bool) -> Vec<String> {
        let l2 = if self.l2 { " l2" } else { "" };
        vec![format!("set interface span {name}{l2} destination {} {}", self.destination, self.word())]
    }
}

/// The frames of all members of a bridge domain are mirrored from now on, or no more.
#[derive(Clone, Debug, PartialEq)]
pub struct MirrorBridge {
    /// Its number.
    pub bridge: u32,
    /// To where, and which.
    pub mirror: Mirror,
}

impl PartOp for MirrorBridge {
    fn subject(&self) -> String {
        format!("mirror of {} to {}", bridge_name(self.bridge), self.mirror.destination)
    }

    fn off(&self) -> Option<Op> {
        let mirror = Mirror::off(self.mirror.destination.clone());
        Some(MirrorBridge { bridge: self.bridge, mirror }.into())
    }

    fn command(&self) -> Option<String> {
        let (id, to) = (self.bridge, &self.mirror.destination);
        Some(format!("set bridge-domain span {id} destination {to} {}", self.mirror.word()))
    }

    fn names(&self) -> Vec<Named> {
        vec![Named::Bridge(self.bridge), Named::Frames(self.mirror.destination.clone())]
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let MirrorBridge { bridge, mirror } = self;
        let Some(members) =
            crate::l2::bridge::bridge(router, bridge).map(|b| b.members.keys().copied().collect::<Vec<_>>())
        else {
            return Err(OpError::new(format!("there is no bridge domain {bridge}")));
        };
        let was = mirror.tell(router, Source::Bridge(bridge), &bridge_name(bridge), |router, to| {
            carries_no_frames(router, to).map_or(Ok(()), |why| Err(OpError::new(why)))
        })?;
        members.into_iter().for_each(|m| router.publish_interface(m));
        Ok(vec![MirrorBridge { bridge, mirror: was }.into()])
    }
}

/// Changes what is mirrored and tells workers.
fn change(router: &mut Router, change: impl FnOnce(&mut Sessions)) {
    let Some(s) = router.state_mut::<Sessions>() else { return };
    change(s);
    let published = s.published();
    router.publish(published);
}

impl Part for Span {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Sessions::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        let to =
            |(to, Told { directions, l2 })| Mirror { destination: router.interface_name(to), directions, l2 };
        mirrors(router, index).map(|m| BoxedOp::new(to(m))).collect()
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        let Some(s) = router.state::<Sessions>() else { return vec![] };
        let received = s.received.range(pairs(index)).next().map(|_| &SPAN_INPUT);
        let any = |is: fn(&Frames) -> bool| s.all.range(pairs(index)).any(|(_, f)| is(f));
        let others = [
            (any(|f| f.l2.rx), &SPAN_L2_INPUT),
            (any(|f| f.l2.tx), &SPAN_L2_OUTPUT),
            (any(|f| f.on_wire().tx), &SPAN_OUTPUT),
        ];
        received.into_iter().chain(others.into_iter().filter(|o| o.0).map(|o| o.1)).collect()
    }

    /// It may have come into a bridge domain, or left one.
    fn publishing(&self, router: &mut Router, index: u32) {
        let Some(device) = router.interface(index).map(IfState::hw) else { return };
        let due = due(router, index);
        let all = router.state::<Sessions>().into_iter().flat_map(|s| s.all.range(pairs(index)));
        if all.map(|((_, to), d)| (to, d)).eq(&due) {
            return;
        }
        change(router, |s| s.set(device, index, &due));
        if device != index {
            // Frames of a sub-interface are received on its device.
            router.publish_interface(device);
        }
    }

    fn needs(&self, router: &Router, gone: &HashSet<u32>) -> Option<String> {
        let s = router.state::<Sessions>()?;
        let stays = |source: &Source| !matches!(source, Source::Interface(i) if gone.contains(i));
        let (to, source) = gone.iter().find_map(|to| Some((*to, s.sources(*to).find(stays)?)))?;
        let to = router.interface_name(to);
        let (name, undo) = match source {
            Source::Bridge(id) => (bridge_name(id), undo_bridge(id, &to)),
            Source::Interface(i) => {
                let name = router.interface_name(i);
                let undo = format!("set interface span {name} destination {to} disable");
                (name, undo)
            }
        };
        Some(format!("{name} is mirrored to {to}: undo that first ({undo})"))
    }

    fn uses_bridge(&self, router: &Router, id: u32) -> Option<String> {
        let (to, _) = router.state::<Sessions>()?.of(Source::Bridge(id)).next()?;
        let to = router.interface_name(to);
        Some(format!("it is mirrored to {to} ({})", undo_bridge(id, &to)))
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let all = router.state::<Sessions>().into_iter().flat_map(|s| s.told.keys());
        let off = |to: &u32| Mirror::off(router.interface_name(*to));
        all.map(|(source, to)| match *source {
            Source::Interface(i) => {
                Op::SetFeature { name: router.interface_name(i), feature: off(to).into() }
            }
            Source::Bridge(bridge) => MirrorBridge { bridge, mirror: off(to) }.into(),
        })
        .collect()
    }

    /// What refers to it from outside was refused to go; what goes with it may be in any order.
    fn removed(&self, router: &mut Router, index: u32) {
        let Some(s) = router.state::<Sessions>() else { return };
        let own = s.of(Source::Interface(index)).map(|(to, _)| (Source::Interface(index), to));
        let told: Vec<(Source, u32)> = own.chain(s.sources(index).map(|source| (source, index))).collect();
        let mut changed: BTreeSet<u32> = s.all.range(pairs(index)).map(|m| m.0.0).collect();
        for source in s.sources(index) {
            match source {
                Source::Interface(i) => _ = changed.insert(i),
                Source::Bridge(id) => changed
                    .extend(crate::l2::bridge::bridge(router, id).into_iter().flat_map(|b| b.members.keys())),
            }
        }
        if told.is_empty() && changed.is_empty() {
            return;
        }
        if let Some(s) = router.state_mut::<Sessions>() {
            let off = Told { directions: Directions::default(), l2: false };
            told.into_iter().for_each(|(source, to)| s.tell(source, to, off));
        }
        let due = |router: &Router, i| if i == index { BTreeMap::new() } else { due(router, i) };
        let of = |i| (router.interface(i).map_or(i, IfState::hw), i, due(router, i));
        let all: Vec<_> = changed.into_iter().map(of).collect();
        change(router, |s| all.iter().for_each(|(device, i, due)| s.set(*device, *i, due)));
    }
}
