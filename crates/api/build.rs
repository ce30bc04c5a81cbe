//! Generates the messages and the server's side of the schema, without `protoc`.

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api");
    let mut files: Vec<PathBuf> = vec![];
    for entry in std::fs::read_dir(root.join("quiver/v1"))? {
        files.extend(Some(entry?.path()).filter(|p| p.extension().is_some_and(|e| e == "proto")));
    }
    files.sort();
    println!("cargo::rerun-if-changed={}", root.join("quiver/v1").display());
    let schema = protox::compile(&files, [&root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("quiver.bin"), protox::prost::Message::encode_to_vec(&schema))?;
    tonic_prost_build::configure().build_client(false).compile_fds(schema)?;
    Ok(())
}
