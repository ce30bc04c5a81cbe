use super::*;
use crate::pcap::format::{Block, Reader};
use graph::buffer::{Pool, PoolConfig, PoolMemory};
use graph::desc::flags;
use std::sync::Arc;

fn pool() -> Arc<Pool> {
    Pool::new(PoolConfig { buffers: 256, memory: PoolMemory::Normal }).unwrap()
}

fn capture(max: usize, snap: usize) -> Capture {
    Capture::new(CaptureConfig { max, snap, ..CaptureConfig::default() }).unwrap()
}

#[test]
fn packets_are_kept_from_their_link_header_on() {
    let p = pool();
    let mut b = p.buffers();
    let bytes: Vec<u8> = (0..9000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    for snap in [14, 15, 100, 2001, 8999, 9000, 9216] {
        for len in [1usize, 14, 60, 2048, 2049, 8999, 9000] {
            let mut d = b.alloc_bytes(&bytes[..len]).unwrap();
            // A node has gone past the Ethernet header.
            let moved = 14.min(len) as u16;
            (d.off, d.len) = (d.off + moved, d.len - moved);
            let c = capture(1, snap);
            assert!(c.append(&b, &d, d.l2, Direction::Rx, 3, 5));
            let want = CaptureRecord {
                time_ns: 5,
                direction: Direction::Rx,
                interface: 3,
                wire: len as u32,
                bytes: bytes[..len.min(snap)].to_vec(),
            };
            assert_eq!(c.records(), [want], "{len} of {snap}");
            b.free(d);
        }
    }
    assert_eq!(p.in_use(), 0);
}

#[test]
fn partial_checksums_are_complete_in_the_capture_and_stay_as_they_are_in_the_packet() {
    let p = pool();
    let mut b = p.buffers();
    for len in [54, 55, 1514, 2047, 2048, 2049, 6001] {
        let mut bytes: Vec<u8> = (0..len as u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut d = b.alloc_bytes(&bytes).unwrap();
        let m = b.meta_mut(&d.buf);
        (m.csum_start, m.csum_offset) = (d.off + 34, 16);
        d.flags |= flags::CSUM_PARTIAL;
        (d.off, d.len) = (d.off + 14, d.len - 14);
        let c = capture(1, 9000);
        assert!(c.append(&b, &d, d.l2, Direction::Tx, 3, 5));
        assert_eq!(b.parts(&d).flatten().copied().collect::<Vec<_>>(), bytes[14..]);
        let sum = packet::checksum::checksum(&bytes[34..]);
        bytes[50..52].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(c.records()[0].bytes, bytes, "{len}");
        b.free(d);
    }
    // A place outside of the packet is left alone.
    let mut d = b.alloc_bytes(&[1; 60]).unwrap();
    (b.meta_mut(&d.buf).csum_start, b.meta_mut(&d.buf).csum_offset) = (d.off + 50, 9);
    d.flags |= flags::CSUM_PARTIAL;
    let c = capture(1, 9000);
    assert!(c.append(&b, &d, d.l2, Direction::Tx, 3, 5));
    assert_eq!(c.records()[0].bytes, [1; 60]);
    b.free(d);
    assert_eq!(p.in_use(), 0);
}

#[test]
fn exactly_the_first_packets_are_kept() {
    let p = pool();
    let mut b = p.buffers();
    let d = b.alloc_bytes(&[9; 60]).unwrap();
    let c = capture(3, 100);
    let kept: Vec<bool> = (0..5).map(|i| c.append(&b, &d, d.l2, Direction::Tx, 1, 100 - i)).collect();
    assert_eq!(kept, [true, true, true, false, false]);
    assert_eq!((c.len(), c.is_full(), c.missed()), (3, true, 2));
    assert_eq!(c.records().iter().map(|r| r.time_ns).collect::<Vec<_>>(), [98, 99, 100]);
    b.free(d);
}

#[test]
fn workers_append_at_once_while_control_reads() {
    // Each of the four free lists may keep some hundred buffers to itself.
    let p = Pool::new(PoolConfig { buffers: 4096, memory: PoolMemory::Normal }).unwrap();
    let c = capture(4000, 64);
    std::thread::scope(|s| {
        for w in 0..4u8 {
            let (p, c) = (&p, &c);
            s.spawn(move || {
                let mut b = p.buffers();
                for i in 0..1500u64 {
                    let d = b.alloc_bytes(&[w; 40]).unwrap();
                    c.append(&b, &d, d.l2, Direction::Drop, u32::from(w), i);
                    b.free(d);
                }
            });
        }
        while !c.is_full() {
            for r in c.records() {
                assert_eq!(r.bytes, [r.interface as u8; 40]);
            }
        }
    });
    let all = c.records();
    assert_eq!((all.len(), c.missed()), (4000, 2000));
    assert!(all.is_sorted_by_key(|r| r.time_ns));
    assert!(all.iter().all(|r| r.bytes == [r.interface as u8; 40]));
    assert_eq!(p.in_use(), 0);
}

#[test]
fn directions_and_interface_are_filtered() {
    let c =
        Capture::new(CaptureConfig { tx: false, interface: Some(4), ..CaptureConfig::default() }).unwrap();
    assert!(c.wants(Direction::Rx, 4) && c.wants(Direction::Drop, 4));
    assert!(!c.wants(Direction::Tx, 4) && !c.wants(Direction::Rx, 5));
    let c = Capture::new(CaptureConfig { rx: false, ..CaptureConfig::default() }).unwrap();
    assert!(c.wants(Direction::Tx, 9) && !c.wants(Direction::Rx, 9));
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let refused = |c: CaptureConfig| Capture::new(c).err().map(|e| e.to_string()).unwrap_or_default();
    let base = CaptureConfig::default();
    assert_eq!(
        refused(CaptureConfig { rx: false, tx: false, drop: false, ..base }),
        "nothing to capture: rx, tx or drop"
    );
    assert_eq!(refused(CaptureConfig { max: 0, ..base }), "0 packets: at least 1");
    assert_eq!(refused(CaptureConfig { snap: 9217, ..base }), "9217 bytes of a packet: between 14 and 9216");
    assert!(refused(CaptureConfig { max: 1 << 40, ..base }).contains("more than 256 MiB"));
}

#[test]
fn the_file_holds_the_packets_with_wall_clock_times() {
    let p = pool();
    let mut b = p.buffers();
    let c = capture(10, 100);
    let now = Clock::new().now_ns();
    for len in [200usize, 60] {
        let d = b.alloc_bytes(&vec![len as u8; len]).unwrap();
        c.append(&b, &d, d.l2, Direction::Rx, 1, now + len as u64);
        b.free(d);
    }
    let mut file = Vec::new();
    assert_eq!(c.write(&mut file).unwrap(), 2);
    let (mut reader, mut block) = (Reader::new(file.as_slice()).unwrap(), Block::default());
    reader.read(&mut block, usize::MAX, usize::MAX).unwrap();
    assert_eq!(
        block.records.iter().map(|r| block.frame(r).to_vec()).collect::<Vec<_>>(),
        [vec![60; 60], vec![200; 100]]
    );
    assert_eq!(reader.seen.truncated, 1);
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!(wall.abs_diff(block.records[0].time_ns) < 10_000_000_000);
    // A file that takes nothing leaves the capture as it is, for another.
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert!(c.write_file(&full).is_err());
    let path = std::env::temp_dir().join(format!("quiver-capture-{}", std::process::id()));
    std::fs::write(&path, vec![7; 10_000]).unwrap();
    assert_eq!(c.write_file(&File::options().write(true).open(&path).unwrap()).unwrap(), 2);
    assert_eq!(std::fs::read(&path).unwrap().len(), file.len());
    std::fs::remove_file(path).unwrap();
}
