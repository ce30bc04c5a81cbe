//! Capture files as devices.

use super::config::PcapConfig;
use super::{Device, DeviceControl, caps};
use crate::router::aside::Asks;
use drivers::{Files, pcap};
use graph::io::Ready;
use graph::{Buffers, Packets, RxQueue, TxCaps, TxQueue, TxReport, Vector};
use packet::eth::MacAddr;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A capture file whose packets wait until the interface is up: unlike a wire, it can.
struct Gated {
    file: pcap::PcapRx,
    open: Arc<AtomicBool>,
}

impl RxQueue for Gated {
    fn interface(&self) -> u32 {
        self.file.interface()
    }

    fn input_node(&self) -> &'static str {
        self.file.input_node()
    }

    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize {
        if self.open.load(Ordering::Acquire) { self.file.poll(buffers, now_ns, out) } else { 0 }
    }

    fn ready(&self) -> Ready {
        if self.open.load(Ordering::Acquire) { self.file.ready() } else { Ready::Never }
    }
}

struct PcapControl {
    words: String,
    open: Arc<AtomicBool>,
    file: Option<Shared>,
}

impl DeviceControl for PcapControl {
    fn asks(&self) -> Asks {
        Asks::Disk
    }

    fn admitted(&mut self, up: bool) {
        self.open.store(up, Ordering::Release);
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(self.file.clone().map(|file| Box::new(file) as Box<dyn TxQueue>))
    }

    fn link(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        self.words.clone()
    }
}

/// A transmit queue that several workers share: only for capture files, whose writing is slow anyway.
#[derive(Clone)]
struct Shared(Arc<Mutex<pcap::PcapTx>>);

impl TxQueue for Shared {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(buffers, packets)
    }

    fn flush(&mut self, buffers: &mut Buffers) -> TxReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush(buffers)
    }
}

/// Capture files that are open, and loaded as far as they will be.
pub struct PcapFiles {
    config: PcapConfig,
    read: Option<pcap::PcapRx>,
    write: Option<pcap::PcapTx>,
}

/// Opens capture files, which may take long: they may be large, and their disk far away.
pub fn open_pcap_files(c: &PcapConfig, files: &Files) -> Result<PcapFiles, String> {
    let name = |file: &str, what: &str, e: std::io::Error| format!("cannot {what} {file}: {e}");
    let read =
        c.read.as_ref().map(|f| files.read(Path::new(f)).map_err(|e| name(f, "read", e))).transpose()?;
    let write =
        c.write.as_ref().map(|f| files.write(Path::new(f)).map_err(|e| name(f, "write", e))).transpose()?;
    if let (Some(from), Some(to), Some(file)) = (&read, &write, &c.write)
        && drivers::files::are_same(from, to).map_err(|e| name(file, "write", e))?
    {
        return Err(format!("{file} cannot be read and written at the same time: name two files"));
    }
    let load = |(file, opened): (&String, File)| {
        let rate = c.pps.map_or(pcap::PcapRate::Max, |pps| pcap::PcapRate::Pps(pps as f64));
        let passes = if c.repeat { 0 } else { 1 };
        let config = pcap::PcapConfig { rate, passes, ..pcap::PcapConfig::new(file, 0) };
        pcap::PcapRx::of(opened, &config).map_err(|e| format!("{file}: {e}"))
    };
    let read = c.read.as_ref().zip(read).map(load).transpose()?;
    let begin =
        |(file, opened): (&String, File)| pcap::PcapTx::of(opened).map_err(|e| name(file, "write", e));
    let write = c.write.as_ref().zip(write).map(begin).transpose()?;
    Ok(PcapFiles { config: c.clone(), read, write })
}

/// The device of capture files.
pub fn pcap_device(files: PcapFiles, index: u32, workers: usize) -> Device {
    let PcapFiles { config: c, read, write } = files;
    let mut rx: Vec<Box<dyn RxQueue>> = vec![];
    let mut words = String::from("pcap");
    let open = Arc::new(AtomicBool::new(false));
    if let (Some(file), Some(mut queue)) = (&c.read, read) {
        queue.set_interface(index);
        rx.push(Box::new(Gated { file: queue, open: Arc::clone(&open) }));
        words.push_str(&format!(" reading {file}"));
    }
    let mut tx: Vec<Box<dyn TxQueue>> = vec![];
    let shared = write.map(|queue| Shared(Arc::new(Mutex::new(queue))));
    if let (Some(file), Some(shared)) = (&c.write, &shared) {
        tx.extend((0..workers).map(|_| Box::new(shared.clone()) as Box<dyn TxQueue>));
        words.push_str(&format!(" writing {file}"));
    }
    let mac = MacAddr([0x02, 0xfe, 0x70, (index >> 16) as u8, (index >> 8) as u8, index as u8]);
    let control = Box::new(PcapControl { words, open, file: shared });
    Device { rx, caps: caps(&tx), tx, mac, mtu: 9000, link: true, control }
}
