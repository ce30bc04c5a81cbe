//! What the router answers and does by itself.

use crate::cli::commit;
use crate::ip4::OptionPolicy;
use crate::router::{Op, OpError, PartOp, Router};
pub use crate::transport::TcpResets;
use command::{Args, Command, CommandError, Output, Table};

impl PartOp for TcpResets {
    fn subject(&self) -> String {
        "TCP resets".into()
    }

    fn off(&self) -> Option<Op> {
        Some(TcpResets::default().into())
    }

    fn command(&self) -> Option<String> {
        Some(format!("set ip tcp-resets {}", if self.0 { "enable" } else { "disable" }))
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        Ok(vec![router.replace(self).into()])
    }

    fn log_line(&self) -> Option<String> {
        Some(format!("TCP resets: {}", self.name()))
    }
}

impl PartOp for OptionPolicy {
    fn subject(&self) -> String {
        "IPv4 options".into()
    }

    fn off(&self) -> Option<Op> {
        Some(OptionPolicy::default().into())
    }

    fn command(&self) -> Option<String> {
        Some(format!("set ip options {}", self.name()))
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        Ok(vec![router.replace(self).into()])
    }

    fn log_line(&self) -> Option<String> {
        Some(format!("IPv4 options: {}", self.name()))
    }
}

/// Whether TCP segments for ports on which nothing listens are answered with a reset.
pub fn tcp_resets(router: &Router) -> TcpResets {
    router.current()
}

/// What becomes of record route and timestamp options.
pub fn ip4_options(router: &Router) -> OptionPolicy {
    router.current()
}

/// The commands.
pub fn commands() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set ip tcp-resets (enable|disable)",
            "Answer TCP segments for ports on which nothing listens with a reset, or not at all",
            |r: &mut Router, args: &Args| commit(r, vec![TcpResets(args.has("enable")).into()]),
        )
        .arg("enable", "answer, which is the default")
        .arg("disable", "drop in silence")
        .details("Of IPv4 and IPv6. The class tcp-reset limits them (set punt policer).")
        .example("set ip tcp-resets disable"),
        Command::write(
            "set ip options (record|pass|drop)",
            "What becomes of IPv4 packets with record route and timestamp options",
            set_options,
        )
        .arg("record", "the router writes its address and its time into them, which is the default")
        .arg("pass", "forward them as they came")
        .arg("drop", "drop them")
        .details("Source routes are refused in any case; other options are forwarded as they came.")
        .example("set ip options pass"),
        Command::read(
            "show ip settings",
            "What the router answers and does by itself",
            |r: &mut Router, _: &Args| {
                let mut table = Table::new().left("Setting").left("Value");
                table.row(["tcp-resets".into(), tcp_resets(r).name().into()]);
                table.row(["options".into(), ip4_options(r).name().into()]);
                Ok(Output::table(table))
            },
        )
        .example("show ip settings"),
    ]
}

fn set_options(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let word = args.one_of(&["record", "pass", "drop"]).unwrap_or("record");
    let policy =
        OptionPolicy::ALL.iter().find(|(name, _)| *name == word).map_or(OptionPolicy::Record, |p| p.1);
    commit(router, vec![policy.into()])
}
