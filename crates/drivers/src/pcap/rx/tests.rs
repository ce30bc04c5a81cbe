use super::*;
use crate::pcap::format::{MAX_FRAME, Reader};
use crate::pcap::write::write_all;
use graph::buffer::{Pool, PoolConfig, PoolMemory};
use proptest::prelude::*;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// A file that goes when the test ends.
struct Temp(PathBuf);

impl Temp {
    fn new(bytes: &[u8]) -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("quiver-pcap-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Temp(path)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pool(n: usize) -> Arc<Pool> {
    Pool::new(PoolConfig { buffers: n, memory: PoolMemory::Normal }).unwrap()
}

fn pcap(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    write_all(&mut file, 65535, frames.iter().map(|(t, b)| (*t, b.as_slice(), b.len() as u32))).unwrap();
    file
}

/// Polls at `now` and returns the frames, buffers given back.
fn poll(q: &mut PcapRx, b: &mut Buffers, now: u64) -> Vec<Vec<u8>> {
    let mut v = Vector::boxed();
    assert_eq!(q.poll(b, now, &mut v), v.len());
    let each = |d: Desc| {
        assert_eq!((d.rx, d.off, d.l2), (5, 128, 128));
        let bytes = b.parts(&d).flatten().copied().collect();
        b.free(d);
        bytes
    };
    v.take().map(each).collect()
}

/// Everything until the queue says that it is done.
fn drain(q: &mut PcapRx, b: &mut Buffers) -> Vec<Vec<u8>> {
    let (mut all, mut now) = (Vec::new(), 0);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        all.extend(poll(q, b, now));
        now = match q.ready() {
            Ready::Never => return all,
            Ready::At(t) => t,
            _ => now,
        };
        assert!(Instant::now() < deadline);
    }
}

type Frames = Vec<(u64, Vec<u8>)>;

fn read(bytes: &[u8]) -> Result<(Frames, Seen), PcapError> {
    let (mut reader, mut block) = (Reader::new(bytes)?, Block::default());
    reader.read(&mut block, usize::MAX, usize::MAX)?;
    Ok((block.records.iter().map(|r| (r.time_ns, block.frame(r).to_vec())).collect(), reader.seen))
}

fn frames() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    let frame = (0..4_000_000_000_000_000_000u64, 1usize..3000, any::<u8>())
        .prop_map(|(t, len, b)| (t, (0..len).map(|i| b.wrapping_add(i as u8)).collect()));
    proptest::collection::vec(frame, 0..20)
}

