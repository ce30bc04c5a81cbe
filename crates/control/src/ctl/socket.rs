//! Makes the socket: mode, group, leftovers of a router that died.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use command::{Access, Role};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use thiserror::Error;

use super::credentials;

/// Where the socket is and who may use it.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The socket's path.
    pub path: PathBuf,
    /// The group whose members may look; the admin group if that is set and this is not, else that of the process.
    pub group: Option<String>,
    /// The group whose members may change things. They reach the socket as members of `group` too.
    pub admin_group: Option<String>,
    /// A connection without a request for so long is closed; none is when absent.
    pub idle_timeout: Option<Duration>,
    /// Who has which role, by names. Where there is one, everybody reaches the socket, and who has none is refused there.
    pub roles: Vec<Role>,
}

/// Why there is no socket.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum BindError {
    #[error("control socket {}: there is no group '{group}'", path.display())]
    NoGroup { path: PathBuf, group: String },
    #[error("control socket {}: there is no user '{user}'", path.display())]
    NoUser { path: PathBuf, user: String },
    #[error("control socket {}: another router is listening on it", path.display())]
    InUse { path: PathBuf },
    #[error("control socket {}: the file exists and is not a socket", path.display())]
    NotASocket { path: PathBuf },
    #[error("control socket {}: cannot {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },
}

/// Who may use a socket.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    pub owner: u32,
    pub group: u32,
    pub admin_group: Option<u32>,
    /// Users with their roles, and groups.
    pub users: Vec<(u32, Access)>,
    pub groups: Vec<(u32, Access)>,
}

impl Policy {
    /// Whether some are named by role.
    pub fn has_roles(&self) -> bool {
        !self.users.is_empty() || !self.groups.is_empty()
    }

    /// What a peer may do: the most that any of its names allows.
    pub fn access(&self, uid: u32, groups: &[u32]) -> Option<Access> {
        if uid == 0 || uid == self.owner || self.admin_group.is_some_and(|admin| groups.contains(&admin)) {
            return Some(Access::Admin);
        }
        let looks = groups.contains(&self.group).then_some(Access::Read);
        let user = self.users.iter().filter(|(user, _)| *user == uid).map(|(_, access)| *access);
        let group = self.groups.iter().filter(|(group, _)| groups.contains(group)).map(|(_, access)| *access);
        looks.into_iter().chain(user).chain(group).max()
    }
}

/// A bound socket; its file goes when this is dropped, unless another one has taken its place.
#[derive(Debug)]
pub(super) struct Socket {
    pub listener: UnixListener,
    pub policy: Policy,
    pub idle_timeout: Option<Duration>,
    file: SocketFile,
}

impl Socket {
    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the socket and, where it is missing, its directory with mode 0755.
pub(super) fn bind(config: &Config) -> Result<Socket, BindError> {
    let path = &config.path;
    let failed = |action| move |source| BindError::Io { path: path.clone(), action, source };
    let group = |name: &Option<String>| match name {
        None => Ok(None),
        Some(name) => match credentials::group_id(name).map_err(failed("look up the group"))? {
            Some(id) => Ok(Some(id)),
            None => Err(BindError::NoGroup { path: path.clone(), group: name.clone() }),
        },
    };
    let admin_group = group(&config.admin_group)?;
    let (mut by_user, mut by_group) = (vec![], vec![]);
    for role in &config.roles {
        for name in &role.groups {
            by_group.extend(group(&Some(name.clone()))?.map(|id| (id, role.access)));
        }
        for user in &role.users {
            let id = credentials::user_id(user).map_err(failed("look up the user"))?;
            let none = || BindError::NoUser { path: path.clone(), user: user.clone() };
            by_user.push((id.ok_or_else(none)?, role.access));
        }
    }
    let group = group(&config.group)?.or(admin_group);

    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        let builder = |dir| fs::DirBuilder::new().mode(0o755).create(dir);
        builder(parent).map_err(failed("create its directory"))?;
        fs::set_permissions(parent, fs::Permissions::from_mode(0o755))
            .map_err(failed("create its directory"))?;
    }
    remove_stale(path)?;

