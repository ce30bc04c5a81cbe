//! Packets as pieces, without the library.

use super::abi::{BURST, CHAIN, Piece, bits, can};
use super::piece::{Waiting, offloads, take};
use crate::counts::Drops;
use graph::buffer::{HEADROOM, ROOM};
use graph::{Buffers, Desc, Pool, PoolConfig, PoolMemory, Vector, flags};
use packet::gso::VnetHdr;
use proptest::prelude::*;
use std::sync::Arc;

fn pool() -> Arc<Pool> {
    Pool::new(PoolConfig { buffers: 512, memory: PoolMemory::Normal }).unwrap()
}

/// A buffer with bytes that tell where they were.
fn piece(b: &mut Buffers, off: u16, len: u16, flags: u16) -> Piece {
    let buf = b.alloc().unwrap();
    let from = usize::from(off).min(ROOM);
    let end = (from + usize::from(len)).min(ROOM);
    let number = buf.number();
    b.room_mut(&buf)[from..end]
        .iter_mut()
        .enumerate()
        .for_each(|(n, byte)| *byte = (n as u32 + number) as u8);
    Piece { buf: number, off, len, flags, ..Piece::default() }
}

fn bytes_of(p: &Piece) -> Vec<u8> {
    (0..u32::from(p.len)).map(|n| (n + p.buf) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever comes: what is whole comes out in order, byte by byte, all else is counted, and no buffer is lost.
    #[test]
    fn any_pieces_are_taken_or_counted(
        all in prop::collection::vec(
            (prop_oneof![4 => Just(128u16), 1 => 0u16..2300, 1 => any::<u16>()],
             prop_oneof![4 => 1u16..200, 1 => Just(0u16), 1 => 2000u16..2300, 1 => any::<u16>()],
             prop::bool::weighted(0.4)),
            0..60),
    ) {
        let p = pool();
        let (mut b, mut out, drops) = (p.buffers(), Vector::boxed(), Drops::default());
        let pieces: Vec<Piece> = all
            .iter()
            .map(|(off, len, more)| piece(&mut b, *off, *len, if *more { bits::MORE } else { 0 }))
            .collect();
        let (mut want, mut bad, mut rest) = (vec![], 0, &pieces[..]);
        while !rest.is_empty() {
            let end = rest.iter().position(|p| p.flags & bits::MORE == 0).map(|n| n + 1);
            let (one, others) = rest.split_at(end.unwrap_or(rest.len()));
            rest = others;
            let within = one.iter().all(|p| usize::from(p.off) + usize::from(p.len) <= ROOM);
            let bytes: Vec<u8> = if within { one.iter().flat_map(bytes_of).collect() } else { vec![] };
            if end.is_none() || bytes.is_empty() { bad += 1 } else { want.push(bytes) }
        }
        take(&pieces, 7, &mut b, &mut out, &drops);
        let got: Vec<Vec<u8>> =
            out.as_slice().iter().map(|d| b.parts(d).flatten().copied().collect()).collect();
        prop_assert_eq!(got, want);
        prop_assert!(out.as_slice().iter().all(|d| d.rx == 7 && d.l2 == d.off));
        prop_assert_eq!(drops.read().malformed, bad);
        b.free_all(out.take());
        prop_assert_eq!(p.in_use(), 0);
    }

    /// Packets become pieces of which some are taken: those are the device's, the others are free.
    #[test]
    fn what_is_not_sent_comes_back(lens in prop::collection::vec(1usize..5000, 1..40), taken in 0usize..40) {
        let p = pool();
        let (mut b, mut w) = (p.buffers(), Waiting::new(BURST));
        let (mut bytes, mut buffers) = (vec![], vec![]);
        for len in lens {
            let d = b.alloc_bytes(&vec![5; len]).unwrap();
            let n = b.count(&d);
            if !w.has_room(n as usize) {
                b.free(d);
                break;
            }
            bytes.push(len as u64);
            buffers.push(n as usize);
            if n == 1 { w.put(d, Piece::default()) } else { w.put_chain(&mut b, d, Piece::default()) }
        }
        let taken = taken.min(w.len());
        prop_assert_eq!(w.len(), bytes.len());
        prop_assert_eq!(w.pieces_of(taken), buffers[..taken].iter().sum::<usize>());
        let ends = w.pieces().iter().filter(|p| p.flags & bits::MORE == 0).count();
        prop_assert_eq!(ends, w.len());
        let sent: Vec<Piece> = w.pieces()[..w.pieces_of(taken)].to_vec();
        prop_assert_eq!(w.settle(taken, &mut b), bytes[..taken].iter().sum::<u64>());
        prop_assert_eq!(p.in_use(), sent.len());
        b.free_each(sent.iter().map(|p| super::pool::from(p.buf)));
        prop_assert_eq!((p.in_use(), w.len()), (0, 0));
    }
}

#[test]
fn what_the_device_has_checked_is_marked() {
    let p = pool();
    let (mut b, mut out, drops) = (p.buffers(), Vector::boxed(), Drops::default());
    let said = [0, bits::CHECKED, bits::CHECKED | bits::MORE, 0];
    let pieces = said.map(|flags| piece(&mut b, HEADROOM as u16, 64, flags));
    take(&pieces, 1, &mut b, &mut out, &drops);
    let marks: Vec<bool> = out.as_slice().iter().map(|d| d.has(flags::CSUM_VALID)).collect();
    assert_eq!(marks, [false, true, true]);
    b.free_all(out.take());
}

#[test]
fn empty_buffers_of_a_chain_go_back() {
    let p = pool();
    let mut b = p.buffers();
    let mut w = Waiting::new(BURST);
    let mut d = b.alloc_bytes(&vec![1; 4000]).unwrap();
    d.len = 0;
    w.put_chain(&mut b, d, Piece { flags: bits::TCP, ..Piece::default() });
    assert_eq!((w.pieces().len(), w.len(), w.pieces()[0].flags), (1, 1, bits::TCP));
    assert_eq!(p.in_use(), 1);
    w.settle(0, &mut b);
    assert_eq!(p.in_use(), 0);
    assert!(w.has_room(BURST + CHAIN) && !w.has_room(BURST + CHAIN + 1));
}

/// A frame with these headers, and where its checksum is partial.
fn frame(tags: &[u8], kind: u16, ip: &[u8], l4: &[u8]) -> Vec<u8> {
    [&[2; 12], tags, &kind.to_be_bytes(), ip, l4, &[9; 100]].concat()
}

#[test]
fn a_device_does_what_it_can() {
    let p = pool();
    let mut b = p.buffers();
    let ip4 = |protocol| {
        let mut h = [0; 20];
        (h[0], h[9]) = (0x45, protocol);
        h
    };
    let mut options = [0; 24];
    (options[0], options[9]) = (0x46, 6);
    let mut ip6 = [0; 40];
    (ip6[0], ip6[6]) = (0x60, 17);
    let mut tcp = [0; 24];
    tcp[12] = 0x60;
    let all = can::TCP | can::UDP | can::TSO;
    let tso = VnetHdr::GSO_TCPV4 | VnetHdr::GSO_ECN;
    let one = |flags, l2, l3, l4, segment| Some(Piece { flags, l2, l3, l4, segment, ..Piece::default() });
    let tagged = frame(&[0x81, 0, 0, 5], 0x0800, &options, &tcp);
    let udp = frame(&[], 0x86dd, &ip6, &[0; 8]);
    let plain = frame(&[], 0x0800, &ip4(6), &tcp);
    for (bytes, start, offset, gso, able, want) in [
        (&plain, 34, 16, None, all, one(bits::TCP | bits::IP4, 14, 20, 24, 0)),
        (&plain, 34, 16, Some(tso), all, one(bits::TCP | bits::IP4 | bits::SEGMENT, 14, 20, 24, 1400)),
        (&plain, 34, 16, Some(VnetHdr::GSO_TCPV6), all, None),
        (&plain, 34, 16, Some(tso), can::TCP, None),
        (&plain, 34, 16, None, can::UDP, None),
        // Of a packet inside of another, or of another protocol.
        (&plain, 54, 16, None, all, None),
        (&plain, 34, 6, None, all, None),
        (&tagged, 42, 16, None, all, one(bits::TCP | bits::IP4, 18, 24, 24, 0)),
        (&udp, 54, 6, None, all, one(bits::UDP, 14, 40, 8, 0)),
        (&udp, 54, 6, Some(VnetHdr::GSO_UDP_L4), all, None),
        (
            &udp,
            54,
            6,
            Some(VnetHdr::GSO_UDP_L4),
            all | can::USO,
            one(bits::UDP | bits::SEGMENT, 14, 40, 8, 1400),
        ),
        (&frame(&[], 0x0800, &ip4(1), &tcp), 34, 16, None, all, None),
        (&frame(&[], 0x8847, &ip4(6), &tcp), 34, 16, None, all, None),
    ] {
        let mut d = b.alloc_bytes(bytes).unwrap();
        d.flags |= flags::CSUM_PARTIAL | if gso.is_some() { flags::GSO } else { 0 };
        let m = b.meta_mut(&d.buf);
        (m.csum_start, m.csum_offset) = (d.off + start, offset);
        (m.gso_type, m.gso_size) = (gso.unwrap_or(0), 1400);
        assert_eq!(offloads(&b, &d, able), want, "{start} {offset} {gso:?} {able}");
        b.free(d);
    }
    let short = Desc { len: 40, ..b.alloc_bytes(&plain).unwrap() };
    let m = b.meta_mut(&short.buf);
    (m.csum_start, m.csum_offset) = (short.off + 34, 16);
    assert_eq!(offloads(&b, &short, all), None, "its header is not whole");
    b.free(short);
}
