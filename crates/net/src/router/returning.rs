//! Linux devices that change, vanish and come back while the router runs. An interface keeps its name and all that was set for
//! it when its device goes, and goes on as soon as there is one of the device's name again.

use super::aside::Asks;
use super::devices::{Device, HostConfig, InLinux};
use super::tell::{Astray, Last, Todo};
use super::{DeviceControl, IfState, Kind, Op, OpError, Router};
use drivers::tap::kept::Left;
use packet::eth::MacAddr;
use std::sync::Arc;

/// For how long an interface follows the MAC address of a device that has come back, milliseconds: who makes a device anew
/// gives it its address a moment later.
const FOLLOWS_MS: u64 = 5000;

/// What an event says of the device of an interface.
enum Told {
    /// It is another, or gone; whether a device that others made has another name.
    Own(Option<bool>),
    /// A part's TAP was renamed or moved.
    Astray(Astray),
}

impl IfState {
    /// Whether there is a device behind it, as far as it needs one.
    pub fn has_device(&self) -> bool {
        self.device().is_none_or(DeviceControl::present)
    }

    fn host(&self) -> Option<&HostConfig> {
        match &self.origin {
            Op::CreateHost { config, .. } => Some(config),
            _ => None,
        }
    }

    pub(super) fn in_linux(&self) -> Option<InLinux> {
        match &self.origin {
            Op::CreateHost { config, .. } => Some(InLinux::Host(config.clone())),
            Op::CreateTap { config, .. } => Some(InLinux::Tap(config.clone())),
            _ => None,
        }
    }

    /// The name of the host side where it is a TAP. One that was renamed or moved goes on with its queues.
    fn tap(&self) -> Option<&str> {
        match &self.origin {
            Op::CreateTap { config, .. } => Some(&config.host_name),
            _ => None,
        }
    }

    /// What an event says of its device, if it is one of that.
    fn told(&self, netns: Option<&str>, ev: &drivers::LinkEvent) -> Option<Told> {
        let named = self.tap().is_none_or(|name| name == ev.name);
        let whatever = ev.deleted || self.companion;
        if !(named || whatever) || !self.device()?.is_linux(netns, ev.ifindex) {
            return None;
        }
        if self.tap().is_none() || named && !ev.deleted {
            return Some(Told::Own(self.host().map(|c| c.host != ev.name)));
        }
        if self.is_dead_tap() {
            return ev.deleted.then_some(Told::Own(None));
        }
        // Queues outlive that.
        let astray = if ev.deleted { Astray::Moved } else { Astray::Renamed(ev.ifindex, ev.name.clone()) };
        (self.companion && self.has_device()).then_some(Told::Astray(astray))
    }

    /// A TAP whose host side was deleted, while the router still has its queues.
    fn is_dead_tap(&self) -> bool {
        self.tap().is_some() && self.has_device() && self.device().is_some_and(DeviceControl::dead)
    }
}

impl Router {
    /// Follows a change of a Linux device.
    pub fn link_event(&mut self, netns: Option<&str>, ev: &drivers::LinkEvent) {
        let told = self.interfaces().find_map(|i| Some((i.index, i.told(netns, ev)?)));
        let found = match told {
            Some((index, Told::Own(renamed))) => Some((index, renamed)),
            Some((index, Told::Astray(astray))) => return self.strays(index, astray),
            None => None,
        };
        match found {
            Some((index, Some(_))) if ev.deleted => self.lose(index, "was deleted, or moved away"),
            // The next look makes it anew.
            Some((index, None)) if ev.deleted => self.lose(index, "was deleted"),
            Some((index, Some(true))) => self.lose(index, "has another name now"),
            Some((index, _)) => {
                if let Some(i) = self.interfaces.get_mut(index)
                    && i.remote.astray.take().is_some()
                {
                    // Somebody has given it its name back.
                    i.trouble = None;
                }
                self.follow_device(index, ev);
            }
            None => {}
        }
        if !ev.deleted && found.is_none_or(|(_, renamed)| renamed == Some(true)) {
            let named = |i: &&IfState| {
                i.host().is_some_and(|c| c.host == ev.name && c.netns.as_deref() == netns)
                    && i.device().and_then(DeviceControl::linux).is_some_and(|(_, index)| index != ev.ifindex)
            };
            let Some(i) = self.interfaces().find(named) else { return };
            let index = i.index;
            if i.has_device() {
                // The message that it went was lost.
                self.lose(index, "was replaced");
            }
            self.regain(index);
        }
    }

