//! Who is at the other end of a socket, names of users, and the numbers of groups.
//!
//! Upholds: every pointer handed to the C library points to memory that outlives the call, with its true length.
#![allow(unsafe_code)]

use crate::saved::{Author, plain};
use command::Caller;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The supplementary groups that the peer of a Unix socket had when it connected.
pub(super) fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let bytes = groups.len() * size_of::<libc::gid_t>();
        let mut length = libc::socklen_t::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: `groups` has `length` writable bytes; the kernel writes at most that many and updates `length`.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = length as usize / size_of::<libc::gid_t>();
        if status == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

/// The number of the group called `name`; `None` when there is no such group.
pub(super) fn group_id(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name).map_err(io::Error::other)?;
    let mut buffer = vec![0u8; 4096];
    loop {
        let mut entry = std::mem::MaybeUninit::<libc::group>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: `name` ends in NUL; `entry`, `found` and the buffer with its length are valid for the call.
        let status = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        match status {
            libc::ERANGE if buffer.len() < 1 << 22 => buffer.resize(buffer.len() * 2, 0),
            0 if found.is_null() => return Ok(None),
            // SAFETY: `found` is not null, so the call filled `entry`.
            0 => return Ok(Some(unsafe { entry.assume_init() }.gr_gid)),
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Looks for an entry of a user with `get`, and answers what `take` makes of it.
fn user<R>(
    get: impl Fn(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> libc::c_int,
    take: impl Fn(&libc::passwd) -> R,
) -> io::Result<Option<R>> {
    let mut buffer = vec![0u8; 4096];
    loop {
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        match get(entry.as_mut_ptr(), &mut buffer, &raw mut found) {
            libc::ERANGE if buffer.len() < 1 << 22 => buffer.resize(buffer.len() * 2, 0),
            0 if found.is_null() => return Ok(None),
            // SAFETY: `found` is not null, so the call filled `entry`.
            0 => return Ok(Some(take(unsafe { entry.assume_init_ref() }))),
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// The name of a user; `None` when there is no such user.
fn user_name(id: u32) -> Option<String> {
    let get = |entry, buffer: &mut [u8], found| {
        // SAFETY: all pointers are valid for the call, and the buffer has the length that is told.
        unsafe { libc::getpwuid_r(id, entry, buffer.as_mut_ptr().cast(), buffer.len(), found) }
    };
    // SAFETY: the name of an entry ends in NUL, and lies in the buffer that `user` still has.
    let name = |entry: &libc::passwd| unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned();
    user(get, name).ok().flatten()
}

/// The number of the user called `name`; `None` when there is no such user.
pub(super) fn user_id(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name).map_err(io::Error::other)?;
    let get = |entry, buffer: &mut [u8], found| {
        // SAFETY: `name` ends in NUL; all pointers are valid for the call, and the buffer has the length that is told.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr().cast(), buffer.len(), found) }
    };
    user(get, |entry| entry.pw_uid)
}

/// Who gives a command, and from where: the SSH client of which the client tells, the terminal and the process at the other end of the
/// socket. That may have ended meanwhile: then its number is all that is known. Over TLS it is the name in the certificate, and an address.
pub fn author(caller: Option<&Caller>) -> Author {
    if let Some(Caller { user, remote: Some(remote), .. }) = caller {
        return Author { user: *user, name: plain(&remote.name), from: format!("TLS {}", remote.address) };
    }
    let own = rustix::process::geteuid().as_raw();
    let user = caller.map_or(own, |c| c.user);
    let process = caller.and_then(|c| c.process).map(process);
    let ssh = caller.and_then(|c| c.ssh).map(|a| format!("ssh {a}"));
    let from = ssh.into_iter().chain(process).collect::<Vec<_>>().join(", ");
    Author { user, name: plain(&user_name(user).unwrap_or_default()), from: plain(&from) }
}

fn process(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    // Behind the name, which may hold anything: state, parent, group, session, terminal.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest);
    let terminal = fields.and_then(|f| f.split_whitespace().nth(4)?.parse::<u32>().ok());
    let on = terminal.and_then(terminal_name).map(|t| format!("{t}, ")).unwrap_or_default();
    format!("{on}{}[{pid}]", name.trim_end())
}

/// The name of a terminal by its device number.
fn terminal_name(device: u32) -> Option<String> {
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
    match major {
        136..=143 => Some(format!("pts/{}", minor + ((major - 136) << 8))),
        4 if minor < 64 => Some(format!("tty{minor}")),
        4 => Some(format!("ttyS{}", minor - 64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_gives_a_command() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(user_name(4_000_000_000), None);
        assert_eq!(user_id("root").unwrap(), Some(0));
        assert_eq!(user_id("no-such-user-here").unwrap(), None);
        let pid = std::process::id();
        let access = command::Access::Write;
        let caller =
            Caller { access, user: 0, group: 0, groups: vec![], process: Some(pid), ssh: None, remote: None };
        let author = author(Some(&caller));
        assert_eq!((author.user, author.name.as_str()), (0, "root"));
        assert!(author.from.ends_with(&format!("[{pid}]")), "{author:?}");
        let remote = Some(command::Remote { name: "fleet".into(), address: [192, 0, 2, 7].into() });
        let author = super::author(Some(&Caller { remote, user: command::NOBODY, ..caller }));
        assert_eq!(
            (author.user, author.name.as_str(), author.from.as_str()),
            (65_534, "fleet", "TLS 192.0.2.7")
        );
        assert_eq!(terminal_name((136 << 8) | 3).as_deref(), Some("pts/3"));
        assert_eq!(terminal_name((137 << 8) | 3).as_deref(), Some("pts/259"));
        assert_eq!(terminal_name(0), None);
    }

    #[test]
    fn groups_of_this_machine() {
        assert_eq!(group_id("root").unwrap(), Some(0));
        assert_eq!(group_id("no-such-group-here").unwrap(), None);
        assert!(group_id("nul\0").is_err());
    }

    #[test]
    fn own_groups_are_seen_at_the_other_end() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut seen = peer_groups(one.as_fd()).unwrap();
        let mut own: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|g| g.as_raw()).collect();
        seen.sort_unstable();
        own.sort_unstable();
        assert_eq!(seen, own);
    }
}
