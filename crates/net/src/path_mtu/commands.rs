//! What was learnt of path MTUs.

use super::part;
use crate::router::Router;
use command::{Args, Command, CommandError, Output, Table};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::read(
            "show ip pmtu",
            "Path MTUs that were learnt for packets of the router's own",
            show,
        )
        .details(
            "From ICMP messages about echo replies and requests of the router's. They are followed for ten minutes; the 256 \
             that were heard of last are kept.",
        )
        .example("show ip pmtu"),
    ]
}

fn show(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let mut table = Table::new().right("Table").left("Destination").right("MTU").right("Age s");
    for p in part::all(router) {
        table.row([p.table.into(), p.to.to_string().into(), p.mtu.into(), (p.age_ms / 1000).into()]);
    }
    Ok(Output::table(table))
}
