//! The answers as a part of the control side.

use super::answers::{Answer, Answers};
use crate::neighbor::{Millis, wire};
use crate::punt::PuntKind;
use crate::router::{Handed, Part, Router, Start};
use std::any::Any;
use std::net::IpAddr;

/// The part.
pub(crate) struct AnycastAnswers;

impl Part for AnycastAnswers {
    fn state(&self, start: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Answers::new(start.seed))
    }

    fn usable(&self, router: &mut Router, index: u32, usable: bool) {
        if !usable {
            self.removed(router, index);
        }
    }

    fn removed(&self, router: &mut Router, index: u32) {
        if let Some(answers) = router.state_mut::<Answers>() {
            answers.forget(index);
        }
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        router.state::<Answers>()?.next_deadline()
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        let due = router.state_mut::<Answers>().map_or_else(Vec::new, |s| s.take_due(now));
        due.into_iter().for_each(|a| send(router, a));
    }

    fn hears(&self, kind: PuntKind) -> bool {
        kind == PuntKind::Anycast
    }

    fn heard(&self, router: &mut Router, now: Millis, packet: Handed<'_>) {
        let Some(asked) = wire::asked(packet.bytes) else { return };
        let early = router.state_mut::<Answers>().and_then(|s| s.ask(now, packet.interface, asked));
        if let Some(answer) = early {
            send(router, answer);
        }
    }
}

/// Sends an answer, where the address is still the interface's: it comes from another one of it, and overrides nothing.
fn send(router: &mut Router, answer: Answer) {
    let Answer { interface, asked, .. } = answer;
    let source = router.source_towards(interface, IpAddr::V6(asked.asker));
    if let Some(IpAddr::V6(source)) = source.filter(|_| router.is_anycast(interface, asked.target.into())) {
        let frame = wire::anycast_na(router.mac_of(interface), source, &asked);
        router.send_frame(interface, &frame);
    }
}
