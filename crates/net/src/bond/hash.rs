//! The hash of a frame, by which a bond chooses the member over which it leaves.
//!
//! All frames of a flow have one hash: fragments are hashed by their addresses, also the first one. Up to two VLAN tags are skipped. A
//! labelled packet is hashed by its entropy label, else by the IP packet below, else by its labels. What is neither counts by its MAC
//! addresses, whatever the balance.

use super::Balance;
use graph::WINDOW;
use packet::IpProtocol;
use packet::eth::{self, EtherType};
use packet::flow::{self, Fields, Flow};
use packet::vlan::{self, VlanStack};
use packet::{ip4, ip6};

/// How frames are hashed.
#[derive(Clone, Copy, Debug)]
pub struct Hash {
    seed: u32,
    balance: Balance,
}

/// No number of a protocol: MAC addresses are hashed with it.
const MACS: IpProtocol = IpProtocol(255);

impl Hash {
    /// By what `balance` says. Choices by the same seed for other ends, as those of paths, are independent of it.
    pub fn new(seed: u32, balance: Balance) -> Hash {
        Hash { seed: seed ^ 0xb0d0_e7e5, balance }
    }

    /// What of packets counts.
    #[inline(always)]
    fn flow(self) -> Flow {
        let fields = match self.balance {
            Balance::L34 => Fields::FIVE_TUPLE,
            Balance::L2 | Balance::L23 => Fields::SRC.with(Fields::DST),
        };
        Flow { seed: self.seed, fields }
    }

    #[inline(always)]
    fn macs(self, addresses: &[u8; 12]) -> u32 {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *addresses;
        let to = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let from = u64::from_be_bytes([0, 0, g, h, i, j, k, l]);
        flow::hash6(from.into(), to.into(), 0, MACS, 0, self.seed)
    }

    /// That of the packet in a frame, with that of the MAC addresses where both count.
    #[inline(always)]
    fn with_macs(self, packet: u32, addresses: &[u8; 12]) -> u32 {
        match self.balance {
            Balance::L23 => flow::hash4(packet, self.macs(addresses), 0, MACS, self.seed),
            Balance::L2 | Balance::L34 => packet,
        }
    }

    /// The hash of a frame that begins with these bytes.
    pub fn of(self, frame: &[u8]) -> u32 {
        let Some(addresses) = frame.first_chunk::<12>() else { return self.seed };
        let link = if self.balance == Balance::L2 { None } else { VlanStack::parse(frame) };
        let Some(link) = link else { return self.macs(addresses) };
        let packet = frame.get(usize::from(link.header_len)..).unwrap_or_default();
        let hash = match link.ethertype {
            EtherType::IPV4 if packet.len() >= ip4::HEADER_LEN => flow::of_ip4(packet, self.flow()),
            EtherType::IPV6 if packet.len() >= ip6::HEADER_LEN => flow::of_ip6(packet, self.flow()),
            EtherType::MPLS if packet.len() >= 4 => flow::of_mpls(packet, self.flow()),
            _ => return self.macs(addresses),
        };
        self.with_macs(hash, addresses)
    }

