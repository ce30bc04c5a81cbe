//! One link: what it has heard of the other end, and how far it takes part.

use super::pdu::{Info, Pdu, state};
use crate::neighbor::Millis;

/// Every so often both ends speak where one wants short timeouts, milliseconds (IEEE 802.1AX-2014 section 6.4.4).
pub const FAST: u64 = 1_000;
/// The same with long timeouts.
pub const SLOW: u64 = 30_000;
/// How long the other end is believed, with short timeouts.
pub const SHORT_TIMEOUT: u64 = 3 * FAST;
/// The same with long timeouts.
pub const LONG_TIMEOUT: u64 = 3 * SLOW;
/// How long a link waits for others to be put together with.
pub const AGGREGATE_WAIT: u64 = 2_000;
/// PDUs that may be sent within [`FAST`].
pub const MOST_SENT: usize = 3;
/// PDUs that are taken in within [`FAST`]: no partner that keeps to the standard sends as many. Others are only counted, so that nobody
/// makes the link go up and down, and all that hangs on it, as fast as frames come.
pub const MOST_TAKEN: u32 = 8;

/// States of the receive machine (section 6.4.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rx {
    /// The link is down.
    PortDisabled,
    /// Nothing has been heard lately: for a moment what was known is kept.
    Expired,
    /// Nothing has been heard.
    Defaulted,
    /// The other end is heard.
    Current,
}

impl Rx {
    /// Its name in the standard.
    pub fn name(self) -> &'static str {
        match self {
            Rx::PortDisabled => "PORT_DISABLED",
            Rx::Expired => "EXPIRED",
            Rx::Defaulted => "DEFAULTED",
            Rx::Current => "CURRENT",
        }
    }
}

/// States of the mux machine, with independent control (section 6.4.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mux {
    /// It is none of the bond's.
    Detached,
    /// It waits for others.
    Waiting,
    /// It is of the bond, and waits for the other end to say so.
    Attached,
    /// It takes frames.
    Collecting,
    /// It sends frames as well.
    Distributing,
}

impl Mux {
    /// Its name in the standard.
    pub fn name(self) -> &'static str {
        match self {
            Mux::Detached => "DETACHED",
            Mux::Waiting => "WAITING",
            Mux::Attached => "ATTACHED",
            Mux::Collecting => "COLLECTING",
            Mux::Distributing => "DISTRIBUTING",
        }
    }
}

/// What is chosen for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its number in the bond, from 1.
    pub number: u16,
    /// It only speaks where the other end does.
    pub passive: bool,
    /// It wants to hear every 30 seconds, not every second.
    pub long_timeout: bool,
}

/// What was counted of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// PDUs taken in.
    pub received: u64,
    /// Frames that are neither LACP nor markers as the standard has them.
    pub bad: u64,
    /// PDUs beyond [`MOST_TAKEN`].
    pub ignored: u64,
    /// PDUs sent.
    pub sent: u64,
    /// Markers, each of which was answered.
    pub markers: u64,
    /// Times that it began to send frames.
    pub joined: u64,
}

/// A link.
#[derive(Clone, Debug)]
pub struct Port {
    pub(super) enabled: bool,
    pub(super) config: PortConfig,
    /// What it says of itself.
    pub actor: Info,
    /// What it knows of the other end.
    pub partner: Info,
    /// The receive machine's state.
    pub rx: Rx,
    /// When what is known of the other end is no longer believed.
    pub current_while: Option<Millis>,
    /// The mux machine's state.
    pub mux: Mux,
    /// Until when it waits for others.
    pub wait_while: Option<Millis>,
    /// It is to be put together with the others of the bond.
    pub selected: bool,
    /// How often it speaks, milliseconds; none: not of its own accord.
    period: Option<u64>,
    /// When it speaks next of its own accord.
    pub periodic: Option<Millis>,
    /// There is something to say.
    need: bool,
    /// When it spoke last, the oldest first.
    spoke: [Option<Millis>; MOST_SENT],
    /// When the time began in which it counts what it takes in, and how many those were.
    taking: (Millis, u32),
    /// What was counted.
    pub counts: Counts,
    /// When it was spoken to last.
    pub heard: Option<Millis>,
}

