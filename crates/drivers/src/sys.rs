//! The system calls that the drivers make, each as a safe function over file descriptors, slices and plain structs.
#![allow(unsafe_code)]
// Upholds: every pointer handed to the kernel comes from a reference that lives through the call, with the length of
// what it points to; every descriptor returned by the kernel is owned by exactly one `OwnedFd`.

use crate::stage::{BATCH, PIECES, Stage};
use graph::{Buffer, Buffers};
use packet::gso::VnetHdr;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Structures that the kernel fills or reads as plain bytes.
///
/// # Safety
/// The type is `repr(C)` without padding that matters, and every bit pattern is a valid value.
pub unsafe trait Plain: Copy {}
// SAFETY: integers have no padding and every pattern is valid.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::sockaddr_ll {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::sockaddr_nl {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::ucred {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::sockaddr_xdp {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::xdp_umem_reg {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::xdp_options {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::xdp_desc {}
// SAFETY: integers have no padding and every pattern is valid.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: two integers, as the kernel's struct tpacket_stats.
unsafe impl Plain for Statistics {}
// SAFETY: plain bytes.
unsafe impl Plain for IfReq {}

/// `struct tpacket_stats`: since the last time it was read.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Statistics {
    /// Packets seen, dropped ones included.
    pub packets: u32,
    /// Packets that found no room in the ring.
    pub drops: u32,
}

/// `struct ifreq`: a device name of 16 bytes and 24 bytes of argument.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct IfReq(pub [u8; 40]);

impl IfReq {
    /// A request about the device `name` (cut at 15 bytes).
    pub fn new(name: &str) -> IfReq {
        let mut r = [0; 40];
        let n = name.len().min(libc::IFNAMSIZ - 1);
        r[..n].copy_from_slice(&name.as_bytes()[..n]);
        IfReq(r)
    }

    /// The argument's first four bytes as a number.
    pub fn int(&self) -> i32 {
        i32::from_ne_bytes([self.0[16], self.0[17], self.0[18], self.0[19]])
    }

    /// The argument's first two bytes as flags.
    pub fn flags(&self) -> u16 {
        u16::from_ne_bytes([self.0[16], self.0[17]])
    }

    /// Sets the argument's first bytes.
    pub fn set(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(24);
        self.0[16..16 + n].copy_from_slice(&bytes[..n]);
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A socket, non-blocking and closed on exec.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a success is a new descriptor that nothing else owns.
    unsafe {
        let fd = check(libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Opens a file with the given flags, closed on exec.
pub fn open(path: &str, flags: i32) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    // SAFETY: the path is a terminated string; a success is a new descriptor that nothing else owns.
    unsafe {
        let fd = check(libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o000))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A sysfs of the calling thread's network namespace, mounted nowhere (Linux 5.2).
pub fn new_sysfs() -> io::Result<OwnedFd> {
    const CMD_CREATE: u32 = 6;
    const CLOEXEC: u32 = 1;
    let none = core::ptr::null::<libc::c_char>();
    let owned = |answer: libc::c_long| -> io::Result<OwnedFd> {
        // SAFETY: a success is a new descriptor that nothing else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(check(answer as i32)?) })
    };
    // SAFETY: a terminated string, and pointers that are null.
    unsafe {
        let context = owned(libc::syscall(libc::SYS_fsopen, c"sysfs".as_ptr(), CLOEXEC))?;
        let fd = context.as_raw_fd();
        check(libc::syscall(libc::SYS_fsconfig, fd, CMD_CREATE, none, none, 0) as i32)?;
        owned(libc::syscall(libc::SYS_fsmount, fd, CLOEXEC, 0))
    }
}

/// Opens a file of a folder with the given flags, closed on exec.
pub fn open_in(folder: &OwnedFd, path: &str, flags: i32) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    // SAFETY: the path is a terminated string; a success is a new descriptor that nothing else owns.
    unsafe {
        let fd = check(libc::openat(folder.as_raw_fd(), path.as_ptr(), flags | libc::O_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sets a socket option.
pub fn setsockopt<T: Plain>(fd: &impl AsRawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), size_of::<T>() as u32)
    })
    .map(drop)
}

/// Reads a socket option into `value`.
pub fn getsockopt<T: Plain>(fd: &impl AsRawFd, level: i32, name: i32, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: the pointer and length describe `value`, for which any bytes are valid.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut *value).cast(), &raw mut len) })
        .map(drop)
}

