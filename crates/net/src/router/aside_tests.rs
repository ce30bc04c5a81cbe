//! What is asked aside: what is refused late, and what has become of interfaces meanwhile.
#![allow(clippy::unwrap_used)]

use super::aside::Asks;
use super::{Device, DeviceControl, Op, OpError, Router, RouterConfig};
use graph::{PoolConfig, PoolMemory, TxCaps};
use packet::eth::MacAddr;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// A device of a Linux that says what it thinks of an MTU when the test lets it.
struct Slow {
    /// One answer for each MTU that is set.
    lets: Receiver<bool>,
    closed: Sender<()>,
}

impl DeviceControl for Slow {
    fn asks(&self) -> Asks {
        Asks::Linux
    }

    fn set_mtu(&mut self, _: u16) -> Result<(), drivers::Error> {
        match self.lets.recv().unwrap() {
            true => Ok(()),
            false => Err(drivers::Error::System {
                what: "set it".into(),
                cause: std::io::ErrorKind::InvalidInput.into(),
            }),
        }
    }

    fn link(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        "slow".into()
    }

    fn numa_node(&self) -> Option<u32> {
        Some(4)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.closed.send(()).unwrap();
    }
}

struct World {
    router: Router,
    lets: Sender<bool>,
    closed: Receiver<()>,
}

fn device(lets: Receiver<bool>, closed: Sender<()>) -> Device {
    let control = Box::new(Slow { lets, closed });
    Device { rx: vec![], tx: vec![], caps: TxCaps::default(), mac: MAC, mtu: 1500, link: true, control }
}

fn empty() -> Router {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap()
}

/// An interface `slow`.
fn world() -> World {
    let mut router = empty();
    let ((lets, asked), (closed, is_closed)) = (channel(), channel());
    router.add_device("slow", |_, _| Ok(device(asked, closed))).unwrap();
    router.go_aside().unwrap();
    World { router, lets, closed: is_closed }
}

fn mtu(mtu: u16) -> Op {
    Op::SetMtu { name: "slow".into(), mtu }
}

/// Waits for what a transaction has asked, as a client does.
fn outcome(router: &mut Router, waits: super::Waits) -> Result<(), OpError> {
    let (mut done, began) = (pin!(waits.done()), Instant::now());
    loop {
        if let Poll::Ready(outcome) = done.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
        assert!(began.elapsed().as_secs() < 60, "nobody answers");
        while router.answers() {}
        std::thread::yield_now();
    }
}

impl World {
    fn commit(&mut self, ops: Vec<Op>) -> super::Waits {
        self.router.collect();
        self.router.commit(ops).unwrap();
        self.router.collected().expect("it asks Linux")
    }

    fn has(&self) -> Option<u16> {
        let index = self.router.interface_index("slow")?;
        self.router.interface(index).map(|i| i.mtu)
    }
}

#[test]
fn what_is_refused_late_is_undone_with_its_transaction() {
    let mut w = world();
    let describe = Op::SetDescription { name: "slow".into(), text: Some("x".into()) };
    let waits = w.commit(vec![describe, mtu(3000)]);
    assert_eq!((w.has(), w.router.waiting()), (Some(3000), 1), "nothing else waits for it");
    // Nor do its queues go elsewhere meanwhile.
    let away = w.router.interface_index("slow").and_then(|i| w.router.interface(i)?.device());
    assert_eq!(away.map(|d| d.numa_node()), Some(Some(4)));
    w.lets.send(false).unwrap();
    // What undoes it is told the device as well.
    w.lets.send(true).unwrap();
    let e = outcome(&mut w.router, waits).unwrap_err();
    assert!(e.message.starts_with("slow: cannot set the MTU to 3000: "), "{e}");
    assert_eq!(w.has(), Some(1500));
    let index = w.router.interface_index("slow").unwrap();
    assert_eq!(w.router.interface(index).unwrap().description, None);
}

#[test]
fn what_somebody_else_has_set_since_stays() {
    let mut w = world();
    let first = w.commit(vec![mtu(3000)]);
    let second = w.commit(vec![mtu(2000)]);
    w.lets.send(false).unwrap();
    w.lets.send(true).unwrap();
    assert!(outcome(&mut w.router, first).is_err());
    outcome(&mut w.router, second).unwrap();
    assert_eq!(w.has(), Some(2000));
    assert!(w.router.take_log().iter().any(|l| l.warn && l.text.contains("what was changed since stays")));
}

#[test]
fn an_interface_that_goes_meanwhile_takes_its_device_along_behind_what_it_was_told() {
    let mut w = world();
    let first = w.commit(vec![mtu(3000)]);
    let gone = w.commit(vec![Op::Delete { name: "slow".into() }]);
    assert_eq!(w.has(), None);
    // One of its name is another one.
    w.router.commit(vec![Op::CreateLoopback { instance: Some(0), mac: None }]).unwrap();
    assert!(w.closed.try_recv().is_err(), "it is away");
    w.lets.send(false).unwrap();
    outcome(&mut w.router, first).unwrap();
    outcome(&mut w.router, gone).unwrap();
    w.closed.try_recv().expect("it is closed when the transaction has ended");
}

