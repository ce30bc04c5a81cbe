use super::*;
use crate::counters::{PerWorker, Table};

crate::counter_group! {
    /// Of a test.
    #[repr(align(64))]
    struct Cook {
        /// Cakes that came
        /// out well.
        good: Packets,
        /// The largest	cake.
        largest_cake: Bytes(Most),
    }
}

const COOK: Group = Group { name: "cook", by: &["oven"], ..Group::NEW };
const SHOP: Group =
    Group { name: "shop", fields: &[Meaning { name: "", unit: Unit::Times, help: "Sold." }], ..Group::NEW };
const LOST: Group = Group { name: "lost", by: &["interface", "reason"], ..Group::NEW };
const SENT: Group = Group { name: "sent", by: &["interface"], ..Group::NEW };

#[test]
#[cfg(not(miri))]
fn another_mapping_reads_by_name_what_workers_count() {
    let registry = Registry::new().unwrap();
    let ovens: Vec<Cells<Cook>> =
        (0..2).map(|w| registry.cells(&COOK, Owner::Worker(w), 3).unwrap()).collect();
    let shop = registry.cells::<Count>(&SHOP, Owner::Control, 1).unwrap();
    registry.name("oven", [("a".into(), "The\nfirst.".into()), ("b\tc".into(), String::new())]);
    assert!(Reader::open(registry.file().unwrap()).unwrap_err().to_string().contains("not a directory"));
    registry.publish().unwrap();
    let reader = Reader::open(registry.file().unwrap()).unwrap();
    let names: Vec<&str> = reader.entries().iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["cook/good", "cook/largest-cake", "shop"]);
    let [good, largest, sold] = reader.entries() else { panic!() };
    assert_eq!(
        (good.help.as_str(), largest.help.as_str()),
        ("Cakes that came out well.", "The largest cake.")
    );
    assert_eq!(
        (good.unit.as_str(), largest.unit.as_str(), sold.unit.as_str()),
        ("packets", "bytes", "times")
    );
    assert_eq!(
        (reader.name("oven", 0), reader.name("oven", 1)),
        (Some(("a", "The first.")), Some(("b c", "")))
    );
    assert_eq!(good.parts.iter().map(|p| p.worker).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert_eq!(sold.parts.iter().map(|p| p.worker).collect::<Vec<_>>(), [None]);
    assert!(reader.entries().iter().flat_map(|e| &e.parts).all(|p| p.at % 4096 < 64), "pages of their own");
    ovens[0][2].good.add(5);
    ovens[1][2].good.add(7);
    ovens[0][1].largest_cake.set(30);
    ovens[1][1].largest_cake.set(20);
    shop[0].add(1);
    assert_eq!(reader.value(good, &[2]).unwrap(), 12);
    assert_eq!(reader.value(largest, &[1]).unwrap(), 30);
    assert_eq!(reader.value(sold, &[]).unwrap(), 1);
    assert!(reader.value(good, &[3]).is_err() && reader.value(good, &[]).is_err());
    let all = |e| reader.values(e, 0).unwrap().0;
    assert_eq!(all(good), [Values { of: vec![2], value: 12, parts: vec![5, 7] }]);
    assert_eq!(all(largest), [Values { of: vec![1], value: 30, parts: vec![30, 20] }]);
    assert_eq!(all(sold), [Values { of: vec![], value: 1, parts: vec![1] }]);
}

#[test]
#[cfg(not(miri))]
fn of_a_million_objects_only_those_are_read_that_were_counted() {
    let registry = Registry::new().unwrap();
    let counters = PerWorker::new(&registry, &SENT, 2).unwrap();
    let lost = registry.rows::<Count, 512>(&LOST, Owner::Worker(0), 1000).unwrap();
    registry.publish().unwrap();
    let reader = Reader::open(registry.file().unwrap()).unwrap();
    let walk = |name: &str| {
        let (mut from, mut found, mut steps) = (Some(0), vec![], 0);
        while let Some(at) = from {
            let (some, next) = reader.values(reader.find(name).unwrap(), at).unwrap();
            found.extend(some.into_iter().map(|v| (v.of, v.value)));
            (from, steps) = (next, steps + 1);
        }
        (found, steps)
    };
    assert_eq!(walk("sent/bytes").0, []);
    let pages = || rustix::fs::fstat(registry.segment.fd().unwrap()).unwrap().st_blocks;
    let before = pages();
    for index in [0, 5, 300_000, crate::counters::OBJECTS as u32 - 1] {
        counters.of(index as usize % 2).count(index, 100 + index as usize);
    }
    let count = |i: u64| (vec![i], 100 + i);
    let (found, steps) = walk("sent/bytes");
    assert_eq!(found, [0, 5, 300_000, crate::counters::OBJECTS as u64 - 1].map(count));
    assert!(steps < 10, "{steps}");
    assert!(lost.get(7, 3).is_none(), "not reserved");
    for (row, column) in [(7, 3), (7, 511), (999, 0)] {
        lost.reserve(row).unwrap();
        lost.get(row, column).unwrap().add(2);
    }
    lost.reserve(1000).unwrap();
    assert!(lost.get(7, 512).is_none() && lost.get(1000, 0).is_none());
    assert_eq!(walk("lost").0, [(vec![7, 3], 2), (vec![7, 511], 2), (vec![999, 0], 2)]);
    walk("sent/packets");
    assert!(pages() - before < 64 * 8, "no memory for what is not counted: {} blocks", pages() - before);
}

