//! A kept configuration as a file: a first line that says what it is, and the document itself.
//!
//! The first line is a comment of YAML, so that the file is a document as any other: `quiver check` and `quiver plan` take it.
//! It ends with a JSON object, after the version of the format, a checksum of all that follows, and the number of bytes of the document.

use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a file begins with.
const MARK: &str = "# quiver state 1";
/// The longest first line, in bytes.
pub(super) const FIRST_LINE: usize = 256 << 10;
/// Lines of the difference that are kept.
const LINES: usize = 200;
/// Bytes kept of a line or word.
const LONGEST: usize = 400;

/// Where a configuration came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The file that a start without a state took.
    Start,
    /// A document that was applied.
    Apply,
    /// An earlier one that was gone back to.
    Rollback,
    /// What ran, with what commands had made of it.
    Save,
    /// The file of the start, read again.
    Reload,
    /// What was to be confirmed was not: the configuration before it counts again.
    Back,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Start => "start",
            Kind::Apply => "apply",
            Kind::Rollback => "rollback",
            Kind::Save => "save",
            Kind::Reload => "reload",
            Kind::Back => "back",
        }
    }
}

/// Who has changed something, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The Unix user, by number.
    pub user: u32,
    /// Its name, where it has one.
    pub name: String,
    /// Terminal and process.
    pub from: String,
}

impl Author {
    /// The router itself, where nobody asked.
    pub fn automatic() -> Author {
        let user = rustix::process::geteuid().as_raw();
        Author { user, name: "automatic".into(), from: String::new() }
    }
}

/// How many commands of somebody have changed what is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// The Unix user, by number.
    pub user: u32,
    /// Its name, where it has one.
    pub name: String,
    /// How many.
    pub count: u64,
}

/// What is known of a kept configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its number, from 1.
    pub number: u64,
    /// Seconds since 1970, UTC.
    pub time: u64,
    /// Where it came from.
    pub kind: Kind,
    /// Who it was.
    pub author: Author,
    /// What the author says of it.
    #[serde(default)]
    pub comment: String,
    /// The file that was applied, or the number that was gone back to.
    #[serde(default)]
    pub source: String,
    /// What it changed, an object a line: the first of these lines.
    #[serde(default)]
    pub diff: Vec<String>,
    /// How many more lines there were.
    #[serde(default)]
    pub more: u64,
    /// Whose commands a save keeps, since that before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Commands>,
    /// Seconds within which it was to be confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<u64>,
    /// A way back to the file of a start: nothing was applied or saved before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_start: bool,
}

impl Header {
    /// Whether a start takes it rather than the file that it is given.
    pub fn is_state(&self) -> bool {
        self.kind != Kind::Start && !self.of_start
    }

    /// That this was not confirmed, and why: what it changed is as before.
    pub fn undone(&self, author: Author, why: &str) -> Header {
        let comment = plain(&format!("{why}: {} of {}", self.kind.name(), self.source));
        let other_way = |line: &String| match line.split_at_checked(1) {
            Some(("+", rest)) => format!("-{rest}"),
            Some(("-", rest)) => format!("+{rest}"),
            _ => line.clone(),
        };
        let diff = self.diff.iter().map(other_way).collect();
        Header { diff, more: self.more, ..Header::new(Kind::Back, author, String::new(), comment) }
    }

    /// A change of now; its number comes when it is written.
    pub fn new(kind: Kind, author: Author, source: String, comment: String) -> Header {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Header {
            number: 0,
            time,
            kind,
            author,
            comment,
            source,
            diff: vec![],
            more: 0,
            commands: vec![],
            confirm: None,
            of_start: false,
        }
    }

    /// Takes what may be long, as far as it is kept: what it changed is a line for each object.
    #[must_use]
    pub fn with_diff(mut self, lines: impl IntoIterator<Item = String>) -> Header {
        for line in lines {
            match self.diff.len() < LINES {
                true => self.diff.push(plain(&line)),
                false => self.more += 1,
            }
        }
        self
    }
}

