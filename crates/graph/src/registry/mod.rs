//! All counters of a router: each is declared once, with its name, its unit and what it means, and stands in memory that
//! other processes can map and read without asking the router.
//!
//! The memory is a file without a name ([`Registry::file`]). It begins with a page of `Header`, which leads to the
//! *directory*, a text that [`Reader`] reads: which counters there are, by what they are counted (nodes, interfaces, ...),
//! and where in the file each worker's values stand. Values are words of 64 bits with one writer each. Each worker's begin
//! on a page of their own, and what a worker never counts in takes no memory.
//!
//! ```
//! use graph::registry::{Group, Owner, Reader, Registry};
//! graph::counter_group! {
//!     /// What a cook counts.
//!     pub struct Cook {
//!         /// Cakes that came out well.
//!         pub good: Packets,
//!         /// Cakes that were burnt.
//!         pub burnt: Packets,
//!     }
//! }
//! const COOKS: Group = Group { name: "cook", by: &["oven"], ..Group::NEW };
//! let registry = Registry::new()?;
//! let ovens = registry.cells::<Cook>(&COOKS, Owner::Worker(0), 4)?;
//! registry.publish()?;
//! ovens[2].burnt.add(7);
//! let reader = Reader::open(registry.file()?)?;
//! let found = reader.find("cook/burnt").unwrap();
//! assert_eq!(reader.value(found, &[2])?, 7);
//! assert_eq!((found.unit.as_str(), found.help.as_str()), ("packets", "Cakes that were burnt."));
//! # Ok::<(), std::io::Error>(())
//! ```

mod count;
mod directory;
mod reader;
mod rows;
mod segment;

pub use count::Count;
pub use directory::{Axis, Entry, Part};
pub use reader::{Reader, Values};
pub use rows::Rows;
pub use segment::Cells;

use directory::Declared;
use rustix::fd::OwnedFd;
use segment::Segment;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// TSC clocks.
    Clocks,
    /// How often something happened.
    Times,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Packets => "packets",
            Unit::Bytes => "bytes",
            Unit::Clocks => "clocks",
            Unit::Times => "times",
        })
    }
}

/// How values of several workers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They are added up; a value only grows.
    Sum,
    /// The largest counts; the control side may start it at 0 again.
    Most,
}

/// One counter of a [`Layout`].
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, as an identifier; empty where the group's name says it all.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// How values of several workers become one.
    pub kind: Kind,
    /// What it means, for operators.
    pub help: &'static str,
    /// Where it stands in the layout, bytes.
    pub offset: usize,
}

/// Counters that stand together. Made by [`counter_group!`](crate::counter_group!).
///
/// # Safety
/// It consists of [`Count`]s, at the offsets that `FIELDS` says, and of nothing that could be invalid.
#[allow(unsafe_code)]
pub unsafe trait Layout {
    /// The counters in it.
    const FIELDS: &'static [Field];
}

// SAFETY: one count at offset 0.
#[allow(unsafe_code)]
unsafe impl Layout for Count {
    const FIELDS: &'static [Field] =
        &[Field { name: "", unit: Unit::Packets, kind: Kind::Sum, help: "", offset: 0 }];
}

/// Declares counters that stand together: the doc comment of each is what operators read, then comes its [`Unit`], and
/// `(Most)` where the largest value of the workers counts and not their sum.
#[macro_export]
macro_rules! counter_group {
    (@kind) => { $crate::registry::Kind::Sum };
    (@kind $kind:ident) => { $crate::registry::Kind::$kind };
    ($(#[$m:meta])* $v:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $fv:vis $field:ident : $unit:ident $(($kind:ident))?),* $(,)?
    }) => {
        $(#[$m])*
        #[derive(Default)]
        #[repr(C)]
        $v struct $name { $($(#[doc = $doc])+ $fv $field: $crate::registry::Count),* }
        // SAFETY: counts and nothing else, at the offsets that the compiler says.
        #[allow(unsafe_code)]
        unsafe impl $crate::registry::Layout for $name {
            const FIELDS: &'static [$crate::registry::Field] = &[$($crate::registry::Field {
                name: stringify!($field),
                unit: $crate::registry::Unit::$unit,
                kind: $crate::counter_group!(@kind $($kind)?),
                help: concat!($($doc),+),
                offset: core::mem::offset_of!($name, $field),
            }),*];
        }
    };
}

/// What a [`Group`] says of a counter in place of its layout.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What it means, for operators.
    pub help: &'static str,
}

/// Counters of one layout and one meaning.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What the names of its counters begin with; a slash and the field's name follow.
    pub name: &'static str,
    /// By what they are counted, the outer first; empty: one value for each worker.
    pub by: &'static [&'static str],
    /// What its fields mean, where the layout does not say it, in their order.
    pub fields: &'static [Meaning],
}

impl Group {
    /// Nothing: what a group says of itself is written before it.
    pub const NEW: Group = Group { name: "", by: &[], fields: &[] };
}

/// Who writes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A worker, by its number.
    Worker(usize),
    /// The control side.
    Control,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Worker(n) => write!(f, "{n}"),
            Owner::Control => f.write_str("control"),
        }
    }
}

/// What stands in front of everything else in the file, words of the machine's order: [`MAGIC`], [`VERSION`], a count that is odd while the directory
/// changes, and where the directory stands and how long it is, bytes.
#[derive(Default)]
#[repr(C)]
struct Header([Count; 5]);

