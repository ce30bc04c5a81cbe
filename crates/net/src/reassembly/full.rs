//! `ip4-full-reassembly` and `ip6-full-reassembly`: datagrams put together from their fragments (RFC 791 section 3.2,
//! RFC 815, RFC 8200 section 4.5).
//!
//! Fragments are held as they came; when the last one is there their buffers become one chain behind the first one's
//! headers. So packets of 64 KiB are put together without a copy.

use super::fragment::{Family, Fragment, ReassemblyReason as R};
use super::reassembler::{Datagrams, Reassembler, View, expire};
use super::store::{Held, Store};
use super::table::{Piece, Place};
use super::{LARGEST, REASSEMBLED};
use graph::node::Step;
use graph::{Buffers, Chain, Desc, Env, Exit, Guard, Node, Packet, TraceRecord, flags};
use std::fmt;

/// What is known of a datagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Bytes of its payload; known once its last fragment came.
    total: Option<u32>,
    /// Bytes of payload that are held.
    covered: u32,
    /// Bytes of its largest fragment.
    largest: u32,
    /// ECN fields that came, one bit each.
    ecn: u8,
    /// What comes of it is dropped.
    refused: bool,
}

impl Held for State {
    fn refused(&self) -> bool {
        self.refused
    }

    fn bytes(&self) -> u32 {
        self.covered
    }
}

impl<F: Family> Datagrams<F> for State {
    const SHALLOW: bool = false;

    fn late(p: Piece, env: &mut Env) {
        if p.from != 0 {
            return env.drop(p.d, R::Timeout);
        }
        // RFC 792, RFC 8200 section 4.5: only where the first fragment came.
        env.count(R::TimeExceeded);
        env.forward(Desc { aux: F::TIME_EXCEEDED.word(), ..p.d }, F::error());
    }
}

/// The node of a family.
pub type FullReassembly<F> = Reassembler<F, State>;

type FullView<'v, F> = View<'v, F, State>;

