//! Namespaces, veth pairs, raw sockets of Linux, and a wire between two devices, for tests that run as root.
#![allow(unsafe_code, dead_code, missing_docs, clippy::unwrap_used, clippy::panic)]

use drivers::netns;
use graph::{Buffers, Desc, Pool, PoolConfig, PoolMemory, RxQueue, TxQueue, TxReport, Vector, flags};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(10);

/// True when the test may make devices; else says that it is left out.
pub fn root() -> bool {
    // SAFETY: no arguments, cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("SKIPPED: this test makes network devices and must run as root");
    }
    root
}

/// Runs a command that must work; returns what it printed.
pub fn run(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let out = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Waits until `f` says so.
pub fn wait_for(what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !f() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A namespace of its own, removed at the end.
pub struct Ns(pub String);

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Ns {
    pub fn new() -> Ns {
        let ns = Ns::unmade();
        run(&format!("ip netns add {ns}"));
        // Linux's own chatter (router solicitations, duplicate address detection) would stand between the test's packets.
        ns.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
        ns.ip("link set lo up");
        ns
    }

    /// Only the name.
    pub fn unmade() -> Ns {
        Ns(format!("qafp{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub fn run(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.0))
    }

    pub fn ip(&self, line: &str) -> String {
        run(&format!("ip -n {} {line}", self.0))
    }

    /// Runs `f` in it.
    pub fn within<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        netns::within(Some(&self.0), || Ok(f())).unwrap()
    }

    pub fn opt(&self) -> Option<String> {
        Some(self.0.clone())
    }
}

impl std::fmt::Display for Ns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Drop for Ns {
    fn drop(&mut self) {
        let _ = netns::remove(&self.0);
    }
}

/// A veth pair, both ends up: `a` in `ns_a`, `b` in `ns_b`.
pub fn veth(ns_a: &Ns, a: &str, ns_b: &Ns, b: &str) {
    ns_a.ip(&format!("link add {a} type veth peer name {b} netns {ns_b}"));
    ns_b.ip(&format!("link set {b} up"));
    ns_a.ip(&format!("link set {a} up"));
}

pub fn pool() -> Arc<Pool> {
    Pool::new(PoolConfig { buffers: 4096, memory: PoolMemory::Normal }).unwrap()
}

/// A frame of `len` bytes with recognisable contents and a protocol that Linux ignores.
pub fn frame(len: usize, seed: u8) -> Vec<u8> {
    let mut f = vec![0xff; 6];
    f.extend([2, 0, 0, 0, 0, seed, 0x88, 0xb5]);
    f.extend((f.len()..len).map(|i| (i * 7 + i / 256) as u8 ^ seed));
    f.truncate(len);
    f
}

/// A raw socket of Linux on a device, to send and receive frames beside Quiver's code.
pub struct Raw(OwnedFd);

impl Raw {
    pub fn new(ns: &Ns, device: &str) -> Raw {
        let index: i32 = ns.run(&format!("cat /sys/class/net/{device}/ifindex")).trim().parse().unwrap();
        ns.within(|| {
            // SAFETY: plain system calls on a new socket; the address is a complete sockaddr_ll.
            unsafe {
                let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(3u16.to_be()));
                assert!(fd >= 0);
                let fd = OwnedFd::from_raw_fd(fd);
                let mut a: libc::sockaddr_ll = std::mem::zeroed();
                a.sll_family = libc::AF_PACKET as u16;
                a.sll_protocol = 3u16.to_be();
                a.sll_ifindex = index;
                let len = size_of_val(&a) as u32;
                assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const a).cast(), len), 0);
                let on = 1i32;
                for option in [8 /* PACKET_AUXDATA */, 23 /* PACKET_IGNORE_OUTGOING */] {
                    let p = (&raw const on).cast();
                    assert_eq!(libc::setsockopt(fd.as_raw_fd(), 263, option, p, 4), 0);
                }
                let room = 4i32 << 20;
                let p = (&raw const room).cast();
                libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, p, 4);
                let wait = libc::timeval { tv_sec: 0, tv_usec: 100_000 };
                let p = (&raw const wait).cast();
                let len = size_of_val(&wait) as u32;
                libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, p, len);
                Raw(fd)
            }
        })
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: pointer and length describe `frame`.
        let n = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(n, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }

    /// The next frame, with its outer tag where it had one, or nothing within 100 ms.
    pub fn recv(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0u8; 70_000];
        let mut control = [0u64; 16];
        let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: the message names live arrays with their lengths; the control message is read as the kernel lays it out.
        unsafe {
            let mut m: libc::msghdr = std::mem::zeroed();
            (m.msg_iov, m.msg_iovlen) = (&raw mut iov, 1);
            (m.msg_control, m.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
            let n = libc::recvmsg(self.0.as_raw_fd(), &raw mut m, 0);
            bytes.truncate(usize::try_from(n).ok()?);
            let c = libc::CMSG_FIRSTHDR(&raw const m);
            if !c.is_null() && (*c).cmsg_level == 263 {
                let aux = libc::CMSG_DATA(c);
                let status = aux.cast::<u32>().read_unaligned();
                let tci = aux.add(16).cast::<u16>().read_unaligned();
                let tpid = aux.add(18).cast::<u16>().read_unaligned();
                if status & (1 << 4) != 0 {
                    let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
                    bytes.splice(12..12, tag);
                }
            }
        }
        Some(bytes)
    }
}

