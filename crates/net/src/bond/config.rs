//! What an operator wants of bonds and their members.

/// The largest number of a bond, as in VPP.
pub const MAX_INSTANCE: u32 = 4_294_967_293;
/// The most members of a bond.
pub const MOST_MEMBERS: usize = 64;

/// How a bond uses its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Packets leave over one after another.
    RoundRobin,
    /// One is used, the others wait.
    ActiveBackup,
    /// Each flow leaves over one of them, as its hash says.
    Xor,
    /// Packets leave over all of them.
    Broadcast,
    /// As [`Mode::Xor`], over those on which the other end agrees (IEEE 802.1AX, formerly 802.3ad).
    #[default]
    Lacp,
}

impl Mode {
    /// All, with their words.
    pub const ALL: [(&'static str, Mode); 5] = [
        ("round-robin", Mode::RoundRobin),
        ("active-backup", Mode::ActiveBackup),
        ("xor", Mode::Xor),
        ("broadcast", Mode::Broadcast),
        ("lacp", Mode::Lacp),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, m)| *m == self).map_or("", |(name, _)| name)
    }

    /// Whether the hash of a flow chooses its member.
    pub fn balances(self) -> bool {
        matches!(self, Mode::Xor | Mode::Lacp)
    }
}

/// What of a frame its hash is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// MAC addresses.
    L2,
    /// MAC and IP addresses.
    L23,
    /// IP addresses, protocol and ports.
    #[default]
    L34,
}

impl Balance {
    /// All, with their words.
    pub const ALL: [(&'static str, Balance); 3] =
        [("l2", Balance::L2), ("l23", Balance::L23), ("l34", Balance::L34)];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, b)| *b == self).map_or("", |(name, _)| name)
    }
}

/// What an operator wants of a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BondConfig {
    /// How it uses its members.
    pub mode: Mode,
    /// What chooses among them, where the mode balances.
    pub balance: Balance,
    /// The fewest active members with which it has link, 1 to [`MOST_MEMBERS`].
    pub min_links: u8,
}

impl Default for BondConfig {
    fn default() -> Self {
        BondConfig { mode: Mode::default(), balance: Balance::default(), min_links: 1 }
    }
}

impl BondConfig {
    /// Whether it can be.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MOST_MEMBERS as u8).contains(&self.min_links) {
            let n = self.min_links;
            return Err(format!("{n} is not a number of links that a bond needs: 1 to {MOST_MEMBERS}"));
        }
        Ok(())
    }
}

/// What an operator wants of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberConfig {
    /// LACP speaks when it is spoken to.
    pub passive: bool,
    /// LACP wants to hear from the other end every 30 seconds, and believes it for 90; else every second, and for 3.
    pub long_timeout: bool,
    /// Active-backup prefers members with more.
    pub weight: u32,
}

/// The number of a bond of this name.
pub fn is_name(name: &str) -> Option<u32> {
    let number = name.strip_prefix("BondEthernet")?;
    number.parse().ok().filter(|n: &u32| n.to_string() == number && *n <= MAX_INSTANCE)
}
