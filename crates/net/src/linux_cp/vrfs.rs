//! VRF devices of Linux's: the device of a pair is in that of the interface's table, and the interface in the table of that in which the
//! device is.

use super::part::State;
use super::sync::Applied;
use crate::router::{IfState, Router};
use std::collections::BTreeMap;

/// The VRF devices of each namespace: their tables, by Linux's index.
pub(super) type Vrfs = BTreeMap<Option<String>, BTreeMap<u32, u32>>;

/// The VRF devices of a namespace are these: their tables, by Linux's index.
pub fn take_vrfs(router: &mut Router, netns: &Option<String>, vrfs: BTreeMap<u32, u32>) {
    let Some(s) = router.state_mut::<State>() else { return };
    let was = s.vrfs.remove(netns);
    if was.as_ref().unwrap_or(&BTreeMap::new()) != &vrfs {
        let there = s.pairs.iter().filter(|(_, p)| p.linux.netns == *netns);
        s.later.extend(there.map(|(index, _)| *index));
    }
    if !vrfs.is_empty() {
        s.vrfs.insert(netns.clone(), vrfs);
    }
}

/// The device that is to have that of an interface's pair: the VRF device of the interface's table, if there is one. What Linux itself has put
/// it into, a bridge for one, it stays in.
pub(super) fn wanted_master(router: &Router, i: &IfState, was: &Applied) -> u32 {
    let Some(s) = router.state::<State>() else { return was.master };
    let Some(pair) = s.pairs.get(&i.index) else { return was.master };
    let Some(vrfs) = s.vrfs.get(&pair.linux.netns) else { return was.master };
    let linuxs = i.elsewhere.tables != [None; 2] || pair.refused_table.is_some();
    let [four, six] = [false, true].map(|v6| router.table_of_interface(i, v6));
    // A VRF is of both families.
    if linuxs || four != six || was.master != 0 && vrfs.get(&was.master).is_none_or(|table| *table == four) {
        return was.master;
    }
    vrfs.iter().find(|(_, table)| **table == four).map_or(0, |(ifindex, _)| *ifindex)
}
