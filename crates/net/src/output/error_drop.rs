//! `error-drop`: the end of every dropped packet.

use crate::capture::Tap;
use crate::plane::{DropTable, Plane};
use graph::node::Never;
use graph::trace::NO_REASON;
use graph::{BatchNode, Env, Guard, Vector};
use std::sync::Arc;

/// Counts drops by interface and frees the buffers.
pub struct ErrorDrop {
    counts: Arc<DropTable>,
    capture: Tap,
}

impl ErrorDrop {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        ErrorDrop { counts: plane.counters.drops.of(worker), capture: Tap::of(plane) }
    }
}

impl BatchNode for ErrorDrop {
    const NAME: &'static str = "error-drop";
    type Next = Never;
    type Drop = Never;

    fn process(&mut self, env: &mut Env, guard: &Guard, v: &mut Vector) {
        let capture = self.capture.active(guard);
        for d in v.take() {
            if d.aux != NO_REASON
                && let Some(c) = self.counts.get(d.rx, d.aux as usize)
            {
                c.add(1);
            }
            if let Some(c) = capture {
                c.drop(&env.buffers, &d, env.now_ns);
            }
            env.buffers.free(d);
        }
    }
}
