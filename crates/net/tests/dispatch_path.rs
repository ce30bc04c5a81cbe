//! Between a packet's input and its output nothing is allocated, no lock is taken, and the system is not called.
//!
//! What this proves, of vectors that run through the whole graph on the test's thread:
//!
//! - *Allocations*: the test's allocator counts every call of this thread. None, on each path, also for packets that are
//!   dropped, held or answered with an ICMP error.
//! - *System calls*: a child process warms up, then has the kernel kill it at any system call but its end (seccomp), and
//!   runs more vectors. Another child calls the system on purpose, and must be killed. The control side is woken by one
//!   call for all messages until it looks; that call belongs to the warm-up.
//! - *Locks*: a lock that must wait calls the system, which the trap would show, but one that is free does not. So the
//!   sources of nodes, graph, tables and packets are searched for the names of locks. That is a rule about text, no proof.
//!
//! Not covered: inputs and outputs (drivers), tracing and captures while they run, and a node's panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code)]

mod paths;

use paths::{PATHS, Rig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    CALLS.with(|c| c.set(c.get() + 1));
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WARM_UP: usize = 3;
const COUNTED: usize = 8;

fn runs(rig: &mut Rig, n: usize) {
    for _ in 0..n {
        rig.make();
        rig.run();
    }
}

/// Packets of `path` that leave in [`COUNTED`] vectors.
fn leaving(path: &str) -> u64 {
    let all = (COUNTED * graph::VECTOR_SIZE) as u64;
    match path {
        "drop" | "unknown-neighbor" => 0,
        // With as many copies.
        "span-rx" | "span-tx" => 2 * all,
        // To both other members, and to the BVI, which takes no broadcast of UDP.
        "l2-flood" => 2 * all,
        // As many fragments.
        "mpls-frag" => 2 * all,
        // One of 16 is of an unknown type.
        "mixed" => all * 15 / 16,
        // Two fragments make one answer.
        "reassembly" => all / 2,
        _ => all,
    }
}

#[test]
fn nothing_is_allocated() {
    for path in PATHS {
        let mut rig = Rig::new(path);
        runs(&mut rig, WARM_UP);
        let (sent, calls) = (rig.sent(), CALLS.get());
        runs(&mut rig, COUNTED);
        assert_eq!(CALLS.get() - calls, 0, "{path}: calls of the allocator");
        assert_eq!(rig.sent() - sent, leaving(path), "{path}: packets sent");
    }
    let calls = CALLS.get();
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(CALLS.get() - calls, 2, "the allocator does count");
}

/// From here on the kernel kills the process at any system call of this thread but `exit_group`.
fn forbid_system_calls() {
    let op = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        // The number of the call, first word of what a filter sees.
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_exit_group as u32, 0, 1),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which outlives both calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

const CHILD: &str = "QUIVER_TEST_CHILD";

/// In the child process; a test of its own only so that it can be started.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let caught = path == "caught";
    let path = if caught { "ip4" } else { &path };
    let mut rig = Rig::new(path);
    runs(&mut rig, WARM_UP);
    let (sent, want) = (rig.sent(), leaving(path));
    forbid_system_calls();
    runs(&mut rig, COUNTED);
    if caught {
        std::thread::yield_now();
    }
    // SAFETY: ends the process; no destructor needs to run.
    unsafe { libc::_exit(if rig.sent() - sent == want { 0 } else { 3 }) }
}

fn status(path: &str) -> std::process::ExitStatus {
    let mut c = std::process::Command::new(std::env::current_exe().unwrap());
    c.args(["--exact", "child", "--nocapture", "--test-threads=1"]).env(CHILD, path);
    c.stdout(std::process::Stdio::null()).status().unwrap()
}

#[test]
fn the_system_is_not_called() {
    assert_eq!(status("caught").signal(), Some(libc::SIGSYS), "a call on purpose is caught");
    for path in PATHS {
        let s = status(path);
        assert_ne!(s.signal(), Some(libc::SIGSYS), "{path}: a system call");
        assert_eq!(s.code(), Some(0), "{path}: 3 means that not all packets came out");
    }
}

/// Where a lock is known that only the control side takes: file and word.
const EXCEPTIONS: [(&str, &str); 7] = [
    // Counters are declared when the graph is built, and then only counted in.
    ("graph/src/registry/mod.rs", "Mutex"),
    // Nodes ask when the graph is built, and keep what they get.
    ("net/src/plane/type_map.rs", "Mutex"),
    // Threads of the control side.
    ("net/src/background.rs", "Mutex"),
    ("net/src/pcap/part.rs", "Mutex"),
    // Capture files that several workers write.
    ("net/src/router/devices/pcap.rs", "Mutex"),
    // What a dropped writer leaves behind for readers.
    ("tables/src/slots.rs", "Mutex"),
    ("tables/src/exact/table.rs", "Mutex"),
];

#[test]
fn no_lock_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![];
    for folder in ["graph/src", "packet/src", "tables/src", "net/src"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 60, "{} files", files.len());
    let mut found = vec![];
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        if ["net/src/testing.rs", "net/src/short_cuts"].iter().any(|tests| name.starts_with(tests)) {
            continue;
        }
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        for word in ["Mutex", "RwLock", "Condvar", "Barrier", "Semaphore", "parking_lot", "SpinLock"] {
            if product.contains(word) && !EXCEPTIONS.iter().any(|e| e.0 == name && e.1 == word) {
                found.push(format!("{name} names {word}"));
            }
        }
    }
    assert!(
        found.is_empty(),
        "{found:#?}\nA lock has no place on the path of packets. Elsewhere: EXCEPTIONS."
    );
}

fn sources(folder: &Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs")
            && !path.file_name().is_some_and(|n| n == "tests.rs" || n == "commands.rs")
        {
            out.push(path);
        }
    }
}