/// Polls until `n` packets came, or nothing did for a while; gives descriptors out for a look, then frees them.
pub fn poll_n(
    rx: &mut dyn RxQueue,
    buffers: &mut Buffers,
    n: usize,
    mut look: impl FnMut(&Buffers, &Desc, Vec<u8>),
) {
    let mut v = Vector::boxed();
    let (mut got, end) = (0, Instant::now() + PATIENCE);
    while got < n {
        assert!(Instant::now() < end, "only {got} of {n} packets came");
        got += rx.poll(buffers, 0, &mut v);
        let _ = rx.ready();
        for d in v.take() {
            let bytes = buffers.parts(&d).flatten().copied().collect();
            look(buffers, &d, bytes);
            buffers.free(d);
        }
    }
}

/// The bytes of the next `n` packets.
/// Sends a frame until it comes. Linux begins to send on the far end of a cable a moment after there is carrier, and drops what it is
/// given before.
pub fn comes(peer: &Raw, rx: &mut dyn RxQueue, buffers: &mut Buffers, frame: &[u8]) {
    let mut v = Vector::boxed();
    wait_for("a frame comes", || {
        peer.send(frame);
        rx.poll(buffers, 0, &mut v) != 0
    });
    loop {
        for d in v.take() {
            assert_eq!(buffers.data(&d), frame);
            buffers.free(d);
        }
        if rx.poll(buffers, 0, &mut v) == 0 {
            break;
        }
    }
}

pub fn receive(rx: &mut dyn RxQueue, buffers: &mut Buffers, n: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    poll_n(rx, buffers, n, |_, _, bytes| out.push(bytes));
    out
}

