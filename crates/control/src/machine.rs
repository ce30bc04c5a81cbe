//! What the Linux devices of this machine say about a document. Nothing is opened or changed: it may be another machine's.

use crate::yaml::{Diagnostic, Diagnostics, Document, Driver, InterfaceKind};
use drivers::{Error, link::Link};

/// Notes of one document; nobody reads more.
const MAX_NOTES: usize = 1000;

/// The notes of a document that is right, with those about devices that are not there or take shorter packets than it says, and what
/// others have found. A device that may not be looked at, such as one in a namespace that is only for root, has none.
pub fn look(document: Document, found: Vec<Diagnostic>) -> Diagnostics {
    let devices = document.interfaces.iter().filter_map(|i| {
        let InterfaceKind::Device(device) = &i.kind else { return None };
        let Driver::Linux { host, namespace, .. } = &device.driver else { return None };
        let mtu = u32::from(i.mtu);
        let (place, rule, message, help) = match Link::open(host, namespace.as_deref())
            .and_then(|link| link.state())
        {
            Ok(state) if state.mtu < mtu => (
                i.mtu_place,
                "device-mtu",
                format!("Linux device {host} takes packets of {} bytes, not of {mtu}", state.mtu),
                "the router raises the device's MTU while it runs; what is connected to it must take as much",
            ),
            Err(e @ (Error::NoDevice { .. } | Error::NoNamespace { .. } | Error::NotEthernet { .. })) => (
                device.place,
                "device",
                e.to_string(),
                "the router does not start without it; nothing is wrong where it runs on another machine",
            ),
            _ => return None,
        };
        let mut note = Diagnostic::note(place, i.path.clone(), rule, message);
        note.help(help);
        Some(note)
    });
    let cpus = document.settings.cpus.iter().filter_map(|cpu| {
        let why = graph::worker::may_run(Some(usize::from(*cpu))).err()?;
        let mut note =
            Diagnostic::note(document.settings.cpus_place, "quiver.workers.cpus", "cpu", why.to_string());
        note.help("the router does not start so; nothing is wrong where it runs on another machine");
        Some(note)
    });
    let mut notes: Vec<Diagnostic> = devices.chain(cpus).take(MAX_NOTES).collect();
    notes.extend(found);
    notes.extend(document.notes);
    Diagnostics::new(&document.source, notes)
}