/// The error that waits on a socket (reading it clears it); 0 for none.
pub fn take_error(fd: &impl AsRawFd) -> i32 {
    let mut e = 0i32;
    match getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut e) {
        Ok(()) => e,
        Err(_) => 0,
    }
}

/// Who made the connection at the other end of a Unix socket, or made the socket listen; `None` when nobody can tell.
pub fn peer(fd: &impl AsRawFd) -> Option<libc::ucred> {
    let mut who = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut who).ok().map(|()| who)
}

/// The effective user of this process.
pub fn user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// Attaches a filter that rejects every packet, or (`false`) removes it.
pub fn reject_all(fd: &OwnedFd, on: bool) -> io::Result<()> {
    if !on {
        return setsockopt(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32);
    }
    // BPF_RET | BPF_K, 0: keep no byte.
    let mut code = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: code.as_mut_ptr() };
    // SAFETY: the program and its one instruction live through the call.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as u32,
        )
    })
    .map(drop)
}

/// Asks for something of BPF's; the answer is a number.
///
/// # Safety
/// Pointers in `attributes` are valid for what the command does with them.
pub unsafe fn bpf_call<T>(command: i32, attributes: &T) -> io::Result<i32> {
    // SAFETY: the pointer and length describe `attributes`, whose own pointers the caller answers for.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    check(answer as i32)
}

/// Asks for something of BPF's that has a descriptor.
///
/// # Safety
/// Pointers in `attributes` are valid for what the command does with them, and its answer is a new descriptor.
pub unsafe fn bpf<T>(command: i32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: as the caller promises; nothing else owns a new descriptor.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf_call(command, attributes)?)) }
}

/// The processors that are at work.
pub fn online() -> Option<Vec<usize>> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    let ranges: Option<Vec<_>> = list.trim().split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

/// Has this thread run on one processor; it does when this returns.
pub fn run_on(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Waits until the kernel has ended what it is at on every processor, some tens of milliseconds.
pub fn wait_for_kernel() {
    const GLOBAL: i32 = 1;
    // SAFETY: it takes no pointer.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    if done != 0 {
        // A kernel without it, or with processors that never tell.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Binds a socket to an address.
pub fn bind<T: Plain>(fd: &OwnedFd, address: &T) -> io::Result<()> {
    // SAFETY: the pointer and length describe `address`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const *address).cast(), size_of::<T>() as u32) })
        .map(drop)
}

/// The link-layer address to which a packet socket is bound.
pub fn local_ll(fd: &OwnedFd) -> io::Result<libc::sockaddr_ll> {
    let mut a = link_address(0, 0);
    let mut len = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the pointer and length describe `a`, for which any bytes are valid.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut a).cast(), &raw mut len) })?;
    Ok(a)
}

/// The address of a device for a packet socket; `protocol` in host order.
pub fn link_address(ifindex: i32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: ifindex,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// The address of a netlink socket that listens to `groups`.
pub fn netlink_address(groups: u32) -> libc::sockaddr_nl {
    // SAFETY: a C struct of integers, for which zero is valid.
    let mut a: libc::sockaddr_nl = unsafe { core::mem::zeroed() };
    a.nl_family = libc::AF_NETLINK as u16;
    a.nl_groups = groups;
    a
}

/// An ioctl that reads or writes a structure.
pub fn ioctl<T: Plain>(fd: &impl AsRawFd, request: u64, arg: &mut T) -> io::Result<()> {
    // SAFETY: the requests used here read or write at most the structure that `arg` is.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut *arg) }).map(drop)
}

/// An ioctl whose argument is a number.
pub fn ioctl_value(fd: &impl AsRawFd, request: u64, value: u64) -> io::Result<()> {
    // SAFETY: no pointer: the request takes its argument by value.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, value) }).map(drop)
}

/// An ioctl without an argument that answers a new descriptor.
pub fn ioctl_fd(fd: &impl AsRawFd, request: u64) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a success is a new descriptor that nothing else owns.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::ioctl(fd.as_raw_fd(), request as _, 0))?)) }
}

