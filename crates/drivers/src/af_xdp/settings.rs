//! What AF_XDP wants of a device beside its queues: as many receive queues as the router has, VLAN tags left in the frames, and
//! interrupts put off, so that frames come by many at a time. What was changed is put back, also what a killed router has changed.

use super::Mode;
use crate::error::Error;
use crate::host::Notes;
use crate::link::Link;
use crate::linux::*;
use crate::{netns, sys};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// In front of what is noted with the device.
const PREFIX: &str = "quiver-xdp";
/// How often interrupts are put off, and for how long the device waits then, nanoseconds. By measurement on veth, whose ring of 256
/// frames overflows in more time.
const DEFER: (u64, u64) = (2, 200_000);
/// How long Linux may take to let go of a queue after its socket was closed.
pub(super) const LINGERS: Duration = Duration::from_millis(500);

/// Settings of a device; those that are `None` were not changed, or cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Receive queues.
    queues: Option<u32>,
    /// Transmit queues, where the device has them apart.
    sends: Option<u32>,
    /// The device takes VLAN tags out of frames.
    untags: Option<bool>,
    /// Linux puts frames of a flow together before a program of generic mode sees them.
    merges: Option<bool>,
    /// How often interrupts are put off, and for how long.
    defer: Option<(u64, u64)>,
}

impl Settings {
    fn note(self, ifindex: u32) -> String {
        let text = |v: Option<u64>| v.map_or("-".into(), |v| v.to_string());
        let (count, time) = (self.defer.map(|d| d.0), self.defer.map(|d| d.1));
        let all =
            [self.queues.map(u64::from), self.untags.map(u64::from), self.merges.map(u64::from), count, time];
        let sends = self.sends.map_or(String::new(), |n| format!(".{n}"));
        format!("{PREFIX}.{ifindex}.{}{sends}", all.map(text).join("."))
    }

    fn parse(note: &str, ifindex: u32) -> Option<Settings> {
        let mut parts = note.strip_prefix(PREFIX)?.strip_prefix('.')?.split('.');
        if parts.next()?.parse() != Ok(ifindex) {
            return None;
        }
        let mut next = || match parts.next()? {
            "-" => Some(None),
            n => n.parse::<u64>().ok().map(Some),
        };
        let (queues, untags, merges, count, time) = (next()?, next()?, next()?, next()?, next()?);
        let sends = next().flatten().and_then(|n| u32::try_from(n).ok());
        Some(Settings {
            queues: queues.and_then(|n| u32::try_from(n).ok()),
            sends,
            untags: untags.map(|n| n != 0),
            merges: merges.map(|n| n != 0),
            defer: count.zip(time),
        })
    }
}

/// Puts back what a router has changed that was killed. To be called before the device's queues are counted.
/// Whether all of it was put back; what was not is noted still.
pub(super) fn put_back(link: &Link, ifindex: u32) -> bool {
    let Ok(notes) = Notes::open(link.netns(), ifindex) else { return false };
    let Some((note, was)) = notes.find(|n| Settings::parse(n, ifindex)) else { return false };
    let done = restore(link, was);
    if done {
        notes.erase(&note);
    }
    done
}

/// A device whose settings the router has changed: put back with this.
pub(super) struct Tuned {
    link: Link,
    ifindex: u32,
    /// What they were before.
    was: Settings,
    notes: Option<Notes>,
    /// The queues that it had.
    found: Option<Channels>,
}