/// The same records as a pcap or pcapng file in another dialect.
fn classic(frames: &[(u64, Vec<u8>)], big: bool, nanos: bool) -> Vec<u8> {
    let n4 = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut out = n4(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    out.extend([0; 12]);
    out.extend(n4(65535));
    out.extend(n4(1));
    for (t, b) in frames {
        let fraction = (t % 1_000_000_000) as u32 / if nanos { 1 } else { 1000 };
        for n in [(t / 1_000_000_000) as u32, fraction, b.len() as u32, b.len() as u32] {
            out.extend(n4(n));
        }
        out.extend(b);
    }
    out
}

fn ng(frames: &[(u64, Vec<u8>)], big: bool) -> Vec<u8> {
    let n4 = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let n2 = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let len = n4(12 + body.len() as u32);
        out.extend([&n4(kind)[..], &len, body, &len].concat());
    };
    block(0x0a0d_0d0a, &[&n4(0x1a2b_3c4d)[..], &n2(1), &n2(0), &[0xff; 8]].concat());
    // A block that nobody knows, then an interface with nanoseconds, one second late.
    block(0xbad, &[1; 400]);
    let late = if big { 1u64.to_be_bytes() } else { 1u64.to_le_bytes() };
    let options = [&n2(9)[..], &n2(1), &[9, 0, 0, 0], &n2(14), &n2(8), &late, &[0; 4]].concat();
    block(1, &[&n2(1)[..], &n2(0), &n4(0), &options].concat());
    for (t, b) in frames {
        let t = t - 1_000_000_000;
        let head: Vec<u8> = [0, (t >> 32) as u32, t as u32, b.len() as u32, b.len() as u32]
            .into_iter()
            .flat_map(n4)
            .collect();
        block(6, &[&head[..], b, &vec![0; b.len().next_multiple_of(4) - b.len()]].concat());
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(frames in frames(), stream: bool) {
        prop_assert_eq!(&read(&pcap(&frames)).unwrap().0, &frames);
        for big in [false, true] {
            prop_assert_eq!(&read(&classic(&frames, big, true)).unwrap().0, &frames);
            let micros: Vec<_> = frames.iter().map(|(t, b)| (t / 1000 * 1000, b.clone())).collect();
            prop_assert_eq!(&read(&classic(&frames, big, false)).unwrap().0, &micros);
            let late: Vec<_> = frames.iter().map(|(t, b)| (t + 1_000_000_000, b.clone())).collect();
            prop_assert_eq!(&read(&ng(&late, big)).unwrap().0, &late);
        }
        // Through a queue, with chains, from memory or from the reading thread.
        let file = Temp::new(&pcap(&frames));
        let p = pool(2048);
        let mut b = p.buffers();
        let memory = if stream { 0 } else { 1 << 20 };
        let config = PcapConfig { passes: 2, memory, ..PcapConfig::new(&file.0, 5) };
        let got = drain(&mut PcapRx::open(&config).unwrap(), &mut b);
        let once: Vec<_> = frames.into_iter().map(|f| f.1).collect();
        prop_assert_eq!(got, [once.clone(), once].concat());
        prop_assert_eq!(p.in_use(), 0);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        frames in frames(), kind in 0usize..4, flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut: prop::sample::Index, noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut file = match kind {
            0 => classic(&frames, false, false),
            1 => classic(&frames, true, true),
            2 => ng(&frames.into_iter().map(|(t, b)| (t + 1_000_000_000, b)).collect::<Vec<_>>(), kind == 2),
            _ => noise,
        };
        for (at, value) in flips {
            if !file.is_empty() {
                let at = at.index(file.len());
                file[at] = value;
            }
        }
        file.truncate(cut.index(file.len() + 1));
        if let Ok((frames, seen)) = read(&file) {
            prop_assert_eq!(frames.len() as u64, seen.frames);
            prop_assert!(frames.iter().all(|f| !f.1.is_empty() && f.1.len() <= MAX_FRAME));
        }
    }
}

#[test]
fn a_pcapng_file_of_scapy_is_read() {
    // Scapy 2.5's PcapNgWriter, one packet twice at 1700000000.25.
    let hex = "0a0d0d0a1c0000004d3c2b1a0100000000000000000000001c0000000100000014000000010000000000040014000000060000005000000000000000240a0600901022182d0000002d00000002000000000202000000000108004500001f00010000401164cb0a0000010a00020200010002000b257061626300000050000000060000005000000000000000240a0600901022182d0000002d00000002000000000202000000000108004500001f00010000401164cb0a0000010a00020200010002000b257061626300000050000000";
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let (frames, seen) = read(&bytes).unwrap();
    assert_eq!((frames.len(), seen.cut), (2, false));
    assert_eq!((frames[1].0, frames[1].1.len()), (1_700_000_000_250_000_000, 45));
    assert_eq!(frames[1].1[42..], *b"abc");
}

#[test]
fn a_file_cut_short_gives_what_is_whole() {
    let file = pcap(&[(1, vec![1; 100]), (2, vec![2; 100])]);
    for cut in 1..116 {
        let (frames, seen) = read(&file[..file.len() - cut]).unwrap();
        assert_eq!((frames.len(), seen.cut), (1, true), "{cut}");
    }
    assert!(!read(&file[..file.len() - 116]).unwrap().1.cut);
}

#[test]
fn truncated_empty_and_endless_records_are_counted() {
    let mut file = Vec::new();
    let packets = [(&[1u8; 50][..], 1500), (&[], 60), (&[2; 60], 60), (&[3; MAX_FRAME + 1], 70_000)];
    write_all(&mut file, 1 << 18, packets.map(|(b, wire)| (7, b, wire))).unwrap();
    let (frames, seen) = read(&file).unwrap();
    assert_eq!(frames.len(), 2);
    assert_eq!(seen, Seen { frames: 2, truncated: 1, skipped: 2, cut: false });
}

#[test]
fn what_is_no_capture_is_refused_with_a_reason() {
    let refused = |bytes: &[u8]| {
        let file = Temp::new(bytes);
        PcapRx::open(&PcapConfig::new(&file.0, 5)).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(b""), "neither a pcap nor a pcapng file");
    assert_eq!(refused(b"#!/bin/sh and so on and so on"), "neither a pcap nor a pcapng file");
    let mut cooked = pcap(&[]);
    cooked[20] = 113;
    assert_eq!(refused(&cooked), "the file holds frames of link type 113, only Ethernet (1) can be read");
    let mut long = pcap(&[(1, vec![1; 60])]);
    long[24 + 11] = 1;
    assert!(refused(&long).starts_with("byte 24: a record of 16777276 bytes"), "{}", refused(&long));
    let mut section = ng(&[(1_000_000_000, vec![1; 60])], false);
    section[8] = 0;
    assert_eq!(refused(&section), "byte 0: no byte-order mark: the file is damaged");
    let open = |path: &str, rate| {
        PcapRx::open(&PcapConfig { rate, ..PcapConfig::new(path, 5) }).err().unwrap().to_string()
    };
    assert!(open("/nonexistent/x", PcapRate::Max).starts_with("cannot read /nonexistent/x: No such file"));
    assert_eq!(open("/dev/null", PcapRate::Max), "cannot read /dev/null: it is not a regular file");
    let file = Temp::new(b"");
    assert!(open(&file.0.display().to_string(), PcapRate::Pps(0.0)).contains("rate must be"));
}

#[test]
fn a_rate_is_kept_and_the_file_starts_again() {
    let file = Temp::new(&pcap(&(0..10).map(|i| (i, vec![i as u8; 60])).collect::<Vec<_>>()));
    let p = pool(512);
    let mut b = p.buffers();
    let config = PcapConfig { rate: PcapRate::Pps(1e5), passes: 0, ..PcapConfig::new(&file.0, 5) };
    let mut q = PcapRx::open(&config).unwrap();
    let (mut now, mut sent) = (1_000_000u64, 0usize);
    while now < 1_000_000 + 100_000_000 {
        for f in poll(&mut q, &mut b, now) {
            assert_eq!(usize::from(f[0]), sent % 10);
            sent += 1;
        }
        let Ready::At(due) = q.ready() else { panic!() };
        now = due.max(now + 33_333);
    }
    assert!((9900..=10_100).contains(&sent), "{sent}");
    assert_eq!(q.stats().packets(), sent as u64);
}

#[test]
fn the_files_own_times_are_kept() {
    let frames: Vec<_> = [5_000u64, 5_000, 8_000, 7_000, 20_000].iter().map(|t| (*t, vec![1; 60])).collect();
    let file = Temp::new(&pcap(&frames));
    let p = pool(512);
    let mut b = p.buffers();
    for memory in [1 << 20, 0] {
        let config =
            PcapConfig { rate: PcapRate::Original, passes: 2, memory, ..PcapConfig::new(&file.0, 5) };
        let mut q = PcapRx::open(&config).unwrap();
        let (mut times, t0) = (Vec::new(), 1_000_000u64);
        // The reading thread may need a moment: time stands still meanwhile.
        let mut now = t0;
        let deadline = Instant::now() + Duration::from_secs(20);
        while !q.stats().is_done() && Instant::now() < deadline {
            let got = poll(&mut q, &mut b, now).len();
            times.extend(std::iter::repeat_n(now - t0, got));
            if !q.waiting
                && let Ready::At(due) = q.ready()
            {
                assert!(due > now || got > 0);
                now = due;
            }
        }
        // Frame 4 goes back in time: it follows at once, and its successor 13 µs later. The second pass starts after
        // the last gap.
        assert_eq!(times, [0, 0, 3_000, 3_000, 16_000, 29_000, 29_000, 32_000, 32_000, 45_000], "{memory}");
        assert_eq!(q.ready(), Ready::Never);
    }
}

#[test]
fn a_long_file_is_read_while_it_is_sent() {
    // 6 MiB: more than all blocks under way.
    let frames: Vec<_> =
        (0..6000u32).map(|i| (u64::from(i), [&i.to_be_bytes()[..], &[0; 996]].concat())).collect();
    let mut bytes = pcap(&frames);
    bytes.extend([1; 10]);
    let file = Temp::new(&bytes);
    let p = pool(2048);
    let mut b = p.buffers();
    let config = PcapConfig { memory: 0, passes: 3, ..PcapConfig::new(&file.0, 5) };
    let mut q = PcapRx::open(&config).unwrap();
    let got = drain(&mut q, &mut b);
    assert_eq!(got.len(), 18_000);
    for (i, f) in got.iter().enumerate() {
        assert_eq!(f[..4], (i as u32 % 6000).to_be_bytes());
    }
    assert_eq!(q.stats().seen(), (Seen { frames: 18_000, cut: true, ..Seen::default() }, None));
    // A queue that goes early ends its thread; nothing waits for it.
    let mut q = PcapRx::open(&PcapConfig { passes: 0, ..config }).unwrap();
    let shared = match &q.source {
        Source::Streamed(s) => s.watch(),
        Source::Loaded { .. } => panic!(),
    };
    poll(&mut q, &mut b, 0);
    drop(q);
    let deadline = Instant::now() + Duration::from_secs(20);
    while shared.strong_count() > 0 {
        assert!(Instant::now() < deadline, "the thread ends");
        std::thread::yield_now();
    }
}

#[test]
fn damage_deep_in_a_long_file_ends_the_reading_with_a_reason() {
    let frames: Vec<_> = (0..3000u32).map(|i| (u64::from(i), vec![0; 1000])).collect();
    let mut bytes = pcap(&frames);
    let at = 24 + 2500 * 1016;
    bytes[at + 8..at + 12].fill(0xff);
    let file = Temp::new(&bytes);
    let p = pool(2048);
    let mut b = p.buffers();
    let mut q = PcapRx::open(&PcapConfig { memory: 0, ..PcapConfig::new(&file.0, 5) }).unwrap();
    assert_eq!(drain(&mut q, &mut b).len(), 2500);
    let (seen, error) = q.stats().seen();
    assert_eq!(seen.frames, 2500);
    assert!(error.unwrap().starts_with(&format!("byte {at}: a record of 4294967295 bytes")));
}

#[test]
fn an_empty_file_ends_even_when_it_is_to_be_repeated() {
    let file = Temp::new(&pcap(&[]));
    let p = pool(64);
    let mut b = p.buffers();
    for memory in [0, 1000] {
        let config = PcapConfig { passes: 0, memory, ..PcapConfig::new(&file.0, 5) };
        assert!(drain(&mut PcapRx::open(&config).unwrap(), &mut b).is_empty());
    }
}

#[test]
fn without_buffers_frames_wait() {
    let frames: Vec<_> = (0..200u8).map(|i| (0, vec![i; if i % 3 == 0 { 5000 } else { 60 }])).collect();
    let file = Temp::new(&pcap(&frames));
    let p = pool(64);
    let mut b = p.buffers();
    let mut q = PcapRx::open(&PcapConfig::new(&file.0, 5)).unwrap();
    let (mut all, mut v) = (Vec::new(), Vector::boxed());
    while q.ready() != Ready::Never {
        q.poll(&mut b, 0, &mut v);
        for d in v.take() {
            all.push((0, b.parts(&d).flatten().copied().collect()));
            b.free(d);
        }
        assert_eq!(p.in_use(), 0);
    }
    assert_eq!(all, frames);
    assert!(q.stats().no_buffer() > 2);
}
