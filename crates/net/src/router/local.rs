//! Settings of what the router answers and does by itself.

use super::op::Undo;
use super::{Op, Router};
use crate::ip4::OptionPolicy;
use crate::transport::TcpResets;

impl Router {
    pub(super) fn set_tcp_resets(&mut self, on: bool) -> Undo {
        let was = self.tcp_resets();
        self.publish(TcpResets(on));
        vec![Op::SetTcpResets(was)]
    }

    pub(super) fn set_ip4_options(&mut self, policy: OptionPolicy) -> Undo {
        let was = self.ip4_options();
        self.publish(policy);
        vec![Op::SetIp4Options(was)]
    }

    /// Whether TCP segments for ports on which nothing listens are answered with a reset.
    pub fn tcp_resets(&self) -> bool {
        self.current::<TcpResets>().0
    }

    /// What becomes of record route and timestamp options.
    pub fn ip4_options(&self) -> OptionPolicy {
        self.current()
    }
}
