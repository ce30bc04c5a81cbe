//! What only commands need: packet capture, features of an interface, buckets of a group.

use super::{Kind, Router};
use drivers::pcap::{Capture, CaptureConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tables::groups::Entry;

/// The packet capture that runs.
pub struct CaptureStatus {
    /// The packets.
    pub capture: Arc<Capture>,
    /// The file that they are to be written to.
    pub file: PathBuf,
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
    /// Starts a packet capture, to be written to `file` later; the file is made now, so that a wrong name shows.
    pub fn start_capture(&mut self, config: CaptureConfig, file: &Path) -> Result<(), String> {
        if self.tap.capture(&self.guard).is_some() {
            return Err("a capture runs already: end it with 'pcap trace off'".into());
        }
        let capture = Capture::new(config).map_err(|e| e.to_string())?;
        std::fs::File::create(file).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        self.capture_file = file.to_path_buf();
        self.set_capture(Some(Arc::new(capture)));
        Ok(())
    }

    /// The capture that runs.
    pub fn capture(&self) -> Option<CaptureStatus> {
        let capture = self.tap.capture(&self.guard)?;
        Some(CaptureStatus { capture, file: self.capture_file.clone() })
    }

    /// Ends the capture that runs and answers it; nothing is written yet.
    pub fn stop_capture(&mut self) -> Option<CaptureStatus> {
        let status = self.capture()?;
        self.set_capture(None);
        Some(status)
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
        let bits = |arc: &str| match arc {
            crate::nodes::DEVICE_INPUT if matches!(state.kind, Kind::Sub { .. }) => 0,
            crate::nodes::DEVICE_INPUT => state.rx_features.load(Ordering::Relaxed),
            "ip4-unicast" => seen.map_or(0, |i| i.ip4_unicast),
            "ip6-unicast" => seen.map_or(0, |i| i.ip6_unicast),
            "ip4-output" => self.feature_bits(state).ip4_output,
            "ip6-output" => self.feature_bits(state).ip6_output,
            "interface-output" => seen.map_or(0, |i| i.output),
            _ => 0,
        };
        let arc = |a: &graph::arcs::ArcNodes| {
            let on = bits(a.name);
            let enabled = a.features.iter().copied().filter(|f| a.bit(f).is_some_and(|b| on & b != 0));
            ArcFeatures { arc: a.name, enabled: enabled.collect() }
        };
        graph.wiring.arcs.iter().map(arc).collect()
    }

    /// The buckets of a next-hop group, over which flows are spread.
    pub fn group_buckets(&self, group: u32) -> Vec<Entry> {
        self.nexthops.groups.buckets(group)
    }
}
