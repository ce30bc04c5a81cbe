//! The kept inputs, without a fuzzer: `cargo test --manifest-path fuzz/Cargo.toml` on any toolchain.

use std::path::Path;

fn each(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20, "{target} has a corpus");
    for file in files {
        println!("{}", file.display());
        run(&std::fs::read(file).unwrap());
    }
}

#[test]
fn packet() {
    each("packet", targets::packet::run);
}

#[test]
fn frames() {
    // Inputs that put packets into the middle of the graph come to every node by themselves.
    each("frames", |data| {
        if targets::frames::enters_at_the_edge(data) {
            targets::frames::run(data);
        }
    });
    // No capture runs, so nothing comes to its nodes.
    assert_eq!(targets::frames::unvisited(), ["pcap-rx", "pcap-tx"]);
    each("frames", targets::frames::run);
}

#[test]
fn yaml() {
    each("yaml", targets::yaml::run);
}

#[test]
fn command() {
    each("command", targets::command::run);
}

#[test]
fn state() {
    each("state", targets::state::run);
}

#[test]
fn api() {
    each("api", targets::api::run);
}

#[test]
fn documents() {
    each("documents", targets::documents::run);
}