// SAFETY: counts and nothing else; they have no names.
#[allow(unsafe_code)]
unsafe impl Layout for Header {
    const FIELDS: &'static [Field] = &[];
}

/// The first word of the file.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"QVCOUNTS");
/// Version of what the file looks like; another one means that readers must be told how to read it.
pub const VERSION: u64 = 1;
/// Bytes that the directory may take: 64 workers with thousands of reasons need a few hundred thousand.
const DIRECTORY: usize = 4 << 20;

#[derive(Default)]
struct State {
    groups: Vec<Declared>,
    /// What the numbers of an axis stand for, and what that means.
    names: BTreeMap<&'static str, Vec<(String, String)>>,
}

/// All counters of a router. Only the control side declares them and asks for them.
pub struct Registry {
    segment: Segment,
    header: Cells<Header>,
    directory: Cells<Count>,
    state: Mutex<State>,
}

impl Registry {
    /// A registry without counters.
    ///
    /// # Errors
    /// The system has no memory or descriptor for it.
    pub fn new() -> io::Result<Arc<Registry>> {
        let segment = Segment::new()?;
        let header = segment.extend(size_of::<Header>() as u64)?;
        let header = segment.cells::<Header>(header, 1)?;
        let at = segment.extend(DIRECTORY as u64)?;
        let directory = segment.cells(at, DIRECTORY / size_of::<Count>())?;
        for (word, value) in header[0].0.iter().zip([MAGIC, VERSION, 0, at, 0]) {
            word.set(value);
        }
        Ok(Arc::new(Registry { segment, header, directory, state: Mutex::default() }))
    }

    /// Counters of a group that `owner` writes, by numbers below `len`; they have no others to be counted by.
    ///
    /// # Errors
    /// The owner has some of this group already, they are unlike those of other owners, or the system has not the address space.
    pub fn cells<T: Layout>(&self, group: &Group, owner: Owner, len: usize) -> io::Result<Cells<T>> {
        let axes: &[_] = if group.by.is_empty() && len == 1 { &[] } else { &[(len, size_of::<T>())] };
        let start = self.declare::<T>(group, owner, axes)?;
        self.segment.cells(start, len)
    }

    /// Counters by two things, each row of which takes memory and address space when it is first [reserved](Rows::reserve).
    ///
    /// # Errors
    /// As [`Registry::cells`].
    pub fn rows<T: Layout, const WIDTH: usize>(
        &self,
        group: &Group,
        owner: Owner,
        rows: usize,
    ) -> io::Result<Rows<T, WIDTH>> {
        let axes = [(rows, WIDTH * size_of::<T>()), (WIDTH, size_of::<T>())];
        let start = self.declare::<T>(group, owner, &axes)?;
        Ok(Rows::new(self.segment.clone(), start, rows))
    }

    /// Says what the numbers of an axis stand for, each with what it means.
    pub fn name(&self, axis: &'static str, names: impl IntoIterator<Item = (String, String)>) {
        self.state().names.insert(axis, names.into_iter().collect());
    }

    /// Shows readers what was declared so far.
    ///
    /// # Errors
    /// There is no room for it in the directory.
    pub fn publish(&self) -> io::Result<()> {
        let state = self.state();
        let mut text = directory::write(&state.groups, &state.names).into_bytes();
        let len = text.len();
        text.resize(len.next_multiple_of(8), b'\n');
        if text.len() > DIRECTORY {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let [_, _, changes, _, length] = &self.header[0].0;
        changes.start_change();
        for (word, bytes) in self.directory.iter().zip(text.as_chunks().0) {
            word.set(u64::from_ne_bytes(*bytes));
        }
        length.set(len as u64);
        changes.end_change();
        Ok(())
    }

    /// The file, to be read: for [`Reader::open`] here or in a process to which it is sent.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub fn file(&self) -> io::Result<OwnedFd> {
        use rustix::fd::AsRawFd;
        use rustix::fs::{Mode, OFlags, open};
        // Opened anew: a copy of the descriptor could be written.
        let path = format!("/proc/self/fd/{}", self.segment.fd()?.as_raw_fd());
        Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Under which name other processes find the file.
    pub fn path(&self) -> Option<String> {
        use rustix::fd::AsRawFd;
        let fd = self.segment.fd().ok()?.as_raw_fd();
        Some(format!("/proc/{}/fd/{fd}", std::process::id()))
    }

    /// Notes a group's part; where in the file it begins.
    fn declare<T: Layout>(&self, group: &Group, owner: Owner, axes: &[(usize, usize)]) -> io::Result<u64> {
        let bytes = axes.first().map_or(size_of::<T>(), |(len, stride)| len * stride) as u64;
        if axes.len() != group.by.len() {
            return Err(io::Error::other(format!("counters {} are by {:?}", group.name, group.by)));
        }
        let mut state = self.state();
        let at = state.groups.iter().position(|d| d.group.name == group.name);
        let at = at.unwrap_or_else(|| {
            state.groups.push(Declared {
                group: *group,
                fields: T::FIELDS,
                axes: axes.to_vec(),
                parts: vec![],
            });
            state.groups.len() - 1
        });
        let declared = &mut state.groups[at];
        if declared.axes != axes || declared.parts.iter().any(|(o, _)| *o == owner) {
            let why = format!("counters {} of {owner} are declared twice, or unlike others", group.name);
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let start = self.segment.extend(bytes)?;
        declared.parts.push((owner, start));
        Ok(start)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
