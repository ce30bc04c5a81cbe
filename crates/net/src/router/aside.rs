//! What Linux is asked about devices, by a thread of its own. Linux lets one at a time change devices, and who has its lock (RTNL)
//! may take a second over it: the control thread goes on meanwhile.
//!
//! A transaction that asks has ended for the router when [`Router::commit`] returns, and for who waits for it when Linux has answered. What
//! Linux refuses then is undone, but for what somebody else has set since. Before [`Router::go_aside`] and behind [`Router::shutdown`] all
//! is asked at once: nobody waits for anybody there.

use super::{Op, OpError, Router};
use crate::background::{Answer, Line, Promise, promise};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// What is done with an answer.
type Then = Box<dyn FnOnce(&mut Router) + Send>;

/// What a transaction came to.
type Outcome = Result<(), OpError>;

/// For how long answers are taken in at once, about.
const TURN: Duration = Duration::from_millis(2);

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nobody who could keep one waiting.
    Nobody,
    /// Linux, about devices.
    Linux,
    /// A disk.
    Disk,
}

struct Lines {
    devices: Line,
    files: Line,
    tell: Sender<Then>,
    told: Receiver<Then>,
    bell: Arc<OwnedFd>,
}

/// A transaction that has asked.
#[derive(Default)]
struct Asked {
    /// Answers that are missing.
    left: usize,
    refused: Option<OpError>,
    /// What undoes it, last first, each with what stood in its place behind the transaction.
    undo: Vec<(Op, Option<Vec<Op>>)>,
    /// It undoes one that was refused, so: whatever comes of it, that is told.
    for_refused: Option<OpError>,
    /// It is undone, or undoes: nobody is told of a refusal but the log.
    undoes: bool,
    tell: Vec<Promise<Outcome>>,
}

/// What is asked and not answered yet.
#[derive(Default)]
pub(crate) struct Aside {
    lines: Option<Lines>,
    /// The transaction on whose account is asked now.
    commit: Option<u64>,
    /// The last one that was undone at once, behind the number that its undoing has.
    turned: Option<(u64, u64)>,
    asked: BTreeMap<u64, Asked>,
    last: u64,
    /// What somebody is going to wait for.
    collected: Option<Vec<Answer<Outcome>>>,
}

/// Transactions that wait for Linux.
pub struct Waits(Vec<Answer<Outcome>>);

impl Waits {
    /// Ends when Linux has answered, and what it refused is undone.
    ///
    /// # Errors
    /// What was refused first.
    pub async fn done(self) -> Result<(), OpError> {
        let mut all = Ok(());
        for answer in self.0 {
            let done = answer.await.map_err(|e| OpError::new(e.to_string())).flatten();
            all = all.and(done);
        }
        all
    }
}

impl Aside {
    /// Whether others ask.
    pub fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// A number that nothing else had.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The transaction on whose account is asked.
    pub fn commit(&self) -> Option<u64> {
        self.commit
    }

    /// Whether it is this one, or undoes it at once.
    pub fn is_of(&self, commit: u64) -> bool {
        self.commit == Some(commit)
            || self.turned.is_some_and(|(id, of)| self.commit == Some(id) && of == commit)
    }

    /// Whether it is undone when it is refused.
    pub fn is_undone(&self) -> bool {
        self.commit.and_then(|id| self.asked.get(&id)).is_some_and(|a| !a.undo.is_empty())
    }

    /// Whether a transaction waits for answers.
    pub fn is_asked(&self, commit: u64) -> bool {
        self.asked.contains_key(&commit)
    }

    /// One answer more is missing.
    pub fn hold(&mut self) -> Option<u64> {
        let id = self.commit?;
        self.asked.entry(id).or_default().left += 1;
        Some(id)
    }

    /// A transaction begins; which one was under way.
    pub fn begin(&mut self) -> Option<u64> {
        let id = self.number();
        self.commit.replace(id)
    }

    /// The transaction is undone at once: its answers are nobody's, and what undoes it asks on an account of its own.
    pub fn turn_back(&mut self) {
        let undone = self.commit;
        let id = self.number();
        if let Some(undone) = undone {
            self.asked.remove(&undone);
            self.turned = Some((id, undone));
        }
        self.commit = Some(id);
        self.asked.insert(id, Asked { undoes: true, ..Asked::default() });
    }

