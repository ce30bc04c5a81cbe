//! Writes pcap files: nanoseconds, little-endian, Ethernet.

use std::io;

/// Most bytes of a packet that a file holds.
pub const SNAP: usize = 262_144;
/// Bytes of the file's head.
pub const FILE_HEADER: usize = 24;
/// Bytes in front of each packet.
pub const RECORD_HEADER: usize = 16;

/// The head of a file whose packets hold at most `snap` bytes.
pub fn file_header(snap: u32) -> [u8; FILE_HEADER] {
    let mut h = [0; FILE_HEADER];
    h[0..4].copy_from_slice(&0xa1b2_3c4du32.to_le_bytes());
    h[4..6].copy_from_slice(&2u16.to_le_bytes());
    h[6..8].copy_from_slice(&4u16.to_le_bytes());
    h[16..20].copy_from_slice(&snap.to_le_bytes());
    h[20..24].copy_from_slice(&1u32.to_le_bytes());
    h
}

/// The head of a packet: when (nanoseconds since 1970), bytes in the file, bytes on the wire.
pub fn record_header(time_ns: u64, len: u32, wire: u32) -> [u8; RECORD_HEADER] {
    let mut h = [0; RECORD_HEADER];
    let seconds = u32::try_from(time_ns / 1_000_000_000).unwrap_or(u32::MAX);
    h[0..4].copy_from_slice(&seconds.to_le_bytes());
    h[4..8].copy_from_slice(&((time_ns % 1_000_000_000) as u32).to_le_bytes());
    h[8..12].copy_from_slice(&len.to_le_bytes());
    h[12..16].copy_from_slice(&wire.to_le_bytes());
    h
}

/// Writes a whole file: time, bytes kept and bytes on the wire of each packet.
pub fn write_all<'a>(
    out: &mut impl io::Write,
    snap: u32,
    packets: impl IntoIterator<Item = (u64, &'a [u8], u32)>,
) -> io::Result<()> {
    out.write_all(&file_header(snap))?;
    for (time_ns, bytes, wire) in packets {
        let kept = bytes.get(..SNAP).unwrap_or(bytes);
        out.write_all(&record_header(time_ns, kept.len() as u32, wire))?;
        out.write_all(kept)?;
    }
    out.flush()
}

/// What to add to nanoseconds of the TSC for nanoseconds since 1970.
pub fn wall_offset_ns(clock: &graph::clock::Clock) -> u64 {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX).wrapping_sub(clock.now_ns())
}
