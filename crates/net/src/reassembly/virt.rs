//! `ip4-sv-reassembly` and `ip6-sv-reassembly`: shallow virtual reassembly, for features that look at ports. Fragments go
//! on as they came; each is told what only the first one of its datagram says. Those that come before the first one wait
//! for it.

use super::fragment::{Family, Fragment, ReassemblyReason as R};
use super::reassembler::{Datagrams, Reassembler, View, expire};
use super::store::{Held, Store};
use super::table::Piece;
use super::{KNOWN_L4, L4, Settings};
use graph::node::Step;
use graph::{Env, Exit, Guard, Node, Packet, TraceRecord, flags};
use std::fmt;

/// What is known of a datagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Of the first fragment, with the end of its payload.
    first: Option<(L4, u32)>,
    /// Bytes of payload; known once the last fragment came.
    total: Option<u32>,
    /// Bytes of payload that came.
    seen: u32,
    refused: bool,
}

impl Held for State {
    fn refused(&self) -> bool {
        self.refused
    }

    fn bytes(&self) -> u32 {
        self.seen
    }

    fn done(&self) -> bool {
        self.refused || self.total.is_some_and(|t| self.seen >= t) && self.first.is_some()
    }
}

impl<F: Family> Datagrams<F> for State {
    const SHALLOW: bool = true;

    fn late(p: Piece, env: &mut Env) {
        env.drop(p.d, R::Timeout);
    }
}

/// The node of a family.
pub type VirtualReassembly<F> = Reassembler<F, State>;

type VirtualView<'v, F> = View<'v, F, State>;

impl<F: Family> Node for VirtualReassembly<F> {
    const NAME: &'static str = F::VIRTUAL;
    const TIMED: bool = true;
    type Next = F::VirtualNext;
    type Drop = R;
    type View<'v> = VirtualView<'v, F>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> VirtualView<'v, F> {
        self.look(guard)
    }

    fn step(view: &mut VirtualView<'_, F>, p: &mut Packet<'_>) -> Step<F::VirtualNext, R> {
        let table = super::table_of(view.plane, view.guard, p.d.rx, F::IS_V6);
        let f = match F::read(p, table) {
            Ok(Some(f)) => f,
            Ok(None) => return Ok(F::pass_virtual()),
            // The packet is another's: nobody is told.
            Err((why, _)) => return Err(why.into()),
        };
        if p.has(flags::CSUM_PARTIAL | flags::GSO) {
            return Err(R::Offload.into());
        }
        super::to_owner(view.plane, p, &f.key)?;
        expire::<F, State>(view.store, p.env, view.settings, 2);
        pass::<F>(view, p, f)
    }

    fn due_ns(&self) -> Option<u64> {
        self.due()
    }

    fn tick(&mut self, env: &mut Env, guard: &Guard) -> bool {
        self.time(env, guard)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if r.after.has(KNOWN_L4) {
            writeln!(f, "  ports {} -> {}", r.after.hash >> 16, r.after.hash & 0xffff)?;
        }
        crate::format::ip(r.bytes(), f)
    }
}

fn pass<F: Family>(
    view: &mut VirtualView<'_, F>,
    p: &mut Packet<'_>,
    f: Fragment<F::Key>,
) -> Step<F::VirtualNext, R> {
    let (store, settings) = (&mut *view.store, view.settings);
    let Some(c) = store.open(f.key, p.env.now_ns, settings, |d| p.env.drop(d, R::Evicted)) else {
        return Err(R::Off.into());
    };
    let state = *store.table.state(c);
    if state.refused {
        return Err(R::Refused.into());
    }
    let first = match f.upper {
        Some((protocol, at)) => {
            let Some(l4) = L4::read(protocol, p.data().get(at as usize..).unwrap_or_default()) else {
                return Err(R::Tiny.into());
            };
            Some((l4, f.to))
        }
        None => None,
    };
    // No other fragment may say something else of what the first one says.
    let overlap = match (first, state.first) {
        (Some(new), Some(old)) => new != old,
        (Some((_, end)), None) => store.table.pieces(c).any(|held| held.from < end),
        (None, Some((_, end))) => f.from < end,
        (None, None) => false,
    };
    let bad_end = match state.total {
        Some(total) => f.to > total || !f.more && f.to != total,
        None => false,
    };
    if overlap || bad_end {
        let why = if overlap { R::Overlap } else { R::BadEnd };
        store.refuse(c, |d| p.env.drop(d, why));
        *store.table.state(c) = State { refused: true, ..State::default() };
        return Err(why.into());
    }
    let now = store.table.state(c);
    now.seen = now.seen.saturating_add(f.to - f.from);
    now.first = now.first.or(first);
    if !f.more {
        now.total = Some(f.to);
    }
    let (known, done) = (now.first, now.done());
    if done && !state.done() {
        store.count_completed();
        p.count(R::Completed);
    }
    let Some((l4, _)) = known else {
        return wait(store, p, c, &f, settings);
    };
    let env = &mut *p.env;
    store.table.release(c, |held| {
        let mut d = held.d;
        l4.tell(&mut d, &mut env.buffers);
        env.forward(d, F::pass_virtual());
    });
    l4.tell(p.d, &mut p.env.buffers);
    Ok(F::pass_virtual())
}

/// Holds a fragment that came before the first one.
fn wait<N, K: Copy + Eq + std::hash::Hash + fmt::Display>(
    store: &mut Store<K, State>,
    p: &mut Packet<'_>,
    c: u32,
    f: &Fragment<K>,
    settings: &Settings,
) -> Step<N, R> {
    if store.table.count(c) >= settings.max_length {
        store.refuse(c, |d| p.env.drop(d, R::TooMany));
        *store.table.state(c) = State { refused: true, ..State::default() };
        return Err(R::TooMany.into());
    }
    let buffers = p.env.buffers.count(p.d);
    while !store.has_room(buffers) {
        if store.evict(|d| p.env.drop(d, R::Evicted)) == Some(c) {
            return Err(R::Evicted.into());
        }
    }
    if !store.hold(c, None, p.d, (f.from, f.to), f.header, buffers) {
        return Err(R::Evicted.into());
    }
    Err(Exit::Consumed)
}