    /// The transaction has ended, and goes on where it has asked.
    pub fn end(&mut self, was: Option<u64>, undo: Vec<(Op, Option<Vec<Op>>)>) {
        let Some(id) = std::mem::replace(&mut self.commit, was) else { return };
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if asked.left == 0 {
            self.asked.remove(&id);
            return;
        }
        asked.undo = undo;
        if let Some(collected) = &mut self.collected {
            let (promise, answer) = promise();
            asked.tell.push(promise);
            collected.push(answer);
        }
    }

    /// Whether the transaction that is under way has asked.
    pub fn has_asked(&self) -> bool {
        self.commit.and_then(|id| self.asked.get(&id)).is_some_and(|a| a.left != 0)
    }
}

impl Router {
    /// Has a thread ask Linux about devices from now on, and another one open files. Whoever calls this waits for [`Router::aside_fd`] too.
    ///
    /// # Errors
    /// The system gives no thread or descriptor.
    pub fn go_aside(&mut self) -> io::Result<()> {
        let (tell, told) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (devices, files) = (Line::new("devices")?, Line::new("files")?);
        self.aside.lines = Some(Lines { devices, files, tell, told, bell });
        Ok(())
    }

    /// Has the settings put back that killed routers have left on devices which this one does not have.
    pub fn put_back_left(&mut self) {
        self.ask(Asks::Linux, drivers::left::put_back, |router, devices| {
            for device in devices.unwrap_or_default() {
                router.note(
                    false,
                    format!("Linux device {device} is as it was before a router that was killed"),
                );
            }
            Ok(())
        });
    }

