//! No folders of a crate import each other in a circle: one that is in a circle cannot be taken out, tested or understood by itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is compiled for tests alone: it may know everything.
const FOR_TESTS: [&str; 3] = ["tests", "testing", "short_cuts"];

fn name(s: &str) -> String {
    s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// What a crate's root says anew, with the folder from which it has it.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in root.split("pub use ").skip(1) {
        let line = line.split(';').next().unwrap_or_default();
        let Some((room, names)) = line.split_once("::") else { continue };
        for one in names.trim_matches(['{', '}']).split(',') {
            found.insert(name(one.trim()), room.to_owned());
        }
    }
    found
}

/// The names right behind `crate::` in code that is no test.
fn imports(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = BTreeSet::new();
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
        } else if !["tests", "lib", "main"].contains(&stem.as_str()) {
            let text = std::fs::read_to_string(&path).expect("a source file");
            edges.entry(here.to_owned()).or_default().extend(imports(&text));
        }
    }
}

/// The folders that can be reached from themselves.
fn in_a_circle(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<&str> {
    let back = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(room) = next.pop() {
            let to = edges.get(room).into_iter().flatten().map(String::as_str);
            next.extend(to.filter(|t| edges.contains_key(*t) && *t != room && seen.insert(*t)));
        }
        seen.contains(from)
    };
    edges.keys().map(String::as_str).filter(|room| back(room)).collect()
}

#[test]
fn no_folder_is_in_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = vec![];
    for entry in std::fs::read_dir(&crates).expect("the folder of the crates") {
        let krate = entry.expect("an entry").path();
        let mut edges = BTreeMap::new();
        read(&krate.join("src"), "", &mut edges);
        let root = std::fs::read_to_string(krate.join("src/lib.rs")).unwrap_or_default();
        let exports = exports(&root);
        for to in edges.values_mut() {
            let from: Vec<&String> = to.iter().filter_map(|t| exports.get(t)).collect();
            to.extend(from.into_iter().cloned().collect::<Vec<_>>());
        }
        FOR_TESTS.iter().for_each(|room| _ = edges.remove(*room));
        let name = krate.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!edges.is_empty(), "{name} has no sources");
        found.extend(in_a_circle(&edges).into_iter().map(|room| format!("{name}/{room}")));
    }
    assert_eq!(found, [""; 0], "these import each other");
}

#[test]
fn a_circle_is_found() {
    let edges = |all: &[(&str, &[&str])]| {
        let set = |to: &[&str]| to.iter().map(|t| (*t).to_owned()).collect();
        all.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect::<BTreeMap<_, _>>()
    };
    let long = edges(&[("a", &["b", "a"]), ("b", &["c", "elsewhere"]), ("c", &["d"]), ("d", &["b"])]);
    assert_eq!(in_a_circle(&long), ["b", "c", "d"]);
    assert!(in_a_circle(&edges(&[("a", &["a", "b"]), ("b", &[])])).is_empty());
    let text =
        "use crate::{one::{a, crate_b}, two};\nfn f() { crate::three::x() } // crate::four\n// crate::five";
    let found: Vec<String> = imports(text).into_iter().collect();
    assert_eq!(found, ["four", "one", "three", "two"]);
}
