//! Settings of what the router answers and does by itself.

use super::op::Undo;
use super::{Op, Router};
use crate::ip4::OptionPolicy;
use crate::plane::PlaneConfig;

impl Router {
    /// Changes what nodes read of the settings, and answers what `change` does.
    fn configure<T>(&mut self, change: impl FnOnce(&mut PlaneConfig) -> T) -> T {
        let mut config = self.plane.config.load(&self.guard).clone();
        let answer = change(&mut config);
        self.config.plane = config.clone();
        self.plane.config.publish(config, &mut self.reclaimer);
        answer
    }

    pub(super) fn set_tcp_resets(&mut self, on: bool) -> Undo {
        let was = self.configure(|c| std::mem::replace(&mut c.tcp_resets, on));
        vec![Op::SetTcpResets(was)]
    }

    pub(super) fn set_ip4_options(&mut self, policy: OptionPolicy) -> Undo {
        let was = self.ip4_options();
        self.publish(policy);
        vec![Op::SetIp4Options(was)]
    }

    /// Whether TCP segments for ports on which nothing listens are answered with a reset.
    pub fn tcp_resets(&self) -> bool {
        self.config.plane.tcp_resets
    }

    /// What becomes of record route and timestamp options.
    pub fn ip4_options(&self) -> OptionPolicy {
        self.current()
    }
}