    /// Readable when there are answers, for [`Router::answers`].
    pub fn aside_fd(&self) -> Option<BorrowedFd<'_>> {
        self.aside.lines.as_ref().map(|lines| lines.bell.as_fd())
    }

    /// Takes in answers; whether there may be more.
    pub fn answers(&mut self) -> bool {
        let Some(lines) = &self.aside.lines else { return false };
        let _ = rustix::io::read(&lines.bell, &mut [0; 8]);
        let began = Instant::now();
        while began.elapsed() < TURN {
            let next = self.aside.lines.as_ref().and_then(|lines| lines.told.try_recv().ok());
            let Some(then) = next else { return false };
            then(self);
        }
        true
    }

    /// Nothing is asked aside any more: all that was asked is answered.
    pub(super) fn end_aside(&mut self) {
        let Some(Lines { devices, files, tell, told, bell }) = self.aside.lines.take() else { return };
        devices.finish();
        // A disk that hangs keeps nobody.
        drop((files, tell, bell));
        while let Ok(then) = told.try_recv() {
            then(self);
        }
    }

    /// Transactions for which Linux has not answered.
    pub fn waiting(&self) -> usize {
        self.aside.asked.len()
    }

    /// Collects from now on what transactions wait for.
    pub fn collect(&mut self) {
        self.aside.collected = self.aside.is_on().then(Vec::new);
    }

    /// What those since [`Router::collect`] wait for.
    pub fn collected(&mut self) -> Option<Waits> {
        self.aside.collected.take().filter(|all| !all.is_empty()).map(Waits)
    }

    /// Asks on account of the transaction that is under way, and does something with the answer. What that answers is a refusal of the
    /// transaction; without one, or where it is undone, a line of the log.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        who: Asks,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Router, io::Result<T>) -> Outcome + Send + 'static,
    ) {
        let commit = self.aside.hold();
        let then = move |router: &mut Router, done: io::Result<T>| {
            let was = std::mem::replace(&mut router.aside.commit, commit);
            let outcome = then(router, done);
            router.aside.commit = was;
            router.answered(commit, outcome);
        };
        match (&self.aside.lines, who) {
            (None, _) | (_, Asks::Nobody) => then(self, Ok(work())),
            (Some(lines), _) => {
                let (tell, bell) = (lines.tell.clone(), Arc::clone(&lines.bell));
                let line = if who == Asks::Disk { &lines.files } else { &lines.devices };
                line.push(work, move |done| {
                    let _ = tell.send(Box::new(move |router| then(router, done)));
                    let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
                });
            }
        }
    }

    /// An answer that a transaction has waited for.
    pub(super) fn answered(&mut self, commit: Option<u64>, outcome: Outcome) {
        let asked = commit.map(|id| (id, self.aside.asked.get_mut(&id)));
        match (asked, outcome) {
            (None, Err(e)) => self.note(true, e.message),
            // It was undone at once, or nobody waits.
            (None, Ok(())) => {}
            (Some((id, None)), _) => self.companions_go(&[Some(id)]),
            (Some((id, Some(asked))), outcome) => {
                asked.left = asked.left.saturating_sub(1);
                if let Err(e) = outcome {
                    asked.refused.get_or_insert(e);
                }
                if asked.left == 0 && self.aside.commit != Some(id) {
                    self.all_answered(id);
                }
            }
        }
    }

    /// All answers are there.
    fn all_answered(&mut self, id: u64) {
        let Some(mut asked) = self.aside.asked.remove(&id) else { return };
        if let Some(e) = asked.refused.take_if(|_| !asked.undo.is_empty()) {
            return self.undo_refused(id, e, asked);
        }
        if self.companions_going(id) {
            // Who waits for it waits for the devices, too.
            asked.undo.clear();
            self.aside.asked.insert(id, asked);
            let was = self.aside.commit.replace(id);
            self.companions_go(&[Some(id)]);
            self.aside.commit = was;
            if self.aside.asked.get(&id).is_some_and(|a| a.left == 0) {
                self.all_answered(id);
            }
            return;
        }
        let refused = asked.refused;
        if let Some(e) = refused.as_ref().filter(|_| asked.undoes || asked.tell.is_empty()) {
            self.note(true, e.message.clone());
        }
        let outcome = asked.for_refused.or(refused.filter(|_| !asked.undoes)).map_or(Ok(()), Err);
        asked.tell.into_iter().for_each(|promise| promise.keep(Ok(outcome.clone())));
    }

    /// Undoes a transaction that Linux has refused. What was set again since is somebody else's.
    fn undo_refused(&mut self, id: u64, refused: OpError, mut asked: Asked) {
        if asked.tell.is_empty() {
            self.note(true, refused.message.clone());
        }
        let was = self.aside.begin();
        self.aside.turn_back();
        while let Some((op, then)) = asked.undo.pop() {
            if then.is_some() && self.as_it_is(&op) != then {
                let words = op.log_line().unwrap_or_else(|| format!("{op:?}"));
                self.note(true, format!("{}; what was changed since stays ({words})", refused.message));
                continue;
            }
            self.undo(vec![super::Step::Op(op)]);
        }
        // Whoever has read what runs meanwhile has read what was refused.
        self.changes += 1;
        self.said += 1;
        self.companions_go(&[Some(id), self.aside.commit]);
        self.end_of_transaction();
        let id = self.aside.commit;
        self.aside.end(was, vec![]);
        match id.and_then(|id| self.aside.asked.get_mut(&id)) {
            Some(undoing) => {
                undoing.for_refused = Some(refused);
                undoing.tell.append(&mut asked.tell);
            }
            None => asked.tell.into_iter().for_each(|promise| promise.keep(Ok(Err(refused.clone())))),
        }
    }

    /// What stands now in the place of what an operation sets, where that is a field.
    pub(super) fn as_it_is(&self, op: &Op) -> Option<Vec<Op>> {
        let of = |name: &String| self.interface_index(name).and_then(|index| self.interface(index));
        Some(match op {
            Op::SetMtu { name, .. } => {
                of(name).map(|i| Op::SetMtu { name: i.name.clone(), mtu: i.mtu }).into_iter().collect()
            }
            Op::SetMac { name, .. } => {
                let own = of(name).map(|i| (i.name.clone(), i.mac_set.then_some(i.mac)));
                own.map(|(name, mac)| Op::SetMac { name, mac }).into_iter().collect()
            }
            Op::SetState { name, .. } => {
                of(name).map(|i| Op::SetState { name: i.name.clone(), up: i.up }).into_iter().collect()
            }
            Op::SetPromiscuous { name, .. } => {
                let own = of(name).map(|i| (i.name.clone(), i.promiscuous));
                own.map(|(name, on)| Op::SetPromiscuous { name, on }).into_iter().collect()
            }
            Op::SetRxQueues { name, .. } => {
                let wanted = of(name).and_then(|i| Some((i.name.clone(), i.queues_wanted()?)));
                wanted.map(|(name, queues)| Op::SetRxQueues { name, queues }).into_iter().collect()
            }
            Op::SetElsewhere { name, .. } => {
                let own = of(name).map(|i| (i.name.clone(), i.elsewhere.clone()));
                own.map(|(name, what)| Op::SetElsewhere { name, what }).into_iter().collect()
            }
            Op::SetXconnect { name, .. } => {
                let own = of(name).map(|i| (i.name.clone(), i.xconnect.map(|p| self.interface_name(p))));
                own.map(|(name, peer)| Op::SetXconnect { name, peer }).into_iter().collect()
            }
            Op::SetFeature { name, .. } => of(name).map(|i| self.feature_ops(i)).unwrap_or_default(),
            _ => return None,
        })
    }
}
