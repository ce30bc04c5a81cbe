//! MAC addresses that were learnt on ports of Linux's bridges, told to Linux: what an EVPN daemon announces.
//!
//! Workers learn by themselves, so the table is looked through again and again, in pieces and with pauses: what is new, has moved or is gone is told
//! (`bridge fdb replace MAC dev PORT master extern_learn`). What Linux had from an earlier run stays for as long as addresses are remembered.

use super::{Followed, Logger, SharedRouter, of_namespace};
use linux::{Fdb, Sockets, fdb::Place};
use net::router::LogLine;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pause between two looks, and how much longer it is than a look took: at most a twentieth of the thread's time goes there.
const LOOK: Duration = Duration::from_millis(100);
const PAUSE: u32 = 20;
/// How long is looked before others have their turn.
const PIECE: Duration = Duration::from_millis(1);
/// Addresses told at a time.
const BATCH: usize = 1024;
/// How long addresses of an earlier run stay that are not heard of again: as long as Linux remembers any by default.
const EARLIER: Duration = Duration::from_secs(300);
/// Linux has it no more.
const ENOENT: i32 = 2;

type Mac = [u8; 6];

/// What Linux was told of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It is there.
    Now,
    /// It was not seen at the last look: it may have been missed while the table grew.
    Missed,
    /// An earlier run told it; it may be heard of until then.
    Earlier(Instant),
}

/// What Linux has told, and is not looked at yet.
#[derive(Debug)]
pub(super) enum Heard {
    Some(Vec<Fdb>),
    All(Vec<Fdb>),
}

impl Followed {
    /// Keeps what Linux has told of ports of bridges until it is looked at. What was told before all was is of no use any more.
    pub(super) fn hear(&self, told: &[Fdb], heard: fn(Vec<Fdb>) -> Heard) {
        let of_port = |f: &&Fdb| matches!(f.place, Place::Port { .. });
        let new = heard(told.iter().filter(of_port).copied().collect());
        let mut all = self.heard.borrow_mut();
        match &new {
            Heard::Some(told) if told.is_empty() => return,
            Heard::Some(_) => {}
            Heard::All(_) => all.clear(),
        }
        all.push(new);
    }
}

/// What Linux was told, by address and Linux's index of the port.
#[derive(Debug, Default)]
struct Stations(BTreeMap<(Mac, u32), Told>);

impl Stations {
    /// What Linux has of its own accord: addresses that it has no more, or elsewhere, are told anew when they are still there.
    fn heard(&mut self, fdb: &Fdb) {
        let Fdb { ifindex, mac, gone, .. } = *fdb;
        if gone {
            self.0.remove(&(mac, ifindex));
        } else {
            let others = self.0.range((mac, 0)..=(mac, u32::MAX)).map(|(at, _)| *at);
            for at in others.filter(|at| at.1 != ifindex).collect::<Vec<_>>() {
                self.0.remove(&at);
            }
        }
    }

    /// All that Linux has of pairs: what it has from an earlier run is known.
    fn all(&mut self, has: &BTreeSet<(Mac, u32)>, now: Instant) {
        self.0.retain(|at, _| has.contains(at));
        for at in has {
            self.0.entry(*at).or_insert(Told::Earlier(now + EARLIER));
        }
    }

    /// Takes in what was heard, of ports that are `ours`.
    fn take(&mut self, heard: &[Heard], ours: &BTreeSet<u32>, now: Instant) {
        let external = |f: &&Fdb| f.place == Place::Port { external: true } && ours.contains(&f.ifindex);
        for told in heard {
            match told {
                Heard::Some(told) => told.iter().for_each(|f| self.heard(f)),
                Heard::All(told) => {
                    let has = told.iter().filter(external).map(|f| (f.mac, f.ifindex)).collect();
                    self.all(&has, now);
                }
            }
        }
    }

    /// What there is to tell now that these are there: first what is new.
    fn changes(&mut self, seen: &BTreeSet<(Mac, u32)>, now: Instant) -> Vec<(u32, Mac, bool)> {
        let new: Vec<_> = seen.iter().filter(|at| !self.0.contains_key(at)).copied().collect();
        let mut changes: Vec<_> = new.iter().map(|(mac, port)| (*port, *mac, true)).collect();
        self.0.extend(new.into_iter().map(|at| (at, Told::Now)));
        self.0.retain(|at, told| {
            *told = match *told {
                _ if seen.contains(at) => Told::Now,
                Told::Now => Told::Missed,
                Told::Earlier(until) if now < until => Told::Earlier(until),
                Told::Missed | Told::Earlier(_) => {
                    changes.push((at.1, at.0, false));
                    return false;
                }
            };
            true
        });
        changes
    }
}

