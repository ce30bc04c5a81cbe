//! The folder of kept configurations: a file each, numbered, written whole or not at all.
//!
//! A file is written under another name, brought to the disk, and renamed: the rename is the moment from which it counts. What
//! was not renamed is not there for the next start. All of this waits for disks: not for the control thread.

use super::record::{self, Author, FIRST_LINE, Header, Kind};
use crate::yaml::MAX_BYTES;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Configurations that are kept at most.
const MOST: usize = 50;
/// And so many ways back from what was not confirmed.
const MOST_BACKS: usize = 10;
/// Bytes that they take at most; the last two are kept in any case.
const MOST_BYTES: u64 = 512 << 20;
/// How long a start waits for a router that is just ending to let go of the folder.
const PATIENCE: Duration = Duration::from_secs(1);
/// What is written and not yet renamed.
const NEXT: &str = "next.tmp";

/// Why something cannot be kept, or what was kept cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SavedError {
    #[error("state folder {}: cannot {action}: {source}", path.display())]
    Folder { path: PathBuf, action: &'static str, source: io::Error },
    #[error("state folder {}: another router uses it", path.display())]
    InUse { path: PathBuf },
    #[error("{}: {why}; give it to the router's user, with write access for nobody else", path.display())]
    Unsafe { path: PathBuf, why: String },
    #[error("{}: cannot read the kept configuration: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{}: cannot keep the configuration: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("there is no kept configuration of number {0}")]
    None(u64),
    #[error("{0}: {help}", help = graph::memory::HELP)]
    Memory(#[from] graph::memory::OutOfMemory),
}

/// An open folder, which no other router uses.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked for as long as it is open.
    dir: File,
    /// Why nothing can be kept.
    unwritable: Option<String>,
    /// What waited to be confirmed when the router before ended.
    left: Option<Header>,
}

/// A configuration that is on the disk and does not count yet; it is forgotten when dropped.
#[derive(Debug)]
pub struct Prepared {
    /// What is said of it.
    pub header: Header,
    temporary: PathBuf,
}

