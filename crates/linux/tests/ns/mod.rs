//! A network namespace for a test.

use linux::Sockets;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A namespace with two devices that are up.
pub struct Ns(pub String);

impl Ns {
    pub fn new() -> Ns {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("mirror{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        sh(&format!("ip netns add {name}"));
        let ns = Ns(name);
        ns.batch(
            "link set lo up\nlink add va type veth peer name vb\nlink set va up\nlink set vb up\n\
             addr add 10.0.0.1/24 dev va\naddr add 10.0.1.1/24 dev vb\n\
             addr add fd00::1/64 dev va nodad\naddr add fd00:1::1/64 dev vb nodad\n",
        );
        ns
    }

    pub fn sockets(&self, buffer: usize) -> Sockets {
        self.sockets_for(buffer, true)
    }

    pub fn sockets_for(&self, buffer: usize, routes: bool) -> Sockets {
        let file = std::fs::File::open(format!("/run/netns/{}", self.0)).unwrap();
        std::thread::spawn(move || {
            rustix::thread::move_into_link_name_space(file.as_fd(), None).unwrap();
            Sockets::open(buffer, routes).unwrap()
        })
        .join()
        .unwrap()
    }

    /// Runs lines of `ip`; those that it refuses do nothing.
    pub fn batch(&self, lines: &str) {
        let mut ip = Command::new("ip")
            .args(["-n", &self.0, "-force", "-batch", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        ip.wait().unwrap();
    }
}

impl Drop for Ns {
    fn drop(&mut self) {
        sh(&format!("ip netns del {}", self.0));
    }
}

pub fn sh(line: &str) {
    assert!(Command::new("sh").args(["-c", line]).status().unwrap().success(), "{line}");
}
