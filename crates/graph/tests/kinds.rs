//! Vectors of several kinds: what sorting them promises, whatever the protocol.

#![allow(clippy::unwrap_used, clippy::panic)]
use graph::node::Never;
use graph::*;
use proptest::prelude::*;
use std::sync::{Arc, mpsc};

edges! { enum Next { Out => "out" } }

/// A packet's number, its kind, and whether the short cut refuses it: all of it in [`Desc::aux`].
fn word(number: usize, kind: u32, odd: bool) -> u32 {
    (number as u32) << 8 | kind << 1 | u32::from(odd)
}

fn kind_of(d: &Desc) -> u32 {
    d.aux >> 1 & 0x7f
}

/// Kinds from here on have no short cut.
const SLOW: u32 = 100;
/// A packet of this kind makes `step` panic.
const POISON: u32 = 120;

/// Marks in [`Desc::hash`] what goes by the short cut.
struct Mark;

impl Node for Mark {
    const NAME: &'static str = "mark";
    type Next = Next;
    type Drop = Never;
    type View<'v> = ();
    fn view<'v>(&'v mut self, _: &'v Guard) {}
    fn step(_: &mut (), p: &mut Packet<'_>) -> node::Step<Next, Never> {
        assert!(kind_of(p.d) != POISON, "poisoned packet");
        p.d.hash = 0;
        Ok(Next::Out)
    }
}

impl QuickNode for Mark {
    type Common<'v> = u32;
    const SORTS: bool = true;

    fn common(_: &(), first: &Desc, _: Rooms<'_>, _: &Guard) -> Option<(Next, u32)> {
        (kind_of(first) < SLOW).then(|| (Next::Out, kind_of(first)))
    }

    fn kinds(_: &mut (), descs: &[Desc], _: Rooms<'_>, kinds: &mut [u32]) {
        kinds.iter_mut().zip(descs).for_each(|(kind, d)| *kind = kind_of(d));
    }

    fn quick(kind: &u32, descs: &mut [Desc], _: Rooms<'_>) -> usize {
        quick::run::<{ flags::UNUSUAL }>(descs, |d| {
            let usual = kind_of(d) == *kind && d.aux & 1 == 0;
            if usual {
                d.hash = 1;
            }
            usual
        })
    }
}

struct Out(mpsc::Sender<Desc>);

impl BatchNode for Out {
    const NAME: &'static str = "out";
    type Next = Never;
    type Drop = Never;
    fn process(&mut self, env: &mut Env, _: &Guard, v: &mut Vector) {
        for d in v.take() {
            let _ = self.0.send(d.words());
            env.buffers.free(d);
        }
    }
}

/// What comes out of one vector of packets of these kinds, and how many buffers are still in use.
fn run(packets: &[(u32, bool)], odd_flags: u16) -> (Vec<Desc>, usize) {
    let pool = Pool::new(PoolConfig { buffers: 512, memory: PoolMemory::Normal }).unwrap();
    let (tx, rx) = mpsc::channel();
    let builder = Builder::new("out").input("test-input", &["mark"], |_, _| Ok(()));
    let (mut dispatcher, _graph) = builder.quick(Mark).batch(Out(tx)).build(&pool, 0).unwrap();
    let mark = dispatcher.id("mark").unwrap();
    for (number, (kind, odd)) in packets.iter().enumerate() {
        let mut d = dispatcher.env.buffers.alloc_bytes(&[0; 64]).unwrap();
        d.aux = word(number, *kind, *odd);
        d.flags |= if *odd { odd_flags } else { 0 };
        dispatcher.env.enqueue(d, mark);
    }
    let domain = Arc::new(Domain::new());
    dispatcher.run(domain.reader(0).guard());
    let out = rx.try_iter().collect();
    (out, pool.in_use())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn each_packet_comes_out_once_and_in_the_order_of_its_kind(
        kinds in prop::collection::vec(prop_oneof![0u32..6, SLOW..SLOW + 3], 1..7),
        choices in prop::collection::vec((any::<prop::sample::Index>(), prop::bool::weighted(0.1)), 1..=256),
        flagged in any::<bool>(),
    ) {
        let packets: Vec<(u32, bool)> = choices.iter().map(|(at, odd)| (*at.get(&kinds), *odd)).collect();
        let (out, in_use) = run(&packets, if flagged { flags::TRACED } else { 0 });
        prop_assert_eq!(in_use, 0);
        let mut all: Vec<u32> = out.iter().map(|d| d.aux).collect();
        for kind in &kinds {
            let of_kind = |aux: &u32| aux >> 1 & 0x7f == *kind;
            let got: Vec<u32> = all.iter().copied().filter(of_kind).collect();
            prop_assert!(got.is_sorted(), "kind {}: {:?}", kind, got);
        }
        all.sort_unstable();
        let want: Vec<u32> = packets.iter().enumerate().map(|(n, (kind, odd))| word(n, *kind, *odd)).collect();
        prop_assert_eq!(all, want);
    }
}

#[test]
fn up_to_four_kinds_go_by_their_short_cuts() {
    for kinds in 1..=4 {
        // One in seven is refused, and one of the kinds has no short cut.
        let packet = |n: usize| ([3, SLOW, 1, 2][n * 31 / 7 % kinds], n % 7 == 6);
        let packets: Vec<(u32, bool)> = (0..256).map(packet).collect();
        for d in run(&packets, 0).0 {
            let usual = kind_of(&d) < SLOW && d.aux & 1 == 0;
            assert_eq!(d.hash == 1, usual, "{kinds} kinds: packet {} of kind {}", d.aux >> 8, kind_of(&d));
        }
    }
}

#[test]
fn a_panic_in_a_sorted_vector_loses_no_buffer() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let packets: Vec<(u32, bool)> =
        (0..100).map(|n| ([1, 2, 3][n % 3], false)).chain([(POISON, true)]).collect();
    let (_, in_use) = run(&packets, 0);
    std::panic::set_hook(hook);
    assert_eq!(in_use, 0);
}
