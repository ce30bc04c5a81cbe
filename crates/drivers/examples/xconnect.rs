//! Passes every packet of one Linux device to another and back, with the drivers alone: what they cost and how soon they
//! wake, without a router behind them.
//!
//! `xconnect DEVICE DEVICE [v2|v3] [on|off] [spin-us]`: ring version, transmit offload, microseconds of polling before it
//! sleeps. Counters are printed each second in which packets came. `xconnect flood DEVICE [bytes]` sends frames as fast as
//! one core can.
#![allow(unsafe_code)]

use drivers::af_packet::{self, Config, RingVersion};
use drivers::{Control, Offload};
use graph::io::Ready;
use graph::{Pool, PoolConfig, PoolMemory, TxReport, Vector, flags};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, options @ ..] = args.as_slice() else {
        return Err("usage: xconnect DEVICE DEVICE [v2|v3] [on|off] [spin-us]".into());
    };
    if a == "flood" {
        return flood(b, options.first().and_then(|s| s.parse().ok()).unwrap_or(60));
    }
    let option = |i: usize| options.get(i).map(String::as_str);
    let spin: u64 = option(2).and_then(|s| s.parse().ok()).unwrap_or(20);
    let mut devices = Vec::new();
    for (i, name) in [a, b].into_iter().enumerate() {
        let mut config = Config::new(name, i as u32);
        config.ring = if option(0) == Some("v3") { RingVersion::V3 } else { RingVersion::V2 };
        config.offload = if option(1) == Some("off") { Offload::Off } else { Offload::On };
        let device = af_packet::open(&config)?;
        for sentence in &device.conflicts {
            eprintln!("{sentence}");
        }
        devices.push(device);
    }
    let pool = Pool::new(PoolConfig { buffers: 16384, memory: PoolMemory::Auto })?;
    let (mut buffers, mut vector) = (pool.buffers(), Vector::boxed());
    let mut fds: Vec<libc::pollfd> = devices
        .iter()
        .filter_map(|d| d.rx[0].fd())
        .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
        .collect();
    let (mut sum, mut polls, mut supers, mut sleeps) = (TxReport::default(), 0u64, 0u64, 0u64);
    let (mut last_work, mut last_print) = (Instant::now(), Instant::now());
    loop {
        let mut any = false;
        for i in 0..2 {
            if devices[i].rx[0].poll(&mut buffers, 0, &mut vector) > 0 {
                any = true;
                polls += 1;
                supers += vector.as_slice().iter().filter(|d| d.has(flags::GSO)).count() as u64;
                sum.add(devices[1 - i].tx[0].send(&mut buffers, vector.take()));
            }
        }
        if any {
            last_work = Instant::now();
        }
        if sum.packets > 0 && last_print.elapsed() > Duration::from_secs(1) {
            let drops = [devices[0].handle.drops(), devices[1].handle.drops()];
            println!("{sum:?} vectors {polls} super-frames {supers} sleeps {sleeps} drops {drops:?}");
            (sum, polls, supers, sleeps) = (TxReport::default(), 0, 0, 0);
            last_print = Instant::now();
        }
        if !any && last_work.elapsed() >= Duration::from_micros(spin) {
            if devices.iter().all(|d| d.rx[0].ready() == Ready::Never) {
                return Ok(());
            }
            // SAFETY: the array and its length; the descriptors are open for as long as the devices are.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as u64, 1000) };
            sleeps += 1;
            last_work = Instant::now();
        }
    }
}

fn flood(name: &str, bytes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut device = af_packet::open(&Config::new(name, 0))?;
    let pool = Pool::new(PoolConfig { buffers: 1024, memory: PoolMemory::Auto })?;
    let mut buffers = pool.buffers();
    let mut frame = vec![0; bytes];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    let (mut sum, mut start) = (TxReport::default(), Instant::now());
    loop {
        let mut v = Vector::boxed();
        while let Some(d) = buffers.alloc_bytes(&frame)
            && v.push(d).is_ok()
            && v.room() > 0
        {}
        sum.add(device.tx[0].send(&mut buffers, v.take()));
        if start.elapsed() > Duration::from_secs(1) {
            println!("{:.3} Mpps sent {sum:?}", sum.packets as f64 / start.elapsed().as_secs_f64() / 1e6);
            (sum, start) = (TxReport::default(), Instant::now());
        }
    }
}
