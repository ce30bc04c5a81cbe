//! The SSH connection that this process is used over.

use std::fs;
use std::net::IpAddr;

/// Processes above this one that are looked at: sudo(8) keeps the variable away from what it starts.
const ABOVE: usize = 16;

/// Its two ends: the client's address, and the one that it has connected to.
pub fn ends() -> Option<(IpAddr, IpAddr)> {
    parse(&variable()?)
}

fn variable() -> Option<String> {
    let own = std::env::var("SSH_CONNECTION").ok();
    own.or_else(|| {
        let mut pid = std::os::unix::process::parent_id();
        for _ in 0..ABOVE {
            if pid <= 1 {
                break;
            }
            let all = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let found = all.split(|b| *b == 0).find_map(|v| v.strip_prefix(b"SSH_CONNECTION="));
            if let Some(found) = found {
                return String::from_utf8(found.to_vec()).ok();
            }
            pid = parent(pid)?;
        }
        None
    })
}

/// The process above another one (proc_pid_stat(5)).
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything: state, parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Client's address and port, the server's address and port (ssh(1)). Addresses of a link have its name behind them: nothing of the
/// router's.
fn parse(text: &str) -> Option<(IpAddr, IpAddr)> {
    let mut ends = text.split(' ').step_by(2).map(|a| a.parse::<IpAddr>().ok().map(|a| a.to_canonical()));
    Some((ends.next()??, ends.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_a_connection() {
        let ends = |text| parse(text).map(|(a, b)| (a.to_string(), b.to_string()));
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(ends("192.0.2.7 50000 192.0.2.1 22"), pair("192.0.2.7", "192.0.2.1"));
        assert_eq!(ends("::ffff:192.0.2.7 50000 2001:db8::1 22"), pair("192.0.2.7", "2001:db8::1"));
        assert_eq!(ends("fe80::1%eth0 50000 fe80::2%eth0 22"), None);
        assert_eq!(ends(""), None);
    }

    #[test]
    fn the_process_above() {
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }
}
