//! Commands on clamping the TCP segment size.

use super::{Clamp, LEAST, most, size};
use crate::cli::{commit, listing};
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output, Table};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            &format!(
                "set interface tcp-mss-clamp <interface:interface> \
                 [v4:(ip4 (disable|(enable|rx|tx) ip4-mss <mss:u16 {LEAST}..{} bytes>))] \
                 [v6:(ip6 (disable|(enable|rx|tx) ip6-mss <mss:u16 {LEAST}..{} bytes>))]",
                most(false),
                most(true)
            ),
            "Limit the segment size that TCP hosts tell each other through an interface",
            set,
        )
        .arg("ip4", "TCP over IPv4")
        .arg("ip6", "TCP over IPv6")
        .arg("enable", "in packets received and sent")
        .arg("rx", "in packets received")
        .arg("tx", "in packets sent")
        .arg("disable", "no limit")
        .arg("mss", "the largest segment, without IP and TCP headers")
        .details(
            "Only SYN segments with a larger value are changed. A family that is not named stays as it is. For a tunnel \
             with an MTU of M bytes the right value is M - 40 for IPv4, and M - 60 for IPv6.",
        )
        .example("set interface tcp-mss-clamp left ip4 enable ip4-mss 1452 ip6 enable ip6-mss 1432")
        .example("set interface tcp-mss-clamp left ip4 disable"),
        Command::read(
            "show interface tcp-mss-clamp [<interface:interface>]...",
            "Where the TCP segment size is limited",
            show,
        )
        .example("show interface tcp-mss-clamp"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let name: String = args.get("interface")?;
    let mut ops = vec![];
    for (v6, label) in [(false, "v4"), (true, "v6")] {
        let Some(group) = args.group(label) else { continue };
        let most: u16 = group.opt("mss")?.unwrap_or(0);
        let clamp = match group.one_of(&["rx", "tx"]) {
            Some("rx") => Clamp { rx: most, tx: 0 },
            Some(_) => Clamp { rx: 0, tx: most },
            None => Clamp { rx: most, tx: most },
        };
        ops.push(Op::SetFeature { name: name.clone(), feature: size(v6).to(clamp).into() });
    }
    if ops.is_empty() {
        return Err("name a family: ip4 or ip6".into());
    }
    commit(router, ops)
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let columns = Table::new().left("Interface").left("Family").right("Rx MSS").right("Tx MSS");
    listing::table(router, args, columns, |_, i, table| {
        for (family, v6) in [("ip4", false), ("ip6", true)] {
            let clamp = i.settings.get(size(v6));
            if !clamp.is_off() {
                let size = |n: u16| (n != 0).then_some(n).into();
                table.row([i.name.clone().into(), family.into(), size(clamp.rx), size(clamp.tx)]);
            }
        }
    })
}
