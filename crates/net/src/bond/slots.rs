//! Which member has which flows: each of [`SLOTS`] slots belongs to the member with the highest score there, which is drawn for each
//! slot and member (rendezvous hashing). So a member that is lost takes its own slots along and moves no others, and those that it
//! leaves are shared out among all that stay; and it has the same ones when it comes back. Nothing is to be remembered for that.

/// Slots of a bond.
pub const SLOTS: usize = 4096;
const _: () = assert!(SLOTS.is_power_of_two() && super::MOST_MEMBERS < 256);

/// The slot of a hash: of its high bits.
#[inline(always)]
pub fn slot_of(hash: u32) -> usize {
    (hash >> (32 - SLOTS.trailing_zeros())) as usize
}

/// What a member of this name draws for a slot.
fn score(name: u64, slot: u64) -> u64 {
    let mut state = name ^ slot.wrapping_mul(0xd6e8_feb8_6659_fd93);
    crate::neighbor::random(&mut state)
}

/// A number of a member that a restart does not change, nor what others there are.
pub fn name_of(name: &str) -> u64 {
    // FNV-1a, 64 bits; `score` mixes it.
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The slots of members with these numbers: of each the place of its member in the list; 0 without members.
pub fn assign(members: &[u64]) -> Box<[u8; SLOTS]> {
    let mut slots = Box::new([0; SLOTS]);
    for (slot, to) in slots.iter_mut().enumerate() {
        let best = members.iter().enumerate().max_by_key(|(_, name)| (score(**name, slot as u64), **name));
        *to = best.map_or(0, |(place, _)| place as u8);
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(n: usize) -> Vec<u64> {
        (0..n).map(|n| name_of(&format!("host-eth{n}"))).collect()
    }

    #[test]
    fn a_lost_member_moves_only_its_own_slots() {
        for n in 2..9 {
            let all = names(n);
            let before = assign(&all);
            for lost in 0..n {
                let left: Vec<u64> = all.iter().copied().filter(|m| *m != all[lost]).collect();
                let after = assign(&left);
                let mut to = vec![0; n];
                for (was, now) in before.iter().zip(after.iter()) {
                    let (was, now) = (all[usize::from(*was)], left[usize::from(*now)]);
                    if was == all[lost] {
                        to[left.iter().position(|m| *m == now).unwrap()] += 1;
                    } else {
                        assert_eq!(was, now);
                    }
                }
                // What it leaves goes to all others.
                let moved: usize = to.iter().sum();
                assert!(to[..n - 1].iter().all(|m| m * (n - 1) * 2 > moved), "{to:?}");
            }
        }
    }

    #[test]
    fn slots_are_shared_out_whatever_the_order() {
        for n in [1, 2, 3, 8, 64] {
            let mut all = names(n);
            let one = assign(&all);
            let counts = (0..n).map(|m| one.iter().filter(|s| usize::from(**s) == m).count());
            let fair = SLOTS / n;
            for c in counts {
                assert!(c.abs_diff(fair) < 5 * (fair as f64).sqrt() as usize, "{c} of {SLOTS}, {n} members");
            }
            all.reverse();
            let other = assign(&all);
            assert!(one.iter().zip(other.iter()).all(|(a, b)| usize::from(*a) == n - 1 - usize::from(*b)));
        }
        assert!(assign(&[]).iter().all(|s| *s == 0));
    }

    #[test]
    fn slots_are_of_the_high_bits() {
        assert_eq!((slot_of(0), slot_of(u32::MAX), slot_of(1 << 20)), (0, SLOTS - 1, 1));
    }
}
