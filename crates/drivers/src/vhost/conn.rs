//! A connection: what the other side has said on it, and the rings that run.

use super::config::MOST_PAIRS;
use super::memory::Memory;
use super::message::{self, Head, Message, Region, feature, protocol};
use super::queue::Slot;
use super::ring::{Place, Ring};
use crate::peers::{CLOSED, Shared, lost, process_of};
use crate::signal::Signal;
use graph::TxCaps;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What of a connection operators see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The other side's process, as Linux knows it.
    pub pid: Option<i32>,
    /// The features that its driver has taken.
    pub features: u64,
    /// Pairs of queues that run.
    pub pairs: usize,
    /// Descriptors of the largest queue.
    pub size: u32,
    /// Regions of memory, and their bytes together.
    pub regions: (usize, u64),
}

/// Why a connection ends.
pub(super) type Ended = String;

/// A ring, as the other side has described it so far.
#[derive(Default)]
struct Vring {
    place: Place,
    has_place: bool,
    base: u16,
    kick: Option<Arc<Signal>>,
    /// A kick descriptor came, or none is to come.
    kicked: bool,
    call: Option<Arc<Signal>>,
    enabled: bool,
    live: bool,
}

/// A message that comes.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
}

pub(super) struct Conn {
    pub fd: OwnedFd,
    pub pid: Option<i32>,
    offered: u64,
    pub features: u64,
    protocol: u64,
    memory: Arc<Memory>,
    vrings: Vec<(Vring, Slot)>,
    pub shared: Arc<Shared>,
    input: Input,
    /// A whole message has come.
    pub heard: bool,
    /// Grows with what queues that stand cannot follow.
    generation: u64,
}

/// What queues are made of: the pairs that run, and what they were made for.
pub(super) type Standing = (Vec<usize>, u64);

impl Conn {
    pub fn new(fd: OwnedFd, offered: u64, shared: Arc<Shared>) -> Conn {
        let pid = process_of(&fd);
        let slot = |_| (Vring::default(), Slot::new(None));
        Conn {
            fd,
            pid,
            offered,
            features: 0,
            protocol: 0,
            memory: Arc::default(),
            vrings: (0..2 * MOST_PAIRS).map(slot).collect(),
            shared,
            input: Input::default(),
            heard: false,
            generation: 0,
        }
    }

