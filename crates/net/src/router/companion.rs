//! TAPs that a part makes for another interface, and takes away with it.

use super::aside::Asks;
use super::devices;
use super::tell::{Closing, Last, Todo};
use super::{DeviceControl, Kind, Op, OpError, Router, TapConfig};
use crate::neighbor::Millis;
use drivers::tap::kept::{self, Keeper, Left};
use std::any::Any;
use std::os::fd::OwnedFd;

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
    /// Those that were taken away by transactions that may still be undone.
    going: Vec<Going>,
    /// Plans of several transactions that are under way: what those take away stays until they end.
    plans: usize,
}

/// What a part knows of a companion that it takes away.
pub(crate) type Memory = Box<dyn Any + Send>;

/// One that was taken away: its Linux side goes when the transaction stands, and is taken over again where that is undone.
struct Going {
    commit: u64,
    linux: Left,
    closing: Closing,
    memory: Option<Memory>,
}

/// Under what the queue of a device is kept: names of namespaces may have characters that descriptors' names may not.
fn key(host: &str, netns: Option<&str>) -> String {
    let Some(netns) = netns else { return host.to_owned() };
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    let one = |b: u8| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02x}") };
    format!("{host}@{}", netns.bytes().map(one).collect::<String>())
}

impl Router {
    /// Companions that are made from now on outlive the router. Those that bear this mark are taken over; their queues are asked of
    /// `keeper`, and given to it.
    pub fn outlive(&mut self, mark: String, keeper: Option<Box<dyn Keeper>>) {
        self.companions = Companions { mark: Some(mark), keeper, starting: true, ..Companions::default() };
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
    /// the Linux side is what `config` says. One that an earlier run has left stays as it is, and so does one that was taken away by a transaction that
    /// has not ended: with it comes what was known of that. Where Linux refuses it later, the part is told
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
    ) -> Result<(u32, Option<Memory>), OpError> {
        self.free_name(&name)?;
        let config = TapConfig { mark: self.companions.mark.clone(), ..config };
        let linux = Left { name: config.host_name.clone(), netns: config.netns.clone() };
        let key = key(&linux.name, linux.netns.as_deref());
        let (left, queue, memory) = match self.take_going(&linux) {
            Some((queue, memory)) => (Some(linux), queue, memory),
            None => (None, self.companions.keeper.as_mut().and_then(|k| k.take(&key)), None),
        };
        let origin = Op::CreateTap { name: name.clone(), config: config.clone() };
        let made = self.open_for(name.clone(), origin, Asks::Linux, refused, move |index, workers| {
            devices::open_companion(&config, queue, index, workers)
        });
        if let (Err(_), Some(left)) = (&made, left) {
            let deleted = |_: &mut Router, _| Ok(());
            self.ask(Asks::Linux, move || left.delete(), deleted);
        }
        made?;
        let index = self.index_of(&name)?;
        if let Some(i) = self.interfaces.get_mut(index) {
            (i.companion, i.mtu) = (true, u16::MAX);
        }
        self.interfaces.rank_companion(index, of);
        self.keep_companion(index);
        Ok((index, memory))
    }

    /// What is kept of a companion that is going, and is being opened on this errand.
    pub(super) fn going_while_opened(&mut self, errand: u64) -> Option<&mut Closing> {
        self.companions.going.iter_mut().map(|g| &mut g.closing).find(|c| c.is_opened_by(errand))
    }

    /// Takes over a companion that is going: a queue of it, which keeps its carrier, and what is known of it.
    fn take_going(&mut self, linux: &Left) -> Option<(Option<OwnedFd>, Option<Memory>)> {
        let at = self.companions.going.iter().position(|g| g.linux == *linux)?;
        let Going { closing, memory, .. } = self.companions.going.remove(at);
        let queue = closing.queue();
        self.close(closing.staying());
        Some((queue, memory))
    }

