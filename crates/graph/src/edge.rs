//! How a node names where its packets go and why they end.

/// Number of a node in the graph; the same in every worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// A node's own enum of the places its packets go to; made by [`crate::edges!`].
pub trait Edge: Copy + 'static {
    /// Names of the target nodes, in the order of the variants. `@name` means "the next feature of arc `name`".
    const TARGETS: &'static [&'static str];
    /// Position in `TARGETS`.
    fn index(self) -> usize;
}

/// How an operator should read a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A packet was dropped.
    Error,
    /// Something happened that is worth counting.
    Info,
}

/// A node's own enum of drop reasons and events; made by [`crate::reasons!`].
pub trait Reason: Copy + 'static {
    /// Name, description and severity of each, in the order of the variants.
    const ALL: &'static [(&'static str, &'static str, Severity)];
    /// Position in `ALL`.
    fn index(self) -> usize;
}

/// Declares a node's edges: `edges! { pub enum Next { Lookup => "ip4-lookup", Features => "@ip4-unicast" } }`.
#[macro_export]
macro_rules! edges {
    ($(#[$m:meta])* $v:vis enum $name:ident { $($(#[$vm:meta])* $var:ident => $target:literal),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $v enum $name { $($(#[$vm])* #[doc = concat!("To `", $target, "`.")] $var),* }
        impl $crate::Edge for $name {
            const TARGETS: &'static [&'static str] = &[$($target),*];
            #[inline]
            fn index(self) -> usize { self as usize }
        }
    };
}

/// Declares a node's drop reasons; the doc comment is the description that operators see. `(info)` behind a name
/// marks an event that drops nothing.
#[macro_export]
macro_rules! reasons {
    (@sev) => { $crate::Severity::Error };
    (@sev info) => { $crate::Severity::Info };
    ($(#[$m:meta])* $v:vis enum $name:ident { $(#[doc = $doc:literal] $var:ident => $text:literal $(($sev:ident))?),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $v enum $name { $(#[doc = $doc] $var),* }
        impl $crate::Reason for $name {
            const ALL: &'static [(&'static str, &'static str, $crate::Severity)] =
                &[$(($text, $doc, $crate::reasons!(@sev $($sev)?))),*];
            #[inline]
            fn index(self) -> usize { self as usize }
        }
    };
}

/// For nodes without edges or without drop reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {}

impl Edge for Never {
    const TARGETS: &'static [&'static str] = &[];
    fn index(self) -> usize {
        match self {}
    }
}

impl Reason for Never {
    const ALL: &'static [(&'static str, &'static str, Severity)] = &[];
    fn index(self) -> usize {
        match self {}
    }
}
