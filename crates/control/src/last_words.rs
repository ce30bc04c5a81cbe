//! What a router has logged last, in its state folder, for the run that follows one that died.
//!
//! A run writes each line into `run.log`. An orderly end takes the file away; one that the next start finds is of a router that died: it is
//! moved to `last-words`, which is kept until another one dies.

use crate::saved::date;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The lines of the run.
const RUNS: &str = "run.log";
/// Older lines of it.
const OLDER: &str = "run.log.1";
/// The last lines of the run that died last.
const DIED: &str = "last-words";
/// Bytes of a file of lines.
const MOST: u64 = 64 << 10;

/// Where the lines of a run go.
#[derive(Debug)]
pub struct Tail {
    folder: PathBuf,
    file: File,
    bytes: u64,
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

impl Tail {
    /// Begins one in a state folder. The last lines of the run before, where that died.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn begin(folder: &Path) -> io::Result<(Tail, Option<String>)> {
        let read =
            |name: &str| std::fs::read(folder.join(name)).map(|b| String::from_utf8_lossy(&b).into_owned());
        let died = read(RUNS).ok().map(|now| read(OLDER).unwrap_or_default() + &now);
        if let Some(words) = &died {
            let next = folder.join("last-words.tmp");
            let mut file =
                OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&next)?;
            file.write_all(words.as_bytes())?;
            std::fs::rename(&next, folder.join(DIED))?;
        }
        let mut tail = Tail { folder: folder.to_owned(), file: open(&folder.join(RUNS))?, bytes: 0 };
        tail.end_lines();
        tail.file = open(&folder.join(RUNS))?;
        Ok((tail, died))
    }

    /// Adds lines. What cannot be written is left out: the log has it.
    pub fn add(&mut self, lines: &[u8]) {
        if self.bytes >= MOST {
            let runs = self.folder.join(RUNS);
            let turned = std::fs::rename(&runs, self.folder.join(OLDER)).and_then(|()| open(&runs));
            if let Ok(file) = turned {
                (self.file, self.bytes) = (file, 0);
            }
        }
        if self.file.write_all(lines).is_ok() {
            self.bytes += lines.len() as u64;
        }
    }

    /// The run ends in order: there are no last words.
    pub fn end_lines(&mut self) {
        for name in [RUNS, OLDER] {
            let _ = std::fs::remove_file(self.folder.join(name));
        }
    }
}

/// What is known of the end of a router that has died, from who watched it.
pub fn add(folder: &Path, text: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    if let Ok(mut file) =
        OpenOptions::new().append(true).custom_flags(libc::O_NOFOLLOW).open(folder.join(RUNS))
    {
        let _ = file.write_all(format!("{}: {text}\n", date(now.as_secs())).as_bytes());
    }
}

/// The last words of the run that died last.
#[must_use]
pub fn of(folder: &Path) -> Option<String> {
    std::fs::read(folder.join(DIED)).ok().map(|b| String::from_utf8_lossy(&b).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_run_that_died_are_kept_and_those_of_others_are_not() {
        let folder = std::env::temp_dir().join(format!("quiver-words-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut tail, died) = Tail::begin(&folder).unwrap();
        assert_eq!((died, of(&folder)), (None, None));
        tail.add(b"one\n");
        add(&folder, "it was killed");
        let (mut tail, died) = Tail::begin(&folder).unwrap();
        let died = died.unwrap();
        assert!(died.starts_with("one\n2") && died.ends_with(": it was killed\n"), "{died}");
        assert_eq!(of(&folder), Some(died.clone()));
        tail.end_lines();
        let (mut tail, none) = Tail::begin(&folder).unwrap();
        assert_eq!((none, of(&folder)), (None, Some(died)));
        for _ in 0..10_000 {
            tail.add(b"a line of some length\n");
        }
        tail.add(b"the last\n");
        let words = Tail::begin(&folder).unwrap().1.unwrap();
        assert!(
            words.len() as u64 >= MOST && (words.len() as u64) < 3 * MOST && words.ends_with("\nthe last\n")
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
