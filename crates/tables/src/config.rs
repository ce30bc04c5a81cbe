//! What the owner of a longest-prefix match table chooses.

use crate::CpuLevel;

/// What a table may use.
#[derive(Debug, Clone, Copy, Default)]
pub struct LpmConfig {
    /// Instructions for the batch lookup; lowered to what the processor has.
    pub level: CpuLevel,
    /// Most bytes of memory the table may take, control side included.
    pub limit: Option<usize>,
    /// When to ask for huge pages.
    pub pages: Pages,
}

/// When a table asks for huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// Never.
    Small,
    /// From the start.
    Huge,
    /// From the time it holds a few thousand prefixes, so that an idle router stays small.
    #[default]
    Auto,
}

/// With as many prefixes, a table asks for huge pages ([`Pages::Auto`]).
pub(crate) const LARGE: usize = 4096;