/// A line that neither is too long nor does anything to a terminal.
pub fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if out.len() + c.len_utf8() > LONGEST {
            out.push('…');
            break;
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

/// FNV-1a of 64 bits: tells a file that was cut, mixed up or edited. It keeps nobody from writing another one.
fn checksum(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|p| p.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// A word for a document, by which two are compared.
pub fn digest(document: &str) -> u64 {
    checksum(&[document.trim_start_matches('\u{feff}').as_bytes()])
}

/// The first line, with its end.
///
/// # Errors
/// The header is too long, which its makers see to.
pub fn first_line(header: &Header, document: &str) -> Result<String, String> {
    let json = serde_json::to_string(header).map_err(|e| e.to_string())?;
    let sum = checksum(&[json.as_bytes(), b"\n", document.as_bytes()]);
    let line = format!("{MARK} {sum:016x} {} {json}\n", document.len());
    if line.len() > FIRST_LINE {
        return Err(format!("what is to be said of it takes more than {FIRST_LINE} bytes"));
    }
    Ok(line)
}

/// What the first line says, read without the rest: sum, length of the document, and header with its JSON.
fn read_first(line: &str) -> Result<(u64, u64, Header, &str), String> {
    let rest = line.strip_prefix(MARK).and_then(|r| r.strip_prefix(' '));
    let rest = rest.ok_or_else(|| format!("it does not begin with '{MARK}'"))?;
    let mut words = rest.splitn(3, ' ');
    let (sum, length, json) = (words.next(), words.next(), words.next());
    // Only as it was written: there is one way to write a number.
    let hex = |s: &str| u64::from_str_radix(s, 16).ok().filter(|n| format!("{n:016x}") == s);
    let sum = sum.and_then(hex);
    let length = length.and_then(|l| l.parse().ok().filter(|n: &u64| n.to_string() == l));
    let (Some(sum), Some(length), Some(json)) = (sum, length, json) else {
        return Err("its first line has no checksum and length".into());
    };
    let header = serde_json::from_str(json).map_err(|e| format!("its first line does not read: {e}"))?;
    Ok((sum, length, header, json))
}

/// What a first line says.
///
/// # Errors
/// Why it is none.
pub fn header(line: &[u8]) -> Result<Header, String> {
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| "its first line is not UTF-8".to_owned())?;
    read_first(line).map(|(_, _, header, _)| header)
}

/// What the first line of a file of so many bytes says, if the file is as long as that.
pub fn whole(begin: &[u8], bytes: u64) -> Option<Header> {
    let end = begin.iter().position(|b| *b == b'\n')?;
    let (_, length, header, _) = read_first(std::str::from_utf8(begin.get(..end)?).ok()?).ok()?;
    (bytes == end as u64 + 1 + length).then_some(header)
}

/// Header and document of a whole file.
///
/// # Errors
/// Why it is not as it was written.
pub fn read(file: &str) -> Result<(Header, &str), String> {
    if file.is_empty() {
        return Err("it is empty".into());
    }
    let Some((line, document)) = file.split_once('\n') else {
        return Err("it ends in its first line".into());
    };
    let (sum, length, header, json) = read_first(line)?;
    if document.len() as u64 != length {
        return Err(format!("its document has {} bytes in the place of {length}", document.len()));
    }
    if checksum(&[json.as_bytes(), b"\n", document.as_bytes()]) != sum {
        return Err("its checksum is wrong: it was damaged, or changed by hand".into());
    }
    Ok((header, document))
}

/// Seconds since 1970 as a date and a time, UTC (RFC 3339).
pub fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin with March, in eras of 400: the day that comes and goes is the last one.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some() -> Header {
        let author = Author { user: 7, name: "ann".into(), from: "pts/3".into() };
        Header {
            number: 3,
            time: 1_700_000_000,
            kind: Kind::Apply,
            author,
            comment: "quote \" and line".into(),
            source: "/a.yaml".into(),
            diff: vec![],
            more: 0,
            commands: vec![],
            confirm: None,
            of_start: false,
        }
    }

    fn file(document: &str) -> String {
        let header = some().with_diff(["+ route 10.0.0.0/8".to_owned()]);
        first_line(&header, document).unwrap() + document
    }

    #[test]
    fn what_is_written_is_read_and_is_a_document() {
        let text = "# mine\nloopbacks:\n  loop0: {}  # first\n";
        let file = file(text);
        let (header_read, document) = read(&file).unwrap();
        assert_eq!((header_read.number, document), (3, text));
        assert_eq!(header(file.as_bytes()).unwrap(), header_read);
        let loaded = crate::yaml::check_bytes("3.yaml", file.into_bytes()).unwrap();
        assert_eq!(loaded.interfaces.len(), 1);
    }

    #[test]
    fn long_and_odd_words_stay_a_short_line() {
        let lines = (0..1000).map(|_| "x\u{1b}\ny".repeat(1000));
        let header = some().with_diff(lines);
        assert_eq!((header.diff.len(), header.more), (LINES, 1000 - LINES as u64));
        let line = first_line(&header, "").unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains('\u{1b}'));
    }

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    proptest! {
        #[test]
        fn any_change_of_a_file_is_seen(at in 0usize..10_000, to in any::<u8>(), cut in 0usize..10_000) {
            let is_read = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok_and(|text| read(text).is_ok());
            let whole = file("loopbacks: {loop0: {mtu: 1400}}\n").into_bytes();
            let mut changed = whole.clone();
            let at = at % whole.len();
            changed[at] = to;
            // JSON that means the same may be written otherwise, but not under the same checksum.
            prop_assert_eq!(is_read(&changed), changed == whole);
            prop_assert!(!is_read(&whole[..cut % whole.len()]));
            let mut longer = whole.clone();
            longer.push(to);
            prop_assert!(!is_read(&longer));
        }

        #[test]
        fn any_bytes_are_an_error_and_no_more(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = String::from_utf8_lossy(&bytes);
            prop_assert!(read(&text).is_err());
            let marked = format!("{} {}", MARK, text);
            prop_assert!(read(&marked).is_err() && header(&[MARK.as_bytes(), b" ", &bytes].concat()).is_err());
        }
    }
}
