//! MAC addresses that the router gives by itself.

use packet::MacAddr;

/// A locally administered address made of the machine's name and of what tells an interface from all others of the machine:
/// neighbours need not learn a new one after a restart.
pub fn of(what: &[&str]) -> MacAddr {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for part in std::iter::once(machine.trim()).chain(what.iter().copied()) {
        for b in part.bytes().chain([0xff]) {
            h = (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    // The multiplications leave the last bytes' traces mostly in the low bits.
    let h = (h ^ (h >> 32)).to_be_bytes();
    MacAddr([0x02, 0xfe, h[4], h[5], h[6], h[7]])
}
