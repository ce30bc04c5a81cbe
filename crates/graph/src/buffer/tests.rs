use super::*;
use proptest::prelude::*;

fn pool(n: usize) -> Arc<Pool> {
    Pool::new(PoolConfig { buffers: n, memory: PoolMemory::Normal }).unwrap()
}

#[test]
fn layout() {
    assert_eq!(size_of::<Meta>(), 64);
    assert_eq!(STRIDE % 64, 0);
    assert_eq!((STRIDE / 64) % 2, 1, "an odd number of lines");
}

#[test]
fn all_buffers_come_back() {
    let p = pool(1000);
    let (mut a, mut b) = (p.buffers(), p.buffers());
    let mut got: Vec<Buffer> = std::iter::from_fn(|| a.alloc()).collect();
    assert_eq!(got.len(), 1000);
    got.sort_unstable_by_key(Buffer::number);
    got.dedup();
    assert_eq!(got.len(), 1000, "no buffer twice");
    assert_eq!(p.in_use(), 1000);
    assert_eq!(a.failures(), 1);
    for buf in got {
        b.free_one(buf);
    }
    assert_eq!(p.in_use(), 0);
    drop((a, b));
    assert_eq!(p.global_free(), 1000);
}

#[test]
fn several_are_taken_or_none() {
    let p = pool(100);
    let mut b = p.buffers();
    let (mut most, mut rest) = ([0; 90], [0; 11]);
    assert!(b.take(&mut most) && !b.take(&mut rest));
    assert_eq!(p.in_use(), 90);
    assert!(b.take(&mut rest[..10]));
    let mut all: Vec<u32> = most.iter().chain(&rest[..10]).copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<u32>>());
    b.free_each(all.into_iter().map(Buffer));
    assert_eq!(p.in_use(), 0);
    drop(b);
    // A device's, of which it is not known yet that they came back.
    let lent = p.lend_one().unwrap();
    p.lend_more(-3);
    assert_eq!((p.lent(), p.global_free()), (0, 99));
    p.lend_more(3);
    assert_eq!((p.lent(), p.in_use()), (1, 0));
    p.give_back(lent);
    assert_eq!((p.lent(), p.global_free()), (0, 100));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "freed twice")]
fn a_double_free_is_caught() {
    let p = pool(64);
    let mut b = p.buffers();
    let buf = b.alloc().unwrap();
    // SAFETY: none, which is the point.
    let again = unsafe { Buffer::from_number(buf.number()) };
    b.free_one(buf);
    b.free_one(again);
}

#[test]
fn too_many_or_too_few_are_refused() {
    assert!(matches!(
        Pool::new(PoolConfig { buffers: 3, memory: PoolMemory::Normal }),
        Err(PoolError::Count(3))
    ));
    let e = Pool::new(PoolConfig { buffers: 1 << 24, memory: PoolMemory::Normal }).err().unwrap();
    assert!(e.to_string().contains("MiB"), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn chains_hold_their_bytes(len in 0usize..12_000, cut in 0usize..13_000, at in 0usize..12_000) {
        let p = pool(64);
        let mut b = p.buffers();
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut d = b.alloc_bytes(&bytes).unwrap();
        prop_assert_eq!(b.total_len(&d), len);
        prop_assert_eq!(b.parts(&d).flatten().copied().collect::<Vec<_>>(), bytes.clone());
        let mut out = vec![0; 100];
        let n = b.copy_out(&d, at, &mut out);
        prop_assert_eq!(&out[..n], &bytes[at.min(len)..(at + 100).min(len).max(at.min(len))]);
        b.trim(&mut d, cut);
        prop_assert_eq!(b.parts(&d).flatten().copied().collect::<Vec<_>>(), bytes[..cut.min(len)].to_vec());
        b.free(d);
        prop_assert_eq!(p.in_use(), 0);
    }
}

#[test]
fn bytes_are_copied_from_room_to_room() {
    let p = pool(64);
    let mut b = p.buffers();
    let (from, to) = (b.alloc().unwrap(), b.alloc().unwrap());
    b.room_mut(&from).fill(7);
    b.room_mut(&to).fill(0);
    b.copy_room(&from, &to, 100..103);
    assert_eq!(b.room(&to)[99..104], [0, 7, 7, 7, 0]);
    b.copy_room(&from, &to, ROOM - 1..ROOM + 9);
    b.copy_room(&from, &to, ROOM + 1..ROOM + 9);
    assert_eq!(b.room(&to).iter().filter(|byte| **byte == 7).count(), 4, "none beyond the room");
    b.free_one(from);
    b.free_one(to);
}

#[test]
fn running_out_in_a_chain_keeps_nothing() {
    let p = pool(64);
    let mut b = p.buffers();
    assert!(b.alloc_bytes(&vec![1; 64 * ROOM]).is_none());
    assert_eq!(p.in_use(), 0);
}
