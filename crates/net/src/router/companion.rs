//! TAPs that a part makes for another interface, and takes away with it.

use super::devices;
use super::{Op, OpError, Router, TapConfig};

impl Router {
    /// Makes a TAP that the operator neither changes nor saves, and answers its number. Frames of any length go to Linux: the MTU of
    /// the Linux side is what `config` says.
    ///
    /// # Errors
    /// The name is taken, here or in Linux, or Linux refuses.
    pub(crate) fn create_companion(&mut self, name: String, config: TapConfig) -> Result<u32, OpError> {
        self.free_name(&name)?;
        let origin = Op::CreateTap { name: name.clone(), config: config.clone() };
        self.create_device(name.clone(), origin, |index, workers| {
            devices::open_tap(&config, index, workers)
        })?;
        let index = self.index_of(&name)?;
        if let Some(i) = self.interfaces.get_mut(index) {
            (i.companion, i.mtu) = (true, u16::MAX);
        }
        Ok(index)
    }

    /// Takes one away again, and its Linux side with it.
    pub(crate) fn remove_companion(&mut self, index: u32) {
        if self.interface(index).is_some_and(|i| i.companion) {
            self.remove_interface(index);
        }
    }

    /// With what its Linux side is made anew, should somebody delete it.
    pub(crate) fn remake_companion_with(&mut self, index: u32, change: impl FnOnce(&mut TapConfig)) {
        let i = self.interfaces.get_mut(index).filter(|i| i.companion);
        if let Some(Op::CreateTap { config, .. }) = i.map(|i| &mut i.origin) {
            change(config);
        }
    }

    /// Gives its Linux side a carrier, or takes it away.
    pub(crate) fn set_companion_carrier(&mut self, index: u32, on: bool) {
        let Some(i) = self.interface(index).filter(|i| i.companion && i.up != on) else { return };
        let link = i.link;
        if let Err(e) = self.set_admin(index, on, link) {
            self.note(true, e.message);
        }
    }

    /// Linux's number of its Linux side; none while that is gone.
    pub(crate) fn companion_ifindex(&self, index: u32) -> Option<u32> {
        let device = self.interface(index).filter(|i| i.companion)?.device()?;
        device.linux().map(|(_, ifindex)| ifindex).filter(|ifindex| *ifindex != 0)
    }
}
