//! Which NUMA node processors and devices belong to, as Linux tells in sysfs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The node of each processor of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes(BTreeMap<usize, u32>);

impl Nodes {
    /// Of this machine; nothing where Linux does not tell.
    pub fn of_machine() -> Nodes {
        Nodes::of(Path::new("/sys"))
    }

    fn of(sys: &Path) -> Nodes {
        let mut cpus = BTreeMap::new();
        for entry in fs::read_dir(sys.join("devices/system/node")).into_iter().flatten().flatten() {
            let Some(node) = number(&entry.file_name(), "node") else { continue };
            let of_node = fs::read_dir(entry.path()).into_iter().flatten().flatten();
            cpus.extend(of_node.filter_map(|e| Some((number(&e.file_name(), "cpu")?, node as u32))));
        }
        Nodes(cpus)
    }

    /// These processors with their nodes.
    pub fn new(cpus: impl IntoIterator<Item = (usize, u32)>) -> Nodes {
        Nodes(cpus.into_iter().collect())
    }

    /// That of a processor.
    pub fn of_cpu(&self, cpu: usize) -> Option<u32> {
        self.0.get(&cpu).copied()
    }
}

/// The node of a Linux device of Quiver's own network namespace, if it has one: sysfs shows no other namespace's.
pub fn of_device(name: &str) -> Option<u32> {
    node(&Path::new("/sys/class/net").join(name).join("device/numa_node"))
}

/// The node of a PCI device, by its address in full.
pub fn of_pci(address: &str) -> Option<u32> {
    node(&Path::new("/sys/bus/pci/devices").join(address).join("numa_node"))
}

/// Linux says -1 for a device that belongs to none.
fn node(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The number behind a word, as in `cpu3`.
fn number(name: &OsStr, word: &str) -> Option<usize> {
    name.to_str()?.strip_prefix(word)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_as_linux_tells_them() {
        let sys = std::env::temp_dir().join(format!("quiver-numa-{}", std::process::id()));
        let nodes = sys.join("devices/system/node");
        for of in [
            "node0/cpu0",
            "node0/cpu1",
            "node0/cpu4",
            "node2/cpu2",
            "node2/cpu3",
            "node3/memory1",
            "power/cpu7",
        ] {
            fs::create_dir_all(nodes.join(of)).unwrap();
        }
        fs::write(nodes.join("node0/cpulist"), "0-1,4\n").unwrap();
        let all = Nodes::of(&sys);
        assert_eq!(all, Nodes::new([(0, 0), (1, 0), (4, 0), (2, 2), (3, 2)]));
        assert_eq!((all.of_cpu(4), all.of_cpu(3), all.of_cpu(7)), (Some(0), Some(2), None));
        // No such machine, and what is read of a device.
        assert_eq!(Nodes::of(&sys.join("none")), Nodes::default());
        for (text, is) in [("1\n", Some(1)), ("-1\n", None), ("", None)] {
            let file = sys.join("numa_node");
            fs::write(&file, text).unwrap();
            assert_eq!(node(&file), is);
        }
        fs::remove_dir_all(&sys).unwrap();
        assert_eq!(of_device("no-such-device"), None);
        // Each processor on which this runs is of some node, if Linux tells at all.
        let here = Nodes::of_machine();
        assert!(here.0.is_empty() || here.of_cpu(0).is_some());
    }
}