    /// The Linux side of a part's TAP was renamed or moved. It gets its name back at the next look: with somebody who renames it again at once
    /// that would have no end.
    fn strays(&mut self, index: u32, astray: Astray) {
        let moved = matches!(astray, Astray::Moved);
        if let Some(i) = self.interfaces.get_mut(index) {
            i.remote.astray = Some(astray);
        }
        if moved {
            self.mend_stray(index);
        }
    }

    /// Mends what [`Router::strays`] has noted, unless the device is on an errand on account of which that has to wait.
    fn mend_stray(&mut self, index: u32) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        let waits = match &i.remote.astray {
            Some(Astray::Moved) => i.remote.is_away(),
            Some(Astray::Renamed(..)) => i.remote.renaming,
            None => true,
        };
        if waits {
            return;
        }
        match i.remote.astray.take() {
            Some(Astray::Moved) => self.take_back(index),
            Some(Astray::Renamed(number, from)) => self.name_back(index, number, from),
            None => {}
        }
    }

    /// Somebody has moved the Linux side of a part's TAP to another namespace, where nobody looks for it: it goes, and the next look makes
    /// it anew where it is to be.
    fn take_back(&mut self, index: u32) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        let Op::CreateTap { config, .. } = &i.origin else { return };
        let linux = Left { name: config.host_name.clone(), netns: config.netns.clone() };
        // Who tells Linux that waits for its lock.
        i.remote.last = Some(Last::Moved);
        self.forget_queue(&linux);
        self.lose(index, "was moved to another namespace, and ends there");
    }

    /// Somebody has renamed it, and it has this number: it gets its name back.
    fn name_back(&mut self, index: u32, number: u32, from: String) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        let Op::CreateTap { config, .. } = &i.origin else { return };
        let (name, netns) = (config.host_name.clone(), config.netns.clone());
        let words = format!("{}: Linux device {name} was renamed to {from}", i.name);
        i.remote.renaming = true;
        let work = move || drivers::tap::kept::rename(number, netns.as_deref(), &name);
        self.ask(Asks::Linux, work, move |router, done| {
            let why = match done {
                Ok(done) => done.err().map(|e| e.to_string()),
                Err(e) => Some(e.to_string()),
            };
            let Some(i) = router.interfaces.get_mut(index) else { return Ok(()) };
            i.remote.renaming = false;
            // It may be another device's meanwhile.
            if i.device().and_then(DeviceControl::linux).is_none_or(|(_, n)| n != number) {
                return Ok(());
            }
            if why.is_some() {
                // The next look tries again.
                if i.remote.astray.is_none() {
                    i.remote.astray = Some(Astray::Renamed(number, from));
                }
                if i.trouble == why {
                    return Ok(());
                }
            }
            i.trouble.clone_from(&why);
            let end = why.map_or_else(
                || ": it has its name back".into(),
                |e| format!(", and does not get its name back: {e}"),
            );
            router.note(true, words + &end);
            Ok(())
        });
    }

    fn follow_device(&mut self, index: u32, ev: &drivers::LinkEvent) {
        if let Some(seen) = self.look_at_device(index, ev) {
            self.followed(index, ev, seen);
        }
    }

    /// What a look at a device has found.
    pub(super) fn followed(
        &mut self,
        index: u32,
        ev: &drivers::LinkEvent,
        (link, new_mtu, new_mac): (bool, Option<u32>, Option<MacAddr>),
    ) {
        let Some(i) = self.interfaces.get(index) else { return };
        let (name, up, was, mtu, mac) = (i.name.clone(), i.up, i.link, u32::from(i.mtu), i.mac);
        if let Some(now) = new_mtu {
            let less = format!("; {mtu} is the interface's, and larger packets are lost");
            let words = format!("{name}: the MTU of Linux device {} was changed to {now}", ev.name);
            self.note(now < mtu, words + if now < mtu { &less } else { "" });
        }
        if let Some(now) = new_mac.filter(|now| *now != mac && self.follows_mac(index)) {
            if let Some(i) = self.interfaces.get_mut(index) {
                i.own_mac = now;
            }
            let set = self.set_mac(index, now);
            let why = set.as_ref().err().map_or(String::new(), |e| format!(": {e}"));
            let words = format!("{name}: Linux device {} is back with MAC address {now}{why}", ev.name);
            self.note(set.is_err(), words);
        } else if let Some(now) = new_mac.filter(|now| *now != mac) {
            self.note(
                true,
                format!(
                    "{name}: the MAC address of Linux device {} was changed to {now}; the interface keeps {mac}",
                    ev.name
                ),
            );
        }
        if link != was {
            self.note(false, format!("{name}: link {}", if link { "up" } else { "down" }));
            self.set_link_state(index, up, link);
            self.reclaim();
        }
    }

    /// Whether an interface has the MAC address of its device, which came back a moment ago.
    fn follows_mac(&self, index: u32) -> bool {
        let now = self.now();
        self.interfaces
            .get(index)
            .is_some_and(|i| !i.mac_set && i.returned.is_some_and(|at| now.since(at) < FOLLOWS_MS))
    }

    /// A device is gone, and with it its queues and the mark that it is this router's.
    pub(super) fn lose(&mut self, index: u32, how: &str) {
        let Some(i) = self.interfaces.get(index) else { return };
        let (Some(config), name, up) = (i.in_linux(), i.name.clone(), i.up) else { return };
        if !i.has_device() {
            return;
        }
        let place = config.netns().map_or(String::new(), |n| format!(" in namespace {n}"));
        let drops = i.device().map(DeviceControl::drops).unwrap_or_default();
        self.note(true, format!("{name}: Linux device {}{place} {how}", config.name()));
        self.set_link_state(index, up, false);
        self.detach(index);
        if let Some(i) = self.interfaces.get_mut(index) {
            for (reason, n) in drops {
                match i.earlier_drops.iter_mut().find(|d| d.0 == reason) {
                    Some(d) => d.1 += n,
                    None => i.earlier_drops.push((reason, n)),
                }
            }
            i.set_device(config.absent());
        }
        self.reclaim();
    }

    /// Tries to open a device anew that was gone, or to make a TAP anew.
    fn regain(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index) else { return };
        let (Some(config), name, None) = (i.in_linux(), i.name.clone(), i.remote.opening) else { return };
        let (back, failed) = match config {
            InLinux::Host(_) => ("is back", "is back"),
            InLinux::Tap(_) => ("was made anew", "cannot be made anew"),
        };
        let say = |what: &str| format!("{name}: Linux device {} {what}", config.name());
        let (back, failed) = (say(back), say(failed));
        let (workers, pool, errand) = (self.config.workers, Arc::clone(self.pool()), self.aside.number());
        if let Some(i) = self.interfaces.get_mut(index) {
            i.remote.opening = Some((errand, None));
        }
        let open = move || {
            let opened = config.reopen(index, workers, &pool);
            let opened = opened.map_err(|e| (e.to_string(), config.still_gone(&e)));
            (opened, config)
        };
        self.ask(Asks::Linux, open, move |router, done| {
            let (opened, config) = done.map_err(|e| OpError::new(e.to_string()))?;
            if router.is_opened_by(index, errand) {
                router.regained(index, &config, opened, [back, failed]);
            } else {
                router.opened_in_vain(errand, opened.ok());
            }
            Ok(())
        });
    }

    /// A device was opened anew, or why it was not, and whether it is still gone.
    fn regained(
        &mut self,
        index: u32,
        config: &InLinux,
        opened: Result<Device, (String, bool)>,
        [back, failed]: [String; 2],
    ) {
        let Some(i) = self.interfaces.get(index) else { return };
        let up = i.up;
        let device = match opened {
            Ok(device) => device,
            Err((e, gone)) => {
                if !gone && i.trouble.as_ref() != Some(&e) {
                    self.note(true, format!("{failed}: {e}"));
                }
                if let Some(i) = self.interfaces.get_mut(index) {
                    i.trouble = Some(e);
                }
                return;
            }
        };
        let now = self.now();
        let (own, link, warnings) = (device.mac, device.link, device.control.warnings());
        if let Err(e) = self.attach(index, device) {
            let e = e.to_string();
            let told = self.interfaces.get(index).is_some_and(|i| i.trouble.as_ref() == Some(&e));
            if !told {
                self.note(true, format!("{failed}: {e}"));
            }
            self.detach(index);
            if let Some(i) = self.interfaces.get_mut(index) {
                i.set_device(config.absent());
                i.trouble = Some(e);
            }
            return;
        }
        if let Some(i) = self.interfaces.get_mut(index) {
            i.own_mac = own;
            i.trouble = None;
            i.returned = Some(now);
        }
        let trouble = self.bring_device(index, own, true);
        self.note(false, back);
        for e in trouble.into_iter().chain(warnings) {
            self.note(true, e);
        }
        let here = self.interface(index).and_then(IfState::device).filter(|_| !self.aside.is_on());
        let link = here.map_or(link, DeviceControl::link);
        self.set_link_state(index, up, link);
        self.reclaim();
    }

    /// Looks for devices that are gone: whoever waits for messages of Linux calls it now and then, as some never come.
    pub fn look_for_devices(&mut self) {
        let dead: Vec<u32> = self.interfaces().filter(|i| i.is_dead_tap()).map(|i| i.index).collect();
        dead.into_iter().for_each(|index| self.lose(index, "was deleted"));
        let astray: Vec<u32> =
            self.interfaces().filter(|i| i.remote.astray.is_some()).map(|i| i.index).collect();
        astray.into_iter().for_each(|index| self.mend_stray(index));
        let gone: Vec<u32> = self.interfaces().filter(|i| !i.has_device()).map(|i| i.index).collect();
        gone.into_iter().for_each(|index| self.regain(index));
    }

    /// The name of a namespace stands for this one now, or for none. Devices in one for which it stood before are out of reach; those that are a part's end
    /// there, so that nobody has that namespace open on their account.
    pub fn namespace_is(&mut self, netns: &str, identity: Option<(u64, u64)>) {
        let was = self.namespaces.insert(netns.to_owned(), identity);
        // Behind a time without one: what has a device has got it since, in the one that there is now.
        if was.is_none_or(|was| was.is_none() || was == identity) {
            return;
        }
        let of = |i: &&IfState| i.in_linux().is_some_and(|c| c.netns() == Some(netns)) && i.has_device();
        let all: Vec<u32> = self.interfaces().filter(of).map(|i| i.index).collect();
        for index in all {
            if let Some(i) = self.interfaces.get_mut(index).filter(|i| i.companion)
                && let Op::CreateTap { config, .. } = &i.origin
            {
                let linux = Left { name: config.host_name.clone(), netns: config.netns.clone() };
                (i.remote.last, i.remote.astray) = (Some(Last::Moved), None);
                self.forget_queue(&linux);
            }
            self.lose(index, "went with its namespace");
        }
    }

    /// For which namespace a name stands, or that it stands for none, where [`Router::namespace_is`] was told.
    pub fn namespace(&self, netns: &str) -> Option<Option<(u64, u64)>> {
        self.namespaces.get(netns).copied()
    }

    /// No other namespaces are of interest.
    pub fn forget_namespaces_but(&mut self, all: &[Option<String>]) {
        self.namespaces.retain(|name, _| all.iter().any(|n| n.as_ref() == Some(name)));
    }

    /// Lets go of a device that is gone, of which Linux has not told yet, and whose number the one of `config` has now.
    pub(super) fn lose_dead(&mut self, config: &HostConfig) {
        let netns = config.netns.as_deref();
        let Ok(Ok(number)) = drivers::Link::open(&config.host, netns).map(|l| l.ifindex()) else { return };
        let dead = |i: &&IfState| {
            i.host().is_some_and(|c| c.netns.as_deref() == netns)
                && i.device().is_some_and(|d| d.linux().is_some_and(|(_, n)| n == number) && d.dead())
        };
        let all: Vec<u32> = self.interfaces().filter(dead).map(|i| i.index).collect();
        all.into_iter().for_each(|index| self.lose(index, "was deleted, or moved away"));
    }

    /// Has the Linux device behind an interface take what the interface and its sub-interfaces send, and no more than that needs.
    pub(super) fn fit_device(&mut self, index: u32) {
        let Some(own) = self.frame_bytes(index) else { return };
        for device in self.devices_below(index) {
            let above = self.carries(device).and_then(|(to, _)| self.frame_bytes(to));
            let below = self.frame_bytes(device).unwrap_or(0);
            let bytes = own.max(below).max(above.unwrap_or(0));
            // What it does not take is only told.
            let _ = self.tell_device(device, Todo::Fit(bytes));
        }
    }

    /// Bytes of the longest packet of an interface and its sub-interfaces, with the tags that count towards the MTU of a Linux device.
    fn frame_bytes(&self, index: u32) -> Option<u32> {
        let i = self.interfaces.get(index).filter(|i| !matches!(i.kind, Kind::Sub { .. }))?;
        let subs = i.subs.values().filter_map(|s| self.interfaces.get(*s));
        let tagged = subs.map(|s| u32::from(s.mtu) + s.tags().beyond_mtu()).max();
        Some(tagged.unwrap_or(0).max(u32::from(i.mtu)))
    }
}
