//! `pcap trace`.

use super::part::{self, CaptureStatus, Ended};
use crate::cli::{files, plural};
use crate::router::Router;
use command::{Args, Command, CommandError, Output};
use drivers::Files;
use drivers::pcap::{Capture, CaptureConfig};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// Where packets go when no file is named.
const DEFAULT_FILE: &str = "quiver-trace.pcap";

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "pcap trace [rx] [tx] [drop] [max <packets:u32 1..10000000 packets>] [intfc (any|<interface:interface>)] \
             [file <file:path>] [overwrite] [(snaplen|max-bytes-per-pkt) <bytes:u16 14..9216 bytes>]",
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
        .arg("overwrite", "an existing file may be overwritten")
        .arg("bytes", "bytes kept of a packet; 2000 by default")
        .details(
            "Packets are kept in memory, at most 256 MiB, and written when the capture ends. Say at least one of \
             `rx`, `tx` and `drop`. The file is made at once, with the rights of who gives the command.",
        )
        .example("pcap trace rx tx max 100 file /tmp/both.pcap")
        .example("pcap trace drop intfc left"),
        Command::write("pcap trace off [file <file:path>] [overwrite]", "End the capture and write its file", stop)
            .arg("file", "write this file instead")
            .arg("overwrite", "an existing file may be overwritten")
            .details("Where the file cannot be written, the capture stays, and the command can be given again.")
            .example("pcap trace off"),
        Command::write("pcap trace discard", "End the capture and forget its packets", discard)
            .example("pcap trace discard"),
        Command::read("pcap trace status", "The capture that runs", |r: &mut Router, _| Ok(status(r)))
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
    part::check_none(router).map_err(CommandError::new)?;
    let files = files(args);
    Ok(Output::work(async move || {
        // Making ready so much memory takes a while, too.
        let capture = crate::background::run(move || Capture::new(config)).await;
        let capture = capture.map_err(CommandError::new)?.map_err(CommandError::new)?;
        let opened = open(files, file.clone()).await.map_err(CommandError::new)?;
        Ok(Output::then(move |router: &mut Router| {
            part::start(router, capture, &file, opened).map_err(CommandError::new)?;
            Ok(Output::none())
        }))
    }))
}

/// Opens a file to be written, which the router does not wait for.
async fn open(files: Files, file: PathBuf) -> Result<File, String> {
    let name = file.display().to_string();
    let opened = crate::background::run(move || files.write(&file)).await.flatten();
    opened.map_err(|e| format!("cannot write {name}: {e}"))
}

fn stop(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let file: Option<PathBuf> = args.opt("file")?;
    let running = part::running(router).map(|c| c.capture);
    if running.is_none() && part::ended(router).is_none() {
        return Err("no capture runs: start one with 'pcap trace rx tx'".into());
    }
    let Some(file) = file else {
        let ended = part::end(router);
        return Ok(Output::work(move || write(ended, None)));
    };
    let (files, args) = (files(args), args.clone());
    Ok(Output::work(async move || {
        let opened = open(files, file.clone()).await.map_err(|why| args.error("file", why))?;
        Ok(Output::then(move |router: &mut Router| {
            let now = part::running(router).map(|c| c.capture);
            if now.as_ref().is_some_and(|now| !running.as_ref().is_some_and(|then| Arc::ptr_eq(then, now))) {
                return Err("another capture was started meanwhile: it runs on".into());
            }
            let (ended, other) = (part::end(router), Some((file, Arc::new(opened))));
            Ok(Output::work(move || write(ended, other)))
        }))
    }))
}

/// Writes the capture that ended, and forgets it when that has worked.
async fn write(ended: Ended, other: Option<(PathBuf, Arc<File>)>) -> Result<Output, CommandError> {
    let slot = || ended.lock().unwrap_or_else(PoisonError::into_inner);
    // While it is written, nobody else finds it.
    let Some(mut status) = slot().take() else { return Err("the capture is being written".into()) };
    if let Some((file, opened)) = other {
        (status.file, status.opened) = (file, opened);
    }
    let (capture, opened) = (Arc::clone(&status.capture), Arc::clone(&status.opened));
    let written = crate::background::run(move || capture.write_file(&opened)).await.flatten();
    let packets = match written {
        Ok(packets) => packets,
        Err(e) => {
            let why = format!(
                "cannot write {}: {e}. The capture is kept: 'pcap trace off' tries again, 'pcap trace off file FILE' \
                 elsewhere, 'pcap trace discard' forgets it",
                status.file.display()
            );
            *slot() = Some(status);
            return Err(why.into());
        }
    };
    let missed = status.capture.missed();
    let more = if missed == 0 { String::new() } else { format!(", {missed} more came after it was full") };
    let text = format!("wrote {} to {}{more}", plural(packets, "packet"), status.file.display());
    Ok(Output::new(text, json!({ "packets": packets, "missed": missed, "file": status.file })))
}

fn discard(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    if part::discard(router) { Ok(Output::none()) } else { Err("there is no capture".into()) }
}

fn status(router: &Router) -> Output {
    let (running, ended) = (part::running(router), part::ended(router));
    let runs = running.is_some();
    let Some(CaptureStatus { capture, file, .. }) = running.or(ended) else {
        return Output::new("no capture runs", json!({ "running": false }));
    };
    let (c, n) = (capture.config(), capture.len());
    let wanted = [("rx", c.rx), ("tx", c.tx), ("drop", c.drop)];
    let wanted: Vec<&str> = wanted.iter().filter(|w| w.1).map(|w| w.0).collect();
    let state = if runs { "" } else { ", ended and not written yet" };
    let text =
        format!("{}: {n} of {} for {}{state}", wanted.join(" "), plural(c.max, "packet"), file.display());
    let json: Json = json!({
        "running": runs,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_capture_that_cannot_be_written_stays() {
        let open = |path: &str| {
            Arc::new(File::options().write(true).create(true).truncate(false).open(path).unwrap())
        };
        let capture = Arc::new(Capture::new(CaptureConfig::default()).unwrap());
        let status = CaptureStatus { capture, file: "full".into(), opened: open("/dev/full") };
        let ended: Ended = Arc::new(Mutex::new(Some(status)));
        let end = |other| {
            let ended = Arc::clone(&ended);
            Output::work(move || write(ended, other)).whole(&mut (), false)
        };
        let refused = end(None).unwrap_err().to_string();
        assert!(refused.contains("The capture is kept"), "{refused}");
        assert_eq!(ended.lock().unwrap().as_ref().unwrap().file, PathBuf::from("full"));
        let path = std::env::temp_dir().join(format!("quiver-kept-{}.pcap", std::process::id()));
        let other = (path.clone(), open(path.to_str().unwrap()));
        std::fs::remove_file(&path).unwrap();
        let refused = end(Some(other)).unwrap_err().to_string();
        assert!(refused.contains("it was removed meanwhile. The capture is kept"), "{refused}");
        let other = (path.clone(), open(path.to_str().unwrap()));
        assert!(end(Some(other)).unwrap().to_text().starts_with("wrote 0 packets to"));
        assert!(ended.lock().unwrap().is_none());
        assert_eq!(std::fs::read(&path).unwrap().len(), 24);
        std::fs::remove_file(path).unwrap();
    }
}
