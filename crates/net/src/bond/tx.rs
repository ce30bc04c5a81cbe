//! `bond-tx`: chooses the member over which a frame of a bond leaves.

use super::Mode;
use super::hash::Hash;
use super::plane::{Bond, Bonds};
use super::slots::slot_of;
use crate::interface::IfIndex;
use crate::plane::{IfCache, Plane};
use graph::counters::{Run, Table};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, Published, QuickNode, Rooms, TraceRecord, flags, quick};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `bond-tx` sends frames.
    pub enum BondTxNext { Member => "@interface-output" }
}

graph::reasons! {
    /// What `bond-tx` counts.
    pub enum BondTxReason {
        /// The interface is no bond any more.
        Gone => "bond-gone",
        /// No member of the bond is active.
        NoMember => "bond-no-active-member",
        /// A copy was sent, of a bond that broadcasts.
        Copied => "bond-copies" (info),
        /// A member of a bond that broadcasts got no copy: only buffers that other packets need are left.
        NoBuffers => "bond-no-buffers" (info),
    }
}

/// The node.
pub struct BondTx {
    plane: Arc<Plane>,
    bonds: Arc<Published<Bonds>>,
    sent: Arc<Table>,
    /// Packets that went round, of all bonds.
    turn: Cell<u32>,
}

impl BondTx {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        BondTx {
            plane: Arc::clone(plane),
            bonds: plane.publish(),
            sent: plane.counters.tx.of(worker),
            turn: Cell::new(worker as u32),
        }
    }
}

/// Snapshot of one vector.
pub struct BondTxView<'v> {
    bonds: &'v Bonds,
    ifs: IfCache<'v>,
    sent: &'v Table,
    turn: &'v Cell<u32>,
    seed: u32,
    last: IfIndex,
    bond: Option<&'v Bond>,
}

/// The next one, of those that go round.
#[inline(always)]
fn next_turn(turn: &Cell<u32>) -> u32 {
    turn.set(turn.get().wrapping_add(1));
    turn.get()
}

impl Bond {
    /// The member that has the flows of a hash.
    #[inline(always)]
    fn member_of(&self, hash: u32) -> Option<IfIndex> {
        self.tx.get(usize::from(self.slots[slot_of(hash)])).copied()
    }

    /// The member whose turn it is.
    #[inline(always)]
    fn member_in_turn(&self, turn: u32) -> Option<IfIndex> {
        self.tx.get(turn as usize % self.tx.len().max(1)).copied()
    }
}

impl BondTxView<'_> {
    /// Sends a frame, or a copy of it, over a member; the features that the member has for it.
    #[inline(always)]
    fn over(&mut self, d: &mut Desc, member: IfIndex) {
        (d.tx, d.aux) = (member, member);
        d.feat = self.ifs.get(member).map_or(0, |i| i.output);
    }

    /// Copies for all members but the last one.
    #[cold]
    fn copies(&mut self, p: &mut Packet<'_>, tx: &[IfIndex]) {
        for member in tx.split_last().map_or(&[][..], |(_, others)| others) {
            // The last eighth of the pool is for frames that are received.
            let pool = p.env.buffers.pool();
            let copy = if pool.global_free() < pool.count() / 8 { None } else { p.duplicate() };
            let Some(mut copy) = copy else {
                p.count(BondTxReason::NoBuffers);
                continue;
            };
            p.count(BondTxReason::Copied);
            self.over(&mut copy, *member);
            p.env.forward(copy, BondTxNext::Member);
        }
    }
}

impl Node for BondTx {
    const NAME: &'static str = "bond-tx";
    type Next = BondTxNext;
    type Drop = BondTxReason;
    type View<'v> = BondTxView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> BondTxView<'v> {
        BondTxView {
            bonds: self.bonds.load(guard),
            ifs: IfCache::new(&self.plane, guard),
            sent: &self.sent,
            turn: &self.turn,
            seed: self.plane.config.load(guard).hash_seed,
            last: IfIndex::MAX,
            bond: None,
        }
    }

    #[inline]
    fn step(view: &mut BondTxView<'_>, p: &mut Packet<'_>) -> Step<BondTxNext, BondTxReason> {
        let index = p.d.tx;
        if index != view.last {
            (view.last, view.bond) = (index, view.bonds.bond(index));
        }
        let Some(bond) = view.bond else { return Err(BondTxReason::Gone.into()) };
        let member = match bond.mode {
            Mode::Xor | Mode::Lacp => bond.member_of(Hash::new(view.seed, bond.balance).of(p.data())),
            Mode::ActiveBackup => bond.tx.first().copied(),
            Mode::RoundRobin => bond.member_in_turn(next_turn(view.turn)),
            Mode::Broadcast => bond.tx.last().copied(),
        };
        let Some(member) = member else { return Err(BondTxReason::NoMember.into()) };
        view.sent.count(index, p.total_len());
        if bond.mode == Mode::Broadcast {
            view.copies(p, &bond.tx);
        }
        view.over(p.d, member);
        Ok(BondTxNext::Member)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::output(r, f)
    }
}

/// The usual frames: those of one bond, all of whose members have the same features.
pub struct Common<'v> {
    index: IfIndex,
    bond: &'v Bond,
    hash: Hash,
    features: u32,
    sent: &'v Table,
    turn: &'v Cell<u32>,
}

impl Common<'_> {
    #[inline(always)]
    fn send(
        &self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
        member: impl Fn(&Bond, &Desc, &mut Rooms<'_>) -> Option<IfIndex>,
    ) -> usize {
        let (index, bond) = (self.index, self.bond);
        let mut counts = Run::new(self.sent);
        counts.turn(index);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            if d.tx != index {
                return false;
            }
            let Some(member) = member(bond, d, &mut rooms) else { return false };
            counts.count(d.len);
            (d.tx, d.aux) = (member, member);
            true
        })
    }
}

impl QuickNode for BondTx {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &BondTxView<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(BondTxNext, Common<'v>)> {
        let bond = view.bonds.bond(first.tx).filter(|b| b.mode != Mode::Broadcast)?;
        let mut output = bond.tx.iter().map(|m| view.ifs.peek(*m).map_or(0, |i| i.output));
        let features = output.next()?;
        let common = Common {
            index: first.tx,
            bond,
            hash: Hash::new(view.seed, bond.balance),
            features,
            sent: view.sent,
            turn: view.turn,
        };
        output.all(|o| o == features).then_some((BondTxNext::Member, common))
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features
    }

    const SORTS: bool = true;

    /// Frames of one bond.
    fn kinds(_: &mut BondTxView<'_>, descs: &[Desc], _rooms: Rooms<'_>, kinds: &mut [u32]) {
        for (d, kind) in descs.iter().zip(kinds) {
            *kind = d.tx;
        }
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        let (hash, turn) = (common.hash, common.turn);
        match common.bond.mode {
            Mode::Xor | Mode::Lacp => common.send(descs, rooms, |bond, d, rooms| {
                let hash = rooms.window::<0>(d).and_then(|w| hash.near(w, d.len))?;
                bond.member_of(hash)
            }),
            Mode::ActiveBackup => common.send(descs, rooms, |bond, _, _| bond.tx.first().copied()),
            Mode::RoundRobin => common.send(descs, rooms, |bond, _, _| bond.member_in_turn(next_turn(turn))),
            Mode::Broadcast => 0,
        }
    }
}