    // Nobody may connect before the group and the mode are set: the file takes the mode that the socket has when it is
    // bound. (A umask would do the same to the files of all other threads.)
    let bound = || -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&socket, 128)?;
        Ok(socket)
    };
    let socket = bound().map_err(|error| failed("bind")(error.into()))?;
    let metadata = fs::symlink_metadata(path).map_err(failed("read its state"))?;
    let file = SocketFile { path: path.clone(), inode: (metadata.dev(), metadata.ino()) };
    // A file has one group: who is in none of the roles is told so by the router.
    let mode = if config.roles.is_empty() { 0o660 } else { 0o666 };
    if let Some(group) = group {
        chown(path, None, Some(group)).map_err(failed("set its group"))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("set its mode"))?;
    let owner = rustix::process::geteuid().as_raw();
    let group = group.unwrap_or(metadata.gid());
    Ok(Socket {
        idle_timeout: config.idle_timeout,
        listener: socket.into(),
        policy: Policy { owner, group, admin_group, users: by_user, groups: by_group },
        file,
    })
}

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |action| move |source| BindError::Io { path: path.to_owned(), action, source };
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed("look for it"))?,
    };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NotASocket { path: path.to_owned() });
    }
    let probe = || -> rustix::io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
    };
    match probe() {
        Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path).map_err(failed("remove the stale one")),
        // A listener whose queue is full answers "again": it lives.
        Ok(()) | Err(rustix::io::Errno::AGAIN) => Err(BindError::InUse { path: path.to_owned() }),
        Err(error) => Err(failed("see whether it is in use")(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("quiver-ctl-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn the_policy() {
        let users = vec![(7, Access::Operate), (8, Access::Read)];
        let groups = vec![(30, Access::Write), (40, Access::Read)];
        let policy = Policy { owner: 500, group: 10, admin_group: Some(20), users, groups };
        assert_eq!(policy.access(0, &[]), Some(Access::Admin));
        assert_eq!(policy.access(500, &[]), Some(Access::Admin));
        assert_eq!(policy.access(1, &[10]), Some(Access::Read));
        assert_eq!(policy.access(1, &[10, 20]), Some(Access::Admin));
        // The most that any of its names allows.
        assert_eq!(policy.access(7, &[]), Some(Access::Operate));
        assert_eq!(policy.access(7, &[10, 40]), Some(Access::Operate));
        assert_eq!(policy.access(8, &[30, 40]), Some(Access::Write));
        assert_eq!(policy.access(9, &[40]), Some(Access::Read));
        assert_eq!(policy.access(1, &[11, 0]), None);
        assert_eq!(Policy { admin_group: None, ..policy }.access(1, &[0]), None);
    }

    #[test]
    fn made_with_mode_and_directory_and_removed() {
        let directory = directory("made");
        let path = directory.join("a/ctl.sock");
        // One directory is made, as for /run/quiver; a path that is wrong further up is a mistake.
        assert!(matches!(
            bind(&Config { path: path.clone(), ..Config::default() }),
            Err(BindError::Io { .. })
        ));
        assert!(!directory.exists());
        fs::create_dir(&directory).unwrap();
        let socket = bind(&Config { path: path.clone(), ..Config::default() }).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o660);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777, 0o755);
        drop(socket);
        assert!(!path.exists());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let directory = directory("stale");
        fs::create_dir(&directory).unwrap();
        let path = directory.join("ctl.sock");
        let config = Config { path: path.clone(), ..Config::default() };
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let live = bind(&config).unwrap();
        let error = bind(&config).unwrap_err();
        assert!(matches!(error, BindError::InUse { .. }), "{error}");
        assert!(path.exists());
        // Whoever takes the name keeps it.
        fs::remove_file(&path).unwrap();
        let second = bind(&config).unwrap();
        drop(live);
        assert!(path.exists());
        drop(second);
        fs::write(&path, "x").unwrap();
        assert!(matches!(bind(&config).unwrap_err(), BindError::NotASocket { .. }));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_unknown_group_is_an_error() {
        let config =
            Config { path: directory("group"), group: Some("no-such-group".to_owned()), ..Config::default() };
        assert!(bind(&config).unwrap_err().to_string().ends_with("there is no group 'no-such-group'"));
        assert!(!config.path.exists());
    }
}