impl Tuned {
    /// Sets a device up for `queues` receive queues.
    ///
    /// # Errors
    /// It has another number of them, and cannot be set.
    pub fn set(link: Link, ifindex: u32, queues: usize, mode: Mode) -> Result<Tuned, Error> {
        let now = channels(&link);
        let count = now.map_or(1, |c| c.receive());
        let was = Settings {
            queues: (count as usize != queues).then_some(count),
            sends: None,
            untags: untags(&link).filter(|on| *on),
            merges: merges(&link).filter(|on| *on && mode == Mode::Generic),
            defer: defer(&link, None).ok().filter(|now| *now != DEFER),
        };
        let mut tuned = Tuned { link, ifindex, was, notes: None, found: now };
        if was == Settings::default() {
            return Ok(tuned);
        }
        // Noted before anything is changed: a router that is killed in between has changed nothing.
        tuned.notes = Notes::open(tuned.link.netns(), ifindex).ok();
        if let Some(notes) = &tuned.notes {
            notes.write(&was.note(ifindex));
        }
        let link = &tuned.link;
        if was.queues.is_some() {
            let set = now.ok_or_else(|| io::ErrorKind::Unsupported.into());
            set.and_then(|c| set_channels(link, c.with(queues as u32))).map_err(|cause| Error::Value {
                name: link.name().to_owned(),
                within: link.within(),
                what: format!("{queues} receive queues where it has {count}: give `rx-queues: {count}`"),
                cause,
            })?;
        }
        if was.untags.is_some() {
            set_untags(link, false);
        }
        if was.merges.is_some() {
            set_merges(link, false);
        }
        if was.defer.is_some() {
            let _ = defer(link, Some(DEFER));
        }
        Ok(tuned)
    }

    /// Whether it has another number of receive queues by this.
    pub fn has_set_queues(&self) -> bool {
        self.was.queues.is_some()
    }

    /// Has a device take sockets for `queues` queues, without packets for those that are more where it has transmit queues apart.
    ///
    /// # Errors
    /// It cannot have as many.
    pub fn make_room(&mut self, queues: usize) -> Result<(), Error> {
        let wanted = queues as u32;
        let now = self.channels(queues)?;
        if now.receive() >= wanted {
            return Ok(());
        }
        if !now.are_combined() && self.change(now, now.sending(now.sends().max(wanted))).is_ok() {
            return Ok(());
        }
        self.change(now, now.with(wanted)).map_err(|cause| self.refused(queues, now, cause))
    }

    /// Has a device whose first `queues` queues have sockets receive by these. How long Linux may take to let go of others.
    ///
    /// # Errors
    /// It does not take that number.
    pub fn receive_by(&mut self, queues: usize, patience: Duration) -> Result<(), Error> {
        let wanted = queues as u32;
        let until = Instant::now() + patience;
        loop {
            let now = self.channels(queues)?;
            // A queue beyond those of the other kind that has a socket is one that goes, to Linux.
            let sends = self.found.map_or(0, Channels::sends).max(wanted);
            let both = if now.are_combined() { now.with(wanted) } else { now.with(wanted).sending(sends) };
            match self.change(now, both) {
                Err(e) if is_held(&e) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                // Where the other end of a veth is in the way it sends by as many as before.
                set => {
                    let set = set.or_else(|_| self.change(now, now.with(wanted)));
                    return set.map_err(|cause| self.refused(queues, now, cause));
                }
            }
        }
    }

    fn channels(&self, queues: usize) -> Result<Channels, Error> {
        match channels(&self.link) {
            Some(now) => Ok(now),
            None if queues == 1 => Ok(Channels::ONE),
            None => Err(self.refused(queues, Channels::ONE, io::ErrorKind::Unsupported.into())),
        }
    }

    fn refused(&self, queues: usize, now: Channels, cause: io::Error) -> Error {
        let what = format!("{queues} receive queues where it has {}", now.receive());
        Error::Value { name: self.link.name().to_owned(), within: self.link.within(), what, cause }
    }

    /// Sets the numbers of queues; what they were is noted first.
    fn change(&mut self, now: Channels, wanted: Channels) -> io::Result<()> {
        if now == wanted {
            return Ok(());
        }
        let found = self.found.unwrap_or(now);
        let changed = |c: Channels| Settings {
            queues: (c.receive() != found.receive()).then_some(found.receive()),
            sends: (!c.are_combined() && c.sends() != found.sends()).then_some(found.sends()),
            ..self.was
        };
        let (before, after) = (changed(now), changed(wanted));
        let both = Settings {
            queues: before.queues.or(after.queues),
            sends: before.sends.or(after.sends),
            ..self.was
        };
        self.renote(both);
        let set = set_channels(&self.link, wanted);
        self.renote(if set.is_ok() { after } else { before });
        set
    }

