//! What only commands need: packet capture, features of an interface, buckets of a group.

use super::devices::PcapFiles;
use super::{Kind, Op, OpError, PcapConfig, Router};
use crate::arcs;
use drivers::pcap::Capture;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tables::groups::Entry;

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
pub type Ended = Arc<Mutex<Option<CaptureStatus>>>;

/// What is known of captures beside the packets.
#[derive(Default)]
pub(super) struct Captures {
    /// Of the one that runs.
    file: Option<(PathBuf, Arc<File>)>,
    ended: Ended,
}

/// A feature arc as one interface uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArcFeatures {
    /// The arc.
    pub arc: &'static str,
    /// Its enabled features, in the order in which packets meet them.
    pub enabled: Vec<&'static str>,
}

impl Router {
    /// Makes an interface of capture files, which were opened for it with [`super::open_pcap_files`].
    ///
    /// # Errors
    /// As of the operation.
    pub fn create_pcap(&mut self, name: &str, config: PcapConfig, files: PcapFiles) -> Result<(), OpError> {
        self.opened = Some(files);
        // Whatever becomes of it, no other operation gets the files.
        let done = catch_unwind(AssertUnwindSafe(|| {
            self.commit(vec![Op::CreatePcap { name: name.into(), config }])
        }));
        self.opened = None;
        done.unwrap_or_else(|cause| resume_unwind(cause)).map(|_| ())
    }

    /// Refuses a name that a device cannot have, or that an interface has.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn check_new_device(&self, name: &str) -> Result<(), OpError> {
        self.new_name(name)
    }

    /// Starts a packet capture, to be written to `file` later; that is made before, so that a wrong name shows.
    ///
    /// # Errors
    /// There is a capture already.
    pub fn start_capture(&mut self, capture: Capture, file: &Path, opened: File) -> Result<(), String> {
        self.check_no_capture()?;
        self.captures.file = Some((file.to_path_buf(), Arc::new(opened)));
        self.set_capture(Some(Arc::new(capture)));
        Ok(())
    }

    /// Refuses a capture while there is one already.
    ///
    /// # Errors
    /// There is one.
    pub fn check_no_capture(&self) -> Result<(), String> {
        if self.capture().is_some() {
            return Err("a capture runs already: end it with 'pcap trace off'".into());
        }
        if self.ended_capture().is_some() {
            return Err("the last capture is not written yet: 'pcap trace off' tries again, 'pcap trace discard' forgets it".into());
        }
        Ok(())
    }

    /// The capture that runs.
    pub fn capture(&self) -> Option<CaptureStatus> {
        let capture = self.tap.capture(&self.guard)?;
        let (file, opened) = self.captures.file.clone()?;
        Some(CaptureStatus { capture, file, opened })
    }

    /// The capture that ended and is not written.
    pub fn ended_capture(&self) -> Option<CaptureStatus> {
        self.captures.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the capture that runs, if one does, and answers where it waits to be written.
    pub fn end_capture(&mut self) -> Ended {
        if let Some(status) = self.capture() {
            self.set_capture(None);
            *self.captures.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        }
        Arc::clone(&self.captures.ended)
    }

    /// Ends the capture that runs or has ended, unwritten, and answers whether there was one.
    pub fn discard_capture(&mut self) -> bool {
        let ended = self.end_capture();
        let was = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One that is being written just now is not interrupted.
        self.captures.ended = Ended::default();
        was.is_some()
    }

    fn set_capture(&mut self, capture: Option<Arc<Capture>>) {
        self.tap.set(capture, &mut self.reclaimer);
        self.apply_capture();
        self.reclaim();
    }

    /// The enabled features of an interface on every arc.
    pub fn features(&self, index: u32) -> Vec<ArcFeatures> {
        let (Some(graph), Some(state)) = (self.graphs.first(), self.interface(index)) else { return vec![] };
        let seen = self.plane.interfaces.get(index, &self.guard);
        let own = self.feature_bits(state);
        let rx = match state.kind {
            Kind::Sub { .. } => 0,
            _ => state.rx_features.load(Ordering::Relaxed),
        };
        let bits = [
            (&arcs::DEVICE_INPUT, rx),
            (&arcs::IP4_UNICAST, seen.map_or(0, |i| i.ip4_unicast)),
            (&arcs::IP6_UNICAST, seen.map_or(0, |i| i.ip6_unicast)),
            (&arcs::IP4_OUTPUT, own.ip4_output),
            (&arcs::IP6_OUTPUT, own.ip6_output),
            (&arcs::INTERFACE_OUTPUT, seen.map_or(0, |i| i.output)),
        ];
        let arc = |a: &graph::arcs::ArcNodes| {
            let on = bits.iter().find(|(arc, _)| arc.name == a.name).map_or(0, |(_, bits)| *bits);
            let enabled = a.features.iter().copied().filter(|f| on & a.bit(f) != 0);
            ArcFeatures { arc: a.name, enabled: enabled.collect() }
        };
        graph.wiring.arcs.iter().map(arc).collect()
    }

    /// The buckets of a next-hop group, over which flows are spread.
    pub fn group_buckets(&self, group: u32) -> Vec<Entry> {
        self.nexthops.groups.buckets(group)
    }
}
