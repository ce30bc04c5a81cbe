//! Programs and maps in the kernel, by `bpf(2)`. What is made here is a descriptor: the kernel keeps nothing once it is closed,
//! however the process ends.
#![allow(unsafe_code)]
// Upholds: every pointer in a request is to what lives through the call, and of the size that the request says.

use crate::sys;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

// linux/bpf.h
const MAP_CREATE: i32 = 0;
const MAP_UPDATE_ELEM: i32 = 2;
const MAP_DELETE_ELEM: i32 = 3;
const PROG_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;
const LINK_UPDATE: i32 = 29;
const LINK_DETACH: i32 = 34;
const LICENSE: &CStr = c"Apache-2.0";
const NAME: [u8; 16] = *b"quiver\0\0\0\0\0\0\0\0\0\0";

/// Kinds of programs (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ProgramKind {
    /// Of a socket.
    Socket = 1,
    /// Of a queueing discipline or TCX.
    SchedCls = 3,
    /// Of a device's receive path.
    Xdp = 6,
}

/// Where a program is attached (`enum bpf_attach_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Attach {
    /// What socket options attach.
    Socket = 0,
    /// A device's receive path.
    Xdp = 37,
    /// A device's ingress, behind the taps.
    TcxIngress = 46,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: *const u64,
    license: *const std::ffi::c_char,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_fd: u32,
    pad: u32,
    expected_revision: u64,
}

#[repr(C)]
struct LinkUpdate {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

#[repr(C)]
struct LinkDetach {
    link_fd: u32,
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    pad: u32,
    key: *const u32,
    value: *const u32,
    flags: u64,
}

fn number(fd: &impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd().unsigned_abs()
}

/// Loads a program, which the kernel checks.
pub(crate) fn load(kind: ProgramKind, attach: Attach, code: &[u64], flags: u32) -> io::Result<OwnedFd> {
    let load = ProgLoad {
        prog_type: kind as u32,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr(),
        license: LICENSE.as_ptr(),
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: flags,
        prog_name: NAME,
        prog_ifindex: 0,
        expected_attach_type: attach as u32,
    };
    // SAFETY: the pointers are to a program of as many instructions as it says, and to a terminated string; both live.
    unsafe { sys::bpf(PROG_LOAD, &load) }
}

/// Has a program work on the device of this index in the calling thread's namespace, as long as the answer is open.
pub(crate) fn attach(program: &OwnedFd, ifindex: u32, attach: Attach, flags: u32) -> io::Result<OwnedFd> {
    let create = LinkCreate {
        prog_fd: number(program),
        target_ifindex: ifindex,
        attach_type: attach as u32,
        flags,
        ..LinkCreate::default()
    };
    // SAFETY: there is no pointer in it.
    unsafe { sys::bpf(LINK_CREATE, &create) }
}

/// Has another program take the place of that of a link, between two packets.
pub(crate) fn update(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let update = LinkUpdate { link_fd: number(link), new_prog_fd: number(program), flags: 0, old_prog_fd: 0 };
    // SAFETY: there is no pointer in it.
    unsafe { sys::bpf_call(LINK_UPDATE, &update) }.map(drop)
}

/// What a program answers for a frame.
#[cfg(test)]
pub(crate) fn answer(program: &OwnedFd, frame: &[u8]) -> io::Result<u32> {
    #[repr(C)]
    struct TestRun {
        prog_fd: u32,
        retval: std::cell::Cell<u32>,
        data_size_in: u32,
        data_size_out: u32,
        data_in: *const u8,
        data_out: *mut u8,
        repeat: u32,
        duration: u32,
    }
    const PROG_TEST_RUN: i32 = 10;
    let run = TestRun {
        prog_fd: number(program),
        retval: 0.into(),
        data_size_in: frame.len() as u32,
        data_size_out: 0,
        data_in: frame.as_ptr(),
        data_out: core::ptr::null_mut(),
        repeat: 1,
        duration: 0,
    };
    // SAFETY: the frame lives, and is of the size that the request says; nothing is written back but to the request.
    unsafe { sys::bpf_call(PROG_TEST_RUN, &run) }?;
    Ok(run.retval.get())
}

/// Ends a link at once, also where a process that is just being started has a copy of its descriptor.
pub(crate) fn detach(link: &OwnedFd) {
    // SAFETY: there is no pointer in it.
    let _ = unsafe { sys::bpf_call(LINK_DETACH, &LinkDetach { link_fd: number(link) }) };
}

/// A map from numbers below `entries` to sockets (`BPF_MAP_TYPE_XSKMAP`).
pub(crate) fn socket_map(entries: u32) -> io::Result<OwnedFd> {
    const XSKMAP: u32 = 17;
    map(XSKMAP, 4, entries)
}

/// A map of one number (`BPF_MAP_TYPE_ARRAY`), or of one for each processor (`BPF_MAP_TYPE_PERCPU_ARRAY`); 0 at first.
pub(crate) fn number_map(of_each: bool) -> io::Result<OwnedFd> {
    const ARRAY: u32 = 2;
    const PERCPU_ARRAY: u32 = 6;
    map(if of_each { PERCPU_ARRAY } else { ARRAY }, 4, 1)
}

/// Writes the number of a map of one.
pub(crate) fn write_number(map: &OwnedFd, number: u32) -> io::Result<()> {
    put(map, 0, number)
}

/// Puts a socket into a map.
pub(crate) fn put_socket(map: &OwnedFd, at: u32, socket: &OwnedFd) -> io::Result<()> {
    put(map, at, number(socket))
}

/// Takes what stands at a number out of a map of sockets.
pub(crate) fn take_socket(map: &OwnedFd, at: u32) -> io::Result<()> {
    let key =
        MapUpdate { map_fd: number(map), pad: 0, key: &raw const at, value: core::ptr::null(), flags: 0 };
    // SAFETY: the key is of the map's four bytes, and lives; no value is asked for.
    unsafe { sys::bpf_call(MAP_DELETE_ELEM, &key) }.map(drop)
}

fn put(map: &OwnedFd, at: u32, value: u32) -> io::Result<()> {
    let update =
        MapUpdate { map_fd: number(map), pad: 0, key: &raw const at, value: &raw const value, flags: 0 };
    // SAFETY: key and value are of the map's four bytes each, and live.
    unsafe { sys::bpf_call(MAP_UPDATE_ELEM, &update) }.map(drop)
}

fn map(kind: u32, value_size: u32, entries: u32) -> io::Result<OwnedFd> {
    let create = MapCreate {
        map_type: kind,
        key_size: 4,
        value_size,
        max_entries: entries,
        map_flags: 0,
        inner_map_fd: 0,
        numa_node: 0,
        map_name: NAME,
    };
    // SAFETY: there is no pointer in it.
    unsafe { sys::bpf(MAP_CREATE, &create) }
}
