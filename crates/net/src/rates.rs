//! Packets and bits a second of interfaces, over the last second and the last minute. The control side looks at the
//! counters once a second; workers do nothing for it.

use crate::router::{Part, Router, Start};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks at an interface.
const SECOND: Duration = Duration::from_secs(1);
/// Time between two of the looks that are kept for the minute.
const STEP: Duration = Duration::from_secs(5);
/// Steps of a minute.
const STEPS: usize = 12;
/// Interfaces looked at in a turn.
const TURN: usize = 512;

/// What the counters of an interface said at a time.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    /// Packets and bytes received, packets and bytes sent.
    counts: [u64; 4],
}

/// What an interface receives and sends in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Packets received.
    pub rx_packets: f64,
    /// Bits received, from the Ethernet header on.
    pub rx_bits: f64,
    /// Packets sent.
    pub tx_packets: f64,
    /// Bits sent.
    pub tx_bits: f64,
}

/// The last looks at one interface.
#[derive(Debug, Default)]
struct History {
    /// The last two, a second from each other.
    now: Option<(Look, Look)>,
    /// One every five seconds, oldest first.
    minute: VecDeque<Look>,
}

impl History {
    fn take(&mut self, look: Look) {
        self.now = Some((self.now.map_or(look, |(_, last)| last), look));
        let due = |last: &Look| look.at.saturating_duration_since(last.at) + SECOND / 2 >= STEP;
        if self.minute.back().is_none_or(due) {
            if self.minute.len() > STEPS {
                self.minute.pop_front();
            }
            self.minute.push_back(look);
        }
    }

    fn rates(&self) -> (Rate, Rate) {
        let Some((before, last)) = self.now else { return Default::default() };
        (
            between(&before, &last),
            self.minute.front().map_or_else(Rate::default, |first| between(first, &last)),
        )
    }
}

fn between(a: &Look, b: &Look) -> Rate {
    let time = b.at.saturating_duration_since(a.at).as_secs_f64();
    if time < 0.001 {
        return Rate::default();
    }
    let [rx_packets, rx_bytes, tx_packets, tx_bytes] =
        std::array::from_fn(|n| b.counts[n].saturating_sub(a.counts[n]) as f64 / time);
    Rate { rx_packets, rx_bits: rx_bytes * 8.0, tx_packets, tx_bits: tx_bytes * 8.0 }
}

/// The part.
pub(crate) struct Rates;

/// The rates of all interfaces, by number.
#[derive(Debug, Default)]
struct Histories {
    of: Vec<History>,
    /// The interface at which a round goes on.
    next: u32,
}

/// Looks at the counters of some interfaces, and answers whether there are more to be looked at in this round. A
/// round is due every second.
pub fn sample(router: &mut Router, at: Instant) -> bool {
    let next = router.state::<Histories>().map_or(0, |h| h.next);
    let due: Vec<u32> = router.numbers_from(next).take(TURN).collect();
    let plane = Arc::clone(router.plane());
    let Some(histories) = router.state_mut::<Histories>() else { return false };
    for index in &due {
        let c = &plane.counters;
        let ((rx_packets, rx_bytes), (tx_packets, tx_bytes)) = (c.received(*index), c.tx.sum(*index));
        let at_index = *index as usize;
        if histories.of.len() <= at_index {
            histories.of.resize_with(at_index + 1, History::default);
        }
        let counts = [rx_packets, rx_bytes, tx_packets, tx_bytes];
        if let Some(history) = histories.of.get_mut(at_index) {
            history.take(Look { at, counts });
        }
    }
    let more = due.len() == TURN;
    histories.next = due.last().filter(|_| more).map_or(0, |last| last + 1);
    more
}

/// What an interface receives and sends a second: in the last second, and on average over the last minute, or as long
/// as it is there.
pub fn of(router: &Router, index: u32) -> (Rate, Rate) {
    router.state::<Histories>().and_then(|h| h.of.get(index as usize)).map(History::rates).unwrap_or_default()
}

impl Part for Rates {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Histories::default())
    }

    fn removed(&self, router: &mut Router, index: u32) {
        if let Some(history) = router.state_mut::<Histories>().and_then(|h| h.of.get_mut(index as usize)) {
            *history = History::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_interfaces_than_a_turn_are_all_looked_at() {
        use crate::router::{Op, RouterConfig};
        let pool = graph::PoolConfig { buffers: 1024, memory: graph::PoolMemory::Normal };
        let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).expect("a router");
        let most = 3 * TURN / 2;
        let ops = (0..most as u32).map(|n| Op::CreateLoopback { instance: Some(n), mac: None });
        r.commit(ops.collect()).expect("loopbacks");
        let start = Instant::now();
        for second in 0..2 {
            let at = start + SECOND * second;
            assert!(sample(&mut r, at), "more than one turn");
            assert!(!sample(&mut r, at), "and no third one");
        }
        // The first interface is the router's own.
        let seen = |h: &History| h.now.is_some_and(|(a, b)| b.at.duration_since(a.at) == SECOND);
        let histories = r.state::<Histories>().expect("the state of the part");
        assert_eq!(histories.of.iter().filter(|h| seen(h)).count(), most + 1);
        r.shutdown();
    }

    #[test]
    fn rates_of_a_second_and_of_a_minute() {
        let start = Instant::now();
        let mut history = History::default();
        assert_eq!(history.rates(), (Rate::default(), Rate::default()));
        // 100 packets a second for two minutes, then silence.
        for second in 0..=150u64 {
            let n = second.min(120) * 100;
            history.take(Look { at: start + SECOND * second as u32, counts: [n, n * 125, 0, 7] });
            let (now, minute) = history.rates();
            assert_eq!(now.rx_packets, if (1..=120).contains(&second) { 100.0 } else { 0.0 }, "{second}");
            assert_eq!(now.rx_bits, now.rx_packets * 1000.0);
            assert_eq!((now.tx_packets, now.tx_bits), (0.0, 0.0));
            if (1..=120).contains(&second) {
                assert_eq!(minute.rx_packets, 100.0, "{second}");
            }
            assert!(history.minute.len() <= STEPS + 1);
        }
        // 30 of the last 60 seconds, to the step.
        let (_, minute) = history.rates();
        assert!((45.0..=55.0).contains(&minute.rx_packets), "{minute:?}");
    }
}