/// Nothing waits.
pub fn assert_silent(rx: &mut dyn RxQueue, buffers: &mut Buffers) {
    let mut v = Vector::boxed();
    for _ in 0..20 {
        assert_eq!(rx.poll(buffers, 0, &mut v), 0);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What passed over a wire.
#[derive(Default)]
pub struct Passed {
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    pub full: AtomicU64,
    pub errors: AtomicU64,
    pub supers: AtomicU64,
    pub udp_supers: AtomicU64,
    pub partial: AtomicU64,
}

/// Two devices tied together by a thread that passes every packet on.
pub struct Wire {
    pub passed: Arc<Passed>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Wire {
    pub fn new(
        mut a: (Box<dyn RxQueue>, Box<dyn TxQueue>),
        mut b: (Box<dyn RxQueue>, Box<dyn TxQueue>),
    ) -> Wire {
        let (passed, stop) = (Arc::new(Passed::default()), Arc::new(AtomicBool::new(false)));
        let (p, s) = (Arc::clone(&passed), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let pool = pool();
            let (mut buffers, mut v) = (pool.buffers(), Vector::boxed());
            while !s.load(Ordering::Relaxed) {
                let n = pass(&mut *a.0, &mut *b.1, &mut buffers, &mut v, &p)
                    + pass(&mut *b.0, &mut *a.1, &mut buffers, &mut v, &p);
                if n == 0 {
                    let _ = (a.0.ready(), b.0.ready());
                    std::thread::yield_now();
                }
            }
            assert_eq!(pool.in_use(), 0, "buffers that did not come back");
        });
        Wire { passed, stop, thread: Some(thread) }
    }

    pub fn end(mut self) -> Arc<Passed> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        Arc::clone(&self.passed)
    }
}

fn pass(
    rx: &mut dyn RxQueue,
    tx: &mut dyn TxQueue,
    buffers: &mut Buffers,
    v: &mut Vector,
    p: &Passed,
) -> usize {
    let n = rx.poll(buffers, 0, v);
    for d in v.as_slice() {
        let gso = d.has(flags::GSO);
        let udp = gso && buffers.meta(&d.buf).gso_type == 5;
        p.supers.fetch_add(gso.into(), Ordering::Relaxed);
        p.udp_supers.fetch_add(udp.into(), Ordering::Relaxed);
        p.partial.fetch_add(d.has(flags::CSUM_PARTIAL).into(), Ordering::Relaxed);
    }
    let TxReport { packets, bytes, full, errors, no_link } = tx.send(buffers, v.take());
    for (c, n) in [(&p.packets, packets), (&p.bytes, bytes), (&p.full, full), (&p.errors, errors + no_link)] {
        c.fetch_add(n, Ordering::Relaxed);
    }
    n
}

/// Sends a megabyte-sized file over TCP from one namespace to another and compares it.
pub fn tcp_transfer(from: &Ns, to: &Ns, address: &str, bytes: usize) {
    use std::io::{Read, Write};
    let listener = to.within(|| std::net::TcpListener::bind((address, 0)).unwrap());
    let at = listener.local_addr().unwrap();
    let data: Vec<u8> = (0..bytes).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
    let mut s = from.within(|| std::net::TcpStream::connect_timeout(&at, PATIENCE).unwrap());
    let (mut r, _) = listener.accept().unwrap();
    r.set_read_timeout(Some(PATIENCE)).unwrap();
    s.set_write_timeout(Some(PATIENCE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            s.write_all(&data).unwrap();
            s.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        r.read_to_end(&mut got).unwrap();
        assert!(got == data, "{} bytes came of {}, or they differ", got.len(), data.len());
    });
}

/// Sends datagrams of these sizes from one namespace to another and compares them.
pub fn udp_transfer(from: &Ns, to: &Ns, address: &str, sizes: &[usize]) {
    let r = to.within(|| std::net::UdpSocket::bind((address, 0)).unwrap());
    let s = from.within(|| std::net::UdpSocket::bind("0.0.0.0:0").unwrap());
    r.set_read_timeout(Some(PATIENCE)).unwrap();
    for &size in sizes {
        let data = frame(size.max(14), size as u8);
        s.send_to(&data[..size], r.local_addr().unwrap()).unwrap();
        let mut got = vec![0; 70_000];
        let n = r.recv(&mut got).unwrap();
        assert!(got[..n] == data[..size], "a datagram of {size} bytes came as {n}, or differs");
    }
}

/// Sends one UDP super-frame (`UDP_SEGMENT`) and compares the datagrams that come.
pub fn udp_segments(from: &Ns, to: &Ns, address: &str, size: u16, count: usize) {
    let r = to.within(|| std::net::UdpSocket::bind((address, 0)).unwrap());
    let s = from.within(|| std::net::UdpSocket::bind("0.0.0.0:0").unwrap());
    r.set_read_timeout(Some(PATIENCE)).unwrap();
    let value = i32::from(size);
    // SAFETY: a live integer and its length.
    let set = unsafe { libc::setsockopt(s.as_raw_fd(), 17, 103, (&raw const value).cast(), 4) };
    assert_eq!(set, 0);
    let data = frame(usize::from(size) * count, 3);
    s.send_to(&data, r.local_addr().unwrap()).unwrap();
    for (i, part) in data.chunks(size.into()).enumerate() {
        let mut got = vec![0; 70_000];
        let n = r.recv(&mut got).unwrap();
        assert!(got[..n] == *part, "datagram {i} came with {n} bytes, or differs");
    }
}
