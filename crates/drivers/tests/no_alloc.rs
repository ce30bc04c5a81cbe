//! Polling and sending never allocate.
#![allow(unsafe_code, missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use drivers::{af_packet, tap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn polling_and_sending_do_not_allocate() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    let mut a =
        af_packet::open(&af_packet::Config { netns: r.opt(), ..af_packet::Config::new("eth0", 1) }).unwrap();
    let mut t =
        tap::open(&tap::Config { netns: r.opt(), host_mtu: Some(9000), ..tap::Config::new("tap0", 2) })
            .unwrap();
    r.ip("link set eth0 mtu 9000");
    h.ip("link set peer mtu 9000");
    let (peer, host) = (Raw::new(&h, "peer"), Raw::new(&r, "tap0"));
    let frames: Vec<_> = (0..200).map(|i| frame(60 + i * 40, i as u8)).collect();
    for f in &frames {
        peer.send(f);
        host.send(f);
    }
    let (pool, mut v) = (pool(), graph::Vector::boxed());
    let mut b = pool.buffers();
    let mut sent = 0;
    wait_for("all packets", || {
        ON.store(true, Ordering::Relaxed);
        a.rx[0].poll(&mut b, 0, &mut v);
        t.rx[0].poll(&mut b, 0, &mut v);
        let _ = (a.rx[0].ready(), t.rx[0].ready());
        let half = v.len() / 2;
        let mut all = v.take();
        sent += a.tx[0].send(&mut b, all.split_to(half)).packets;
        sent += t.tx[0].send(&mut b, all).packets;
        ON.store(false, Ordering::Relaxed);
        sent == 400
    });
    assert_eq!(COUNT.load(Ordering::Relaxed), 0);
    assert_eq!(pool.in_use(), 0);
}
