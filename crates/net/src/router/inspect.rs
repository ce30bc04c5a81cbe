//! What only commands need: capture files as interfaces, features of an interface, buckets of a group.

use super::devices::PcapFiles;
use super::{Op, OpError, PcapConfig, Router};
use crate::arcs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use tables::groups::{Entry, GroupId};

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
        self.interfaces.opened = Some(files);
        // Whatever becomes of it, no other operation gets the files.
        let done = catch_unwind(AssertUnwindSafe(|| {
            self.commit(vec![Op::CreatePcap { name: name.into(), config }])
        }));
        self.interfaces.opened = None;
        done.unwrap_or_else(|cause| resume_unwind(cause)).map(|_| ())
    }

    /// Refuses a name that a device cannot have, or that an interface has.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn check_new_device(&self, name: &str) -> Result<(), OpError> {
        self.new_name(name)
    }

    /// The enabled features of an interface on every arc.
    pub fn features(&self, index: u32) -> Vec<ArcFeatures> {
        let (Some(graph), Some(state)) = (self.workers.graphs.first(), self.interface(index)) else {
            return vec![];
        };
        let seen = self.plane.interfaces.get(index, &self.grace.guard);
        let own = self.visited(state);
        let arc = |a: &graph::arcs::ArcNodes| {
            let on = match arcs::ALL.iter().find(|arc| arc.name == a.name) {
                // What sub-interfaces have from their interface, and what they leave to it.
                Some(arc) if **arc == arcs::INTERFACE_OUTPUT => seen.map_or(0, |i| i.output),
                Some(arc) if **arc == arcs::DEVICE_INPUT && state.hw() != index => 0,
                Some(arc) => own.on(arc),
                None => 0,
            };
            let enabled = a.features.iter().copied().filter(|f| on & a.bit(f) != 0);
            ArcFeatures { arc: a.name, enabled: enabled.collect() }
        };
        graph.wiring.arcs.iter().map(arc).collect()
    }

    /// The buckets of a next-hop group, over which flows are spread.
    pub fn group_buckets(&self, group: GroupId) -> Vec<Entry> {
        self.nexthops.groups.buckets(group)
    }
}
