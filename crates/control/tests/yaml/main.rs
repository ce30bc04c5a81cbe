//! YAML documents with the errors they must produce.
//!
//! A document in `cases/` says what it expects in comments: `# expect: LINE:COLUMN RULE TEXT`, where TEXT is part of
//! the error's path, message or help, and `# note: ...` the same of a note. A document without errors must pass the
//! check. Nothing may go without its comment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use control::yaml::{self, Diagnostic, Severity};

fn folder(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of)
}

fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
}

/// The errors as lines of the form of the comments.
fn lines(errors: &[Diagnostic]) -> String {
    let line = |e: &Diagnostic| {
        let word = if e.severity == Severity::Note { "note" } else { "expect" };
        format!("# {word}: {}:{} {} {}: {} ({})\n", e.line, e.column, e.rule, e.path, e.message, e.help)
    };
    errors.iter().map(line).collect()
}

fn matches(error: &Diagnostic, (severity, expected): (Severity, &str)) -> bool {
    if error.severity != severity {
        return false;
    }
    let mut words = expected.splitn(3, ' ');
    let place = words.next().unwrap_or("");
    let rule = words.next().unwrap_or("");
    let text = words.next().unwrap_or("");
    place == format!("{}:{}", error.line, error.column)
        && rule == error.rule
        && format!("{}: {} ({})", error.path, error.message, error.help).contains(text)
}

#[test]
fn cases() {
    let files = documents(&folder("tests/yaml/cases"));
    assert!(files.len() > 20);
    let mut failures = String::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        let comment = |l| {
            let error = str::strip_prefix(l, "# expect: ").map(|e| (Severity::Error, e));
            error.or_else(|| Some((Severity::Note, l.strip_prefix("# note: ")?)))
        };
        let mut expected: Vec<(Severity, &str)> = text.lines().filter_map(comment).collect();
        let fails = expected.iter().any(|e| e.0 == Severity::Error);
        let errors = match yaml::check(&name, &text) {
            Ok(document) => {
                assert!(!fails, "{name} passes the check");
                document.notes
            }
            Err(e) => e.errors,
        };
        let refused = errors.iter().any(|e| e.severity == Severity::Error || e.rule == "not-supported-yet");
        assert_eq!(yaml::load(&name, &text).is_err(), refused, "{name}");
        let mut unexpected = Vec::new();
        for error in &errors {
            match expected.iter().position(|e| matches(error, *e)) {
                Some(i) => drop(expected.remove(i)),
                None => unexpected.push(error.clone()),
            }
        }
        if !unexpected.is_empty() || !expected.is_empty() {
            failures.push_str(&format!("{name}: not expected:\n{}", lines(&unexpected)));
            failures.push_str(&format!("{name}: missing: {expected:#?}\n"));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn examples() {
    let files = documents(&folder("../../examples"));
    assert!(files.iter().any(|f| f.ends_with("two-hosts.yaml")));
    for file in files {
        let document = yaml::check_file(&file).unwrap_or_else(|errors| panic!("{errors}"));
        let notes = document.notes.len();
        // Only this one has what is not supported yet.
        assert_eq!(notes > 0, file.ends_with("vppcfg.yaml"), "{} notes in {}", notes, file.display());
    }
}

#[test]
fn documentation() {
    let text = std::fs::read_to_string(folder("../../docs/configuration.md")).unwrap();
    let mut blocks = 0;
    let mut rest = text.as_str();
    while let Some((_, after)) = rest.split_once("```yaml\n") {
        let (block, after) = after.split_once("```").expect("an open code block");
        if let Err(errors) = yaml::load("docs/configuration.md", block) {
            panic!("{block}\n{errors}");
        }
        blocks += 1;
        rest = after;
    }
    assert!(blocks >= 5);
}

#[test]
fn text_and_json() {
    let text = "interfaces:\n  ge0:\n    mtu: 99\n    mty: 1\n";
    let errors = yaml::load("router.yaml", text).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "\
error[range]: interfaces.ge0.mtu: `99` is out of range
 --> router.yaml:3:10
  |
3 |     mtu: 99
  |          ^^
  = help: a whole number from 128 to 9216

error[unknown-field]: interfaces.ge0.mty: there is no such field
 --> router.yaml:4:5
  |
4 |     mty: 1
  |     ^^^
  = help: did you mean `mtu`? Fields here: `description`, `mac`, `lcp`, `mtu`, `addresses`, `unnumbered`, \
`l2xc`, `state`, `mpls`, `device-type`, `sflow`, `acls`, `sub-interfaces`

router.yaml: 2 errors
"
    );
    let json: serde_json::Value = serde_json::from_str(&errors.to_json()).unwrap();
    assert_eq!(
        json[0],
        serde_json::json!({
            "severity": "error", "file": "router.yaml", "line": 3, "column": 10, "path": "interfaces.ge0.mtu", "rule": "range",
            "value": "99", "message": "`99` is out of range", "help": "a whole number from 128 to 9216",
        })
    );
}

#[test]
fn notes_are_errors_to_a_router_that_starts() {
    let text = "interfaces:\n  ge0: {acls: {}}\n";
    let document = yaml::check("x.yaml", text).unwrap();
    assert_eq!(document.notes[0].severity, Severity::Note);
    let refused = yaml::load("x.yaml", text).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "\
error[not-supported-yet]: interfaces.ge0.acls: `acls` is not supported yet
 --> x.yaml:2:9
  |
2 |   ge0: {acls: {}}
  |         ^^^^
  = help: `quiver run` refuses it: Quiver does not ignore what it cannot do

x.yaml: 1 error
"
    );
    let mixed = yaml::check("x.yaml", "interfaces: {ge0: {acls: {}, mtu: 1}}").unwrap_err();
    assert!(mixed.to_string().ends_with("x.yaml: 1 error, 1 note\n"), "{mixed}");
}

