//! Who gives commands.

/// What a command needs, and what an operator has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Looks only.
    Read,
    /// Changes something.
    Write,
}

/// Who gives a command: what files it names are opened with these rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What it may do.
    pub access: Access,
    /// Its user, by number.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Its further groups.
    pub groups: Vec<u32>,
    /// Its process, where that is known.
    pub process: Option<u32>,
}
