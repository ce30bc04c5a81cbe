//! Network namespaces by name, as `ip netns` keeps them: files in `/run/netns` on which a namespace is mounted.

use crate::error::{Error, privileged, system};
use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const FOLDER: &str = "/run/netns";
const ADMIN: &str = "CAP_SYS_ADMIN";

fn path(name: &str) -> Result<String, Error> {
    let bad = name.is_empty() || name.len() > 255 || name == "." || name == "..";
    if bad || name.bytes().any(|b| b == b'/' || b == 0 || b.is_ascii_whitespace()) {
        return Err(Error::NamespaceName { name: name.to_owned() });
    }
    Ok(format!("{FOLDER}/{name}"))
}

fn open(name: &str) -> Result<OwnedFd, Error> {
    let path = path(name)?;
    sys::open(&path, libc::O_RDONLY).map_err(|e| match e.raw_os_error() {
        Some(libc::ENOENT) => Error::NoNamespace { name: name.to_owned() },
        _ => privileged(format!("opening network namespace {name}"), ADMIN)(e),
    })
}

/// Runs `f` in the namespace `name` (in the caller's own for `None`) on a thread of its own: what it opens there stays
/// there. Blocks until `f` is done.
pub fn within<R: Send>(name: Option<&str>, f: impl FnOnce() -> Result<R, Error> + Send) -> Result<R, Error> {
    let Some(name) = name else { return f() };
    let ns = open(name)?;
    on_a_thread(|| {
        sys::set_netns(ns.as_fd()).map_err(|e| match e.raw_os_error() {
            // A file that is no namespace: what is left when its mount is gone.
            Some(libc::EINVAL) => Error::NoNamespace { name: name.to_owned() },
            _ => privileged(format!("entering network namespace {name}"), ADMIN)(e),
        })?;
        f()
    })
}

fn on_a_thread<R: Send>(f: impl FnOnce() -> Result<R, Error> + Send) -> Result<R, Error> {
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(s, f)
            .map_err(system("start a thread for a network namespace"))?;
        thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    })
}

/// True when the namespace can be entered.
pub fn exists(name: &str) -> bool {
    within(Some(name), || Ok(())).is_ok()
}

/// What tells the namespace that has this name now from one that had it before; `None` when there is none.
pub fn identity(name: &str) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path(name).ok()?).ok()?;
    Some((found.dev(), found.ino()))
}

/// The names of all that have one.
pub(crate) fn names() -> Vec<String> {
    let all = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut names: Vec<String> = all.filter_map(|f| f.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Makes the namespace as `ip netns add` does, and has `begin` run in it. False when there is one already.
pub(crate) fn create(name: &str, begin: impl FnOnce() + Send) -> Result<bool, Error> {
    let path = path(name)?;
    match within(Some(name), || Ok(())) {
        Ok(()) => return Ok(false),
        Err(Error::NoNamespace { .. }) => {}
        Err(e) => return Err(e),
    }
    let what = || format!("making network namespace {name}");
    std::fs::create_dir_all(FOLDER).map_err(privileged(what(), ADMIN))?;
    // Shared, so that a mount made here is seen by others, and one undone there goes here too.
    let shared = || sys::mount("", FOLDER, "none", libc::MS_SHARED | libc::MS_REC);
    if let Err(e) = shared() {
        if e.raw_os_error() != Some(libc::EINVAL) {
            return Err(privileged(what(), ADMIN)(e));
        }
        let bind = libc::MS_BIND | libc::MS_REC;
        sys::mount(FOLDER, FOLDER, "none", bind)
            .and_then(|()| shared())
            .map_err(privileged(what(), ADMIN))?;
    }
    sys::open(&path, libc::O_RDONLY | libc::O_CREAT).map_err(privileged(what(), ADMIN))?;
    let made = on_a_thread(|| {
        sys::new_netns().map_err(privileged(what(), ADMIN))?;
        sys::mount("/proc/thread-self/ns/net", &path, "none", libc::MS_BIND)
            .map_err(privileged(what(), ADMIN))?;
        begin();
        Ok(())
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    made.map(|()| true)
}

/// Removes the namespace's name as `ip netns delete` does; it ends when nothing uses it any more.
pub fn remove(name: &str) -> Result<(), Error> {
    let path = path(name)?;
    let what = || format!("removing network namespace {name}");
    if let Err(e) = sys::unmount(&path)
        && !matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT))
    {
        return Err(privileged(what(), ADMIN)(e));
    }
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(privileged(what(), ADMIN)(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_paths_are_refused() {
        for bad in ["", ".", "..", "a/b", "../x", "a b"] {
            assert!(matches!(within(Some(bad), || Ok(())), Err(Error::NamespaceName { .. })), "{bad}");
        }
        let e = within(Some("no-such-namespace"), || Ok(())).err().unwrap();
        assert!(e.to_string().starts_with("there is no network namespace no-such-namespace"), "{e}");
    }
}
