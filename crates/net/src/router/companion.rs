//! TAPs that a part makes for another interface, and takes away with it.

use super::aside::Asks;
use super::devices;
use super::tell::{Last, Todo};
use super::{DeviceControl, Kind, Op, OpError, Router, TapConfig};
use drivers::tap::kept::{self, Keeper};

/// How companions live on while the router ends and is started anew.
#[derive(Default)]
pub(super) struct Companions {
    /// What is written on them; without it they end with the router.
    mark: Option<String>,
    keeper: Option<Box<dyn Keeper>>,
    /// What an earlier run has left is not touched until all is as configured.
    starting: bool,
    /// A part changes what is its own.
    changing: bool,
}

impl Router {
    /// Companions that are made from now on outlive the router. Those that bear this mark are taken over; their queues are asked of
    /// `keeper`, and given to it.
    pub fn outlive(&mut self, mark: String, keeper: Option<Box<dyn Keeper>>) {
        self.companions = Companions { mark: Some(mark), keeper, starting: true, changing: false };
    }

    /// Does what a part does with companions and bridge domains that are its own, which the operator may not.
    pub(crate) fn with_companions<R>(&mut self, change: impl FnOnce(&mut Router) -> R) -> R {
        let was = std::mem::replace(&mut self.companions.changing, true);
        let result = change(self);
        self.companions.changing = was;
        result
    }

    /// Whether a part changes what is its own.
    pub(crate) fn changes_companions(&self) -> bool {
        self.companions.changing
    }

    /// Has an interface that a part has made be none of the operator's.
    pub(crate) fn make_companion(&mut self, index: u32) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        i.companion = true;
        // A sub-interface stands with its interface.
        if !matches!(i.kind, Kind::Sub { .. }) {
            self.interfaces.rank_companion(index, index);
        }
    }

    /// Whether what is configured is being made, at a start.
    pub(crate) fn is_starting(&self) -> bool {
        self.companions.starting
    }

    /// All is as configured: takes away what an earlier run has left and nobody has taken over.
    pub(crate) fn end_start(&mut self) {
        self.companions.starting = false;
        let Some(mark) = &self.companions.mark else { return };
        for left in kept::left(mark) {
            let ours = self.interfaces().any(|i| match &i.origin {
                Op::CreateTap { config, .. } => config.host_name == left.name && config.netns == left.netns,
                _ => false,
            });
            if ours {
                continue;
            }
            let of = left.netns.as_ref().map_or(String::new(), |n| format!(" in namespace {n}"));
            match left.delete() {
                Ok(()) => {
                    let words = "was left by an earlier run and is no pair any more: it was deleted";
                    self.note(false, format!("Linux device {}{of} {words}", left.name));
                }
                Err(e) => self.note(
                    true,
                    format!("Linux device {}{of}, which an earlier run has left: {e}", left.name),
                ),
            }
        }
        if let Some(keeper) = &mut self.companions.keeper {
            keeper.finish();
        }
    }

    /// Makes a TAP for the interface `of` that the operator neither changes nor saves, and answers its number. Frames of any length go to Linux: the MTU of
    /// the Linux side is what `config` says. One that an earlier run has left stays as it is. Where Linux refuses it later, the part is told
    /// ([`super::Part::companion_refused`]), and `refused` says what that means for the transaction.
    ///
    /// # Errors
    /// The name is taken, here or in Linux, or Linux refuses.
    pub(crate) fn create_companion(
        &mut self,
        of: u32,
        name: String,
        config: TapConfig,
        refused: impl FnOnce(&mut Router, OpError) -> Result<(), OpError> + Send + 'static,
    ) -> Result<u32, OpError> {
        self.free_name(&name)?;
        let config = TapConfig { mark: self.companions.mark.clone(), ..config };
        let queue = self.companions.keeper.as_mut().and_then(|k| k.take(&config.host_name));
        let origin = Op::CreateTap { name: name.clone(), config: config.clone() };
        self.open_for(name.clone(), origin, Asks::Linux, refused, move |index, workers| {
            devices::open_companion(&config, queue, index, workers)
        })?;
        let index = self.index_of(&name)?;
        if let Some(i) = self.interfaces.get_mut(index) {
            (i.companion, i.mtu) = (true, u16::MAX);
        }
        self.interfaces.rank_companion(index, of);
        self.keep_companion(index);
        Ok(index)
    }

    /// The queue of a companion stays open when the router ends.
    pub(super) fn keep_companion(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index).filter(|i| i.companion) else { return };
        let (Op::CreateTap { config, .. }, Some(keeper)) = (&i.origin, &mut self.companions.keeper) else {
            return;
        };
        if let Some(queue) = i.device().and_then(DeviceControl::queue) {
            keeper.keep(&config.host_name, queue);
        }
    }

    /// Takes one away again, and its Linux side with it: but not what an earlier run has left where a start fails.
    pub(crate) fn remove_companion(&mut self, index: u32) {
        let (starting, lives_on) = (self.companions.starting, self.companions.mark.is_some());
        let Some(i) = self.interfaces.get_mut(index).filter(|i| i.companion) else { return };
        let left = starting && i.device().is_some_and(DeviceControl::was_there);
        if lives_on && !left {
            i.remote.last = Some(Last::Delete);
            if let (Op::CreateTap { config, .. }, Some(keeper)) = (&i.origin, &mut self.companions.keeper) {
                keeper.forget(&config.host_name);
            }
        }
        self.remove_interface(index);
    }

    /// With what its Linux side is made anew, should somebody delete it.
    pub(crate) fn remake_companion_with(&mut self, index: u32, change: impl FnOnce(&mut TapConfig)) {
        let i = self.interfaces.get_mut(index).filter(|i| i.companion);
        if let Some(Op::CreateTap { config, .. }) = i.map(|i| &mut i.origin) {
            change(config);
        }
    }

    /// Whether an earlier run has left its Linux side.
    pub(crate) fn companion_was_there(&self, index: u32) -> bool {
        let device = self.interface(index).filter(|i| i.companion).and_then(|i| i.device());
        device.is_some_and(DeviceControl::was_there)
    }

    /// Gives its Linux side a carrier, or takes it away.
    pub(crate) fn set_companion_carrier(&mut self, index: u32, on: bool) {
        let Some(i) = self.interface(index).filter(|i| i.companion && i.up != on) else { return };
        let link = i.link;
        if let Err(e) = self.set_admin(index, on, link) {
            self.note(true, e.message);
        }
    }

    /// Takes the carrier of one that an earlier run has left with it.
    pub(crate) fn end_companion_carrier(&mut self, index: u32) {
        if self.interface(index).is_some_and(|i| i.companion && !i.up)
            && let Err(e) = self.tell_device(index, Todo::Up(false))
        {
            self.note(true, e.message);
        }
    }

    /// Linux's number of its Linux side; none while that is gone.
    pub(crate) fn companion_ifindex(&self, index: u32) -> Option<u32> {
        let device = self.interface(index).filter(|i| i.companion)?.device()?;
        device.linux().map(|(_, ifindex)| ifindex).filter(|ifindex| *ifindex != 0)
    }
}
