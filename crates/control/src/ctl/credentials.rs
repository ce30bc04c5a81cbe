//! Who is at the other end of a socket, and the numbers of groups.
//!
//! Upholds: every pointer handed to the C library points to memory that outlives the call, with its true length.
#![allow(unsafe_code)]

use std::ffi::CString;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

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