    /// Notes something else with the device, where it is something else.
    fn renote(&mut self, was: Settings) {
        let old = std::mem::replace(&mut self.was, was);
        if old == was {
            return;
        }
        if self.notes.is_none() {
            self.notes = Notes::open(self.link.netns(), self.ifindex).ok();
        }
        let Some(notes) = &self.notes else { return };
        if was != Settings::default() {
            notes.write(&was.note(self.ifindex));
        }
        if old != Settings::default() {
            notes.erase(&old.note(self.ifindex));
        }
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        let link = &self.link;
        if self.was == Settings::default() || !link.ifindex().is_ok_and(|i| i == self.ifindex) {
            return;
        }
        let note = self.was.note(self.ifindex);
        // Somebody else has set it since.
        if defer(link, None).is_ok_and(|now| now != DEFER) {
            self.was.defer = None;
        }
        // What could not be put back the next start tries again.
        if restore(link, self.was)
            && let Some(notes) = &self.notes
        {
            notes.erase(&note);
        }
    }
}

/// In words, what was changed.
impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.was.defer.is_some() {
            write!(f, ", interrupts put off {} times for {} us", DEFER.0, DEFER.1 / 1000)?;
        }
        if self.was.queues.is_some() {
            write!(f, ", number of receive queues set")?;
        }
        if self.was.untags.is_some() {
            write!(f, ", VLAN tags left in frames")?;
        }
        if self.was.merges.is_some() {
            write!(f, ", GRO off")?;
        }
        Ok(())
    }
}

/// Whether Linux keeps a queue for the socket that it had.
fn is_held(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EBUSY))
}

