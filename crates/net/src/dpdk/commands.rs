//! `create interface dpdk`, `delete interface dpdk`.

use super::part::for_root;
use super::{DpdkConfig, DpdkDevice, DpdkOp, MOST_QUEUES};
use crate::cli::interfaces::{delete_kind, made, offload};
use crate::cli::is_privileged;
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output};
use packet::eth::MacAddr;

/// The commands.
pub(crate) fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            &format!(
                "create interface dpdk <device:string> [name <name:string>] [rx-queues <rx:u8 1..{MOST_QUEUES}>] \
                 [tx-queues <tx:u8 1..{MOST_QUEUES}>] [ring-size <slots:u16 64..32768>] [hw-addr <mac:mac>] [offload (auto|on|off)]"
            ),
            "Make an interface over a device that a driver of DPDK brings",
            create,
        )
        .arg("device", "its address, as in 0000:01:00.0, or a virtual device with its arguments, as in net_null0,copy=1; for root only")
        .arg("name", "what the interface is called; the device without arguments by default, its colons and dots as dashes")
        .arg("rx", "receive queues, over which the device spreads flows; 1 by default")
        .arg("tx", "transmit queues, at least; there is one for each worker, where the device has so many")
        .arg("slots", "of each ring, a power of two; 1024 by default, or what comes nearest for the device")
        .arg("mac", "MAC address of the interface; that of the device by default")
        .arg("auto", "the device checks and completes checksums and cuts super-frames, as far as it can: the default")
        .arg("on", "as auto")
        .arg("off", "Quiver does all of that")
        .details(
            "The answer is the name. The interface is down at first, and the device is looked for beside it: the log and `show \
             hardware-interfaces` tell what has come of that. It needs quiver-dpdk.so, which scripts/dpdk builds.",
        )
        .example("create interface dpdk 0000:01:00.0 name ge0 rx-queues 4")
        .example("create interface dpdk net_af_packet0,iface=eth1 name wan"),
        Command::write("delete interface dpdk <interface:interface>", "Take an interface of DPDK out, and let its device go", |r, a| {
            delete_kind(r, a, "interface of DPDK", |i| matches!(&i.origin, Op::Part(p) if p.get::<DpdkOp>().is_some()))
        })
        .example("delete interface dpdk ge0"),
    ]
}

fn create(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let text: String = args.get("device")?;
    let device = DpdkDevice::parse(&text).map_err(|why| args.error("device", why))?;
    let name: Option<String> = args.opt("name")?;
    let name = name.unwrap_or_else(|| device.device().replace([':', '.'], "-"));
    let usual = DpdkConfig::new(device);
    let config = DpdkConfig {
        rx_queues: args.opt::<u8>("rx")?.map_or(usual.rx_queues, usize::from),
        tx_queues: args.opt::<u8>("tx")?.map_or(usual.tx_queues, usize::from),
        slots: args.opt::<u16>("slots")?.map(u32::from),
        offload: offload(args),
        ..usual
    };
    config.check().map_err(CommandError::new)?;
    if !is_privileged(args) {
        return Err(CommandError::new(for_root(&config)));
    }
    let mac: Option<[u8; 6]> = args.opt("mac")?;
    let ops = move |name: &String| -> Vec<Op> {
        let mac = mac.map(|mac| Op::SetMac { name: name.clone(), mac: Some(MacAddr(mac)) });
        std::iter::once(DpdkOp { name: name.clone(), config }.into()).chain(mac).collect()
    };
    if drivers::dpdk::loaded().is_some() {
        let ops = ops(&name);
        return made(router, name, ops);
    }
    Ok(Output::work(async move || {
        let loaded = crate::background::run(drivers::dpdk::load).await;
        loaded.map_err(CommandError::new)?.map_err(|why| CommandError::new(format!("{name}: {why}")))?;
        Ok(Output::then(move |router: &mut Router| {
            let ops = ops(&name);
            made(router, name, ops)
        }))
    }))
}
