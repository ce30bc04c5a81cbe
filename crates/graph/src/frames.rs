//! The vectors that wait for their nodes, one list a node, all made before the first packet.

use crate::desc::{Desc, Packets, Vector};
use crate::edge::NodeId;

/// Pending vectors of all nodes of one worker.
pub struct Frames {
    pending: Vec<Vec<Box<Vector>>>,
    ready: Vec<u64>,
    free: Vec<Box<Vector>>,
    lost: u64,
}

impl Frames {
    /// Room for `nodes` nodes and as many full vectors as `buffers` packets can fill.
    pub fn new(nodes: usize, buffers: usize) -> Self {
        let total = buffers / crate::VECTOR_SIZE + 2 * nodes + 8;
        Frames {
            pending: (0..nodes).map(|_| Vec::with_capacity(total)).collect(),
            ready: vec![0; nodes.div_ceil(64)],
            free: (0..total).map(|_| Vector::boxed()).collect(),
            lost: 0,
        }
    }

    /// Packets that found no vector. Cannot happen: vectors suffice for every buffer of the pool.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    #[inline]
    fn mark(&mut self, node: NodeId) {
        self.ready[node.0 as usize / 64] |= 1 << (node.0 % 64);
    }

    /// Appends a packet to what waits for `node`; gives it back when no vector is left.
    #[inline]
    pub fn push(&mut self, node: NodeId, d: Desc) -> Result<(), Desc> {
        if let Some(v) = self.pending[node.0 as usize].last_mut()
            && v.room() != 0
        {
            v.put(d);
            return Ok(());
        }
        self.push_slow(node, d)
    }

    /// Appends packets to what waits for `node`; those that find no vector stay.
    #[inline]
    pub fn push_all(&mut self, node: NodeId, packets: &mut Packets<'_>) {
        loop {
            if let Some(v) = self.pending[node.0 as usize].last_mut() {
                v.append(packets);
            }
            if packets.is_empty() || !self.next_vector(node) {
                break;
            }
        }
    }

    #[cold]
    fn push_slow(&mut self, node: NodeId, d: Desc) -> Result<(), Desc> {
        if !self.next_vector(node) {
            return Err(d);
        }
        match self.pending[node.0 as usize].last_mut() {
            Some(v) => v.push(d),
            None => Err(d),
        }
    }

    /// Has one more vector wait for `node`, an empty one; false when none is left.
    #[cold]
    fn next_vector(&mut self, node: NodeId) -> bool {
        let Some(v) = self.free.pop() else {
            self.lost += 1;
            return false;
        };
        self.pending[node.0 as usize].push(v);
        self.mark(node);
        true
    }

    /// Hands the whole vector on to `node` without copying, if nothing waits there; `v` is empty afterwards. False
    /// when its packets have to be pushed one by one.
    #[inline]
    pub fn pass(&mut self, node: NodeId, v: &mut Box<Vector>) -> bool {
        if !self.pending[node.0 as usize].is_empty() {
            return false;
        }
        let Some(empty) = self.free.pop() else { return false };
        let full = core::mem::replace(v, empty);
        self.pending[node.0 as usize].push(full);
        self.mark(node);
        true
    }

    /// The first node from `from` on, cyclically, for which packets wait.
    #[inline]
    pub fn next_ready(&self, from: u16) -> Option<NodeId> {
        let n = self.ready.len();
        let (word, bit) = (from as usize / 64, from % 64);
        let first = self.ready.get(word)? & (!0u64 << bit);
        if first != 0 {
            return Some(NodeId((word * 64) as u16 + first.trailing_zeros() as u16));
        }
        for k in 1..=n {
            let w = (word + k) % n;
            if self.ready[w] != 0 {
                return Some(NodeId((w * 64) as u16 + self.ready[w].trailing_zeros() as u16));
            }
        }
        None
    }

    /// Takes the oldest vector that waits for `node`.
    #[inline]
    pub fn take(&mut self, node: NodeId) -> Option<Box<Vector>> {
        let list = &mut self.pending[node.0 as usize];
        if list.is_empty() {
            return None;
        }
        let v = list.remove(0);
        if list.is_empty() {
            self.ready[node.0 as usize / 64] &= !(1 << (node.0 % 64));
        }
        Some(v)
    }

    /// Gives an empty vector back.
    #[inline]
    pub fn give(&mut self, mut v: Box<Vector>) {
        let _ = v.take();
        self.free.push(v);
    }

    /// An empty vector, for an input to fill.
    pub fn empty(&mut self) -> Option<Box<Vector>> {
        self.free.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VECTOR_SIZE;
    use crate::handle::Buffer;

    #[test]
    fn packets_keep_their_order_over_full_vectors() {
        let mut f = Frames::new(70, 1024);
        for i in 0..600 {
            f.push(NodeId(65), Desc { buf: Buffer(i), ..Desc::default() }).unwrap();
        }
        f.push(NodeId(3), Desc::default()).unwrap();
        assert_eq!(f.next_ready(0), Some(NodeId(3)));
        assert_eq!(f.next_ready(4), Some(NodeId(65)));
        assert_eq!(f.next_ready(66), Some(NodeId(3)), "wraps around");
        let mut seen = vec![];
        while let Some(v) = f.take(NodeId(65)) {
            assert!(v.len() <= VECTOR_SIZE);
            seen.extend(v.as_slice().iter().map(|d| d.buf.number()));
            f.give(v);
        }
        assert_eq!(seen, (0..600).collect::<Vec<_>>());
        assert_eq!(f.next_ready(4), Some(NodeId(3)));
    }

    #[test]
    fn many_at_once_are_as_many_one_by_one() {
        let mut f = Frames::new(1, 1024);
        for range in [0..1, 1..3, 3..3, 3..300, 300..600, 600..700] {
            let mut packets: Vec<Desc> = range.map(|n| Desc { buf: Buffer(n), ..Desc::default() }).collect();
            let mut packets = Packets::drain(&mut packets);
            f.push_all(NodeId(0), &mut packets);
            assert!(packets.is_empty());
        }
        let mut seen = vec![];
        while let Some(mut v) = f.take(NodeId(0)) {
            seen.extend(v.take().map(|d| d.buf.number()));
            f.give(v);
        }
        assert_eq!(seen, (0..700).collect::<Vec<_>>());
        let mut f = Frames::new(1, 0);
        let mut many: Vec<Desc> = (0..1 << 13).map(|_| Desc::default()).collect();
        let mut left = Packets::drain(&mut many);
        f.push_all(NodeId(0), &mut left);
        let fits = (1 << 13) - left.len();
        assert!(fits > 0 && fits.is_multiple_of(VECTOR_SIZE), "until no vector is left");
    }

    #[test]
    fn a_whole_vector_passes_only_where_nothing_waits() {
        let mut f = Frames::new(4, 256);
        let mut v = f.empty().unwrap();
        assert!(v.push(Desc { buf: Buffer(7), ..Desc::default() }).is_ok());
        assert!(f.pass(NodeId(1), &mut v));
        assert!(v.is_empty());
        assert!(v.push(Desc { buf: Buffer(8), ..Desc::default() }).is_ok());
        assert!(!f.pass(NodeId(1), &mut v));
    }

    #[test]
    fn no_vector_left_gives_the_packet_back() {
        let mut f = Frames::new(1, 0);
        let mut n = 0;
        while f.push(NodeId(0), Desc { buf: Buffer(n), ..Desc::default() }).is_ok() {
            n += 1;
        }
        assert_eq!(f.lost(), 1);
        assert_eq!(n as usize % VECTOR_SIZE, 0);
    }
}