/// Puts settings back; whether the number of queues is what it was, where the device has one at all.
fn restore(link: &Link, was: Settings) -> bool {
    let mut done = true;
    if (was.queues.is_some() || was.sends.is_some())
        && let Some(now) = channels(link)
        && let count = was.queues.unwrap_or(now.receive())
        && let sends = was.sends.unwrap_or(now.sends())
        && (now.receive() != count || now.sends() != sends)
    {
        let until = Instant::now() + LINGERS;
        loop {
            let set = set_channels(link, now.with(count).sending(sends));
            done = set.is_ok();
            // More than the device can have is refused in the same words, and for good.
            let held = count <= now.most() && set.is_err_and(|e| is_held(&e));
            if !held || Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    if was.untags == Some(true) {
        set_untags(link, true);
    }
    if was.merges == Some(true) {
        set_merges(link, true);
    }
    if let Some(was) = was.defer {
        let _ = defer(link, Some(was));
    }
    done
}

/// `struct ethtool_channels`, behind its command: most of receive, transmit, other and combined, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Channels([u32; 9]);

impl Channels {
    /// Of a device that does not say.
    const ONE: Channels = Channels([0, 1, 1, 0, 0, 1, 1, 0, 0]);

    fn are_combined(self) -> bool {
        self.0[4] != 0
    }

    /// Transmit queues that are only that.
    fn sends(self) -> u32 {
        self.0[6]
    }

    /// The same with that many of those, as far as there can be.
    fn sending(mut self, count: u32) -> Channels {
        self.0[6] = count.min(self.0[2]);
        self
    }

    fn receive(self) -> u32 {
        self.0[5] + self.0[8]
    }

    /// The most that [`Channels::with`] can ask for.
    fn most(self) -> u32 {
        if self.are_combined() { self.0[4] } else { self.0[1] }
    }

    /// The same with that many receive queues.
    fn with(mut self, count: u32) -> Channels {
        if self.are_combined() {
            (self.0[5], self.0[8]) = (0, count);
        } else {
            self.0[5] = count;
        }
        self
    }
}

fn channels(link: &Link) -> Option<Channels> {
    let mut c = [0u32; 9];
    c[0] = ETHTOOL_GCHANNELS;
    link.ethtool(&mut c).ok().map(|()| Channels(c)).filter(|c| c.receive() != 0)
}

/// How many receive queues a device has; one where it does not say.
pub(super) fn receive_queues(link: &Link) -> usize {
    channels(link).map_or(1, |c| c.receive() as usize)
}

fn set_channels(link: &Link, c: Channels) -> io::Result<()> {
    let mut c = c.0;
    c[0] = ETHTOOL_SCHANNELS;
    link.ethtool(&mut c)
}

fn flags(link: &Link) -> Option<u32> {
    let mut value = [ETHTOOL_GFLAGS, 0];
    link.ethtool(&mut value).ok().map(|()| value[1])
}

fn untags(link: &Link) -> Option<bool> {
    flags(link).map(|f| f & ETH_FLAG_RXVLAN != 0)
}

fn set_untags(link: &Link, on: bool) {
    if let Some(now) = flags(link) {
        let wanted = if on { now | ETH_FLAG_RXVLAN } else { now & !ETH_FLAG_RXVLAN };
        let _ = link.ethtool(&mut [ETHTOOL_SFLAGS, wanted]);
    }
}

fn merges(link: &Link) -> Option<bool> {
    let mut value = [ETHTOOL_GGRO, 0];
    link.ethtool(&mut value).ok().map(|()| value[1] != 0)
}

fn set_merges(link: &Link, on: bool) {
    let _ = link.ethtool(&mut [ETHTOOL_SGRO, on.into()]);
}

/// How often interrupts are put off and for how long; set first, where a value is given.
fn defer(link: &Link, set: Option<(u64, u64)>) -> Result<(u64, u64), Error> {
    let name = link.name();
    netns::within(link.netns(), || {
        // Of the calling thread's namespace, wherever /sys is of another one.
        let sys = sys::new_sysfs().map_err(crate::error::system("look into sysfs"))?;
        let open = |what: &str, write: bool| -> io::Result<File> {
            let flags = if write { libc::O_WRONLY } else { libc::O_RDONLY };
            sys::open_in(&sys, &format!("class/net/{name}/{what}"), flags).map(File::from)
        };
        let one = |what: &str, value: Option<u64>| -> io::Result<u64> {
            if let Some(v) = value {
                open(what, true)?.write_all(v.to_string().as_bytes())?;
            }
            let mut text = String::new();
            open(what, false)?.read_to_string(&mut text)?;
            text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
        };
        let both = || {
            let count = one("napi_defer_hard_irqs", set.map(|s| s.0))?;
            Ok((count, one("gro_flush_timeout", set.map(|s| s.1))?))
        };
        both().map_err(crate::error::system(format!("put interrupts of {name} off")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_combined_where_the_device_has_such() {
        let (own, combined) = (Channels([0, 4, 4, 0, 0, 2, 2, 0, 0]), Channels([0, 0, 0, 1, 8, 0, 0, 1, 3]));
        assert_eq!((own.most(), own.receive(), own.with(3).receive()), (4, 2, 3));
        assert_eq!((combined.most(), combined.receive(), combined.with(5).receive()), (8, 3, 5));
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for was in [
            Settings::default(),
            Settings {
                queues: Some(4),
                sends: None,
                untags: Some(true),
                merges: Some(true),
                defer: Some((0, 0)),
            },
            Settings { defer: Some((3, 20_000)), ..Settings::default() },
            Settings { queues: Some(1), sends: Some(2), ..Settings::default() },
        ] {
            assert_eq!(Settings::parse(&was.note(12), 12), Some(was));
            assert_eq!(Settings::parse(&was.note(12), 13), None);
        }
        for other in ["quiver.12.1500.0200fe0001ff", "quiver-xdp.12.x.-.-.-.-", "quiver-xdp.12.1"] {
            assert_eq!(Settings::parse(other, 12), None);
        }
    }
}
