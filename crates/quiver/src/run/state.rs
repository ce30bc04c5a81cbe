//! What a start begins with: the file that it is given, or what was applied since.

use control::saved::{Folder, Record, SavedError, date, digest};
use control::yaml::{self, Document};
use net::router::LogLine;
use std::path::Path;

/// What a start begins with.
pub struct First {
    pub document: Document,
    /// Where configurations are kept.
    pub folder: Option<Folder>,
    /// The document was kept there.
    pub is_state: bool,
    /// A digest of the file.
    pub digest: u64,
    /// For the log.
    pub told: Vec<LogLine>,
}

/// The last kept configuration of the folder, where there is one; else the file.
pub fn first(file: &Path, folder: Option<&Path>) -> Result<First, String> {
    let given = yaml::load_file(file).map_err(|e| format!("cannot start\n{e}"));
    let path = match (folder, &given) {
        (Some(path), _) => Some(path.to_owned()),
        (None, Ok(document)) => document.settings.state.as_ref().map(Into::into),
        // It cannot be told whether there is one.
        (None, Err(_)) => None,
    };
    let mut folder =
        path.map(|path| Folder::open(&path)).transpose().map_err(|e| format!("cannot start: {e}"))?;
    let back = folder.as_mut().map(Folder::tell_left).and_then(went_back);
    let state = folder.as_ref().map(Folder::state).transpose().map_err(|e| {
        format!("cannot start: {e}\nto start without it, move that file away: then the one before it counts, or the file")
    })?;
    let digest = given.as_ref().map_or(0, |d| digest(&d.source.text));
    let Some(state) = state.flatten() else {
        return Ok(First {
            document: given?,
            folder,
            is_state: false,
            digest,
            told: back.into_iter().collect(),
        });
    };
    // Two documents of a million routes are not held at once.
    let given = given.map(|d| d.source.name.clone());
    let mut told = told(file, &state, given.map(|_| digest));
    told.extend(back);
    let name = state.path.display().to_string();
    let document = yaml::check_bytes(&name, state.file.into_bytes()).and_then(Document::runnable);
    let document = document.map_err(|e| format!("cannot start\n{e}"))?;
    Ok(First { document, folder, is_state: true, digest, told })
}

/// The line that says that the start is a way back.
fn went_back(told: Result<Option<(u64, String)>, SavedError>) -> Option<LogLine> {
    match told {
        Ok(None) => None,
        Ok(Some((number, comment))) => Some(LogLine {
            warn: true,
            text: format!(
                "configuration: went back with this start, number {number} of the history: {comment}"
            ),
        }),
        Err(e) => Some(LogLine {
            warn: true,
            text: format!("configuration: the history does not have that this start went back: {e}"),
        }),
    }
}

/// The line that says what runs, and what is to be said of the file.
fn told(file: &Path, state: &Record, given: Result<u64, String>) -> Vec<LogLine> {
    let (h, file) = (&state.header, file.display());
    let mut text =
        format!("starts with number {} of the state, {} of {}", h.number, h.kind.name(), date(h.time));
    let warn = match given {
        Ok(digest_of_file) if digest_of_file == digest(state.document()) => false,
        Ok(_) => {
            text += &format!(
                "; {file} is another document: `quiver diff {file}` tells, `quiver apply {file}` applies it"
            );
            false
        }
        Err(e) => {
            text += &format!("; {file} does not load: {}", e.lines().nth(1).unwrap_or_default());
            true
        }
    };
    vec![LogLine { warn, text }]
}
