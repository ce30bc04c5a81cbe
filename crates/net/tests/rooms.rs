//! Which folders of `net` import each other in a circle: none that is not kept here, and none is kept that has left it.
//!
//! A folder in the circle cannot be taken out, tested or understood by itself. The list only shrinks.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const KEPT: &str = include_str!("rooms.txt");

/// The names right behind `crate::` in code that is no test.
fn imports(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    let name = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let code: Vec<&str> = code.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
    for behind in code.join("\n").split("crate::").skip(1) {
        let Some(list) = behind.strip_prefix('{') else {
            found.insert(name(behind));
            continue;
        };
        // Names at the first level of braces.
        let mut depth = 0;
        let mut start = true;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' => start |= depth == 0,
                _ if start && c.is_alphabetic() => {
                    found.insert(name(&list[at..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    found
}

fn read(folder: &Path, room: &str, edges: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let here = if room.is_empty() { stem.as_str() } else { room };
        if path.is_dir() {
            read(&path, here, edges);
        } else if stem != "tests" && stem != "lib" {
            let text = std::fs::read_to_string(&path).expect("a source file");
            edges.entry(here.to_owned()).or_default().extend(imports(&text));
        }
    }
}

/// All that can be reached from `from`.
fn reach<'a>(edges: &'a BTreeMap<String, BTreeSet<String>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(room) = next.pop() {
        let to = edges.get(room).into_iter().flatten();
        next.extend(
            to.map(String::as_str).filter(|t| edges.contains_key(*t) && *t != room && seen.insert(*t)),
        );
    }
    seen
}

#[test]
fn the_circle_only_shrinks() {
    let mut edges = BTreeMap::new();
    read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), "", &mut edges);
    for room in ["testing", "short_cuts", "generator"] {
        edges.remove(room);
    }
    let found: Vec<&str> =
        edges.keys().map(String::as_str).filter(|r| reach(&edges, r).contains(r)).collect();
    let kept: Vec<&str> = KEPT.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(
        found, kept,
        "tests/rooms.txt keeps the rooms in a circle; those that have left it are taken out of it"
    );
}