#[test]
fn bytes_that_are_no_text() {
    let errors = yaml::load_bytes("x.yaml", b"interfaces: {}\n\xff\xfe").unwrap_err();
    assert_eq!(errors.errors[0].rule, "utf-8");
    assert!(errors.to_string().contains("line 2"));
    let missing = yaml::load_file(Path::new("/nonexistent/router.yaml")).unwrap_err();
    assert!(missing.to_string().contains("cannot read the file"), "{missing}");
}

#[test]
fn many_errors_end() {
    let text = format!("routes:\n{}", "  - nonsense\n".repeat(20_000));
    let errors = yaml::load("x.yaml", &text).unwrap_err().errors;
    assert_eq!(errors.len(), 1001);
    assert_eq!(errors[1000].rule, "too-many-errors");
    assert!(errors[1000].message.starts_with("and 19000 more"), "{}", errors[1000].message);
}

#[test]
fn hostile_documents_end() {
    let bomb = |levels: usize| {
        let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..levels {
            let list = vec![format!("*a{}", i - 1); 10].join(",");
            text.push_str(&format!("a{i}: &a{i} [{list}]\n"));
        }
        text
    };
    for (text, rule) in [
        (bomb(12), "document-limit"),
        ("[".repeat(100_000), "yaml-syntax"),
        ("{a: ".repeat(100_000), "yaml-syntax"),
        ("- ".repeat(100_000), "yaml-syntax"),
        (
            (0..200)
                .fold(String::from("a0: &a0 x\n"), |t, i| t + &format!("a{}: &a{} [*a{i}]\n", i + 1, i + 1)),
            "document-limit",
        ),
        ("a: &a [*a]".into(), "yaml-syntax"),
        ("a: *b".into(), "yaml-syntax"),
        ("a: !!python/object 1".into(), "yaml-tag"),
        ("a: 1\n---\nb: 1".into(), "one-document"),
        ("- 1".into(), "type"),
        ("\"".into(), "yaml-syntax"),
        ("? [a]\n: b".into(), "type"),
    ] {
        let errors = yaml::load("x.yaml", &text).expect_err(&text[..text.len().min(80)]);
        let error = &errors.errors[0];
        assert_eq!(error.rule, rule, "{}: {errors}", &text[..text.len().min(80)]);
        assert!(errors.to_string().len() < 100_000);
    }
}

