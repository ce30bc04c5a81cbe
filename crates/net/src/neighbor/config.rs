//! Timers and limits.

/// Timers (milliseconds) and limits of a [`super::NeighborTable`]. The defaults are those of RFC 4861, section 10,
/// where it names one; IPv4 uses the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborConfig {
    /// Between two solicitations (RetransTimer).
    pub retrans_timer: u64,
    /// Solicitations to the group, or broadcast requests, before a neighbour counts as absent.
    pub max_multicast_solicit: u8,
    /// Unicast probes of a neighbour that was there before it counts as gone.
    pub max_unicast_solicit: u8,
    /// From the first packet to a stale neighbour until it is probed.
    pub delay_first_probe: u64,
    /// How long a confirmation holds, before it is spread.
    pub base_reachable: u64,
    /// Spreads `base_reachable` by up to so many percent up or down (MIN_ and MAX_RANDOM_FACTOR).
    pub reachable_spread: u8,
    /// A stale neighbour that nobody uses is forgotten after this time.
    pub gc_stale: u64,
    /// After a failure the answer "unreachable" is kept this long; it doubles with each failure in a row.
    pub negative: u64,
    /// The most that `negative` grows to.
    pub negative_max: u64,
    /// Entries of all interfaces.
    pub max_entries: usize,
    /// Entries of one interface.
    pub max_per_interface: usize,
    /// Addresses of one interface that are being resolved at the same time.
    pub max_incomplete: usize,
    /// A stale entry younger than this does not make room for a new resolution (RFC 6583, 6.2).
    pub stale_protect: u64,
    /// Multicast and broadcast solicitations a second, on one interface.
    pub solicit_rate: u32,
    /// How many of them may leave at once.
    pub solicit_burst: u32,
    /// Unicast probes a second, on one interface; a tenth of that may leave at once.
    pub probe_rate: u32,
    /// Create entries from gratuitous ARP, too.
    pub learn_gratuitous: bool,
}

impl Default for NeighborConfig {
    fn default() -> Self {
        Self {
            retrans_timer: 1_000,
            max_multicast_solicit: 3,
            max_unicast_solicit: 3,
            delay_first_probe: 5_000,
            base_reachable: 30_000,
            reachable_spread: 50,
            gc_stale: 20 * 60_000,
            negative: 3_000,
            negative_max: 60_000,
            max_entries: 262_144,
            max_per_interface: 131_072,
            max_incomplete: 1_024,
            stale_protect: 60_000,
            solicit_rate: 1_000,
            solicit_burst: 100,
            probe_rate: 10_000,
            learn_gratuitous: false,
        }
    }
}

impl NeighborConfig {
    /// Raises zeros that would stop the machine or make it spin.
    pub(crate) fn checked(mut self) -> Self {
        for timer in [
            &mut self.retrans_timer,
            &mut self.delay_first_probe,
            &mut self.base_reachable,
            &mut self.gc_stale,
            &mut self.negative,
            &mut self.negative_max,
        ] {
            *timer = (*timer).max(1);
        }
        self.max_multicast_solicit = self.max_multicast_solicit.max(1);
        self.max_unicast_solicit = self.max_unicast_solicit.max(1);
        self.reachable_spread = self.reachable_spread.min(99);
        self
    }
}

/// What happens before an IPv6 address may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DadMode {
    /// No duplicate address detection.
    Off,
    /// The address is used at once, and withdrawn when the detection finds another owner (after RFC 4429).
    #[default]
    Optimistic,
    /// The address is used when the detection is through (RFC 4862, 5.4).
    Strict,
}

/// Timers (milliseconds) and counts of an [`super::AddressTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressConfig {
    /// Solicitations of duplicate address detection (DupAddrDetectTransmits); 0 switches it off.
    pub dad_transmits: u8,
    /// Between two of them, and from the last one to success (RetransTimer).
    pub retrans_timer: u64,
    /// The first one waits a random time up to this (MAX_RTR_SOLICITATION_DELAY; RFC 4862, 5.4.2).
    pub dad_delay_max: u64,
    /// Unsolicited advertisements of a new address (at most MAX_NEIGHBOR_ADVERTISEMENT, 3), a `retrans_timer` apart.
    pub unsolicited_na: u8,
    /// Gratuitous ARP for a new address (ANNOUNCE_NUM).
    pub announce_num: u8,
    /// Between two of them (ANNOUNCE_INTERVAL).
    pub announce_interval: u64,
    /// An address is defended once in this time (DEFEND_INTERVAL; RFC 5227, 2.4).
    pub defend_interval: u64,
}

impl Default for AddressConfig {
    fn default() -> Self {
        Self {
            dad_transmits: 1,
            retrans_timer: 1_000,
            dad_delay_max: 1_000,
            unsolicited_na: 3,
            announce_num: 2,
            announce_interval: 2_000,
            defend_interval: 10_000,
        }
    }
}

impl AddressConfig {
    pub(crate) fn checked(mut self) -> Self {
        self.retrans_timer = self.retrans_timer.max(1);
        self.announce_interval = self.announce_interval.max(1);
        self
    }
}
