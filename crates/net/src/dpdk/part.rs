//! Devices of DPDK as a part of the control side.

use super::commands;
use super::control::Control;
use crate::router::{
    Device, DeviceControl, IfState, Kind, NewVirtual, Op, OpError, Part, PartOp, Router, Start,
};
use command::Command;
use drivers::dpdk::{self, CAPS, Config, Event, Handle, Hub, Running, Senders};
use rustix::fd::{AsFd, BorrowedFd};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The largest IP packet, unless the operator says otherwise, bytes.
const MTU: u16 = 1500;

/// Makes an interface over a device of DPDK.
#[derive(Clone, Debug, PartialEq)]
pub struct DpdkOp {
    /// Its name.
    pub name: String,
    /// The device, and how it is set up.
    pub config: Config,
}

/// Of an interface.
struct Port {
    config: Config,
    handle: Handle,
}

/// Whether the library could be loaded, once it is known.
type Loading = Arc<OnceLock<Result<(), String>>>;

#[derive(Default)]
struct State {
    hub: Option<Hub>,
    ports: BTreeMap<u32, Port>,
    loading: Option<Loading>,
}

/// What the operator wants of an interface.
pub fn config(router: &Router, interface: u32) -> Option<&Config> {
    router.state::<State>()?.ports.get(&interface).map(|p| &p.config)
}

fn control(s: &State, interface: u32, senders: Option<Senders>) -> Option<Box<dyn DeviceControl>> {
    let Port { config, handle } = s.ports.get(&interface)?;
    Some(Box::new(Control { handle: handle.clone(), config: config.clone(), senders }))
}

impl PartOp for DpdkOp {
    fn subject(&self) -> String {
        self.name.clone()
    }

    fn off(&self) -> Option<Op> {
        None
    }

    fn turned(&self, _: &Self) -> Option<Op> {
        None
    }

    fn anew(&self) -> &'static str {
        "the device is set up with its queues and rings"
    }

    fn words(&self) -> String {
        format!("dpdk {}", self.config.device)
    }

    fn exclusive(&self) -> Option<String> {
        Some(self.config.device.device().to_owned())
    }

    fn for_root(&self) -> Option<String> {
        Some(for_root(&self.config))
    }

    fn rx_queues(&self) -> usize {
        self.config.rx_queues
    }

    fn prepare(&self, router: &mut Router) -> Result<bool, OpError> {
        if dpdk::loaded().is_some() {
            return Ok(false);
        }
        let Some(s) = router.state_mut::<State>() else { return Ok(false) };
        let fail = |why: &str| OpError::new(format!("{}: {why}", self.name));
        let Some(loading) = &s.loading else {
            let loading = Loading::default();
            s.loading = Some(Arc::clone(&loading));
            let load = move || _ = loading.set(dpdk::load().map(|_| ()));
            std::thread::Builder::new()
                .name("background".into())
                .spawn(load)
                .map_err(|e| fail(&e.to_string()))?;
            return Ok(true);
        };
        let Some(done) = loading.get().cloned() else { return Ok(true) };
        s.loading = None;
        done.map(|()| false).map_err(|why| fail(&why))
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let DpdkOp { name, config } = self;
        let fail = |why: String| OpError::new(format!("{name}: {why}"));
        config.check().map_err(fail)?;
        router.new_name(&name)?;
        let device = config.device.device();
        let has = |p: &&Port| p.config.device.device() == device;
        let other = router.state::<State>().and_then(|s| Some(*s.ports.iter().find(|(_, p)| has(p))?.0));
        if let Some(other) = other {
            return Err(fail(format!("{device} is the device of {} already", router.interface_name(other))));
        }
        // Loaded before, wherever somebody else could wait: only a start has nobody who does.
        let library = dpdk::load().map_err(fail)?;
        let (workers, pool) = (router.config().workers, Arc::clone(router.pool()));
        let new = NewVirtual {
            name: name.clone(),
            kind: Kind::Device,
            origin: DpdkOp { name: name.clone(), config: config.clone() }.into(),
            mac: dpdk::mac(&config.device),
            mtu: MTU,
        };
        let mut made = Ok(());
        router.create_virtual(new, |router, interface| {
            let Some(s) = router.state_mut::<State>() else { return };
            let Some(hub) = &mut s.hub else { return };
            match hub.add(library, &pool, interface, config.clone(), workers) {
                Ok(handle) => _ = s.ports.insert(interface, Port { config, handle }),
                Err(e) => made = Err(format!("no thread for DPDK: {e}")),
            }
        })?;
        let index = router.interface_index(&name);
        let Some(index) = index else { return Ok(vec![]) };
        if let Err(why) = made {
            router.remove_virtual(index);
            return Err(fail(why));
        }
        if let Some(c) = router.state::<State>().and_then(|s| control(s, index, None)) {
            router.unplug(index, c);
        }
        Ok(vec![Op::Delete { name }])
    }

    fn log_line(&self) -> Option<String> {
        Some(format!("interface {}: dpdk {}", self.name, self.config.device))
    }
}