/// Whether what a descriptor stands for has an error, or is gone.
pub fn is_broken(fd: &impl AsRawFd) -> bool {
    let mut asked = libc::pollfd { fd: fd.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: `asked` is one entry, and outlives the call.
    let answered = unsafe { libc::poll(&raw mut asked, 1, 0) };
    answered == 1 && asked.revents & libc::POLLERR != 0
}

/// An ioctl whose argument is a name.
pub fn ioctl_name(fd: &impl AsRawFd, request: u64, name: &str) -> io::Result<()> {
    // The kernel copies IFNAMSIZ bytes.
    let mut name = IfReq::new(name);
    ioctl(fd, request, &mut name)
}

/// Whether a device is up with carrier, as Linux sees it up to a second late. Unlike [`carrier`] it waits for no lock.
pub fn running(fd: &impl AsRawFd, name: &str) -> io::Result<bool> {
    let mut request = IfReq::new(name);
    ioctl(fd, crate::linux::SIOCGIFFLAGS, &mut request)?;
    Ok(request.flags() & libc::IFF_RUNNING as u16 != 0)
}

/// Whether a device has carrier; an error where it does not say.
pub fn carrier(fd: &impl AsRawFd, name: &str) -> io::Result<bool> {
    // The command and its answer: `struct ethtool_value`.
    let mut value = [crate::linux::ETHTOOL_GLINK, 0u32];
    ethtool(fd, name, &mut value)?;
    Ok(value[1] != 0)
}

/// A command of ethtool's about a device: its number and what belongs to it, which the answer takes the place of.
pub fn ethtool<const N: usize>(fd: &impl AsRawFd, name: &str, command: &mut [u32; N]) -> io::Result<()> {
    let mut request = IfReq::new(name);
    // The request holds a pointer to the command.
    request.set(&(&raw mut *command as usize).to_ne_bytes());
    ioctl(fd, crate::linux::SIOCETHTOOL, &mut request)?;
    for word in command.iter_mut() {
        // SAFETY: the word lives; the kernel, which has written to it behind the compiler's back, is done with it.
        *word = unsafe { (&raw const *word).read_volatile() };
    }
    Ok(())
}

/// Has the kernel send what waits in a socket's transmit ring.
pub fn kick(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: no data.
    check_len(unsafe {
        libc::sendto(fd.as_raw_fd(), core::ptr::null(), 0, libc::MSG_DONTWAIT, core::ptr::null(), 0)
    })
    .map(drop)
}

/// Has the kernel look at a socket's fill ring.
pub fn kick_receive(fd: &impl AsRawFd) {
    // SAFETY: no data.
    unsafe {
        let (none, no_address) = (core::ptr::null_mut(), core::ptr::null_mut());
        libc::recvfrom(fd.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, no_address, core::ptr::null_mut());
    }
}

/// Receives one datagram; its length may exceed the buffer's when it was cut (`MSG_TRUNC`).
pub fn recv(fd: &OwnedFd, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `buf`.
    check_len(unsafe {
        libc::recv(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    })
}

/// Sends one datagram.
pub fn send(fd: &OwnedFd, buf: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `buf`.
    check_len(unsafe {
        libc::send(fd.as_raw_fd(), buf.as_ptr().cast(), buf.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    })
}

/// Takes a descriptor over that the process was started with.
pub fn inherited(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers. The descriptor is open where this succeeds, and nothing in this process owns it: whoever started the process
    // has named it, and the caller asks once, before anything else is opened.
    unsafe {
        check(libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Moves the calling thread into a network namespace.
pub fn set_netns(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the calling thread into a new network namespace.
pub fn new_netns() -> io::Result<()> {
    // SAFETY: no pointers; a network namespace of its own does not affect the thread's memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Mounts `source` at `target`.
pub fn mount(source: &str, target: &str, kind: &str, flags: u64) -> io::Result<()> {
    let (source, target, kind) = (CString::new(source)?, CString::new(target)?, CString::new(kind)?);
    // SAFETY: three terminated strings, no data.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, core::ptr::null()) })
        .map(drop)
}

/// Detaches the mount at `target`.
pub fn unmount(target: &str) -> io::Result<()> {
    let target = CString::new(target)?;
    // SAFETY: a terminated string.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

/// Makes `fd` stand for what `with` stands for; the file behind `fd` is closed.
pub fn replace(fd: &OwnedFd, with: &OwnedFd) -> io::Result<()> {
    // SAFETY: no pointers; both descriptors are open, and `fd` keeps its one owner.
    check(unsafe { libc::dup3(with.as_raw_fd(), fd.as_raw_fd(), libc::O_CLOEXEC) }).map(drop)
}

/// Major and minor number of the running kernel.
pub fn kernel_release() -> (u32, u32) {
    // SAFETY: a C struct of bytes, for which zero is valid, filled by the call.
    let text = unsafe {
        let mut u: libc::utsname = core::mem::zeroed();
        libc::uname(&raw mut u);
        u.release.map(|c| c as u8)
    };
    let text = String::from_utf8_lossy(&text);
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// IPv4 and IPv6 addresses of the device `name` in this thread's namespace.
pub fn addresses(name: &str) -> io::Result<Vec<std::net::IpAddr>> {
    let mut out = Vec::new();
    // SAFETY: getifaddrs makes a list that is valid until freeifaddrs; each entry's name is a terminated string and
    // each address is null or of the size that its family says.
    unsafe {
        let mut list = core::ptr::null_mut();
        check(libc::getifaddrs(&raw mut list))?;
        let mut at = list;
        while !at.is_null() {
            let entry = &*at;
            let entry_name = core::ffi::CStr::from_ptr(entry.ifa_name).to_bytes();
            if entry_name == name.as_bytes() && !entry.ifa_addr.is_null() {
                match i32::from((*entry.ifa_addr).sa_family) {
                    libc::AF_INET => {
                        let a = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                        out.push(std::net::Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr)).into());
                    }
                    libc::AF_INET6 => {
                        let a = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                        out.push(std::net::Ipv6Addr::from(a.sin6_addr.s6_addr).into());
                    }
                    _ => {}
                }
            }
            at = entry.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    Ok(out)
}

/// Most parts of one packet taken from the kernel in one call; a 64 KiB packet takes 31 buffers.
pub const MAX_PARTS: usize = 64;
const IOVS: usize = PIECES + BATCH;

const NO_IOV: libc::iovec = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };

/// Arrays for [`TxArrays::send`], made once.
pub struct TxArrays {
    iovs: Box<[libc::iovec; IOVS]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
}

// SAFETY: the pointers in the arrays are written and used within one call of `send`; between calls they mean nothing.
unsafe impl Send for TxArrays {}

/// What one [`TxArrays::send`] did.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel took this many packets (at least one).
    Some(usize),
    /// The kernel refused the first packet with this errno.
    Refused(i32),
}

impl Default for TxArrays {
    fn default() -> Self {
        Self::new()
    }
}

impl TxArrays {
    /// Empty arrays.
    pub fn new() -> TxArrays {
        // SAFETY: C structs of pointers and integers, for which zero is valid.
        let message: libc::mmsghdr = unsafe { core::mem::zeroed() };
        TxArrays { iovs: Box::new([NO_IOV; IOVS]), messages: Box::new([message; BATCH]) }
    }

    /// Names header and pieces of packet `n` in `iovs[at..]`; returns how many entries they take.
    fn name(&mut self, at: usize, buffers: &Buffers, stage: &Stage, n: usize) -> usize {
        let (header, pieces) = stage.packet(n);
        let entry = |b: &[u8]| libc::iovec { iov_base: b.as_ptr().cast_mut().cast(), iov_len: b.len() };
        let iovs = &mut self.iovs[at..=at + pieces.len()];
        iovs[0] = entry(header);
        for (iov, piece) in iovs[1..].iter_mut().zip(pieces) {
            *iov = entry(piece.bytes(buffers));
        }
        1 + pieces.len()
    }

    /// Hands the packets of a stage from number `from` on over in one sendmmsg.
    pub fn send(&mut self, fd: &OwnedFd, buffers: &Buffers, stage: &Stage, from: usize) -> Sent {
        let mut at = 0;
        for n in from..stage.len() {
            let used = self.name(at, buffers, stage, n);
            let m = &mut self.messages[n].msg_hdr;
            m.msg_iov = self.iovs[at..].as_mut_ptr();
            m.msg_iovlen = used as _;
            at += used;
        }
        let messages = &mut self.messages[from..stage.len()];
        // SAFETY: the messages name entries of `iovs`, which name headers of the stage and pieces of buffers; stage and
        // `buffers` are borrowed, so all of it lives through the call. The kernel only reads.
        let r = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        match check(r) {
            Ok(sent) => Sent::Some(sent as usize),
            Err(e) => Sent::Refused(e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// Writes packet `n` of a stage with one writev (for a TAP).
    pub fn write(&mut self, fd: &OwnedFd, buffers: &Buffers, stage: &Stage, n: usize) -> Sent {
        let used = self.name(0, buffers, stage, n);
        // SAFETY: as in `send`.
        let r = unsafe { libc::writev(fd.as_raw_fd(), self.iovs.as_ptr(), used as i32) };
        match check_len(r) {
            Ok(_) => Sent::Some(1),
            Err(e) => Sent::Refused(e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

/// Arrays for [`RxArrays::read`], made once.
pub struct RxArrays {
    iovs: Box<[libc::iovec; MAX_PARTS + 2]>,
    spill: Box<[u8]>,
}

// SAFETY: the pointers in the array are written and used within one call of `read`; between calls they mean nothing.
unsafe impl Send for RxArrays {}

impl RxArrays {
    /// Arrays with `spill` bytes for what does not fit in the buffers given to `read`.
    pub fn new(spill: usize) -> RxArrays {
        RxArrays { iovs: Box::new([NO_IOV; MAX_PARTS + 2]), spill: vec![0; spill].into_boxed_slice() }
    }

    /// What the last `read` put behind the buffers.
    pub fn spill(&self) -> &[u8] {
        &self.spill
    }

    /// Receives one packet: its virtio-net header, then its bytes into the rooms of `bufs` (the first from
    /// `first_off`), the rest into the spill. Returns the header and the packet's bytes. `bufs` are different buffers.
    pub fn read(
        &mut self,
        fd: &OwnedFd,
        buffers: &mut Buffers,
        bufs: &[Buffer],
        first_off: usize,
    ) -> io::Result<(VnetHdr, usize)> {
        let mut header = [0u8; VnetHdr::LEN];
        self.iovs[0] = libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: VnetHdr::LEN };
        let mut n = 1;
        for buf in bufs.iter().take(MAX_PARTS) {
            let off = if n == 1 { first_off } else { 0 };
            let room = &mut buffers.room_mut(buf)[off..];
            self.iovs[n] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            n += 1;
        }
        self.iovs[n] = libc::iovec { iov_base: self.spill.as_mut_ptr().cast(), iov_len: self.spill.len() };
        n += 1;
        // SAFETY: the first `n` entries name the header, rooms of different buffers that the caller owns (`buffers` is
        // borrowed mutably) and the spill, each with its length; all live through the call.
        let r = check_len(unsafe { libc::readv(fd.as_raw_fd(), self.iovs.as_ptr(), n as i32) })?;
        Ok((VnetHdr::parse(&header), r.saturating_sub(VnetHdr::LEN)))
    }
}

/// Most reads whose end nobody has asked for yet.
const READS: libc::c_long = 64;
/// `IOCB_CMD_PREAD` and `IOCB_FLAG_RESFD` of `linux/aio_abi.h`.
const PREAD: u16 = 0;
const RESFD: u32 = 1;

/// What asynchronous I/O is good for besides: the kernel adds one to an eventfd at the end of each read, and never waits for that,
/// whatever others do to the eventfd (`io_submit(2)`, `IOCB_FLAG_RESFD`).
pub struct Reads {
    context: libc::c_ulong,
}

impl Reads {
    /// # Errors
    /// The kernel has no asynchronous I/O, or all contexts that it may have.
    pub fn new() -> io::Result<Reads> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one number, to memory that lives through the call.
        check_len(unsafe { libc::syscall(libc::SYS_io_setup, READS, &raw mut context) } as isize)?;
        Ok(Reads { context })
    }

    /// Adds one to an eventfd.
    ///
    /// # Errors
    /// It is no eventfd, or the kernel has no memory.
    pub fn raise(&self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        match self.submit(eventfd) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.forget();
                self.submit(eventfd)
            }
            done => done,
        }
    }

    /// A read of no bytes of the eventfd itself, which an eventfd refuses: that is an end as well, and comes at once.
    fn submit(&self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: a C struct of integers, for which zeros are valid.
        let mut read: libc::iocb = unsafe { std::mem::zeroed() };
        read.aio_lio_opcode = PREAD;
        read.aio_fildes = eventfd.as_raw_fd() as u32;
        read.aio_flags = RESFD;
        read.aio_resfd = eventfd.as_raw_fd() as u32;
        let mut list = [&raw mut read];
        // SAFETY: a list of one read, of no bytes; both are copied before the call returns.
        let done = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
        check_len(done as isize).map(|_| ())
    }

    /// Makes room for others in the place of those that are over.
    fn forget(&self) {
        // `struct io_event`: four numbers of 8 bytes.
        let mut over = [[0u64; 4]; READS as usize];
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes at most as many as there is room for.
        let _ = unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, 0, READS, over.as_mut_ptr(), &raw const now)
        };
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        // SAFETY: the context is this one's, and nothing that it reads is memory of the process.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// Leaves all signals to other threads, and to those that this one starts as well.
pub fn block_signals() {
    // SAFETY: the set is this function's, and filled before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}
