use super::super::{random::Random, traffic};
use super::*;
use graph::{Pool, PoolConfig, PoolMemory};
use packet::ip4::Ip4View;
use packet::ip6::Ip6View;
use packet::udp::UdpView;

fn buffers(n: usize) -> Buffers {
    Pool::new(PoolConfig { buffers: n, memory: PoolMemory::Normal }).unwrap().buffers()
}

fn feed(traffic: &Traffic, control: &Arc<Control>) -> Feed {
    control.open.store(true, Ordering::Relaxed);
    Feed::new(7, 0, 1, traffic, Arc::clone(control))
}

fn frames(b: &Buffers, v: &Vector) -> Vec<Vec<u8>> {
    let frame = |d: &Desc| {
        let mut bytes = vec![0; b.total_len(d)];
        assert_eq!(b.copy_out(d, 0, &mut bytes), bytes.len());
        bytes
    };
    v.as_slice().iter().map(frame).collect()
}

fn dst4(frame: &[u8]) -> u32 {
    // Checks the header checksum.
    Ip4View::parse(&frame[14..]).unwrap().fixed().dst_u32()
}

fn dst6(frame: &[u8]) -> [u8; 16] {
    let ip = Ip6View::parse(&frame[14..]).unwrap();
    let (src, dst) = (ip.fixed().src(), ip.fixed().dst());
    assert!(UdpView::parse(ip.payload()).unwrap().verify6(src, dst), "{frame:?}");
    dst.octets()
}

#[test]
fn every_packet_is_right_and_destinations_take_turns() {
    let mut random = Random::new(3);
    let list4: Vec<u32> = (0..100).map(|_| random.next() as u32).collect();
    let list6: Vec<[u8; 16]> = (0..100).map(|_| random.wide().to_be_bytes()).collect();
    for size in [64, 65, 1518, 3000] {
        let kinds = [traffic::ip4(size, 0).unwrap(), traffic::ip6(size, 0).unwrap()];
        for (n, order) in [(1, vec![0]), (2, vec![0]), (3, vec![0, 1])] {
            let templates: Vec<Template> =
                kinds.iter().enumerate().filter(|(i, _)| n & 1 << i != 0).map(|(_, t)| t.clone()).collect();
            let t = Traffic {
                templates,
                order,
                dst4: list4.clone().into(),
                dst6: list6.clone().into(),
                ..Traffic::default()
            };
            let (mut b, mut v) = (buffers(2048), Vector::boxed());
            let mut f = feed(&t, &Arc::default());
            assert_eq!(f.poll(&mut b, 0, &mut v), 256);
            let (mut four, mut six) = (list4.iter().cycle(), list6.iter().cycle());
            for (i, frame) in frames(&b, &v).iter().enumerate() {
                assert_eq!(frame.len(), size);
                match n == 1 || n == 3 && i % 2 == 0 {
                    true => assert_eq!(dst4(frame), *four.next().unwrap()),
                    false => assert_eq!(&dst6(frame), six.next().unwrap()),
                }
            }
            assert!(
                v.as_slice().iter().all(|d| d.rx == 7 && usize::from(d.off) == HEADROOM && d.l2 == d.off)
            );
            b.free_all(v.take());
            assert_eq!(b.pool().in_use(), 0);
        }
    }
}

#[test]
fn a_rate_is_kept_and_what_no_ring_would_hold_is_missed() {
    let t = Traffic {
        templates: vec![traffic::ip4(64, 0).unwrap()],
        order: vec![0],
        dst4: [1].into(),
        ..Traffic::default()
    };
    let control = Arc::new(Control::default());
    let mut f = feed(&t, &control);
    // Three packets in two clocks, so that the rest of a clock counts.
    control.pps.store(f.hz * 3 / 2, Ordering::Relaxed);
    let (mut now, mut made) = (1000, 0);
    let take = |f: &mut Feed, now: u64, want: usize| {
        let n = f.allowed(now, want);
        (0..n).for_each(|_| f.pass());
        n
    };
    for _ in 0..1000 {
        made += take(&mut f, now, 256);
        now += 20;
    }
    assert!((made as i64 - 999 * 30).abs() <= 2, "{made} packets in 19,980 clocks");
    assert_eq!(control.missed.load(Ordering::Relaxed), 0);
    now += 1_000_000;
    let mut late = 0;
    while let n @ 1.. = take(&mut f, now, 256) {
        late += n as u64;
    }
    assert_eq!(late, RING);
    assert!((control.missed.load(Ordering::Relaxed) + RING).abs_diff(1_500_000) < 50);
    assert_eq!(take(&mut f, now + 200, 256), 256, "300 are due, and a vector holds 256");
}

#[test]
fn stamps_are_where_the_sink_looks_for_them() {
    let t = Traffic {
        templates: vec![traffic::ip4(64, 0).unwrap()],
        order: vec![0],
        dst4: [1].into(),
        ..Traffic::default()
    };
    let control = Arc::new(Control::default());
    control.stamp.store(true, Ordering::Relaxed);
    let (mut b, mut v) = (buffers(512), Vector::boxed());
    let before = tsc();
    feed(&t, &control).poll(&mut b, 0, &mut v);
    let frame = &frames(&b, &v)[0];
    assert_eq!(dst4(frame), 1, "the header is untouched");
    let at = |n: usize| u64::from_le_bytes(*frame[n..].first_chunk().unwrap());
    assert!((before..=tsc()).contains(&at(STAMP)) && at(STAMP) == at(STAMP + 8));
}

#[test]
fn a_closed_feed_sends_nothing() {
    let control = Arc::new(Control::default());
    let mut f = feed(&Traffic::default(), &control);
    assert_eq!(f.ready(), Ready::Now);
    control.open.store(false, Ordering::Relaxed);
    assert_eq!((f.poll(&mut buffers(64), 0, &mut Vector::boxed()), f.ready()), (0, Ready::Never));
}

#[test]
fn a_queue_keeps_still_while_another_sends_alone() {
    let (mut b, control) = (buffers(1024), Arc::new(Control::default()));
    let traffic =
        Traffic { templates: vec![traffic::ip4(64, 0).unwrap()], order: vec![0], ..Traffic::default() };
    let mut feed = feed(&traffic, &control);
    let polled = |alone: usize| {
        control.alone.store(alone, Ordering::Relaxed);
        let mut v = Vector::boxed();
        let n = feed.poll(&mut b, 0, &mut v);
        b.free_all(v.take());
        (n, matches!(feed.ready(), Ready::Now))
    };
    assert_eq!([0, 1, 2, 0].map(polled), [(256, true), (256, true), (0, false), (256, true)]);
}