impl Prepared {
    /// Leaves it on the disk, where the next start finds that it was not confirmed.
    pub fn leave(mut self) {
        self.temporary = PathBuf::new();
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // Gone already when it was kept; a start takes it away as well.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// A kept configuration.
#[derive(Debug)]
pub struct Record {
    /// What is said of it.
    pub header: Header,
    /// Its file.
    pub path: PathBuf,
    /// The file as it is: a document, whose first line is a comment.
    pub file: String,
    /// Where the document begins in it that was given.
    pub begins: usize,
    /// The document without its secrets, for who is not to see these.
    pub(crate) shown: Option<String>,
}

impl Record {
    /// The document as it was given, or without its secrets where they are hidden.
    pub fn document(&self) -> &str {
        self.shown.as_deref().unwrap_or_else(|| self.file.get(self.begins..).unwrap_or_default())
    }
}

impl Folder {
    /// Opens the folder, and makes it where it is missing; what an apply that was cut off has left is removed, see
    /// [`Folder::tell_left`].
    ///
    /// # Errors
    /// It cannot be made or read, others may write to it, or another router uses it. See [`Folder::unwritable`].
    pub fn open(path: &Path) -> Result<Folder, SavedError> {
        let failed = |action| move |source| SavedError::Folder { path: path.to_owned(), action, source };
        match DirBuilder::new().mode(0o700).create(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.map_err(failed("make it"))?,
        }
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC);
        let dir = options.open(path).map_err(failed("open it"))?;
        own(path, &dir.metadata().map_err(failed("look at it"))?)?;
        let until = Instant::now() + PATIENCE;
        while let Err(e) = dir.try_lock() {
            match e {
                std::fs::TryLockError::WouldBlock if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                std::fs::TryLockError::WouldBlock => return Err(SavedError::InUse { path: path.to_owned() }),
                std::fs::TryLockError::Error(e) => return Err(failed("lock it")(e)),
            }
        }
        let left = left(&path.join(NEXT));
        // What is kept is read all the same.
        let unwritable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).err().map(|e| e.to_string());
        if unwritable.is_none() {
            match std::fs::remove_file(path.join(NEXT)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed("write to it")(e)),
                _ => {}
            }
        }
        Ok(Folder { path: path.to_owned(), dir, unwritable, left })
    }

    /// Tells the history that the router ended before something was confirmed, where it did: this start is the way back.
    /// Answers number and comment.
    ///
    /// # Errors
    /// What the disk says.
    pub fn tell_left(&mut self) -> Result<Option<(u64, String)>, SavedError> {
        if self.unwritable.is_some() {
            return Ok(None);
        }
        let Some(left) = self.left.take() else { return Ok(None) };
        let header = left.undone(Author::automatic(), "the router ended before it was confirmed");
        let comment = header.comment.clone();
        Ok(self.keep_back(header)?.map(|number| (number, comment)))
    }

    /// Keeps that it was gone back to the last kept configuration, with what led there. Answers its number; nothing where
    /// none is kept.
    ///
    /// # Errors
    /// What the disk says, or the last one is not as it was written.
    pub fn keep_back(&self, mut header: Header) -> Result<Option<u64>, SavedError> {
        let Some(last) = self.numbers()?.first().copied() else { return Ok(None) };
        let record = self.read(last)?;
        header.of_start = !record.header.is_state();
        header.source = match record.header.kind {
            Kind::Back => record.header.source.clone(),
            _ => format!("number {last}"),
        };
        self.keep(&self.prepare(header, record.document())?).map(Some)
    }

    /// The number of the configuration before the present one, as `rollback` goes back to it: not one of those that only
    /// say that something was not confirmed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn before_last(&self) -> Result<Option<u64>, SavedError> {
        // What does not read is told when it is gone back to.
        let counts = |n: &u64| self.header(*n).map_or(true, |h| h.kind != Kind::Back);
        Ok(self.numbers()?.into_iter().filter(counts).nth(1))
    }

    /// Why nothing can be kept in it, as it was when it was opened.
    pub fn unwritable(&self) -> Option<&str> {
        self.unwritable.as_deref()
    }

    /// Why a document of so many bytes could not be kept now, as far as that can be seen without writing.
    pub fn would_refuse(&self, bytes: usize) -> Option<String> {
        let why = match rustix::fs::access(&self.path, rustix::fs::Access::WRITE_OK) {
            Err(e) => e.to_string(),
            Ok(()) => {
                let fs = rustix::fs::fstatvfs(&self.dir).ok()?;
                // Some blocks are for root alone.
                let root = rustix::process::geteuid().is_root();
                let blocks = if root { fs.f_bfree } else { fs.f_bavail };
                let free = blocks.saturating_mul(fs.f_frsize);
                // What is said of it stands in front.
                let need = (bytes + 4096) as u64;
                // Some file systems say of neither how much there is.
                if fs.f_blocks == 0 || free >= need {
                    return None;
                }
                format!("it may not have room: {free} bytes are free there, and it needs about {need}")
            }
        };
        Some(format!("state folder {}: {why}", self.path.display()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number}.yaml"))
    }

    /// The numbers of what is kept, the last one first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn numbers(&self) -> Result<Vec<u64>, SavedError> {
        let failed = |source| SavedError::Folder { path: self.path.clone(), action: "read it", source };
        let mut out = vec![];
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let digits = name.to_str().and_then(|n| n.strip_suffix(".yaml"));
            let number = digits.and_then(|d| d.parse::<u64>().ok().filter(|n| n.to_string() == d));
            out.extend(number.filter(|n| *n != 0));
        }
        out.sort_unstable_by(|a, b| b.cmp(a));
        Ok(out)
    }

    fn open_file(&self, number: u64) -> Result<(PathBuf, File, u64), SavedError> {
        let path = self.file(number);
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let damaged = |why: String| SavedError::Damaged { path: path.clone(), why };
        let file = match options.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(SavedError::None(number)),
            other => other.map_err(|e| damaged(e.to_string()))?,
        };
        let meta = file.metadata().map_err(|e| damaged(e.to_string()))?;
        if !meta.is_file() {
            return Err(damaged("it is not a regular file".into()));
        }
        own(&path, &meta)?;
        if meta.len() > (MAX_BYTES + FIRST_LINE) as u64 {
            return Err(damaged(format!("it has {} bytes, more than a document may have", meta.len())));
        }
        Ok((path, file, meta.len()))
    }

    /// What is said of a configuration, without reading the rest.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn header(&self, number: u64) -> Result<Header, SavedError> {
        let (path, file, _) = self.open_file(number)?;
        let mut bytes = vec![];
        let read = file.take(FIRST_LINE as u64).read_to_end(&mut bytes).map_err(|e| e.to_string());
        let header = read.and_then(|_| record::header(&bytes)).and_then(|h| numbered(h, number));
        header.map_err(|why| SavedError::Damaged { path, why })
    }

    /// A configuration as it was kept.
    ///
    /// # Errors
    /// There is none, or it is not as it was written.
    pub fn read(&self, number: u64) -> Result<Record, SavedError> {
        let (path, file, length) = self.open_file(number)?;
        let damaged = |why: String| SavedError::Damaged { path: path.clone(), why };
        graph::memory::check(usize::try_from(length).unwrap_or(usize::MAX))
            .map_err(|e| damaged(e.to_string()))?;
        let mut bytes = vec![];
        file.take(length + 1).read_to_end(&mut bytes).map_err(|e| damaged(e.to_string()))?;
        let file = String::from_utf8(bytes).map_err(|_| damaged("it is not UTF-8".into()))?;
        let (header, document) = record::read(&file).map_err(damaged)?;
        let (header, begins) = (numbered(header, number).map_err(damaged)?, file.len() - document.len());
        Ok(Record { header, path, file, begins, shown: None })
    }

    /// The configuration that a start takes: the last one, unless there is none but what starts took from their file.
    ///
    /// # Errors
    /// The folder cannot be read, or the last one is not as it was written.
    pub fn state(&self) -> Result<Option<Record>, SavedError> {
        let Some(last) = self.numbers()?.first().copied() else { return Ok(None) };
        let record = self.read(last)?;
        Ok(Some(record).filter(|r| r.header.is_state()))
    }

    /// Writes a configuration to the disk, so that it can be kept. The header gets its number.
    ///
    /// # Errors
    /// The disk is full, or whatever else it says.
    pub fn prepare(&self, mut header: Header, document: &str) -> Result<Prepared, SavedError> {
        header.number = self.numbers()?.first().map_or(1, |n| n + 1);
        // A mark of the byte order may only stand where a file begins.
        let document = document.trim_start_matches('\u{feff}');
        let temporary = self.path.join(NEXT);
        let failed = |source| SavedError::Write { path: self.file(header.number), source };
        let first = record::first_line(&header, document).map_err(|e| failed(io::Error::other(e)))?;
        let _ = std::fs::remove_file(&temporary);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
        let mut file = options.open(&temporary).map_err(failed)?;
        let written = file
            .write_all(first.as_bytes())
            .and_then(|()| file.write_all(document.as_bytes()))
            .and_then(|()| file.sync_all());
        let prepared = Prepared { header, temporary };
        // Dropped with what was written.
        written.map_err(|source| SavedError::Write { path: self.file(prepared.header.number), source })?;
        Ok(prepared)
    }

    /// From now on it counts; the oldest ones make room.
    ///
    /// # Errors
    /// What the disk says: it does not count then.
    pub fn keep(&self, prepared: &Prepared) -> Result<u64, SavedError> {
        let number = prepared.header.number;
        let path = self.file(number);
        std::fs::rename(&prepared.temporary, &path)
            .and_then(|()| {
                // One of which nobody knows whether it will be there must not be there.
                self.dir.sync_all().inspect_err(|_| _ = std::fs::remove_file(&path))
            })
            .map_err(|source| SavedError::Write { path, source })?;
        self.prune();
        Ok(number)
    }

    /// Keeps the file that a start without a state takes, so that there is a way back to it.
    ///
    /// # Errors
    /// What the disk says.
    pub fn begin(&self, file: &Path, document: &str, author: Author) -> Result<(), SavedError> {
        if let Some(last) = self.numbers()?.first()
            && self.read(*last).is_ok_and(|r| record::digest(r.document()) == record::digest(document))
        {
            return Ok(());
        }
        let file = record::plain(&file.display().to_string());
        let header = Header::new(Kind::Start, author, file, String::new());
        self.keep(&self.prepare(header, document)?).map(|_| ())
    }

    /// Removes the oldest ones, as far as there are too many. One that stays is no harm. Ways back are no configurations of their
    /// own: however many there are, they take no place of those that were asked for, and few of them are of interest.
    fn prune(&self) {
        let (mut bytes, mut asked, mut backs) = (0, 0, 0);
        for (i, number) in self.numbers().unwrap_or_default().into_iter().enumerate() {
            let path = self.file(number);
            bytes += std::fs::symlink_metadata(&path).map_or(0, |m| m.len());
            let (nth, most, least) = match self.header(number).is_ok_and(|h| h.kind == Kind::Back) {
                true => (&mut backs, MOST_BACKS, 0),
                false => (&mut asked, MOST, 2),
            };
            *nth += 1;
            // The state and what `rollback` goes back to stay in any case.
            if i != 0 && *nth > least && (*nth > most || bytes > MOST_BYTES) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// What was to be confirmed and was not, when the router ended. What is not whole was never applied.
fn left(path: &Path) -> Option<Header> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options.open(path).ok()?;
    let meta = file.metadata().ok().filter(Metadata::is_file)?;
    own(path, &meta).ok()?;
    let mut bytes = vec![];
    file.take(FIRST_LINE as u64).read_to_end(&mut bytes).ok()?;
    let header = record::whole(&bytes, meta.len())?;
    header.confirm.is_some().then_some(header)
}

fn numbered(header: Header, number: u64) -> Result<Header, String> {
    if header.number == number {
        return Ok(header);
    }
    Err(format!("it says that it is number {}", header.number))
}

/// Only the router's own user, or root, may have written it.
fn own(path: &Path, meta: &Metadata) -> Result<(), SavedError> {
    let own = rustix::process::geteuid().as_raw();
    let not = |why: String| Err(SavedError::Unsafe { path: path.to_owned(), why });
    if meta.uid() != own && meta.uid() != 0 {
        return not(format!("it belongs to user {}", meta.uid()));
    }
    if meta.mode() & 0o022 != 0 {
        return not(format!("its mode {:o} lets others write to it", meta.mode() & 0o7777));
    }
    Ok(())
}
