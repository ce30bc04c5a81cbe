//! The control side of a device, whether or not it is there: what it is told takes its time, and what it says is what was last seen.

use crate::router::DeviceControl;
use drivers::dpdk::{Config, Handle, Senders, Setting, State};
use graph::TxQueue;
use packet::eth::MacAddr;

/// Of one interface.
pub(super) struct Control {
    pub handle: Handle,
    pub config: Config,
    /// Where packets are sent, while it runs.
    pub senders: Option<Senders>,
}

impl Control {
    fn tell(&self, setting: Setting) -> Result<(), drivers::Error> {
        self.handle.set(setting);
        Ok(())
    }

    /// An MTU that the device is known not to take is refused at once.
    fn mtu(&self, bytes: u32) -> Result<(), drivers::Error> {
        let most = self.handle.seen(|s| s.most_mtu);
        match u16::try_from(bytes) {
            Ok(mtu) if most == 0 || mtu <= most => self.tell(Setting::Mtu(mtu)),
            _ => Err(drivers::Error::Value {
                name: self.config.device.device().to_owned(),
                within: drivers::error::Within(None),
                what: format!("MTU {bytes}"),
                cause: std::io::Error::other(format!("{most} at most")),
            }),
        }
    }
}

impl DeviceControl for Control {
    fn set_up(&mut self, up: bool) -> Result<(), drivers::Error> {
        self.tell(Setting::Up(up))
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), drivers::Error> {
        self.mtu(mtu.into())
    }

    fn fit(&mut self, bytes: u32) -> Result<(), drivers::Error> {
        self.mtu(bytes)
    }

    fn fit_tagged(&mut self, bytes: u32) -> Result<(), drivers::Error> {
        self.mtu(bytes)
    }

    fn set_mac(&mut self, mac: MacAddr) -> Result<(), drivers::Error> {
        self.tell(Setting::Mac(mac))
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), drivers::Error> {
        self.tell(Setting::Promiscuous(on))
    }

    fn set_group(&mut self, group: MacAddr, wanted: bool) -> Result<(), drivers::Error> {
        self.tell(Setting::Group(group, wanted))
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(self.senders.as_mut().and_then(Senders::transmit_queue))
    }

    fn link(&self) -> bool {
        self.senders.is_some() && self.handle.link()
    }

    fn present(&self) -> bool {
        self.handle.seen(|s| s.state != State::Absent)
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.handle.drops()
    }

    fn describe(&self) -> String {
        self.handle.seen(|s| match (s.state, &s.trouble) {
            (State::Opening, _) => format!("dpdk {}, which is looked for", self.config.device),
            (State::Absent, Some(why)) => format!("dpdk {}, which is not there: {why}", self.config.device),
            (State::Absent, None) => format!("dpdk {}, which is not there", self.config.device),
            (State::Down | State::Up, _) if s.link.mbps != 0 && s.link.up != 0 => {
                format!("{}; {} Mbit/s", s.words, s.link.mbps)
            }
            (State::Down | State::Up, _) => s.words.clone(),
        })
    }

    fn numa_node(&self) -> Option<u32> {
        drivers::numa::of_pci(self.config.device.device())
    }

    fn warnings(&self) -> Vec<String> {
        // What is wrong with one that is not there stands in its description.
        self.handle.seen(|s| s.trouble.clone().filter(|_| s.state == State::Down)).into_iter().collect()
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        self.handle.seen(|s| s.stats.clone())
    }
}
