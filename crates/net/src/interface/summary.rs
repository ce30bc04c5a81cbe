//! What short cuts ask of an interface, in one word: they may come to another interface with every packet, and thousands of
//! words lie where a few interfaces would.

use super::{IfIndex, Interface, MAX_INTERFACES, ifflags};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The word of an interface; zero where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IfSummary(u64);

impl IfSummary {
    /// Up, and its packets are routed.
    pub const ROUTED: u64 = 1 << 0;
    /// That, and it takes IPv4 packets.
    pub const IP4: u64 = 1 << 1;
    /// That, and it takes IPv6 packets.
    pub const IP6: u64 = 1 << 2;
    /// Up, and in a bridge domain.
    pub const BRIDGED: u64 = 1 << 3;
    /// IPv4 packets have features to visit.
    pub const FEATURES4: u64 = 1 << 4;
    /// IPv6 packets have.
    pub const FEATURES6: u64 = 1 << 5;
    /// Frames on layer 2 have.
    pub const FEATURES_L2: u64 = 1 << 6;
    /// Packets to the router have.
    const FEATURES_LOCAL: u64 = 1 << 7;

    /// That of an interface. Places of tables and numbers of bridge domains have 16 bits.
    pub fn new(i: &Interface) -> IfSummary {
        let mut bits = 0;
        let mut set = |on: bool, bit| bits |= if on { bit } else { 0 };
        let routed = i.is(ifflags::UP) && !i.is(ifflags::L2);
        set(routed, IfSummary::ROUTED);
        set(routed && i.takes_ip4(), IfSummary::IP4);
        set(routed && i.takes_ip6(), IfSummary::IP6);
        set(i.is(ifflags::UP | ifflags::L2) && i.bridge.is_some(), IfSummary::BRIDGED);
        set(i.ip4_unicast != 0, IfSummary::FEATURES4);
        set(i.ip6_unicast != 0, IfSummary::FEATURES6);
        set(i.l2_input != 0, IfSummary::FEATURES_L2);
        set(i.ip4_local | i.ip6_local != 0, IfSummary::FEATURES_LOCAL);
        let bridge = i.bridge.map_or(0, |b| b.bridge.in_key());
        let place = |table: u32| u64::from(table as u16);
        IfSummary(bits | place(i.table4) << 16 | place(i.table6) << 32 | bridge)
    }

    /// Whether those of `mask` that are set are these.
    #[inline(always)]
    pub fn has(self, mask: u64, bits: u64) -> bool {
        self.0 & mask == bits
    }

    /// The place of its IPv4 table.
    #[inline(always)]
    pub fn table4(self) -> u32 {
        (self.0 >> 16) as u16 as u32
    }

    /// The place of its IPv6 table.
    #[inline(always)]
    pub fn table6(self) -> u32 {
        (self.0 >> 32) as u16 as u32
    }

    /// The number of its bridge domain; 0 where it is in none.
    #[inline(always)]
    pub fn bridge(self) -> u32 {
        (self.0 >> 48) as u32
    }
}

/// The words of all interfaces.
pub struct IfSummaries {
    words: Box<[AtomicU64]>,
    /// How many interfaces have features for packets to the router.
    local: AtomicU32,
}

impl IfSummaries {
    /// No interfaces.
    pub fn new() -> Self {
        let words = (0..MAX_INTERFACES).map(|_| AtomicU64::default()).collect();
        IfSummaries { words, local: AtomicU32::new(0) }
    }

    /// The word of an interface.
    #[inline(always)]
    pub fn get(&self, index: IfIndex) -> IfSummary {
        IfSummary(self.words.get(index as usize).map_or(0, |w| w.load(Relaxed)))
    }

    /// Brings the word of an interface near.
    #[inline(always)]
    pub fn prefetch(&self, index: IfIndex) {
        graph::prefetch(self.words.as_ptr().wrapping_add(index as usize));
    }

    /// Publishes an interface, or that there is none.
    pub fn set(&self, index: IfIndex, interface: Option<&Interface>) {
        let Some(w) = self.words.get(index as usize) else { return };
        let now = interface.map(IfSummary::new).unwrap_or_default();
        let was = IfSummary(w.load(Relaxed));
        let has = |b: IfSummary| u32::from(b.has(IfSummary::FEATURES_LOCAL, IfSummary::FEATURES_LOCAL));
        // In this order there is none that has some and is not counted.
        self.local.fetch_add(has(now), Relaxed);
        w.store(now.0, Relaxed);
        self.local.fetch_sub(has(was), Relaxed);
    }

    /// Whether any interface has features for packets to the router.
    #[inline]
    pub fn any_local(&self) -> bool {
        self.local.load(Relaxed) != 0
    }
}

impl Default for IfSummaries {
    fn default() -> Self {
        Self::new()
    }
}
