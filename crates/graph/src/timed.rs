//! What nodes do at certain times, without packets: the worker asks them now and then, and wakes for the next of them.

use crate::clock::tsc;
use crate::dispatch::Dispatcher;
use crate::epoch::Guard;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often nodes are asked while the worker is awake, nanoseconds: a test of one word a loop otherwise.
const EVERY_NS: u64 = 1 << 20;

impl Dispatcher {
    /// Has nodes do what is due, if it is time to ask them. True when some did.
    #[inline]
    pub fn run_timers(&mut self, guard: &Guard) -> bool {
        self.env.now_ns >= self.timers.at_ns && !self.timers.nodes.is_empty() && self.ask_nodes(guard)
    }

    #[cold]
    fn ask_nodes(&mut self, guard: &Guard) -> bool {
        let now = self.env.now_ns;
        self.timers.at_ns = now.saturating_add(EVERY_NS);
        let mut any = false;
        for n in 0..self.timers.nodes.len() {
            let id = self.timers.nodes[n];
            let node = &mut self.nodes[usize::from(id.0)];
            if node.due_ns().is_none_or(|due| due > now) {
                continue;
            }
            any = true;
            let t0 = tsc();
            self.env.node = id;
            self.env.reason_base = self.env.wiring.reason_base[usize::from(id.0)];
            let env = &mut self.env;
            match catch_unwind(AssertUnwindSafe(|| node.tick(env, guard))) {
                // More is left: in the next loop, behind the packets that wait.
                Ok(true) => self.timers.at_ns = 0,
                Ok(false) => {}
                Err(cause) => self.contain(id, &mut crate::Vector::boxed(), cause),
            }
            if !self.env.outbox.is_empty() {
                self.hand_off();
            }
            let took = tsc().wrapping_sub(t0);
            self.env.stats.nodes[usize::from(id.0)].clocks.add(took);
        }
        any
    }

    /// The clock before which no node has anything to do without packets.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let nodes = self.timers.nodes.iter();
        nodes.filter_map(|id| self.nodes[usize::from(id.0)].due_ns()).min()
    }
}