/// Looks through the table once.
async fn look(router: &SharedRouter, followed: &Followed) -> BTreeSet<(Mac, u32)> {
    let ports: BTreeMap<u32, u32> = followed.taken.devices.0.iter().map(|(d, i)| (*i, *d)).collect();
    let (mut seen, mut at, mut began) = (BTreeSet::new(), Some(0), Instant::now());
    while let Some(from) = at {
        let some;
        (some, at) = net::linux_bridge::local_macs(&router.borrow(), &followed.taken.netns, from);
        seen.extend(some.into_iter().filter_map(|(i, mac)| Some((mac.0, *ports.get(&i)?))));
        if began.elapsed() >= PIECE {
            tokio::task::yield_now().await;
            began = Instant::now();
        }
    }
    seen
}

/// Tells Linux for as long as it is polled.
pub(super) async fn tell(
    router: SharedRouter,
    followed: std::rc::Rc<Followed>,
    sockets: Sockets,
    log: Logger,
) {
    let (sockets, mut failing) = (Arc::new(Mutex::new(sockets)), false);
    let mut stations = Stations::default();
    loop {
        tokio::time::sleep(LOOK).await;
        if !followed.taken.counts.synced.get() {
            continue;
        }
        let began = Instant::now();
        let seen = look(&router, &followed).await;
        let heard = std::mem::take(&mut *followed.heard.borrow_mut());
        if seen.is_empty() && stations.0.is_empty() && heard.is_empty() {
            continue;
        }
        let ours: BTreeSet<u32> = followed.taken.devices.0.keys().copied().collect();
        // There may be a hundred thousand, which takes long; what is lost where there is no thread is told once more.
        let compare = move || {
            let now = Instant::now();
            stations.take(&heard, &ours, now);
            let changes = stations.changes(&seen, now);
            (stations, changes)
        };
        let (all, changes) = net::background::run(compare).await.unwrap_or_default();
        stations = all;
        for batch in changes.chunks(BATCH) {
            let (sockets, told) = (Arc::clone(&sockets), batch.to_vec());
            let work = move || {
                let mut sockets = sockets.lock().unwrap_or_else(PoisonError::into_inner);
                linux::reader::tell_fdb(&mut sockets, &told)
            };
            let why = match net::background::run(work).await.and_then(|told| told) {
                Ok(refused) => {
                    let new = |(n, error): &(usize, i32)| Some((batch.get(*n).filter(|b| b.2)?, *error));
                    let refused: Vec<_> = refused.iter().filter_map(new).collect();
                    // They are told again at the next look.
                    refused.iter().for_each(|((port, mac, _), _)| _ = stations.0.remove(&(*mac, *port)));
                    let error = refused.iter().map(|(_, error)| *error).find(|error| *error != ENOENT);
                    error.map(std::io::Error::from_raw_os_error)
                }
                Err(e) => Some(e),
            };
            if let Some(e) = &why
                && !failing
            {
                let of = of_namespace(followed.taken.netns.as_deref());
                let text =
                    format!("bridges{of} do not take the addresses that were learnt on their ports: {e}");
                log(&LogLine { warn: true, text });
            }
            failing = why.is_some();
        }
        tokio::time::sleep(began.elapsed() * PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 1];
    const B: Mac = [2, 0, 0, 0, 0, 2];

    fn fdb(ifindex: u32, mac: Mac, gone: bool) -> Fdb {
        Fdb { ifindex, mac, place: Place::Port { external: true }, gone }
    }

    #[test]
    fn what_is_told() {
        let (mut s, now) = (Stations::default(), Instant::now());
        let at = |s: &mut Stations, seen: &[(Mac, u32)]| s.changes(&seen.iter().copied().collect(), now);
        assert_eq!(at(&mut s, &[(A, 3), (B, 3)]), [(3, A, true), (3, B, true)]);
        assert_eq!(at(&mut s, &[(A, 3), (B, 3)]), []);
        // Missed once is not gone; it moves, and is gone where it was.
        assert_eq!(at(&mut s, &[(A, 3)]), []);
        assert_eq!(at(&mut s, &[(A, 3), (B, 3)]), []);
        assert_eq!(at(&mut s, &[(A, 3), (B, 4)]), [(4, B, true)]);
        assert_eq!(at(&mut s, &[(A, 3), (B, 4)]), [(3, B, false)]);
        // Linux has lost one, or has it elsewhere: it is told again.
        s.heard(&fdb(3, A, true));
        assert_eq!(at(&mut s, &[(A, 3), (B, 4)]), [(3, A, true)]);
        s.heard(&fdb(3, A, false));
        assert_eq!(at(&mut s, &[(A, 3), (B, 4)]), []);
        s.heard(&fdb(9, A, false));
        assert_eq!(at(&mut s, &[(A, 3), (B, 4)]), [(3, A, true)]);
    }

    #[test]
    fn an_earlier_run() {
        let (mut s, now) = (Stations::default(), Instant::now());
        s.all(&[(A, 3), (B, 3)].into(), now);
        assert_eq!(s.changes(&BTreeSet::new(), now), []);
        assert_eq!(s.changes(&[(A, 3)].into(), now), []);
        assert_eq!(s.changes(&[(A, 3)].into(), now + EARLIER), [(3, B, false)]);
        // What Linux does not have is told again.
        s.all(&BTreeSet::new(), now);
        assert_eq!(s.changes(&[(A, 3)].into(), now), [(3, A, true)]);
    }
}
