//! How much memory the process may still take, asked before something grows with what others send.
//!
//! An allocation that fails ends the process, and beyond a cgroup's limit the kernel does. So whatever is as large as its
//! input (a document, a batch of routes, a capture) asks first, and fails with an error while there is room for all else.

use std::fmt;
use std::io;

/// Left for what cannot ask: packets' buffers are taken at the start, but sockets, log lines and answers are not.
const RESERVE: usize = 24 << 20;
/// The room that a [`Growth`] asks for at once, so that it reads the limits seldom.
const STEP: usize = 8 << 20;
/// What would help.
pub const HELP: &str =
    "raise the limit of memory (ulimit -v, MemoryMax of the unit, the cgroup's memory.max), or give less";

/// There is not enough memory left for what was to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes wanted.
    pub wanted: usize,
    /// Bytes that the process may still take.
    pub left: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let (wanted, left) = (mib(self.wanted), mib(self.left));
        write!(f, "{wanted:.0} MiB more of memory are needed beside a reserve, and {left:.0} MiB are left")
    }
}

impl std::error::Error for OutOfMemory {}

impl From<OutOfMemory> for io::Error {
    fn from(e: OutOfMemory) -> io::Error {
        io::Error::new(io::ErrorKind::OutOfMemory, e)
    }
}

/// Whether so many bytes more can be had, with a reserve beside them.
///
/// # Errors
/// When they cannot.
pub fn check(wanted: usize) -> Result<(), OutOfMemory> {
    // What is small against the reserve costs no system call.
    if wanted < RESERVE / 64 {
        return Ok(());
    }
    check_against(wanted, room())
}

fn check_against(wanted: usize, left: usize) -> Result<(), OutOfMemory> {
    if left.saturating_sub(RESERVE) < wanted { Err(OutOfMemory { wanted, left }) } else { Ok(()) }
}

/// Memory for something that grows piece by piece.
#[derive(Debug, Default)]
pub struct Growth {
    granted: usize,
}

impl Growth {
    /// Asks for so many bytes.
    ///
    /// # Errors
    /// When they cannot be had.
    pub fn take(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        if self.granted < bytes {
            let wanted = bytes.max(STEP);
            check_against(wanted, room())?;
            self.granted = wanted;
        }
        self.granted -= bytes;
        Ok(())
    }

    /// Makes room for `more` items, when the vector must grow for them.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn push<T>(&mut self, list: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
        if list.capacity() - list.len() >= more {
            return Ok(());
        }
        // As much as the vector grows by, at least to twice its size.
        let wanted = list.capacity().max(more).saturating_mul(size_of::<T>());
        self.take(wanted)?;
        list.try_reserve(more).map_err(|_| OutOfMemory { wanted, left: 0 })
    }
}

/// Bytes that the process may still take: the least of what its address space (`ulimit -v`), its cgroup and the machine
/// leave.
pub fn room() -> usize {
    [address_space(), cgroup(), machine()].into_iter().flatten().min().unwrap_or(usize::MAX)
}

/// The same, less the reserve.
pub fn spare() -> usize {
    room().saturating_sub(RESERVE)
}

fn address_space() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let taken = kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmSize:")?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(taken))
}

fn machine() -> Option<usize> {
    kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// A line such as `MemAvailable: 1024 kB` of a file in `/proc`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()?.saturating_mul(1024))
}

/// What the cgroup of the process and those above it leave, of either version. What they count as file cache can be taken
/// back, and is not counted.
fn cgroup() -> Option<usize> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let left = own.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let path = path.trim_start_matches('/').as_ref();
        match controllers {
            "" => cgroup_below("/sys/fs/cgroup".as_ref(), path, &V2),
            c if c.split(',').any(|c| c == "memory") => {
                cgroup_below("/sys/fs/cgroup/memory".as_ref(), path, &V1)
            }
            _ => None,
        }
    });
    left.min()
}

/// The files of a cgroup that tell its limit and what it has taken.
type LimitFiles = [&'static str; 2];

const V1: LimitFiles = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
const V2: LimitFiles = ["memory.max", "memory.current"];

fn cgroup_below(root: &std::path::Path, path: &std::path::Path, files: &LimitFiles) -> Option<usize> {
    let number = |text: String| text.trim().parse::<usize>().ok();
    path.ancestors()
        .filter_map(|part| {
            let folder = root.join(part);
            let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
            let (limit, taken) = (read(files[0]).and_then(number)?, read(files[1]).and_then(number)?);
            let stat = read("memory.stat").unwrap_or_default();
            let cache = |name: &str| {
                let line = stat.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
                line.and_then(|n| n.parse::<usize>().ok()).unwrap_or(0)
            };
            let free = cache("inactive_file") + cache("active_file");
            Some(limit.saturating_sub(taken.saturating_sub(free)))
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_stops_before_the_end() {
        assert!(check(1).is_ok() && check(usize::MAX / 2).is_err());
        let e = check_against(1 << 20, RESERVE).unwrap_err();
        assert_eq!((e.wanted, e.left), (1 << 20, RESERVE));
        assert!(check_against(1 << 20, RESERVE + (1 << 20)).is_ok());
        let mut growth = Growth::default();
        assert!(growth.take(10).is_ok());
        assert_eq!(growth.granted, STEP - 10);
        let mut list = vec![0u64; 3];
        assert!(growth.push(&mut list, 1000).is_ok() && list.capacity() >= 1003);
        assert!(growth.take(usize::MAX / 2).is_err());
    }

    #[test]
    fn what_the_machine_and_the_cgroup_leave() {
        assert_eq!(kilobytes("MemTotal: 9 kB\nMemAvailable:    1024 kB\n", "MemAvailable:"), Some(1 << 20));
        assert_eq!(kilobytes("MemTotal: 9 kB\n", "MemAvailable:"), None);
        let root = std::env::temp_dir().join(format!("quiver-cgroup-{}", std::process::id()));
        let leaf = root.join("a/b");
        std::fs::create_dir_all(&leaf).unwrap();
        let write = |folder: &std::path::Path, name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap()
        };
        write(&leaf, "memory.max", "max\n");
        write(&leaf, "memory.current", "5000\n");
        assert_eq!(cgroup_below(&root, "a/b".as_ref(), &V2), None);
        // A limit of the cgroup above holds as well; half of what it has taken is file cache.
        write(&root.join("a"), "memory.max", "10000\n");
        write(&root.join("a"), "memory.current", "8000\n");
        write(&root.join("a"), "memory.stat", "anon 4000\nactive_file 1000\ninactive_file 3000\n");
        assert_eq!(cgroup_below(&root, "a/b".as_ref(), &V2), Some(6000));
        write(&leaf, "memory.max", "5500\n");
        assert_eq!(cgroup_below(&root, "a/b".as_ref(), &V2), Some(500));
        write(&leaf, "memory.limit_in_bytes", "9000\n");
        write(&leaf, "memory.usage_in_bytes", "8000\n");
        assert_eq!(cgroup_below(&root, "a/b".as_ref(), &V1), Some(1000));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
