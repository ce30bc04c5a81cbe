//! Files that somebody names: opened with the rights of who names them, never waited for, and not overwritten unasked.

use crate::identity::Identity;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// With whose rights files are opened, and whether one that is there may be overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Who names them; the router itself, which has its own rights, when absent.
    pub who: Option<Identity>,
    /// An existing file may be overwritten.
    pub overwrite: bool,
}

impl Default for Files {
    /// The router's own rights; existing files are overwritten. So files of its configuration are opened.
    fn default() -> Self {
        Files { who: None, overwrite: true }
    }
}

fn regular(meta: &Metadata) -> io::Result<()> {
    if meta.is_file() { Ok(()) } else { Err(io::Error::other("it is not a regular file")) }
}

impl Files {
    /// Files that `who` names; with `overwrite`, existing ones are overwritten.
    pub fn of(who: Option<Identity>, overwrite: bool) -> Files {
        Files { who, overwrite }
    }

    fn run<R: Send>(&self, f: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
        match self.who.as_ref().filter(|who| !who.is_privileged()) {
            Some(who) => who.with(f),
            None => f(),
        }
    }

    /// Opens a regular file to be read.
    ///
    /// # Errors
    /// There is none, it is something else, or the rights do not suffice.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        self.run(|| {
            // Asked first, because opening a device or a pipe may do something already.
            regular(&std::fs::metadata(path)?)?;
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            regular(&file.metadata()?)?;
            Ok(file)
        })
    }

    /// Makes a regular file, or opens the one that is there to be overwritten: what is in it stays until the caller
    /// takes it out ([`File::set_len`]). A symbolic link in the place of the file is refused.
    ///
    /// # Errors
    /// It is there and must not be overwritten, is something else, or the rights do not suffice.
    pub fn write(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
        self.run(|| {
            match options.create_new(true).open(path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made,
            }
            regular(&std::fs::symlink_metadata(path)?)?;
            if !self.overwrite {
                return Err(io::Error::other("it is there already: name another file, or say 'overwrite'"));
            }
            let file = options.create_new(false).open(path)?;
            regular(&file.metadata()?)?;
            Ok(file)
        })
    }
}

/// Whether two open files are the same one.
///
/// # Errors
/// The system does not tell.
pub fn are_same(a: &File, b: &File) -> io::Result<bool> {
    let (a, b) = (a.metadata()?, b.metadata()?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let path = std::env::temp_dir().join(format!("quiver-files-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
            Dir(path)
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, "secret").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn of(user: u32, groups: &[u32], overwrite: bool) -> Files {
        Files::of(Some(Identity { user, group: user, groups: groups.to_vec() }), overwrite)
    }

    #[test]
    fn only_regular_files_and_none_overwritten_unasked() {
        let dir = Dir::new("regular");
        let there = dir.file("there", 0o644);
        let (pipe, link) = (dir.0.join("pipe"), dir.0.join("link"));
        std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        symlink(&there, &link).unwrap();
        for files in [Files::default(), Files::of(None, false)] {
            for odd in [&pipe, Path::new("/dev/null"), &dir.0] {
                assert!(files.read(odd).is_err() && files.write(odd).is_err(), "{odd:?}");
            }
            assert!(files.write(&link).is_err());
            assert!(files.read(&link).is_ok());
        }
        let refused = Files::of(None, false).write(&there).unwrap_err().to_string();
        assert!(refused.contains("overwrite"), "{refused}");
        let mut file = Files::default().write(&there).unwrap();
        assert_eq!(std::fs::read(&there).unwrap(), b"secret");
        file.set_len(0).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&there).unwrap(), b"new");
        assert!(are_same(&file, &Files::default().read(&link).unwrap()).unwrap());
        assert!(Files::of(None, false).write(&dir.0.join("fresh")).is_ok());
    }

    #[test]
    fn rights_are_those_of_who_asks() {
        if (Identity { user: 1, group: 1, groups: vec![] }).with(|| Ok(())).is_err() {
            return; // Only root can be somebody else.
        }
        let dir = Dir::new("rights");
        let (private, shared) = (dir.file("private", 0o600), dir.file("shared", 0o660));
        std::os::unix::fs::chown(&shared, Some(0), Some(4242)).unwrap();
        let nobody = of(65534, &[], true);
        assert_eq!(nobody.read(&private).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(nobody.write(&private).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(nobody.read(&shared).is_err());
        // By a further group, and by nothing else.
        let mut text = String::new();
        of(65534, &[7, 4242], true).read(&shared).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "secret");
        // A file that is made belongs to who asks.
        let made = of(65534, &[], false).write(&dir.0.join("made")).unwrap();
        assert_eq!((made.metadata().unwrap().uid(), made.metadata().unwrap().gid()), (65534, 65534));
        // The other threads have kept their rights.
        assert!(Files::default().read(&private).is_ok());
        assert!(of(0, &[], true).read(&private).is_ok());
        std::fs::set_permissions(&dir.0, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(of(65534, &[], false).write(&dir.0.join("other")).is_err());
    }
}