    /// [`Hash::of`] a frame of `len` bytes from the first ones; `None` where more has to be looked at.
    #[inline(always)]
    pub fn near(self, w: &[u8; WINDOW], len: u16) -> Option<u32> {
        let addresses: &[u8; 12] = w.first_chunk()?;
        if self.balance == Balance::L2 {
            return (len >= 14).then(|| self.macs(addresses));
        }
        let first = EtherType(u16::from_be_bytes([w[12], w[13]]));
        let (at, kind) = match first.is_vlan() {
            false => (eth::HEADER_LEN, first),
            true => (eth::HEADER_LEN + vlan::TAG_LEN, EtherType(u16::from_be_bytes([w[16], w[17]]))),
        };
        let (h, have) = (w.get(at..)?, usize::from(len).checked_sub(at)?);
        let hash = match kind {
            EtherType::IPV4 => {
                let h: &[u8; 24] = h.first_chunk().filter(|h| have >= h.len())?;
                flow::of_ip4_near(h, self.flow())?
            }
            EtherType::IPV6 => {
                let h: &[u8; 44] = h.first_chunk().filter(|h| have >= h.len())?;
                flow::of_ip6_near(h, self.flow())?
            }
            _ => return None,
        };
        Some(self.with_macs(hash, addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const BALANCES: [Balance; 3] = [Balance::L2, Balance::L23, Balance::L34];
    const MAC: &str = "020000000002 020000000001";
    const V4: &str = "0800 4500001c000040004011000001020304 05060708 1000 2000 00080000";

    fn of(balance: Balance, frame: &str) -> u32 {
        Hash::new(7, balance).of(&hex(frame))
    }

    /// Which of the balances tell two frames apart.
    fn differ(a: &str, b: &str) -> [bool; 3] {
        BALANCES.map(|balance| of(balance, a) != of(balance, b))
    }

    #[test]
    fn each_balance_looks_at_its_own_fields() {
        let frame = format!("{MAC} {V4}");
        assert_eq!(differ(&frame, &frame), [false; 3]);
        assert_eq!(differ(&frame, &frame.replace("020000000001", "020000000003")), [true, true, false]);
        assert_eq!(differ(&frame, &frame.replace("05060708", "05060709")), [false, true, true]);
        assert_eq!(differ(&frame, &frame.replace("2000 0008", "2001 0008")), [false, false, true]);
        // Neither tags nor TTL count.
        let tagged = frame.replace("0800 45", "81000064 0800 45");
        let twice = frame.replace("0800 45", "88a80007 81000064 0800 45");
        for other in [frame.replace("4011", "3f11"), tagged, twice] {
            assert_eq!(differ(&frame, &other), [false; 3], "{other}");
        }
    }

    #[test]
    fn fragments_go_by_their_addresses() {
        let first = format!("{MAC} {V4}").replace("4000 4011", "2000 4011").replace("00004000", "00002000");
        let later = first.replace("00002000", "00000005").replace("1000 2000", "ffff eeee");
        assert!(first.contains("00002000"), "{first}");
        assert_eq!(differ(&first, &later), [false; 3]);
    }

    #[test]
    fn labelled_packets_go_by_what_is_inside() {
        let labels = |stack: &str| format!("{MAC} 8847 {stack} {}", &V4[5..]);
        let one = labels("00064140");
        assert_eq!(differ(&one, &labels("000c8140")), [false; 3], "another label");
        assert_eq!(differ(&one, &labels("0006404000064140")), [false; 3], "another one above");
        assert_eq!(differ(&one, &one.replace("05060708", "05060709")), [false, true, true]);
        // Of a pseudowire the labels are all there is to see.
        let wire = |stack: &str| format!("{MAC} 8847 {stack} 00000000 020000000009 020000000008 0800 45");
        assert_eq!(differ(&wire("00064140"), &wire("000c8140")), [false, true, true]);
    }

    #[test]
    fn what_is_no_ip_goes_by_its_addresses() {
        let arp = format!("{MAC} 0806 0001080006040001");
        for balance in BALANCES {
            assert_eq!(of(balance, &arp), of(Balance::L2, &arp));
        }
        // So do frames that are cut off, or have a third tag.
        for odd in ["0800 4500", "8847 00", "8100 00", "8100000181000002810000030800"] {
            let odd = format!("{MAC} {odd}");
            assert_eq!(of(Balance::L34, &odd), of(Balance::L2, &odd), "{odd}");
        }
        assert_eq!(of(Balance::L34, "0200"), of(Balance::L2, "02"));
    }

    #[test]
    fn flows_spread() {
        for balance in BALANCES {
            let frame = |n: u32| {
                let mut f = hex(&format!("{MAC} {V4}"));
                f[8..12].copy_from_slice(&n.to_be_bytes());
                f[26..30].copy_from_slice(&n.to_be_bytes());
                f
            };
            let slots: HashSet<u32> = (0..4096).map(|n| Hash::new(7, balance).of(&frame(n)) >> 20).collect();
            // 4096 balls in as many bins leave 37 % of them empty.
            assert!(slots.len() > 2450, "{balance:?} {}", slots.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn near_is_as_from_the_whole(
            mut w in prop::collection::vec(any::<u8>(), 64..100), kind in 0usize..8, protocol in 0usize..5, len in 14u16..64,
            balance in 0usize..3,
        ) {
            let types: &[&[u8]] = &[
                &[8, 0, 0x45], &[0x86, 0xdd, 0x60], &[0x81, 0, 0, 1, 8, 0, 0x45], &[0x88, 0xa8, 0, 1, 0x86, 0xdd, 0x60],
                &[0x88, 0x47], &[8, 6], &[0x81, 0, 0, 1, 0x81, 0, 0, 2, 8, 0, 0x45], &[8, 0, 0x46],
            ];
            let t = types[kind];
            w[12..12 + t.len()].copy_from_slice(t);
            let at = 12 + t.len() - 1;
            let protocols = [6, 17, 58, 1, 44];
            if w[at] == 0x60 { w[at + 6] = protocols[protocol] } else { w[at + 9] = protocols[protocol] }
            let hash = Hash::new(3, BALANCES[balance]);
            let near = hash.near(w.first_chunk().unwrap(), len);
            let frame = &w[..usize::from(len)];
            prop_assert!(near.is_none_or(|near| near == hash.of(frame)), "{near:?}");
        }
    }
}
