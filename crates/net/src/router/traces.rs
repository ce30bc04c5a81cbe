//! Traces that somebody follows, beside the log of `trace add`.

use super::Router;
use graph::edge::NodeId;
use graph::follow::{Follow, MOST_FOLLOWED};
use std::sync::Arc;

/// A trace that is followed, and where its packets begin.
struct Traced {
    nodes: Vec<NodeId>,
    follow: Arc<Follow>,
}

/// Those that are followed, each in its place.
#[derive(Default)]
pub(crate) struct Traces {
    places: [Option<Traced>; MOST_FOLLOWED],
    /// The place of the last that began: the next ones come into others, as packets of one that is over may be on their way.
    last: usize,
}

/// Why a trace cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untraceable {
    /// There is no node of this name.
    Node(String),
    /// As many are followed as can be.
    Full,
}

impl Router {
    /// Has packets that come to any of these nodes traced from now on for one who follows, until [`Router::trace_unfollow`].
    ///
    /// # Errors
    /// There is no such node, or no more can be followed.
    pub fn trace_follow(&mut self, nodes: &[String], follow: &Arc<Follow>) -> Result<(), Untraceable> {
        let graph = self.workers.graphs.first();
        let number =
            |name: &String| graph.and_then(|g| g.node(name)).ok_or_else(|| Untraceable::Node(name.clone()));
        let nodes = nodes.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let traces = &mut self.workers.traces;
        let free = (1..=MOST_FOLLOWED).map(|n| (traces.last + n) % MOST_FOLLOWED);
        let place = free.into_iter().find(|n| traces.places[*n].is_none()).ok_or(Untraceable::Full)?;
        traces.places[place] = Some(Traced { nodes, follow: Arc::clone(follow) });
        traces.last = place;
        (0..self.workers.graphs.len()).for_each(|w| self.trace_worker(w, place));
        Ok(())
    }

    /// Has a worker trace what is followed in a place.
    fn trace_worker(&mut self, worker: usize, place: usize) {
        let (Some(graph), Some(traced)) =
            (self.workers.graphs.get(worker), self.workers.traces.places[place].as_ref())
        else {
            return;
        };
        let grace = &mut self.grace;
        let of = worker as u16;
        graph.tracing.follow(place, of, &traced.nodes, &traced.follow, &grace.guard, &mut grace.reclaimer);
    }

    /// Has a worker that is new trace what is followed.
    pub(super) fn trace_new_worker(&mut self, worker: usize) {
        (0..MOST_FOLLOWED).for_each(|place| self.trace_worker(worker, place));
    }

    /// Nobody follows this trace any more.
    pub fn trace_unfollow(&mut self, follow: &Arc<Follow>) {
        let is = |t: &Option<Traced>| t.as_ref().is_some_and(|t| Arc::ptr_eq(&t.follow, follow));
        let Some(place) = self.workers.traces.places.iter().position(is) else { return };
        self.workers.traces.places[place] = None;
        for g in &self.workers.graphs {
            g.tracing.unfollow(place, &self.grace.guard, &mut self.grace.reclaimer);
        }
    }

    /// Traces of the packets of an interface end with it.
    pub(super) fn trace_interface_gone(&mut self, index: u32) {
        let followed = self.workers.traces.places.iter().flatten().map(|t| &t.follow);
        followed.filter(|f| f.interface() == Some(index)).for_each(|f| f.end());
    }
}
