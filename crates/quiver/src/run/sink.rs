//! Where the lines of the log go. Writing never waits and never fails: a full disk, a closed terminal or a pipe that nobody
//! reads costs lines, which are counted, and nothing else.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

/// The log's file, or standard error; clones share it.
#[derive(Clone)]
pub struct Sink(Arc<Mutex<State>>);

struct State {
    to: To,
    /// Lines that could not be written and were not told of yet.
    lost: u64,
    why: String,
    /// The last line was written in part only.
    torn: bool,
    /// The line that is written now tells of lost ones: it is none of them when it fails.
    telling: bool,
}

enum To {
    Stderr,
    File(PathBuf, OwnedFd),
}

impl To {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            To::Stderr => rustix::stdio::stderr(),
            To::File(_, fd) => fd.as_fd(),
        }
    }
}

/// Nothing that stands under the name makes it wait: a FIFO without a reader is refused.
fn open(path: &PathBuf) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::APPEND
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o666))?)
}

impl Sink {
    /// Standard error, or a file that lines are appended to.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn new(file: Option<PathBuf>) -> io::Result<Sink> {
        let to = match file {
            None => To::Stderr,
            Some(path) => {
                let fd = open(&path)?;
                To::File(path, fd)
            }
        };
        let state = State { to, lost: 0, why: String::new(), torn: false, telling: false };
        Ok(Sink(Arc::new(Mutex::new(state))))
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens the file anew, as after it was renamed. False when the log is no file.
    ///
    /// # Errors
    /// It cannot be opened; the old one is kept.
    pub fn reopen(&self) -> Result<bool, String> {
        self.with(|s| {
            let To::File(path, _) = &s.to else { return Ok(false) };
            let fd = open(path).map_err(|e| format!("cannot open the log {} anew: {e}", path.display()))?;
            (s.to, s.torn) = (To::File(path.clone(), fd), false);
            Ok(true)
        })
    }

    /// Writes what `tell` makes of the number of lines that were lost, and why; they are forgotten once that is written.
    pub fn tell_of_lost(&self, tell: impl FnOnce(u64, &str)) {
        let (lost, why) = self.with(|s| {
            s.telling = s.lost != 0;
            (s.lost, s.why.clone())
        });
        if lost != 0 {
            tell(lost, &why);
            self.with(|s| s.telling = false);
        }
    }
}

impl State {
    fn put(&mut self, line: &[u8]) {
        match self.write(line) {
            Ok(()) if self.telling => self.lost = 0,
            Err(_) if self.telling => {}
            Ok(()) => {}
            Err(e) => {
                self.lost += 1;
                self.why = e.to_string();
                if let (1, To::File(path, _)) = (self.lost, &self.to) {
                    let words = format!("quiver: the log {} cannot be written: {e}\n", path.display());
                    let _ = put(rustix::stdio::stderr(), words.as_bytes());
                }
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            put(self.to.fd(), b"\n").map_err(|(_, e)| e)?;
            self.torn = false;
        }
        put(self.to.fd(), line).map_err(|(some, e)| {
            self.torn = some;
            e
        })
    }
}

/// Writes all of it, or answers whether some was written and why no more. Never waits.
fn put(to: BorrowedFd<'_>, line: &[u8]) -> Result<(), (bool, io::Error)> {
    let mut at = 0;
    while at < line.len() {
        // A pipe or terminal that has room takes a page at once.
        let piece = &line[at..line.len().min(at + 4096)];
        let mut ready = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let room = poll(&mut ready, Some(&now)).is_ok_and(|n| n != 0);
        let done = if room { rustix::io::write(to, piece) } else { Err(rustix::io::Errno::AGAIN) };
        match done {
            Ok(n) if n != 0 => at += n,
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Err((at != 0, io::ErrorKind::WriteZero.into())),
            Err(rustix::io::Errno::AGAIN) => return Err((at != 0, io::Error::other("nobody reads it"))),
            Err(e) => return Err((at != 0, e.into())),
        }
    }
    Ok(())
}

/// One line is one write.
pub struct Line(Sink);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.with(|s| s.put(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_loses_lines_and_says_how_many_when_it_takes_some_again() {
        let folder = std::env::temp_dir().join(format!("quiver-sink-{}", std::process::id()));
        let _ = std::fs::create_dir_all(&folder);
        let path = folder.join("log");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let sink = Sink::new(Some(path.clone())).unwrap();
        for _ in 0..3 {
            sink.make_writer().write_all(b"lost\n").unwrap();
        }
        let line = |n, why: &str| format!("{n} {why}\n");
        let tell = |sink: &Sink| {
            sink.tell_of_lost(|n: u64, why| sink.make_writer().write_all(line(n, why).as_bytes()).unwrap());
        };
        tell(&sink);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(sink.reopen(), Ok(true));
        tell(&sink);
        tell(&sink);
        sink.make_writer().write_all(b"kept\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "3 No space left on device (os error 28)\nkept\n");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_pipe_that_nobody_reads_does_not_hold_it_up() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let state = State {
            to: To::File("pipe".into(), writer),
            lost: 0,
            why: String::new(),
            torn: false,
            telling: false,
        };
        let sink = Sink(Arc::new(Mutex::new(state)));
        for _ in 0..20_000 {
            sink.make_writer().write_all(&[b'x'; 100]).unwrap();
        }
        assert!(sink.with(|s| s.lost) > 10_000);
        drop(reader);
        sink.make_writer().write_all(b"nobody\n").unwrap();
    }
}
