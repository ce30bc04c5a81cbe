//! `docs/schema.json` is made here.

use super::super::decode::Decoder;
use super::super::tree;
use super::manual::Manual;
use super::shared::Shared;
use super::{Recorder, definitions};
use serde_json::Value as Json;

/// Reads a good document, and notes what the reader asks for.
fn record(recorder: &mut Recorder, text: &str) {
    let Ok((Some(root), _)) = tree::parse(text) else { return };
    let mut d = Decoder::default();
    d.recorder = Some(std::mem::take(recorder));
    super::super::sections(&mut d, &root, &mut super::super::Document::default());
    let good = !d.errors.failed();
    *recorder = d.recorder.take().unwrap();
    if good {
        recorder.0.learn(&root);
    }
}

fn folder(of: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(of)
}

/// The good documents of the tests, the examples and the manual.
fn documents() -> Vec<String> {
    let mut out = vec![];
    for of in ["tests/yaml/cases", "../../examples"] {
        let files = std::fs::read_dir(folder(of)).unwrap().map(|f| f.unwrap().path());
        let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "yaml")).collect();
        files.sort();
        out.extend(files.iter().map(|f| std::fs::read_to_string(f).unwrap()));
    }
    let manual = std::fs::read_to_string(folder("../../docs/configuration.md")).unwrap();
    let blocks = manual.split("```yaml\n").skip(1).filter_map(|b| b.split_once("```"));
    out.extend(blocks.map(|(block, _)| block.to_string()));
    out
}

/// Fields without a description.
fn undescribed(schema: &Json, path: &str, out: &mut Vec<String>) {
    for part in schema["anyOf"].as_array().into_iter().flatten() {
        for (name, field) in part["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if field.get("description").is_none() {
                out.push(path.clone());
            }
            undescribed(field, &path, out);
        }
        undescribed(&part["items"], &format!("{path}[N]"), out);
        undescribed(&part["additionalProperties"], &format!("{path}.NAME"), out);
    }
}

#[test]
fn the_schema_is_what_the_reader_asks_for() {
    let mut recorder = Recorder::default();
    documents().iter().for_each(|text| record(&mut recorder, text));
    recorder.join();
    let mut unreached = vec![];
    recorder.0.unreached("", &mut unreached);
    assert!(unreached.is_empty(), "no good document of tests or manual has {unreached:#?}");
    let mut manual = Manual::read(&std::fs::read_to_string(folder("../../docs/configuration.md")).unwrap());
    let mut schema = recorder.0.schema(&[], &mut manual);
    assert_eq!(manual.unused(), [""; 0], "the manual tells of fields that the reader does not ask for");
    let mut bare = vec![];
    undescribed(&schema, "", &mut bare);
    assert_eq!(bare, [""; 0], "the manual has no row for fields of the reader's");
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    let Json::Object(definitions) = definitions() else { return };
    let mut shared = Shared::default();
    shared.definitions = definitions;
    shared.count(&schema);
    shared.replace(&mut schema, "document");
    schema["definitions"] = shared.definitions.into();
    schema["title"] = "Configuration of Quiver".into();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = folder("../../docs/schema.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let stands = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stands == text,
        "docs/schema.json is not what the reader asks for: run `UPDATE_DOCS=1 cargo test -p control --lib schema`"
    );
}