#[test]
fn nothing_is_a_router_without_interfaces() {
    for text in ["", "# only a comment\n", "---\n", "{}", "interfaces:\n", "\u{feff}interfaces: {}\n"] {
        let document = yaml::load("x.yaml", text).unwrap();
        assert!(document.interfaces.is_empty());
    }
}

/// Prints the load times of large route tables in the three forms.
#[test]
fn large_tables_load() {
    const COUNT: u32 = 100_000;
    let prefix = |i: u32| format!("{}/32", std::net::Ipv4Addr::from(0x1400_0000 + i * 7));
    let head = "interfaces:\n  left: {addresses: [10.0.0.1/24]}\nroutes:\n";
    let forms: [(&str, String); 3] = [
        ("lines", (0..COUNT).map(|i| format!("  - {} via 10.0.0.2\n", prefix(i))).collect()),
        ("mappings", (0..COUNT).map(|i| format!("  - {{prefix: {}, via: 10.0.0.2}}\n", prefix(i))).collect()),
        (
            "prefixes",
            "  - via: 10.0.0.2\n    prefixes:\n".to_string()
                + &(0..COUNT).map(|i| format!("      - {}\n", prefix(i))).collect::<String>(),
        ),
    ];
    for (form, routes) in forms {
        let text = format!("{head}{routes}");
        let start = Instant::now();
        let document = yaml::load("x.yaml", &text).unwrap();
        println!("{COUNT} routes as {form}: {:?}", start.elapsed());
        assert_eq!(document.routes.len(), COUNT as usize);
        assert!(start.elapsed().as_secs() < 20);
    }
}

mod values;

mod random {
    use control::yaml;
    use proptest::prelude::*;

    const SEED: &str = include_str!("cases/ok-everything.yaml");
    const FORMAT: &str = include_str!("cases/ok-later.yaml");

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 512 } else { 4096 }))]

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            show(&bytes);
        }

        #[test]
        fn any_yaml_like_text(text in "([a-z0-9:/.\\-\\[\\]{},&*!|>'\"%#?~ \n\t]|é){0,300}") {
            show(text.as_bytes());
        }

        /// The same of a document with every section of the format.
        #[test]
        fn mutated_format(edits in edits()) {
            show(&mutate(FORMAT, edits));
        }

        /// A good document with pieces replaced by other pieces of it or by random bytes.
        #[test]
        fn mutated(edits in edits()) {
            show(&mutate(SEED, edits));
        }
    }

    type Edit = (prop::sample::Index, usize, prop::sample::Index, usize, Option<[u8; 2]>);

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        let index = any::<prop::sample::Index>;
        let edit = (index(), 0usize..12, index(), 0usize..12, proptest::option::of(any::<[u8; 2]>()));
        proptest::collection::vec(edit, 1..6)
    }

    fn mutate(seed: &str, edits: Vec<Edit>) -> Vec<u8> {
        let mut bytes = seed.as_bytes().to_vec();
        for (at, cut, from, take, random) in edits {
            let at = at.index(bytes.len());
            let end = (at + cut).min(bytes.len());
            let from = from.index(seed.len());
            let piece = match random {
                Some(random) => random.to_vec(),
                None => seed.as_bytes()[from..(from + take).min(seed.len())].to_vec(),
            };
            bytes.splice(at..end, piece);
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        bytes
    }

    /// Loads, and renders the errors if there are any.
    fn show(bytes: &[u8]) {
        let errors = match yaml::check_bytes("x.yaml", bytes.to_vec()) {
            Ok(document) => yaml::Diagnostics { errors: document.notes },
            Err(errors) => {
                assert!(errors.has_errors());
                errors
            }
        };
        if !errors.errors.is_empty() {
            assert!(!errors.to_string().is_empty());
        }
        assert!(errors.to_json().starts_with('['));
    }
}
