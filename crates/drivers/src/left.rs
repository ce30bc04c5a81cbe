//! What routers that were killed have left of their settings on devices that nobody takes over again: put back by the next router that
//! starts, whatever it runs.

use crate::host;
use crate::link::Link;
use crate::netlink::Netlink;
use crate::{af_xdp, netns};
use ::linux::link;
use ::linux::wire::kind::RTM_GETLINK;

/// In front of all that routers note with devices, as alternative names.
const PREFIX: &[u8] = b"quiver";

/// Puts back what is noted with devices that no router has, in the calling thread's namespace and in all that have a name. Answers which
/// devices those were. It may wait for Linux's lock of devices.
pub fn put_back() -> Vec<String> {
    let mut done = vec![];
    let namespaces = netns::names();
    for netns in std::iter::once(None).chain(namespaces.iter().map(|n| Some(n.as_str()))) {
        let here = netns::within(netns, || {
            Ok(noted().into_iter().filter(|d| restore(d, netns)).collect::<Vec<_>>())
        });
        done.extend(here.unwrap_or_default().into_iter().map(|(_, name)| match netns {
            Some(ns) => format!("{name} in network namespace {ns}"),
            None => name,
        }));
    }
    done
}

/// Devices with notes, in the calling thread's namespace.
fn noted() -> Vec<(u32, String)> {
    let is_noted = |body: &[u8]| {
        let attributes = body.get(link::IFINFOMSG..).unwrap_or_default();
        host::alternative_names(attributes).any(|name| name.starts_with(PREFIX))
    };
    let Ok(socket) = Netlink::here() else { return vec![] };
    let found = socket.dump(RTM_GETLINK, &[0; link::IFINFOMSG], is_noted).unwrap_or_default();
    found.iter().filter_map(|body| link::parse(body)).map(|l| (l.ifindex, l.name)).collect()
}

/// Whether something was put back.
fn restore((ifindex, name): &(u32, String), netns: Option<&str>) -> bool {
    // A router that lives has the device otherwise.
    let Some(_mark) = host::mark(name, netns, *ifindex) else { return false };
    let Ok(link) = Link::here(name, netns) else { return false };
    if !link.ifindex().is_ok_and(|i| i == *ifindex) {
        return false;
    }
    let queues = af_xdp::put_back(&link, *ifindex);
    host::put_back(&link, netns).unwrap_or(false) || queues
}