impl Port {
    pub(super) fn new(actor: Info, config: PortConfig) -> Port {
        let mut p = Port {
            enabled: false,
            config,
            actor,
            partner: Info::default(),
            rx: Rx::PortDisabled,
            current_while: None,
            mux: Mux::Detached,
            wait_while: None,
            selected: false,
            period: None,
            periodic: None,
            need: false,
            spoke: [None; MOST_SENT],
            taking: (Millis(0), 0),
            counts: Counts::default(),
            heard: None,
        };
        p.configure(config);
        p.record_default();
        p
    }

    /// It is another one for the other end.
    pub(super) fn begin_anew(&mut self, now: Millis, actor: Info) {
        let (enabled, counts, taking) = (self.enabled, self.counts, self.taking);
        *self = Port { counts, taking, ..Port::new(actor, self.config) };
        self.enable(now, enabled);
    }

    /// Takes frames.
    pub fn collects(&self) -> bool {
        self.actor.is(state::COLLECTING)
    }

    /// Sends frames.
    pub fn distributes(&self) -> bool {
        self.actor.is(state::DISTRIBUTING)
    }

    /// When it spoke last.
    pub fn spoke(&self) -> Option<Millis> {
        self.spoke[MOST_SENT - 1]
    }

    pub(super) fn configure(&mut self, config: PortConfig) {
        self.config = config;
        self.actor.port = config.number;
        self.actor.set(state::AGGREGATION, true);
        self.actor.set(state::ACTIVITY, !config.passive);
        self.actor.set(state::TIMEOUT, !config.long_timeout);
        self.need = true;
    }

    fn record_default(&mut self) {
        self.partner = Info::default();
        self.actor.set(state::DEFAULTED, true);
    }

    /// Its link comes up, or goes down: what was known of the other end is kept in case that it is only for a moment.
    pub(super) fn enable(&mut self, now: Millis, on: bool) {
        if self.enabled == on {
            return;
        }
        self.enabled = on;
        self.partner.set(state::SYNCHRONIZATION, false);
        if on {
            self.expire(now);
            // The other end need not wait a second for what it may know now.
            self.need = true;
        } else {
            (self.rx, self.current_while) = (Rx::PortDisabled, None);
        }
    }

    fn expire(&mut self, now: Millis) {
        self.rx = Rx::Expired;
        self.partner.set(state::SYNCHRONIZATION, false);
        // It is asked every second.
        self.partner.set(state::TIMEOUT, true);
        self.actor.set(state::EXPIRED, true);
        self.current_while = Some(now.after(SHORT_TIMEOUT));
    }

    fn default(&mut self) {
        (self.rx, self.current_while, self.selected) = (Rx::Defaulted, None, false);
        self.record_default();
        self.actor.set(state::EXPIRED, false);
    }

    /// Whether another PDU may be taken in.
    pub(super) fn takes(&mut self, now: Millis) -> bool {
        if now.since(self.taking.0) >= FAST {
            self.taking = (now, 0);
        }
        self.taking.1 += 1;
        self.taking.1 <= MOST_TAKEN
    }

    /// A PDU came. A link that is to be put together with others in another way is none of the bond's before that.
    pub(super) fn receive(&mut self, now: Millis, pdu: &Pdu) {
        self.heard = Some(now);
        self.counts.received += 1;
        if !pdu.actor.is_same_link(&self.partner) {
            self.selected = false;
        }
        // What the other end does not know of this one (section 6.4.9, update_NTT).
        let shown = state::ACTIVITY | state::TIMEOUT | state::SYNCHRONIZATION | state::AGGREGATION;
        if !pdu.partner.is_same_link(&self.actor) || (pdu.partner.state ^ self.actor.state) & shown != 0 {
            self.need = true;
        }
        // Whether it knows with whom it speaks, and goes on telling so (recordPDU).
        let knows = pdu.partner.is_same_link(&self.actor) || !pdu.actor.is(state::AGGREGATION);
        let speaks = pdu.actor.is(state::ACTIVITY)
            || self.actor.is(state::ACTIVITY) && pdu.partner.is(state::ACTIVITY);
        self.partner = pdu.actor;
        self.partner.set(state::SYNCHRONIZATION, pdu.actor.is(state::SYNCHRONIZATION) && knows && speaks);
        self.actor.set(state::DEFAULTED | state::EXPIRED, false);
        self.rx = Rx::Current;
        let believed = if self.actor.is(state::TIMEOUT) { SHORT_TIMEOUT } else { LONG_TIMEOUT };
        self.current_while = Some(now.after(believed));
    }

