//! Which answers wait, and until when.

use crate::neighbor::{Millis, random, wire::Asked};
use std::net::Ipv6Addr;

/// MAX_ANYCAST_DELAY_TIME (RFC 4861 section 10), milliseconds.
const MAX_DELAY: u64 = 1000;
/// Answers that wait at once.
const MOST: usize = 256;

/// An answer that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Interface on which it was asked for.
    pub interface: u32,
    /// Who asked for what.
    pub asked: Asked,
    due: Millis,
}

impl Answer {
    fn key(&self) -> (u32, Ipv6Addr, Ipv6Addr) {
        (self.interface, self.asked.target, self.asked.asker)
    }
}

/// The answers that wait.
#[derive(Debug)]
pub(super) struct Answers {
    random: u64,
    waiting: Vec<Answer>,
}

impl Answers {
    /// None. `seed` spreads the times.
    pub fn new(seed: u64) -> Self {
        Answers { random: seed, waiting: vec![] }
    }

    /// Takes a solicitation. Who asks again while the answer waits is answered once. When too many wait, the one that is
    /// due next is given back, to be sent at once: a flood makes answers early, and loses none.
    pub fn ask(&mut self, now: Millis, interface: u32, asked: Asked) -> Option<Answer> {
        let due = now.after(random(&mut self.random) % (MAX_DELAY + 1));
        let new = Answer { interface, asked, due };
        if let Some(old) = self.waiting.iter_mut().find(|a| a.key() == new.key()) {
            old.asked = asked;
            return None;
        }
        let first = || self.waiting.iter().enumerate().min_by_key(|(_, a)| a.due).map(|(at, _)| at);
        let early = if self.waiting.len() >= MOST { first() } else { None };
        let early = early.map(|at| self.waiting.swap_remove(at));
        self.waiting.push(new);
        early
    }

    /// Takes out what is due.
    pub fn take_due(&mut self, now: Millis) -> Vec<Answer> {
        self.waiting.extract_if(.., |a| a.due <= now).collect()
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.waiting.iter().map(|a| a.due).min()
    }

    /// Forgets the answers on an interface.
    pub fn forget(&mut self, interface: u32) {
        self.waiting.retain(|a| a.interface != interface);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::MacAddr;

    fn asked(asker: u16) -> Asked {
        let asker = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, asker);
        Asked { target: "2001:db8::".parse().unwrap(), asker, mac: MacAddr([2, 0, 0, 0, 0, 1]) }
    }

    #[test]
    fn times_are_spread_over_the_second_and_each_is_answered_once() {
        let mut a = Answers::new(7);
        for n in 0..200 {
            assert!(a.ask(Millis(5000), 1, asked(n)).is_none() && a.ask(Millis(5000), 1, asked(n)).is_none());
        }
        let mut by_quarter = [0; 4];
        for at in 5000..=6000 {
            assert!(a.next_deadline().is_none_or(|d| d.0 >= at));
            for out in a.take_due(Millis(at)) {
                assert_eq!((out.interface, out.asked), (1, asked(out.asked.asker.segments()[7])));
                by_quarter[(at as usize - 5000) * 4 / 1001] += 1;
            }
        }
        assert!(
            by_quarter.iter().sum::<u32>() == 200 && by_quarter.iter().all(|n| *n > 25),
            "{by_quarter:?}"
        );
        assert_eq!(a.next_deadline(), None);
    }

    #[test]
    fn a_flood_is_bounded_and_loses_nothing() {
        let mut a = Answers::new(7);
        let early = (0..1000).filter(|n| a.ask(Millis(0), 1, asked(*n)).is_some()).count();
        assert_eq!((early, a.waiting.len()), (1000 - MOST, MOST));
        assert_eq!(a.take_due(Millis(MAX_DELAY)).len(), MOST);
    }

    #[test]
    fn who_asks_again_from_elsewhere_is_answered_there() {
        let mut a = Answers::new(7);
        a.ask(Millis(0), 1, asked(1));
        a.ask(Millis(0), 2, asked(1));
        a.ask(Millis(0), 1, Asked { mac: MacAddr([2, 0, 0, 0, 0, 2]), ..asked(1) });
        a.forget(2);
        let out = a.take_due(Millis(MAX_DELAY));
        assert_eq!((out.len(), out[0].interface, out[0].asked.mac.0[5]), (1, 1, 2));
    }
}
