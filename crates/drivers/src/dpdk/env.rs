//! DPDK's environment: begun once for the process, on the thread of whoever needs it first. What it says and what happens to its ports
//! comes here.
#![allow(unsafe_code)]
// Upholds: what is handed to the library lives for good; what it hands over is read within its bounds during the call.

use super::abi::{EVENT_GONE, Host};
use super::library::Library;
use graph::buffer::Pages;
use rustix::thread::CpuSet;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CString, c_char};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Lines of DPDK's log that are kept.
const LINES: usize = 64;
/// MiB for DPDK's own structures where it has no huge pages; taken as they are touched.
const OWN_MIB: usize = 512;
/// What DPDK takes for its own structures at least, huge pages.
const LEAST_PAGES: usize = 8;

/// Of a port, for who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Its link may have changed.
    Link,
    /// The device is gone.
    Gone,
}

/// Hears of a port, from any thread.
pub type Listener = Box<dyn Fn(Happened) + Send>;

static SAID: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
static LISTENERS: Mutex<BTreeMap<u16, Listener>> = Mutex::new(BTreeMap::new());
static BEGUN: Mutex<Option<Result<(), String>>> = Mutex::new(None);

static HOST: Host = Host { log, event };

unsafe extern "C" fn log(_level: u32, text: *const c_char, len: u32) {
    // SAFETY: the library hands over a line with its length.
    let line = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len as usize) };
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() == LINES {
        said.pop_front();
    }
    said.push_back(String::from_utf8_lossy(line).trim().to_owned());
}

unsafe extern "C" fn event(port: u16, what: u32) {
    let listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tell) = listeners.get(&port) {
        tell(if what == EVENT_GONE { Happened::Gone } else { Happened::Link });
    }
}

/// Has somebody hear of a port, or nobody any more.
pub fn listen(port: u16, who: Option<Listener>) {
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    match who {
        Some(who) => _ = listeners.insert(port, who),
        None => _ = listeners.remove(&port),
    }
}

/// What DPDK has said since this was last asked.
pub fn said() -> Vec<String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
}

/// A refusal in words: what was tried, the errno, and what DPDK said meanwhile.
pub fn refused(what: &str, answer: i32) -> String {
    let cause = io::Error::from_raw_os_error(answer.unsigned_abs().cast_signed());
    let said = said().join("; ");
    let said = if said.is_empty() { said } else { format!(" (DPDK: {said})") };
    format!("{what}: {cause}{said}")
}

/// Begins, once for the process; later calls get the first one's answer. `pages` are those of Quiver's buffers. The thread is DPDK's
/// first one from then on, and may run where it could before.
///
/// # Errors
/// DPDK does not begin; it will not before the process is started anew.
pub fn begin(library: &Library, pages: Pages) -> Result<(), String> {
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    begun.get_or_insert_with(|| init(library, pages)).clone()
}

fn init(library: &Library, pages: Pages) -> Result<(), String> {
    let words = words(&cpus(), pages != Pages::Normal && free_huge_pages() >= LEAST_PAGES);
    let words: Vec<CString> = words.into_iter().filter_map(|w| CString::new(w).ok()).collect();
    // It keeps pointers to them.
    let mut pointers: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as i32;
    pointers.push(std::ptr::null_mut());
    let pointers = Box::leak(pointers.into_boxed_slice());
    // SAFETY: as many texts as it is told of, which live for good as the host does.
    match unsafe { (library.api.init)(&HOST, count, pointers.as_mut_ptr()) } {
        0 => {
            said();
            Ok(())
        }
        failed => Err(refused("DPDK does not begin", failed)),
    }
}

/// The CPUs on which the process may run, as DPDK lists them.
fn cpus() -> String {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let all: Vec<String> = (0..CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).map(|c| c.to_string()).collect();
    if all.is_empty() { "0".into() } else { all.join(",") }
}

fn free_huge_pages() -> usize {
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    std::fs::read_to_string(file).ok().and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// The options: one thread, which may run on all CPUs; nothing in the file system; addresses as this process has them; and no device
/// that was not asked for. `--in-memory` and `--no-huge` exclude each other.
fn words(cpus: &str, huge: bool) -> Vec<String> {
    let mut words: Vec<String> =
        ["quiver", "--lcores", &format!("0@({cpus})"), "--iova-mode=va", "--no-telemetry"]
            .map(str::to_owned)
            .to_vec();
    if huge {
        words.push("--in-memory".into());
    } else {
        words.extend(["--no-huge".into(), "--no-shconf".into(), "-m".into(), OWN_MIB.to_string()]);
    }
    // A list of those that are allowed keeps all others out; it names one that cannot be.
    words.extend(["-a".into(), "ffff:ff:1f.7".into()]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_do_not_exclude_each_other() {
        let with = |huge| words("0,1", huge).join(" ");
        assert!(with(true).contains("--in-memory") && !with(true).contains("--no-huge"));
        assert!(with(false).contains("--no-huge") && !with(false).contains("--in-memory"));
        assert!(with(false).contains("--lcores 0@(0,1)"));
        assert!(!cpus().is_empty());
    }

    #[test]
    fn lines_are_kept_to_a_bound() {
        said();
        for n in 0..LINES + 3 {
            let line = format!("line {n}\r");
            // SAFETY: a line with its length.
            unsafe { log(4, line.as_ptr().cast(), line.len() as u32) };
        }
        let all = said();
        assert_eq!((all.len(), all[0].as_str()), (LINES, "line 3"));
        assert!(said().is_empty());
        assert!(refused("it fails", -libc::ENODEV).starts_with("it fails: No such device"));
    }
}