    /// Timers of the receive and periodic machines.
    pub(super) fn tick(&mut self, now: Millis) {
        if self.current_while.is_some_and(|t| t <= now) {
            match self.rx {
                Rx::Current => self.expire(now),
                _ => self.default(),
            }
        }
        // Others may keep it waiting, who say when.
        self.wait_while = self.wait_while.filter(|t| *t > now);
        self.pace(now);
        if let (Some(at), Some(period)) = (self.periodic, self.period)
            && at <= now
        {
            self.need = true;
            self.periodic = Some(now.after(period));
        }
    }

    /// The periodic machine (section 6.4.13).
    fn pace(&mut self, now: Millis) {
        let speaks = self.actor.is(state::ACTIVITY) || self.partner.is(state::ACTIVITY);
        let period = match self.partner.is(state::TIMEOUT) {
            _ if !self.enabled || !speaks => None,
            true => Some(FAST),
            false => Some(SLOW),
        };
        let was = std::mem::replace(&mut self.period, period);
        if was != period {
            self.periodic = period.map(|p| now.after(p));
            self.need |= was == Some(SLOW) && period == Some(FAST);
        }
    }

    /// A step of the mux machine, where there is one; `together`: all that wait have done so for long enough.
    pub(super) fn step(&mut self, now: Millis, together: bool) -> bool {
        let (sync, takes) = (self.partner.is(state::SYNCHRONIZATION), self.partner.is(state::COLLECTING));
        let to = match self.mux {
            Mux::Detached if self.selected => Mux::Waiting,
            Mux::Waiting if !self.selected => Mux::Detached,
            Mux::Waiting if together && self.has_waited() => Mux::Attached,
            Mux::Attached if !self.selected => Mux::Detached,
            Mux::Attached if sync => Mux::Collecting,
            Mux::Collecting if !self.selected || !sync => Mux::Attached,
            Mux::Collecting if takes => Mux::Distributing,
            Mux::Distributing if !self.selected || !sync || !takes => Mux::Collecting,
            _ => return false,
        };
        self.wait_while = (to == Mux::Waiting).then(|| now.after(AGGREGATE_WAIT));
        self.counts.joined += u64::from(to == Mux::Distributing);
        self.mux = to;
        self.actor.set(state::SYNCHRONIZATION, to >= Mux::Attached);
        self.actor.set(state::COLLECTING, to >= Mux::Collecting);
        self.actor.set(state::DISTRIBUTING, to >= Mux::Distributing);
        self.need |= to != Mux::Waiting;
        true
    }

    pub(super) fn has_waited(&self) -> bool {
        self.wait_while.is_none()
    }

    /// The transmit machine (section 6.4.16): what is to be sent now.
    pub(super) fn say(&mut self, now: Millis) -> Option<Pdu> {
        if !self.enabled {
            self.need = false;
        }
        if !self.need || self.period.is_none() || self.may_say().is_some_and(|t| t > now) {
            return None;
        }
        self.need = false;
        self.spoke.rotate_left(1);
        self.spoke[MOST_SENT - 1] = Some(now);
        self.counts.sent += 1;
        Some(Pdu { actor: self.actor, partner: self.partner })
    }

    /// From when on it may speak.
    fn may_say(&self) -> Option<Millis> {
        Some(self.spoke[0]?.after(FAST))
    }

    /// When it has something to do next.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let wants = self.need && self.enabled && self.period.is_some();
        let say = wants.then(|| self.may_say().unwrap_or_default());
        let waits = self.wait_while.filter(|_| self.mux == Mux::Waiting);
        [self.current_while, self.periodic, waits, say].into_iter().flatten().min()
    }

    /// What it says for the last time: it leaves the bond.
    pub(super) fn farewell(&self) -> Option<Pdu> {
        let mut actor = self.actor;
        actor.set(
            state::SYNCHRONIZATION | state::COLLECTING | state::DISTRIBUTING | state::AGGREGATION,
            false,
        );
        (self.enabled && self.period.is_some()).then_some(Pdu { actor, partner: self.partner })
    }
}