#[test]
fn what_fails_at_once_waits_for_nobodys_answer() {
    let mut w = world();
    w.router.collect();
    let missing = Op::SetState { name: "nobody".into(), up: true };
    w.router.commit(vec![mtu(3000), missing]).unwrap_err();
    let waits = w.router.collected().expect("its undo asks Linux");
    assert_eq!(w.has(), Some(1500));
    w.lets.send(false).unwrap();
    w.lets.send(true).unwrap();
    outcome(&mut w.router, waits).unwrap();
}

#[test]
fn an_end_does_what_was_asked() {
    let mut w = world();
    let waits = w.commit(vec![mtu(3000)]);
    w.lets.send(true).unwrap();
    w.router.shutdown();
    outcome(&mut w.router, waits).unwrap();
    w.closed.try_recv().expect("it is closed");
}

/// An interface of a capture file that cannot be written.
fn create(name: &str) -> Op {
    let write = Some("/dev/null/none".into());
    Op::CreatePcap {
        name: name.into(),
        config: super::PcapConfig { read: None, write, pps: None, repeat: false },
    }
}

#[test]
fn an_interface_that_is_being_opened_goes_with_its_transaction() {
    let mut router = empty();
    router.go_aside().unwrap();
    let (begin, begun) = channel::<()>();
    router.ask(Asks::Disk, move || begun.recv(), |_, _| Ok(()));
    let missing = Op::SetState { name: "nobody".into(), up: true };
    let e = router.commit(vec![create("file"), missing]).unwrap_err();
    assert!(e.message.contains("nobody"), "{e}");
    assert_eq!(router.interface_index("file"), None);
    assert!(router.take_log().iter().all(|line| !line.text.contains("cannot undo")));
    drop(begin);
}

#[test]
fn an_interface_that_is_being_opened_is_nobody_elses() {
    let mut router = empty();
    router.go_aside().unwrap();
    // Only the line's thread waits for the file.
    let (begin, begun) = channel::<()>();
    router.ask(Asks::Disk, move || begun.recv(), |_, _| Ok(()));
    router.collect();
    router.commit(vec![create("file"), Op::SetState { name: "file".into(), up: true }]).unwrap();
    let waits = router.collected().unwrap();
    let busy = "file is being opened: try again when that has ended";
    for op in [
        create("file"),
        Op::SetState { name: "file".into(), up: false },
        Op::Delete { name: "file".into() },
        Op::CreateSub { parent: "file".into(), id: 1, encap: super::Encap::Untagged },
    ] {
        assert_eq!(router.commit(vec![op]).unwrap_err().message, busy);
    }
    begin.send(()).unwrap();
    let e = outcome(&mut router, waits).unwrap_err();
    assert!(e.message.starts_with("file: cannot write /dev/null/none: "), "{e}");
    assert_eq!(router.interface_index("file"), None);
}

/// A device that outlives the router, and tells what it does last.
struct Lasting(Sender<&'static str>);

impl DeviceControl for Lasting {
    fn asks(&self) -> Asks {
        Asks::Linux
    }

    fn unmake(&mut self) {
        let _ = self.0.send("unmake");
    }

    fn delete(&mut self) {
        let _ = self.0.send("delete");
    }

    fn unmake_moved(&mut self) {
        let _ = self.0.send("moved");
    }

    fn link(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        "lasting".into()
    }
}

#[test]
fn what_goes_while_it_is_opened_takes_its_linux_device_along() {
    use super::tell::Last;
    let all = [(Some(Last::Delete), "delete"), (Some(Last::Moved), "moved"), (None, "unmake")];
    for (last, does) in all {
        let mut router = empty();
        router.go_aside().unwrap();
        let ((begin, begun), (tells, told)) = (channel::<()>(), channel());
        router.ask(Asks::Linux, move || begun.recv(), |_, _| Ok(()));
        let config = super::TapConfig::new("lasting");
        let origin = Op::CreateTap { name: "tap5".into(), config };
        let open = move |_, _| {
            let control = Box::new(Lasting(tells));
            let (caps, link) = (TxCaps::default(), true);
            Ok(Device { rx: vec![], tx: vec![], caps, mac: MAC, mtu: 1500, link, control })
        };
        router.open_device("tap5".into(), origin, Asks::Linux, open).unwrap();
        let index = router.interface_index("tap5").unwrap();
        router.interfaces.get_mut(index).unwrap().remote.last = last;
        router.remove_interface(index);
        begin.send(()).unwrap();
        let began = Instant::now();
        let mut done = None;
        while done.is_none() && began.elapsed().as_secs() < 60 {
            while router.answers() {}
            done = told.try_recv().ok();
            std::thread::yield_now();
        }
        assert_eq!(done, Some(does));
        assert!(router.interfaces.unopened.is_empty());
    }
}
