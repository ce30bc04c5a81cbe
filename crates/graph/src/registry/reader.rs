//! Reads counters as any process can that has the file: by its directory, without asking who writes them.

use super::directory::{self, Entry, Names, Part};
use super::segment::Piece;
use super::{MAGIC, VERSION};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{SeekFrom, seek};
use std::io;

/// Times that a directory which changes meanwhile is read again.
const TRIES: usize = 1000;
/// Bytes of values that are read at once, about.
const AT_ONCE: u64 = 64 << 10;

/// A file of counters, to be read.
#[derive(Debug)]
pub struct Reader {
    fd: OwnedFd,
    entries: Vec<Entry>,
    names: Names,
}

/// A value that is not 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    /// Numbers of what it is counted by.
    pub of: Vec<u64>,
    /// That of all writers together.
    pub value: u64,
    /// Each writer's, in the order of [`Entry::parts`].
    pub parts: Vec<u64>,
}

impl Reader {
    /// Reads the directory of a file, such as `/proc/PID/fd/N` of a router.
    ///
    /// # Errors
    /// It is no such file, or of another version.
    pub fn open(fd: OwnedFd) -> io::Result<Reader> {
        let header = Piece::new(fd.as_fd(), 0, 40)?;
        let word = |n: usize| header.word(n * 8).unwrap_or(0);
        if word(0) != MAGIC || word(1) != VERSION {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "not counters of this version"));
        }
        for _ in 0..TRIES {
            let before = word(2);
            let (at, len) = (word(3), word(4) as usize);
            let mut text = Piece::new(fd.as_fd(), at, len.next_multiple_of(8))?.bytes();
            text.truncate(len);
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            if before.is_multiple_of(2) && word(2) == before {
                let text = String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData)?;
                let (entries, names) = directory::parse(&text)?;
                return Ok(Reader { fd, entries, names });
            }
            std::thread::yield_now();
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// All counters.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The counter of this name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// What number `n` of an axis stands for, and what that means, where the registry knows it.
    pub fn name(&self, axis: &str, n: u64) -> Option<(&str, &str)> {
        let name = self.names.get(axis)?.get(usize::try_from(n).ok()?)?;
        Some((&name.0, &name.1))
    }

    /// The value for these numbers of what the counter is counted by, of all writers together.
    ///
    /// # Errors
    /// There is no such number, or the file does not hold it.
    pub fn value(&self, entry: &Entry, of: &[u64]) -> io::Result<u64> {
        let fits = of.len() == entry.by.len() && of.iter().zip(&entry.by).all(|(n, axis)| *n < axis.len);
        if !fits {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let skip: u64 = of.iter().zip(&entry.by).map(|(n, axis)| n * axis.stride).sum();
        let mut sum = 0;
        for part in &entry.parts {
            let word = Piece::new(self.fd.as_fd(), part.at + skip, 8)?.word(0).unwrap_or(0);
            sum = together(entry, sum, word);
        }
        Ok(sum)
    }

    /// Values that are not 0 from number `from` of the outermost axis on, some of them, and where to go on. Memory that was
    /// never counted in is neither read nor made.
    ///
    /// # Errors
    /// The file does not hold what its directory says.
    pub fn values(&self, entry: &Entry, from: u64) -> io::Result<(Vec<Values>, Option<u64>)> {
        let (len, stride) = entry.by.first().map_or((1, 8), |axis| (axis.len, axis.stride.max(8)));
        let starts = entry.parts.iter().map(|part| self.counted(part, from.saturating_mul(stride)));
        let starts = starts.collect::<io::Result<Vec<_>>>()?;
        let first = starts
            .iter()
            .zip(&entry.parts)
            .filter_map(|(start, part)| start.map(|s| (s, part)))
            .min_by_key(|f| f.0);
        let Some((start, part)) = first.filter(|f| f.0 / stride < len) else { return Ok((vec![], None)) };
        let hole = seek(&self.fd, SeekFrom::Hole(part.at + start))?.saturating_sub(part.at).div_ceil(stride);
        let first = start / stride;
        let end = hole.min(first + AT_ONCE / stride).max(first + 1).min(len);
        let mut found = vec![];
        let bytes = (end - first) * stride;
        let piece = |(part, start): (&Part, &Option<u64>)| {
            if start.is_none_or(|start| start >= end * stride) {
                return Ok(None);
            }
            let at = part.at + first * stride;
            // The last word of a layout may be followed by nothing.
            Piece::new(self.fd.as_fd(), at, bytes as usize)
                .or_else(|_| Piece::new(self.fd.as_fd(), at, (bytes - stride) as usize + 8))
                .map(Some)
        };
        let pieces = entry.parts.iter().zip(&starts).map(piece).collect::<io::Result<Vec<_>>>()?;
        let word =
            |piece: &Option<Piece>, at: u64| piece.as_ref().and_then(|p| p.word(at as usize)).unwrap_or(0);
        let inner = entry.by.get(1).map_or((1, 8), |axis| (axis.len, axis.stride));
        for i in first..end {
            for j in 0..inner.0 {
                let skip = (i - first) * stride + j * inner.1;
                let parts: Vec<u64> = pieces.iter().map(|p| word(p, skip)).collect();
                let value = parts.iter().fold(0, |sum, word| together(entry, sum, *word));
                if value != 0 {
                    let of = [i, j][..entry.by.len()].to_vec();
                    found.push(Values { of, value, parts });
                }
            }
        }
        Ok((found, (end < len).then_some(end)))
    }

    /// From which byte of its values on, at `from` or behind it, a writer may have counted.
    fn counted(&self, part: &Part, from: u64) -> io::Result<Option<u64>> {
        match seek(&self.fd, SeekFrom::Data(part.at.saturating_add(from))) {
            Ok(data) => Ok(Some(data.saturating_sub(part.at))),
            // Nothing behind it.
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

fn together(entry: &Entry, a: u64, b: u64) -> u64 {
    if entry.most { a.max(b) } else { a.wrapping_add(b) }
}