    /// Keeps what is left of a companion that is to be deleted until its transaction has ended; gives it back where there is none under way.
    pub(super) fn let_go_later(
        &mut self,
        linux: Option<Left>,
        closing: Closing,
        memory: Option<Memory>,
    ) -> Option<Closing> {
        match (linux, self.aside.commit()) {
            (Some(linux), Some(commit)) if closing.deletes() => {
                self.companions.going.push(Going { commit, linux, closing, memory });
                None
            }
            (linux, _) => {
                if let Some(linux) = linux.filter(|_| closing.deletes()) {
                    self.forget_queue(&linux);
                }
                Some(closing)
            }
        }
    }

    /// A device goes for good: its queue is kept no longer.
    pub(super) fn forget_queue(&mut self, linux: &Left) {
        if let Some(keeper) = &mut self.companions.keeper {
            keeper.forget(&key(&linux.name, linux.netns.as_deref()));
        }
    }

    /// A plan of several transactions begins, all of which may be undone. [`Router::end_plan`] follows.
    pub fn begin_plan(&mut self) {
        self.companions.plans += 1;
    }

    /// It has ended, carried out or undone: what it took away of devices in Linux goes.
    pub fn end_plan(&mut self) {
        self.companions.plans = self.companions.plans.saturating_sub(1);
        let was = self.aside.begin();
        let ended = |g: &Going| Some(g.commit).filter(|c| !self.aside.is_asked(*c));
        let ended: Vec<Option<u64>> = self.companions.going.iter().map(ended).collect();
        self.companions_go(&ended);
        self.aside.end(was, vec![]);
    }

    /// Whether companions go with a transaction.
    pub(super) fn companions_going(&self, commit: u64) -> bool {
        self.companions.plans == 0 && self.companions.going.iter().any(|g| g.commit == commit)
    }

    /// Nothing brings back any more what these transactions took away.
    pub(super) fn companions_go(&mut self, commits: &[Option<u64>]) {
        if self.companions.plans != 0 {
            return;
        }
        let gone: Vec<Going> =
            self.companions.going.extract_if(.., |g| commits.contains(&Some(g.commit))).collect();
        for g in gone {
            self.forget_queue(&g.linux);
            self.close(g.closing);
        }
    }

    /// The queue of a companion stays open when the router ends.
    pub(super) fn keep_companion(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index).filter(|i| i.companion) else { return };
        let (Op::CreateTap { config, .. }, Some(keeper)) = (&i.origin, &mut self.companions.keeper) else {
            return;
        };
        if let Some(queue) = i.device().and_then(DeviceControl::queue) {
            keeper.keep(&key(&config.host_name, config.netns.as_deref()), queue);
        }
    }

    /// Takes one away again, and its Linux side with it, when the transaction stands: but not what an earlier run has left where a start fails. The
    /// `memory` comes back with it, should it be made again before.
    pub(crate) fn remove_companion(&mut self, index: u32, memory: Option<Memory>) {
        let (starting, lives_on) = (self.companions.starting, self.companions.mark.is_some());
        let Some(i) = self.interfaces.get_mut(index).filter(|i| i.companion) else { return };
        let left = starting && i.device().is_some_and(DeviceControl::was_there);
        if lives_on && !left {
            i.remote.last = Some(Last::Delete);
            i.remote.memory = memory;
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

impl Router {
    /// Why the Linux side of a companion is not there; none where it is.
    pub(crate) fn companion_missing(&self, index: u32) -> Option<String> {
        let i = self.interface(index).filter(|i| i.companion && !i.has_device())?;
        Some(i.trouble.clone().unwrap_or_else(|| "it is being made".into()))
    }

    /// When the Linux side of a companion was made anew; none where it is the first.
    pub(crate) fn companion_returned(&self, index: u32) -> Option<Millis> {
        self.interface(index)?.returned
    }
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn queues_of_one_name_are_told_apart() {
        assert_eq!(key("e0", None), "e0");
        assert_eq!(key("e0", Some("lcp_1")), "e0@lcp_1");
        assert_eq!(key("e0", Some("a:b,c=d%")), "e0@a%3ab%2cc%3dd%25");
    }
}