/// Why a device is refused to who does not have all rights.
pub(super) fn for_root(config: &Config) -> String {
    format!("device {}: DPDK opens it with the router's rights, so only root may name it", config.device)
}

/// The part.
pub(crate) struct Dpdk;

fn happened(router: &mut Router, interface: u32, event: Event) {
    let name = router.interface_name(interface);
    match event {
        Event::Found { mac, words } => {
            router.note(false, format!("{name}: {words}"));
            router.set_own_mac(interface, mac);
            let follows = router.interface(interface).is_some_and(|i| !i.mac_set && i.mac != mac);
            if let Some(e) = follows.then(|| router.set_mac(interface, mac).err()).flatten() {
                router.note(true, format!("{name}: {e}"));
            }
        }
        Event::Up { running } => runs(router, interface, &name, running),
        Event::Down { why } => {
            if let Some(c) = router.state::<State>().and_then(|s| control(s, interface, None)) {
                router.unplug(interface, c);
            }
            if let Some(why) = why {
                router.note(true, format!("{name}: {why}"));
            }
        }
        Event::Link { up } => {
            let Some(set_up) = router.interface(interface).map(|i| i.up) else { return };
            router.note(false, format!("{name}: link {}", if up { "up" } else { "down" }));
            router.set_link_state(interface, set_up, up);
        }
        Event::Mtu { mtu, stays, why } => {
            router.note(true, format!("{name}: {why}"));
            let Some(i) = router.interface(interface) else { return };
            let all: Vec<u32> = i.subs.values().copied().chain([interface]).collect();
            // The operator may have set another one since, which the device takes or refuses by itself.
            let asks =
                |i: &IfState| i.mtu == mtu || u32::from(i.mtu) + i.tags().beyond_mtu() == u32::from(mtu);
            if !all.iter().any(|index| router.interface(*index).is_some_and(asks)) {
                return;
            }
            for index in all {
                let larger = router.interface(index).is_some_and(|i| i.mtu > stays);
                if let Some(e) = larger.then(|| router.set_mtu(index, stays).err()).flatten() {
                    router.note(true, format!("{name}: {e}"));
                }
            }
        }
        Event::Say { text } => router.note(true, format!("{name}: {text}")),
    }
}

fn runs(router: &mut Router, interface: u32, name: &str, running: Running) {
    let Some(i) = router.interface(interface) else { return };
    let (mac, mtu) = (i.mac, i.mtu.into());
    let mut senders = running.tx;
    let tx = (0..router.config().workers).filter_map(|_| senders.transmit_queue()).collect();
    let Some(control) = router.state::<State>().and_then(|s| control(s, interface, Some(senders))) else {
        return;
    };
    let words = control.describe();
    let device = Device { rx: running.rx, tx, caps: CAPS, mac, mtu, link: running.link, control };
    match router.plug(interface, device) {
        Ok(()) => router.note(false, format!("{name}: {words}")),
        Err(e) => {
            router.note(true, format!("{name}: {e}"));
            if let Some(c) = router.state::<State>().and_then(|s| self::control(s, interface, None)) {
                router.unplug(interface, c);
            }
        }
    }
}

impl Part for Dpdk {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(State::default())
    }

    fn starts(&self, router: &mut Router) -> Result<(), OpError> {
        let hub = Hub::new().map_err(|e| OpError::new(format!("no descriptor for DPDK: {e}")))?;
        if let Some(s) = router.state_mut::<State>() {
            s.hub = Some(hub);
        }
        Ok(())
    }

    fn removed(&self, router: &mut Router, index: u32) {
        if let Some(s) = router.state_mut::<State>()
            && let Some(port) = s.ports.remove(&index)
            && let Some(hub) = &mut s.hub
        {
            hub.remove(&port.handle);
        }
    }

    fn commands(&self) -> Vec<Command<Router>> {
        commands::all()
    }

    fn descriptor<'r>(&self, router: &'r Router) -> Option<BorrowedFd<'r>> {
        Some(router.state::<State>()?.hub.as_ref()?.as_fd())
    }

    fn readable(&self, router: &mut Router) -> bool {
        let hub = router.state_mut::<State>().and_then(|s| s.hub.as_mut());
        let Some(events) = hub.map(Hub::events).filter(|e| !e.is_empty()) else { return false };
        events.into_iter().for_each(|(interface, event)| happened(router, interface, event));
        router.reclaim();
        false
    }
}