#[test]
fn counters_are_declared_once() {
    let registry = Registry::new().unwrap();
    let first = Table::new(&registry, &SENT, 0).unwrap();
    first.count(3, 60);
    let e = Table::new(&registry, &SENT, 0).err().unwrap();
    assert_eq!(e.to_string(), "counters sent of 0 are declared twice, or unlike others");
    assert!(Table::new(&registry, &SENT, 1).is_ok());
    assert!(registry.cells::<Count>(&SENT, Owner::Worker(2), 5).is_err(), "of another size");
    assert!(registry.cells::<Count>(&SHOP, Owner::Worker(2), 5).is_err(), "by nothing");
}

#[test]
#[cfg(not(miri))]
fn nobody_else_writes_the_file() {
    use rustix::fs::{Mode, OFlags};
    use rustix::mm::{MapFlags, ProtFlags};
    let registry = Registry::new().unwrap();
    let file = registry.file().unwrap();
    assert!(rustix::io::write(&file, b"x").is_err());
    assert!(rustix::fs::ftruncate(&file, 0).is_err());
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping, which nothing uses.
    #[allow(unsafe_code)]
    let map = unsafe { rustix::mm::mmap(core::ptr::null_mut(), 4096, access, flags, &file, 0) };
    assert_eq!(map.err(), Some(rustix::io::Errno::ACCESS));
    // Also by its name it does not shrink under a reader.
    if let Ok(own) = rustix::fs::open(registry.path().unwrap(), OFlags::RDWR, Mode::empty()) {
        assert_eq!(rustix::fs::ftruncate(&own, 0).err(), Some(rustix::io::Errno::PERM));
    }
}

#[test]
#[cfg(not(miri))]
fn a_directory_that_changes_is_read_whole() {
    let registry = Registry::new().unwrap();
    let _cells = registry.cells::<Count>(&SHOP, Owner::Control, 1).unwrap();
    registry.publish().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 0..2000 {
                let letter = char::from(b'a' + (n % 26) as u8);
                let name = String::from(letter).repeat(1 + n % 300);
                registry.name("shop", (0..20).map(|_| (name.clone(), name.clone())));
                registry.publish().unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let reader = Reader::open(registry.file().unwrap()).unwrap();
            let names: Vec<_> = (0..20).filter_map(|n| reader.name("shop", n)).collect();
            assert!(names.iter().all(|n| *n == names[0] && n.0 == n.1), "{names:?}");
        }
    });
}

#[test]
fn other_files_are_refused() {
    let (read, _write) = rustix::pipe::pipe().unwrap();
    assert!(Reader::open(read).is_err());
    let zero = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    assert!(Reader::open(zero).is_err());
    for text in
        ["", "quiver-counters\t2\n", "quiver-counters\t1\nby\tx\t1\t1\n", "quiver-counters\t1\ncounter\tx\n"]
    {
        assert!(directory::parse(text).is_err(), "{text:?}");
    }
    let later = "quiver-counters\t1\nnews\tof\tlater\ncounter\tx\tpackets\tsum\thelp\nat\tcontrol\t8\n";
    assert_eq!(directory::parse(later).unwrap().0[0].parts, [Part { worker: None, at: 8 }]);
}

/// In a process of its own: the limit holds for all of it.
#[test]
#[cfg(not(miri))]
fn without_a_file_they_are_counted_all_the_same() {
    const CHILD: &str = "QUIVER_TEST_FILE_SIZE";
    if std::env::var_os(CHILD).is_none() {
        let me = std::env::current_exe().unwrap();
        let name = "registry::tests::without_a_file_they_are_counted_all_the_same";
        let test = std::process::Command::new("prlimit")
            .arg("--fsize=65536")
            .arg(me)
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stdout));
        return;
    }
    let registry = Registry::new().unwrap();
    let table = Table::new(&registry, &SENT, 0).unwrap();
    registry.publish().unwrap();
    table.count(1_000_000, 60);
    assert_eq!(table.get(1_000_000).unwrap().bytes.get(), 60);
    assert!(registry.file().unwrap_err().to_string().contains("ulimit -f") && registry.path().is_none());
}
