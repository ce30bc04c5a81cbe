//! What Tab offers: the router knows the words, this side the files.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use reedline::{CompletionResult, Span, Suggestion};
use serde_json::{Value as Json, json};

use super::link::Link;

/// Asks the router.
pub struct Completer(pub Arc<Mutex<Link>>);

impl reedline::Completer for Completer {
    fn complete(&mut self, line: &str, cursor: usize) -> CompletionResult {
        let request = json!({ "id": 1, "complete": { "line": line, "cursor": cursor } });
        // Without a router there is nothing to offer; the next command says why.
        let reply = self.0.lock().ok().and_then(|mut link| link.ask(&request, &mut |_| Ok(())).ok());
        CompletionResult::fresh(
            reply.map_or_else(Vec::new, |reply| suggestions(&reply["complete"], line, cursor)),
        )
    }
}

fn suggestions(reply: &Json, line: &str, cursor: usize) -> Vec<Suggestion> {
    let start = reply["start"].as_u64().and_then(|start| usize::try_from(start).ok());
    let start = start.filter(|start| *start <= cursor && line.is_char_boundary(*start)).unwrap_or(cursor);
    let span = Span { start, end: cursor };
    let mut all: Vec<Suggestion> = Vec::new();
    for candidate in reply["candidates"].as_array().map_or(&[] as &[Json], Vec::as_slice) {
        let Some(text) = candidate["text"].as_str() else { continue };
        let description = candidate["help"].as_str().filter(|help| !help.is_empty()).map(str::to_owned);
        all.push(Suggestion {
            value: text.to_owned(),
            description,
            span,
            append_whitespace: true,
            ..Suggestion::default()
        });
    }
    if reply["path"] == true {
        all.extend(files(line.get(start..cursor).unwrap_or_default()).into_iter().map(|name| Suggestion {
            append_whitespace: !name.ends_with('/'),
            value: name,
            span,
            ..Suggestion::default()
        }));
    }
    all
}

/// Files whose names begin so; directories end in a slash.
fn files(prefix: &str) -> Vec<String> {
    let (directory, start) =
        prefix.rsplit_once('/').map_or(("", prefix), |(dir, name)| (&prefix[..=dir.len()], name));
    let listed = fs::read_dir(if directory.is_empty() { Path::new(".") } else { Path::new(directory) });
    let mut names: Vec<String> = listed
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let hidden = name.starts_with('.') && !start.starts_with('.');
            let slash = if entry.path().is_dir() { "/" } else { "" };
            (name.starts_with(start) && !hidden).then(|| format!("{directory}{name}{slash}"))
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_directory() {
        let directory = std::env::temp_dir().join(format!("quiver-files-{}", std::process::id()));
        fs::create_dir_all(directory.join("sub")).unwrap();
        fs::write(directory.join("some"), "").unwrap();
        fs::write(directory.join(".hidden"), "").unwrap();
        let at = |name: &str| directory.join(name).display().to_string();
        assert_eq!(files(&at("s")), [at("some"), at("sub/")]);
        assert_eq!(files(&at("")), [at("some"), at("sub/")]);
        assert_eq!(files(&at(".h")), [at(".hidden")]);
        assert!(files("/nonexistent/x").is_empty());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_strange_reply_is_no_danger() {
        let reply = json!({ "start": 99, "candidates": [{ "text": "é" }, { "text": 1 }, 2] });
        let all = suggestions(&reply, "é", 2);
        assert_eq!((all.len(), all[0].span.start), (1, 2));
        assert!(suggestions(&json!(null), "", 0).is_empty());
        assert_eq!(
            suggestions(&json!({ "start": 1, "candidates": [{ "text": "x" }] }), "é", 2)[0].span.start,
            2
        );
    }
}