impl<F: Family> Node for FullReassembly<F> {
    const NAME: &'static str = F::FULL;
    const TIMED: bool = true;
    type Next = F::FullNext;
    type Drop = R;
    type View<'v> = FullView<'v, F>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> FullView<'v, F> {
        self.look(guard)
    }

    fn step(view: &mut FullView<'_, F>, p: &mut Packet<'_>) -> Step<F::FullNext, R> {
        let table = super::table_of(view.plane, view.guard, p.d.rx, F::IS_V6);
        let f = match F::read(p, table) {
            Ok(Some(f)) => f,
            Ok(None) => return Ok(F::pass()),
            Err((why, None)) => return Err(why.into()),
            Err((why, Some(ask))) => {
                p.count(why);
                p.d.aux = ask.word();
                return Ok(F::error());
            }
        };
        if p.has(flags::CSUM_PARTIAL | flags::GSO) {
            return Err(R::Offload.into());
        }
        super::to_owner(view.plane, p, &f.key)?;
        expire::<F, State>(view.store, p.env, view.settings, 2);
        put::<F>(view, p, f)
    }

    fn due_ns(&self) -> Option<u64> {
        self.due()
    }

    fn tick(&mut self, env: &mut Env, guard: &Guard) -> bool {
        self.time(env, guard)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

/// Drops what is held of a datagram, and will drop what comes of it.
fn refuse<F: Family>(
    store: &mut Store<F::Key, State>,
    env: &mut Env,
    c: u32,
    why: R,
) -> Step<F::FullNext, R> {
    store.refuse(c, |d| env.drop(d, why));
    let state = store.table.state(c);
    *state = State { refused: true, ..State::default() };
    Err(why.into())
}

fn put<F: Family>(
    view: &mut FullView<'_, F>,
    p: &mut Packet<'_>,
    f: Fragment<F::Key>,
) -> Step<F::FullNext, R> {
    let (store, settings) = (&mut *view.store, view.settings);
    let size = p.total_len() as u32;
    let len = f.to - f.from;
    let buffers = p.env.buffers.count(p.d);
    let Some(c) = store.open(f.key, p.env.now_ns, settings, |d| p.env.drop(d, R::Evicted)) else {
        return Err(R::Off.into());
    };
    let state = *store.table.state(c);
    if state.refused {
        return Err(R::Refused.into());
    }
    let behind = match store.table.place(c, f.from, f.to) {
        Place::Same(q) => {
            let same = store.table.piece(q).is_some_and(|q| {
                let last = state.total == Some(f.to);
                last != f.more && same_bytes(&p.env.buffers, p.d, f.header, &q.d, q.header, len)
            });
            if same {
                return Err(R::Duplicate.into());
            }
            return refuse::<F>(store, p.env, c, R::Overlap);
        }
        Place::Overlap => return refuse::<F>(store, p.env, c, R::Overlap),
        Place::Behind(behind) => behind,
    };
    let contradicts = match state.total {
        Some(total) => !f.more || f.to >= total,
        None => !f.more && store.table.end(c) > f.to,
    };
    if contradicts {
        return refuse::<F>(store, p.env, c, R::BadEnd);
    }
    if store.table.count(c) >= settings.max_length {
        return refuse::<F>(store, p.env, c, R::TooMany);
    }
    while !store.has_room(buffers) {
        if store.evict(|d| p.env.drop(d, R::Evicted)) == Some(c) {
            return Err(R::Evicted.into());
        }
    }
    if !store.hold(c, behind, p.d, (f.from, f.to), f.header, buffers) {
        return Err(R::Evicted.into());
    }
    let state = store.table.state(c);
    state.covered += len;
    state.largest = state.largest.max(size);
    state.ecn |= 1 << f.ecn;
    if !f.more {
        state.total = Some(f.to);
    }
    if state.total == Some(state.covered) {
        let state = *state;
        complete::<F>(store, p.env, c, &state);
    }
    Err(Exit::Consumed)
}

/// As many bytes of a datagram stand in its first buffer, however short its fragments were: headers of all layers, and those
/// within tunnels.
const HEADERS: usize = 256;

/// Sends the datagram on of which all fragments are there.
fn complete<F: Family>(store: &mut Store<F::Key, State>, env: &mut Env, c: u32, state: &State) {
    // RFC 3168 section 5.3.
    let congestion = state.ecn & 1 << 3 != 0;
    if congestion && state.ecn & 1 != 0 {
        store.complete(c, |p| env.drop(p.d, R::BadEcn));
        return;
    }
    let (mut chain, mut header): (Option<Chain>, _) = (None, 0);
    store.complete(c, |p| {
        let b = &mut env.buffers;
        match &mut chain {
            None => (chain, header) = (Some(Chain::new(b, p.d)), p.header),
            Some(chain) => {
                let d = Desc { off: p.d.off + p.header as u16, len: p.d.len - p.header as u16, ..p.d };
                chain.join(b, d);
            }
        }
    });
    // A datagram that is complete has a first fragment.
    let Some(mut whole) = chain.map(Chain::done) else { return };
    let b = &mut env.buffers;
    let group = F::finish(&mut whole, b, header, state.covered, congestion);
    b.pull(&mut whole, HEADERS);
    whole.flags = whole.flags & !flags::CSUM_VALID | REASSEMBLED;
    b.meta_mut(&whole.buf).user[LARGEST] = state.largest;
    env.count(R::Completed);
    env.forward(whole, if group { F::local() } else { F::pass() });
}

/// Whether `len` bytes of two packets, from these offsets on, are the same.
fn same_bytes(b: &Buffers, x: &Desc, x_at: u32, y: &Desc, y_at: u32, len: u32) -> bool {
    let (mut left, mut right) = ([0; 512], [0; 512]);
    let (x_at, y_at, len) = (x_at as usize, y_at as usize, len as usize);
    (0..len).step_by(left.len()).all(|at| {
        let n = (len - at).min(left.len());
        b.copy_out(x, x_at + at, &mut left[..n]);
        b.copy_out(y, y_at + at, &mut right[..n]);
        left[..n] == right[..n]
    })
}
