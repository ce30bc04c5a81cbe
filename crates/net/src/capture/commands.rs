//! `pcap trace`.

use crate::commands::plural;
use crate::router::{CaptureStatus, Router};
use command::{Args, Command, CommandError, Output};
use drivers::pcap::CaptureConfig;
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Where packets go when no file is named.
const DEFAULT_FILE: &str = "quiver-trace.pcap";

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "pcap trace [rx] [tx] [drop] [max <packets:u32 1..10000000 packets>] [intfc (any|<interface:interface>)] \
             [file <file:path>] [(snaplen|max-bytes-per-pkt) <bytes:u16 14..9216 bytes>]",
            "Capture packets",
            start,
        )
        .arg("rx", "frames as they come in")
        .arg("tx", "frames as they go out")
        .arg("drop", "packets that are dropped")
        .arg("packets", "end after so many; 1000 by default")
        .arg("intfc", "only those of one interface")
        .arg("any", "of all interfaces")
        .arg("file", "where they are written; relative to the router's working directory, quiver-trace.pcap by default")
        .arg("bytes", "bytes kept of a packet; 2000 by default")
        .details(
            "Packets are kept in memory, at most 256 MiB, and written when the capture ends. Say at least one of \
             `rx`, `tx` and `drop`.",
        )
        .example("pcap trace rx tx max 100 file /tmp/both.pcap")
        .example("pcap trace drop intfc left"),
        Command::write("pcap trace off", "End the capture and write its file", stop).example("pcap trace off"),
        Command::read("pcap trace status", "The capture that runs", |r: &mut Router, _| Ok(status(r.capture())))
            .example("pcap trace status"),
    ]
}

fn start(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let interface: Option<String> = args.opt("interface")?;
    let defaults = CaptureConfig::default();
    let config = CaptureConfig {
        max: args.opt("packets")?.unwrap_or(defaults.max),
        snap: args.opt::<u16>("bytes")?.map_or(defaults.snap, usize::from),
        rx: args.has("rx"),
        tx: args.has("tx"),
        drop: args.has("drop"),
        interface: interface.and_then(|n| router.interface_index(&n)),
    };
    let file: Option<PathBuf> = args.opt("file")?;
    let file = file.unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
    router.start_capture(config, &file).map_err(CommandError::new)?;
    Ok(Output::none())
}

fn stop(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let Some(CaptureStatus { capture, file }) = router.stop_capture() else {
        return Err("no capture runs: start one with 'pcap trace rx tx'".into());
    };
    let packets = capture.write_file(&file).map_err(CommandError::new)?;
    let missed = capture.missed();
    let more = if missed == 0 { String::new() } else { format!(", {missed} more came after it was full") };
    let text = format!("wrote {} to {}{more}", plural(packets, "packet"), file.display());
    Ok(Output::new(text, json!({ "packets": packets, "missed": missed, "file": file })))
}

fn status(running: Option<CaptureStatus>) -> Output {
    let Some(CaptureStatus { capture, file }) = running else {
        return Output::new("no capture runs", json!({ "running": false }));
    };
    let (c, n) = (capture.config(), capture.len());
    let wanted = [("rx", c.rx), ("tx", c.tx), ("drop", c.drop)];
    let wanted: Vec<&str> = wanted.iter().filter(|w| w.1).map(|w| w.0).collect();
    let text = format!("{}: {n} of {} for {}", wanted.join(" "), plural(c.max, "packet"), file.display());
    let json: Json = json!({
        "running": true,
        "directions": wanted,
        "packets": n,
        "max": c.max,
        "missed": capture.missed(),
        "snaplen": c.snap,
        "interface-index": c.interface,
        "file": file,
    });
    Output::new(text, json)
}
