//! Target `state`: any bytes as the file of a kept configuration, and any text as one that is kept.

use control::saved::{self, Author, Header, Kind, first_line, header};

/// Reads it as it stands, and behind a mark and a checksum that are right.
pub fn run(data: &[u8]) {
    whole(data);
    let text = String::from_utf8_lossy(data);
    let (comment, document) = text.split_once('\0').unwrap_or(("", &text));
    let author = Author { user: 7, name: comment.into(), from: comment.into() };
    let said = Header::new(Kind::Apply, author, comment.into(), saved::plain(comment));
    let said = said.with_diff(document.lines().map(str::to_owned));
    let Ok(line) = first_line(&said, document) else { return };
    let mut file = (line + document).into_bytes();
    assert_eq!(read(&file), Ok((said.clone(), document)), "what is written is read");
    assert_eq!(header(&file), Ok(said), "its first line as well");
    // The first bytes say where it is changed.
    if let [a, b, c, ..] = *data {
        let at = usize::from(u16::from_be_bytes([a, b])) % file.len();
        let cut = file.get(..at).unwrap_or_default();
        assert!(read(cut).is_err(), "a file that was cut is seen");
        if let Some(byte) = file.get_mut(at).filter(|byte| **byte != c) {
            *byte = c;
            assert!(read(&file).is_err(), "a byte that was changed is seen");
        }
    }
}

/// Reads a file as the folder does, which has its bytes.
fn read(file: &[u8]) -> Result<(Header, &str), String> {
    std::str::from_utf8(file).map_err(|_| "it is not UTF-8".to_owned()).and_then(saved::read)
}

fn whole(file: &[u8]) {
    let (all, first) = (read(file), header(file));
    if let Ok((said, document)) = &all {
        assert_eq!(first.as_ref(), Ok(said), "the first line says the same");
        assert!(document.len() < file.len());
        let _ = control::yaml::check_bytes("state.yaml", file.to_vec());
    }
    for e in [all.err(), first.err()].into_iter().flatten() {
        assert!(!e.is_empty(), "an error says something");
    }
}
