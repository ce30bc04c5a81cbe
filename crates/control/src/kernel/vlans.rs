//! VLAN devices that are made in Linux above pairs.

use super::SharedRouter;
use linux::LinkKind;
use linux::reader::Device;
use net::linux_cp::{TakeVlans, VlanDevice};
use std::collections::BTreeMap;

async fn make(router: &SharedRouter, netns: &Option<String>, devices: &[VlanDevice]) {
    let mut take = TakeVlans::new(netns, devices);
    while take.work(&mut router.borrow_mut()) {
        tokio::task::yield_now().await;
    }
}

/// Has sub-interfaces made of those that were read.
pub(super) async fn take(router: &SharedRouter, netns: &Option<String>, all: &BTreeMap<u32, Device>) {
    let device = |d: &Device| match d.link.kind {
        LinkKind::Vlan(v) => Some(VlanDevice {
            ifindex: d.link.ifindex,
            name: d.link.name.clone(),
            // No device has the index 0.
            below: d.link.upon.unwrap_or(0),
            vlan: v.id,
            dot1ad: v.dot1ad,
        }),
        _ => None,
    };
    make(router, netns, &all.values().filter_map(device).collect::<Vec<_>>()).await;
}

/// A namespace is followed no more.
pub(super) async fn forget(router: &SharedRouter, netns: &Option<String>) {
    make(router, netns, &[]).await;
}
