//! Interfaces whose queues come and go with the other end of a connection. They keep all else.

use super::{Device, DeviceControl, OpError, Router};

impl Router {
    /// The other end is there: its queues go to the workers.
    ///
    /// # Errors
    /// A worker does not take one; [`Router::unplug`] clears up.
    pub(crate) fn plug(&mut self, index: u32, device: Device) -> Result<(), OpError> {
        let link = device.link;
        self.attach(index, device)?;
        let up = self.interface(index).is_some_and(|i| i.up);
        self.set_link_state(index, up, link);
        Ok(())
    }

    /// The other end is gone, or not there yet: no worker has its queues any more when this returns.
    pub(crate) fn unplug(&mut self, index: u32, control: Box<dyn DeviceControl>) {
        let Some(up) = self.interface(index).map(|i| i.up) else { return };
        self.set_link_state(index, up, false);
        self.detach(index);
        if let Some(i) = self.interfaces.get_mut(index) {
            i.set_device(control);
        }
    }

    /// An interface of a part is taken out again whose making has failed.
    pub(crate) fn remove_virtual(&mut self, index: u32) {
        self.remove_interface(index);
    }
}
