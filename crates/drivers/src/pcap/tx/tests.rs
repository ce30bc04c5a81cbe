use super::*;
use crate::pcap::format::{Block, Reader};
use graph::buffer::{Pool, PoolConfig, PoolMemory};
use graph::desc::Desc;
use std::sync::{Arc, Mutex};

/// A file with room for some bytes.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: Arc<Mutex<usize>>,
}

impl Disk {
    fn new(room: usize) -> Self {
        Disk { bytes: Arc::default(), room: Arc::new(Mutex::new(room)) }
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut have = self.bytes.lock().unwrap();
        let n = bytes.len().min(*self.room.lock().unwrap() - have.len());
        if n == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        have.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Disk {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().truncate(len as usize);
        Ok(())
    }
}

fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut block = Block::default();
    assert!(!reader.read(&mut block, usize::MAX, usize::MAX).unwrap());
    assert!(!reader.seen.cut, "a reader sees whole records only");
    block.records.iter().map(|r| block.frame(r).to_vec()).collect()
}

#[test]
fn packets_are_in_the_file_after_a_flush() {
    let pool = Pool::new(PoolConfig { buffers: 128, memory: PoolMemory::Normal }).unwrap();
    let mut b = pool.buffers();
    let disk = Disk::new(usize::MAX);
    let mut tx = PcapTx::new(disk.clone()).unwrap();
    let packets: Vec<Vec<u8>> = [60usize, 9000, 1514, 20_000].map(|n| vec![n as u8; n]).to_vec();
    let mut descs: Vec<Desc> = packets.iter().map(|p| b.alloc_bytes(p).unwrap()).collect();
    assert_eq!(tx.send(&mut b, Packets::drain(&mut descs)), TxReport::default());
    assert_eq!(pool.in_use(), 0, "the queue keeps no buffers");
    assert_eq!(frames(&disk.bytes.lock().unwrap()), Vec::<Vec<u8>>::new());
    let want = TxReport { packets: 4, bytes: 60 + 9000 + 1514 + 20_000, ..TxReport::default() };
    assert_eq!(tx.flush(&mut b), want);
    assert_eq!(frames(&disk.bytes.lock().unwrap()), packets);
    assert_eq!(tx.flush(&mut b), TxReport::default());
}

#[test]
fn a_full_disk_is_counted_and_leaves_whole_records() {
    let pool = Pool::new(PoolConfig { buffers: 128, memory: PoolMemory::Normal }).unwrap();
    let mut b = pool.buffers();
    let disk = Disk::new(24 + 3 * 116 + 50);
    let mut tx = PcapTx::new(disk.clone()).unwrap();
    let mut send = |tx: &mut PcapTx<Disk>, n: usize| {
        let mut descs: Vec<Desc> = (0..n).map(|_| b.alloc_bytes(&[7; 100]).unwrap()).collect();
        let mut report = tx.send(&mut b, Packets::drain(&mut descs));
        report.add(tx.flush(&mut b));
        (report.packets, report.errors)
    };
    assert_eq!(send(&mut tx, 2), (2, 0));
    assert_eq!(send(&mut tx, 2), (0, 2));
    assert_eq!(frames(&disk.bytes.lock().unwrap()).len(), 2);
    assert_eq!(send(&mut tx, 1), (1, 0), "a smaller piece still fits");
    *disk.room.lock().unwrap() = 100_000;
    assert_eq!(send(&mut tx, 10), (10, 0), "it goes on when there is room again");
    assert_eq!(frames(&disk.bytes.lock().unwrap()).len(), 13);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_vector_beyond_the_buffer_is_written_in_pieces() {
    let pool = Pool::new(PoolConfig { buffers: 9000, memory: PoolMemory::Normal }).unwrap();
    let mut b = pool.buffers();
    let disk = Disk::new(usize::MAX);
    let mut tx = PcapTx::new(disk.clone()).unwrap();
    let mut descs: Vec<Desc> = (0..256).map(|_| b.alloc_bytes(&vec![1; 65_000]).unwrap()).collect();
    let mut report = tx.send(&mut b, Packets::drain(&mut descs));
    assert!(report.packets > 200);
    report.add(tx.flush(&mut b));
    assert_eq!((report.packets, report.errors), (256, 0));
    assert_eq!(frames(&disk.bytes.lock().unwrap()).len(), 256);
    assert_eq!(pool.in_use(), 0);
}
