//! The capture that runs, and the one that is yet to be written, as a part of the control side.

use crate::capture::{PCAP_RX, PCAP_TX, Running};
use crate::router::{Part, Router, Start};
use command::Command;
use drivers::pcap::{Capture, Direction, Ring};
use graph::arcs::Feature;
use std::any::Any;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The part.
pub(crate) struct Pcap;

/// A packet capture with its file.
#[derive(Clone)]
pub struct CaptureStatus {
    /// The packets.
    pub capture: Arc<Capture>,
    /// The name of the file that they are to be written to.
    pub file: PathBuf,
    /// The file, made when the capture began.
    pub opened: Arc<File>,
}

/// A capture that has ended and is not written yet; whoever has written it takes it out.
pub(super) type Ended = Arc<Mutex<Option<CaptureStatus>>>;

/// Captures that are followed at once, as whoever has them followed sees to: each costs workers time and memory.
pub const MOST_FOLLOWED: usize = 8;
/// Where frames are seen, by direction.
const BOTH: [(Direction, &Feature); 2] = [(Direction::Rx, &PCAP_RX), (Direction::Tx, &PCAP_TX)];

/// What is known of captures beside the packets.
#[derive(Default)]
struct Captures {
    /// Of the one that runs.
    file: Option<(PathBuf, Arc<File>)>,
    ended: Ended,
}

/// Starts a packet capture, to be written to `file` later; that is made before, so that a wrong name shows.
///
/// # Errors
/// There is a capture already.
pub fn start(router: &mut Router, capture: Capture, file: &Path, opened: File) -> Result<(), String> {
    check_none(router)?;
    if let Some(captures) = router.state_mut::<Captures>() {
        captures.file = Some((file.to_path_buf(), Arc::new(opened)));
    }
    let running = Running { file: Some(Arc::new(capture)), ..router.current() };
    change(router, running);
    Ok(())
}

/// Refuses a capture while there is one already.
pub(super) fn check_none(router: &Router) -> Result<(), String> {
    if running(router).is_some() {
        return Err("a capture runs already: end it with 'pcap trace off'".into());
    }
    if ended(router).is_some() {
        return Err("the last capture is not written yet: 'pcap trace off' tries again, 'pcap trace discard' forgets it".into());
    }
    Ok(())
}

/// The capture that runs.
pub(super) fn running(router: &Router) -> Option<CaptureStatus> {
    let capture = router.current::<Running>().file?;
    let (file, opened) = router.state::<Captures>()?.file.clone()?;
    Some(CaptureStatus { capture, file, opened })
}

/// The capture that ended and is not written.
pub(super) fn ended(router: &Router) -> Option<CaptureStatus> {
    router.state::<Captures>()?.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Ends the capture that runs, if one does, and answers where it waits to be written.
pub(super) fn end(router: &mut Router) -> Ended {
    let status = running(router);
    if status.is_some() {
        let running = Running { file: None, ..router.current() };
        change(router, running);
    }
    let Some(captures) = router.state::<Captures>() else { return Ended::default() };
    if status.is_some() {
        *captures.ended.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
    Arc::clone(&captures.ended)
}

/// Ends the capture that runs or has ended, unwritten, and answers whether there was one.
pub(super) fn discard(router: &mut Router) -> bool {
    let ended = end(router);
    let was = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
    // One that is being written just now is not interrupted.
    if let Some(captures) = router.state_mut::<Captures>() {
        captures.ended = Ended::default();
    }
    was.is_some()
}

/// Has a capture followed from now on, whose ring the caller reads.
///
/// # Errors
/// The frames of its interface are seen elsewhere.
pub fn follow(router: &mut Router, ring: Ring) -> Result<Arc<Ring>, String> {
    let mut running: Running = router.current();
    let config = ring.config();
    if let Some(i) = config.interface.and_then(|i| router.interface(i)).filter(|i| i.hw() != i.index)
        && (config.rx || config.tx)
    {
        let hw = router.interface_name(i.hw());
        return Err(format!("{} is a sub-interface: its frames are captured on {hw}", i.name));
    }
    let ring = Arc::new(ring);
    running.followed.push(Arc::clone(&ring));
    change(router, running);
    Ok(ring)
}

/// Ends a capture that is followed.
pub fn unfollow(router: &mut Router, ring: &Arc<Ring>) {
    let mut running: Running = router.current();
    running.followed.retain(|r| !Arc::ptr_eq(r, ring));
    change(router, running);
}

/// Starts captures or ends them, for those interfaces that they are about.
fn change(router: &mut Router, running: Running) {
    let was: Running = router.current();
    let differs = |i: &u32| BOTH.iter().any(|(d, _)| was.wants(*d, *i) != running.wants(*d, *i));
    let devices = router.interfaces().filter(|i| i.hw() == i.index).map(|i| i.index);
    let changed: Vec<u32> = devices.filter(differs).collect();
    router.publish(running);
    changed.into_iter().for_each(|i| router.publish_interface(i));
}

impl Part for Pcap {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Captures::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        if router.interface(index).is_none_or(|i| i.hw() != index) {
            return vec![];
        }
        let running: Running = router.current();
        BOTH.into_iter().filter(|(d, _)| running.wants(*d, index)).map(|(_, f)| f).collect()
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let running: Running = router.current();
        let gone = |r: &&Arc<Ring>| r.config().interface == Some(index);
        for ring in running.followed.iter().filter(gone) {
            ring.end();
            unfollow(router, ring);
        }
    }
}