    /// Whether some of the other side's memory has gone.
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }

    pub fn peer(&self, standing: Option<&Standing>) -> Peer {
        Peer {
            pid: self.pid,
            features: self.features,
            pairs: standing.map_or(0, |s| s.0.len()),
            size: self.vrings.iter().filter(|(v, _)| v.live).map(|(v, _)| v.place.size).max().unwrap_or(0),
            regions: self.memory.size(),
        }
    }

    /// What runs now; no pairs where nothing does.
    pub fn runs(&self) -> Standing {
        let both = |p: &usize| self.vrings[2 * p..2 * p + 2].iter().all(|(v, _)| v.live);
        ((0..MOST_PAIRS).filter(both).collect(), self.generation)
    }

    /// What the driver receives as it is.
    pub fn caps(&self) -> TxCaps {
        let has = |bits| self.features & bits == bits;
        let tso = has(feature::GUEST_TSO4 | feature::GUEST_TSO6 | feature::GUEST_ECN | feature::GUEST_CSUM);
        TxCaps { checksum: has(feature::GUEST_CSUM), tso, uso: false }
    }

    /// The rings of a pair: what this side sends to, and receives from with its kick.
    pub fn pair(&self, p: usize) -> (Slot, Slot, Option<Arc<Signal>>) {
        let (from, kick) = (&self.vrings[2 * p + 1].1, self.vrings[2 * p + 1].0.kick.clone());
        (self.vrings[2 * p].1.again(), from.again(), kick)
    }

    /// Reads what has come and does what it says, at most one message; false when nothing waits.
    pub fn read(&mut self) -> Result<bool, Ended> {
        let have = self.input.bytes.len();
        let want = match self.input.bytes.first_chunk() {
            None => message::HEADER,
            Some(head) => message::HEADER + Head::parse(head)?.size,
        };
        if have < want {
            let mut bytes = [0; message::MOST_BODY];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(message::MOST_REGIONS))];
            let mut along = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let mut into = [IoSliceMut::new(&mut bytes[..want - have])];
            let got =
                match rustix::net::recvmsg(&self.fd, &mut into, &mut along, flags).map_err(io::Error::from) {
                    Ok(got) => got.bytes,
                    Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                        return Ok(false);
                    }
                    Err(e) => return Err(lost(&e)),
                };
            for m in along.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = m {
                    self.input.files.extend(files);
                }
            }
            if got == 0 {
                return Err(CLOSED.into());
            }
            if self.input.files.len() > message::MOST_REGIONS {
                return Err("more descriptors came than a message can have".into());
            }
            self.input.bytes.extend_from_slice(&bytes[..got]);
        }
        let Some(head) = self.input.bytes.first_chunk() else { return Ok(true) };
        let head = Head::parse(head)?;
        if self.input.bytes.len() == message::HEADER + head.size {
            let Input { bytes, files } = std::mem::take(&mut self.input);
            self.heard = true;
            self.take(head, Message::parse(head.request, &bytes[message::HEADER..])?, files)?;
        }
        Ok(true)
    }

    fn say(&self, request: u32, body: [u8; 8]) -> Result<(), Ended> {
        let bytes = message::reply(request, body);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&self.fd, &bytes, flags) {
            Ok(n) if n == bytes.len() => Ok(()),
            Ok(_) => Err("the other side takes no messages".into()),
            Err(e) => Err(lost(&e.into())),
        }
    }

    fn ring(&mut self, index: u32) -> Result<&mut Vring, Ended> {
        let most = self.vrings.len();
        let no = || format!("a message speaks of queue {index}, there are {most}");
        self.vrings.get_mut(index as usize).map(|(v, _)| v).ok_or_else(no)
    }

    fn take(&mut self, head: Head, m: Message, files: Vec<OwnedFd>) -> Result<(), Ended> {
        let answer = match m {
            Message::GetFeatures => Some(self.offered.to_ne_bytes()),
            Message::GetProtocolFeatures => Some(protocol::ALL.to_ne_bytes()),
            Message::GetQueueNum => Some((MOST_PAIRS as u64).to_ne_bytes()),
            Message::GetVringBase { index } => {
                self.ring(index)?;
                self.stop(index as usize);
                let v = self.ring(index)?;
                (v.kick, v.kicked) = (None, false);
                let [a, b, c, d] = index.to_ne_bytes();
                let [e, f, g, h] = u32::from(v.base).to_ne_bytes();
                Some([a, b, c, d, e, f, g, h])
            }
            m => {
                self.change(m, files)?;
                let asked = head.wants_reply && self.protocol & protocol::REPLY_ACK != 0;
                asked.then_some([0; 8])
            }
        };
        answer.map_or(Ok(()), |body| self.say(head.request, body))
    }

    fn change(&mut self, m: Message, files: Vec<OwnedFd>) -> Result<(), Ended> {
        match m {
            Message::SetFeatures(features) => {
                let unknown = features & !self.offered;
                if unknown != 0 {
                    return Err(format!("its driver takes features that were not offered: {unknown:#x}"));
                }
                if features != self.features {
                    self.restart(|conn| {
                        conn.features = features;
                        Ok(())
                    })?;
                }
            }
            Message::SetProtocolFeatures(features) => self.protocol = features & protocol::ALL,
            Message::ResetOwner => {
                (0..self.vrings.len()).for_each(|n| self.stop(n));
                // Nothing starts again before it is said anew.
                for (v, _) in &mut self.vrings {
                    (v.kick, v.kicked, v.enabled) = (None, false, false);
                }
            }
            Message::SetMemTable(regions) => self.set_memory(&regions, files)?,
            Message::SetVringNum { index, num } => self.describe(index, |v| v.place.size = num)?,
            Message::SetVringAddr { index, log, desc, used, avail } => {
                if log {
                    return Err(
                        "it is to keep a log of what it writes (migration), which was not offered".into()
                    );
                }
                self.describe(index, |v| {
                    v.place = Place { desc, used, avail, ..v.place };
                    v.has_place = true;
                })?;
            }
            Message::SetVringBase { index, base } => self.describe(index, |v| v.base = base as u16)?,
            Message::SetVringKick { index, fd } => {
                let kick = signal(fd, files)?;
                self.describe(index, |v| (v.kick, v.kicked) = (kick, true))?;
            }
            Message::SetVringCall { index, fd } => {
                let call = signal(fd, files)?;
                self.ring(index)?.call.clone_from(&call);
                self.vrings[index as usize].1.wait(|ring| {
                    if let Some(ring) = ring {
                        ring.call = call;
                        // What was used meanwhile is told anew.
                        ring.tell();
                    }
                });
            }
            Message::SetVringErr { index, .. } => drop(self.ring(index)?),
            Message::SetVringEnable { index, on } if self.ring(index)?.enabled != on => {
                self.describe(index, |v| v.enabled = on)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes a ring, which stops for that, and starts it if everything is known of it.
    fn describe(&mut self, index: u32, change: impl FnOnce(&mut Vring)) -> Result<(), Ended> {
        self.ring(index)?;
        self.stop(index as usize);
        change(self.ring(index)?);
        self.start(index as usize)
    }

    fn set_memory(&mut self, regions: &[Region], files: Vec<OwnedFd>) -> Result<(), Ended> {
        let memory = Memory::map(regions, files, &self.shared.alarm)?;
        self.restart(|conn| {
            conn.memory = Arc::new(memory);
            Ok(())
        })
    }

    /// Changes what all rings rely on.
    fn restart(&mut self, change: impl FnOnce(&mut Conn) -> Result<(), Ended>) -> Result<(), Ended> {
        (0..self.vrings.len()).for_each(|n| self.stop(n));
        change(self)?;
        self.generation += 1;
        (0..self.vrings.len()).try_for_each(|n| self.start(n))
    }

    fn start(&mut self, n: usize) -> Result<(), Ended> {
        let always = self.features & feature::PROTOCOL_FEATURES == 0;
        let (v, slot) = &mut self.vrings[n];
        let ready = v.kicked && v.has_place && v.place.size != 0 && (v.enabled || always);
        if !ready || v.live || self.memory.size().0 == 0 {
            return Ok(());
        }
        let made = Ring::new(&self.memory, v.place, self.features, v.base);
        let mut ring = made.map_err(|why| format!("queue {n}: {why}"))?;
        ring.call.clone_from(&v.call);
        let from_driver = n % 2 == 1;
        ring.notifications(from_driver);
        slot.wait(|slot| *slot = Some(ring));
        v.live = true;
        // Queues are made with their kick.
        self.generation += 1;
        Ok(())
    }

    /// No worker uses the ring when this returns.
    fn stop(&mut self, n: usize) {
        let (v, slot) = &mut self.vrings[n];
        if let Some(ring) = slot.wait(Option::take) {
            v.base = ring.taken();
        }
        v.live = false;
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        (0..self.vrings.len()).for_each(|n| self.stop(n));
    }
}

/// The descriptor of a message that has one, unless it says that none comes.
fn signal(comes: bool, files: Vec<OwnedFd>) -> Result<Option<Arc<Signal>>, Ended> {
    match files.into_iter().next().filter(|_| comes) {
        Some(file) => Signal::open(file).map(|s| Some(Arc::new(s))),
        None if comes => Err("a message comes without its descriptor".into()),
        None => Ok(None),
    }
}
