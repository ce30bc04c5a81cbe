//! One YAML document, read into typed data, or everything that is wrong with it.
//!
//! `tree` reads the text with places, one file a section turns the tree into the types of `model`, `rules` checks what
//! the sections say about each other, `diag` shows the errors. `docs/configuration.md` is the operator's view.

use std::path::Path;
use std::sync::{Arc, LazyLock};

mod acl;
mod api;
mod bridge;
mod decode;
mod device;
mod diag;
mod interface;
mod l2;
mod l3;
mod linux_cp;
mod model;
mod mpls;
mod mpls_tunnel;
mod neighbor;
mod punt;
pub(crate) mod rewrite;
mod route;
mod rules;
mod runs;
mod scalar;
#[cfg(test)]
mod schema;
pub(crate) mod secrets;
mod settings;
mod sflow;
mod span;
mod stream;
mod table;
mod tap;
#[cfg(test)]
mod tests;
mod tree;
pub(crate) mod value;
pub(crate) mod virtuals;

pub use acl::{Acl, AclUse, Action, Endpoint, Families, PrefixList, Range, Term};
pub use diag::{Diagnostic, Diagnostics, Place, Severity, Source};
pub(crate) use l2::popped;
pub use l3::Setting;
pub use model::*;
pub use mpls::{LocalLabel, Mpls};
pub use mpls_tunnel::{MplsTunnel, TunnelPaths};
pub use scalar::Reference;
pub use sflow::Sflow;
pub use stream::Stream;
pub use table::Tables;
pub use tree::{MAX_ALIAS_NODES, MAX_BYTES, MAX_DEPTH, MAX_NODES};
pub use virtuals::Virtual;

use decode::Decoder;
use graph::memory::{self, Growth};

/// All scalars of a text, keys too, in order.
#[cfg(test)]
pub(crate) fn texts(text: &str) -> Vec<String> {
    fn walk(node: &tree::Node<'_>, out: &mut Vec<String>) {
        match &node.value {
            tree::Value::Scalar { text, .. } if node.is_null() => out.push(format!("null {text}")),
            tree::Value::Scalar { text, .. } => out.push(text.to_string()),
            tree::Value::List(items) => items.iter().for_each(|n| walk(n, out)),
            tree::Value::Map(pairs) => pairs.iter().for_each(|(k, v)| {
                walk(k, out);
                walk(v, out);
            }),
            tree::Value::Lines(_) => {}
        }
    }
    let mut out = vec![];
    if let Ok((Some(root), _)) = tree::parse(text) {
        walk(&root, &mut out);
    }
    out
}

/// The sections of a document, with those that features bring.
static SECTIONS: LazyLock<Vec<&str>> =
    LazyLock::new(|| OWN_SECTIONS.iter().copied().chain(virtuals::SECTIONS.iter().map(|s| s.name)).collect());

const OWN_SECTIONS: &[&str] = &[
    "quiver",
    "devices",
    "interfaces",
    "loopbacks",
    "taps",
    "routes",
    "neighbors",
    "punt",
    "packet-generator",
    "l2",
    "l3",
    "bridgedomains",
    "acls",
    "prefixlists",
    "sflow",
    "tables",
    "mpls",
    "span",
    "linux-cp",
];

/// Those of them that belong to the format but are not supported yet.
const LATER: &[&str] = &["acls", "prefixlists", "sflow"];

/// Reads and checks a document that a router is to run. `file` is the name shown in errors.
///
/// # Errors
/// All errors, and what is not supported yet.
pub fn load(file: &str, text: &str) -> Result<Document, Diagnostics> {
    check(file, text)?.runnable()
}

/// Reads and checks a document. What is not supported yet is among its [`Document::notes`].
///
/// # Errors
/// All errors, with the notes between them.
pub fn check(file: &str, text: &str) -> Result<Document, Diagnostics> {
    check_text(Source { name: file.to_string(), text: text.to_string() })
}

fn check_text(source: Source) -> Result<Document, Diagnostics> {
    let source = Arc::new(source);
    let mut document = Document::default();
    // Beside the text: a second one without its long runs of routes.
    memory::check(source.text.len()).map_err(|e| too_large(&source.name, &e))?;
    let short = runs::shorten(&source.text);
    let root = match runs::parse(&source.text, short.as_ref()) {
        Ok(root) => root,
        Err(e) => {
            let mut error = Diagnostic::new(e.place, "", e.rule, e.message);
            error.help(e.help);
            return Err(Diagnostics::new(&source, vec![error]));
        }
    };
    if let Some(root) = &root {
        // Typed data takes about as much again as the tree and what stands beside it.
        memory::check(2 * root.bytes()).map_err(|e| too_large(&source.name, &e))?;
        let mut d = Decoder::default();
        sections(&mut d, root, &mut document);
        let failed = d.errors.failed();
        let found = d.errors.finish(&source);
        if failed {
            return Err(found);
        }
        document.notes = found.errors;
    }
    document.source = Arc::clone(&source);
    Ok(document)
}

fn too_large(file: &str, e: &memory::OutOfMemory) -> Diagnostics {
    Diagnostics::whole_file(file, "memory", format!("the document is too large: {e}"), memory::HELP)
}

/// Like [`load`], for bytes that may not be UTF-8.
///
/// # Errors
/// As [`load`].
pub fn load_bytes(file: &str, bytes: &[u8]) -> Result<Document, Diagnostics> {
    check_bytes(file, bytes.to_vec())?.runnable()
}

/// Like [`check`], for bytes that may not be UTF-8.
///
/// # Errors
/// As [`check`].
pub fn check_bytes(file: &str, bytes: Vec<u8>) -> Result<Document, Diagnostics> {
    match String::from_utf8(bytes) {
        Ok(text) => check_text(Source { name: file.to_string(), text }),
        Err(e) => {
            let valid = e.utf8_error().valid_up_to();
            let line = 1 + e.as_bytes().iter().take(valid).filter(|b| **b == b'\n').count();
            Err(Diagnostics::whole_file(
                file,
                "utf-8",
                format!("line {line} is not UTF-8 text"),
                "save the file as UTF-8",
            ))
        }
    }
}

/// Like [`load`], for the document in a file.
///
/// # Errors
/// As [`load`].
pub fn load_file(path: &Path) -> Result<Document, Diagnostics> {
    check_file(path)?.runnable()
}

/// Like [`check`], for the document in a file.
///
/// # Errors
/// As [`check`].
pub fn check_file(path: &Path) -> Result<Document, Diagnostics> {
    let file = path.display().to_string();
    let refuse = |message: String, help: &str| Err(Diagnostics::whole_file(&file, "file", message, help));
    match std::fs::metadata(path) {
        Err(e) => return refuse(format!("cannot read the file: {e}"), "name a YAML file that can be read"),
        Ok(meta) => {
            if let Some(what) = never_ends(&meta) {
                return refuse(format!("this is {what}"), "name a YAML file, or a pipe that ends");
            }
            if meta.is_file() && meta.len() > MAX_BYTES as u64 {
                return refuse(
                    format!("the file has {} bytes", meta.len()),
                    "a document has at most 256 MiB",
                );
            }
        }
    }
    match read(path) {
        Ok(bytes) if bytes.len() > MAX_BYTES => {
            refuse(format!("there are more than {MAX_BYTES} bytes"), "a document has at most 256 MiB")
        }
        Ok(bytes) => check_bytes(&file, bytes),
        Err(e) => refuse(format!("cannot read the file: {e}"), "name a YAML file that can be read"),
    }
}

/// What a path leads to when that is no document: reading it may never end, or block for ever. `/dev/null` is an empty one.
fn never_ends(meta: &std::fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let kind = meta.file_type();
    let null = libc::makedev(1, 3);
    [
        (kind.is_dir(), "a directory"),
        (kind.is_char_device() && meta.rdev() != null, "a character device"),
        (kind.is_block_device(), "a block device"),
        (kind.is_socket(), "a socket"),
    ]
    .into_iter()
    .find_map(|(is, name)| is.then_some(name))
}

/// All bytes of a file or pipe, as far as a document may be long, and one more.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut file = std::fs::File::open(path)?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    let mut growth = Growth::default();
    while bytes.len() <= MAX_BYTES {
        let n = match file.read(&mut piece) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let Some(read) = piece.get(..n).filter(|read| !read.is_empty()) else { break };
        growth.push(&mut bytes, n)?;
        bytes.extend_from_slice(read);
    }
    Ok(bytes)
}

fn sections<'n>(d: &mut Decoder<'n>, root: &'n tree::Node<'n>, document: &mut Document) {
    let Some(fields) = d.fields(root, &SECTIONS) else { return };
    for name in LATER {
        if fields.has(name) {
            d.key(name, |d| d.unsupported(fields.key_place(name), &format!("the section `{name}`")));
        }
    }
    document.punt = d.field(&fields, "punt", punt::decode).unwrap_or_default();
    document.settings = d.field(&fields, "quiver", settings::decode).unwrap_or_default();
    let mut devices = d.field(&fields, "devices", device::decode).unwrap_or_default();
    let mut taps = d.field(&fields, "taps", tap::decode).unwrap_or_default();
    let loopbacks = d.field(&fields, "loopbacks", interface::loopbacks).unwrap_or_default();
    let mut loopbacks: Vec<Option<Interface>> = loopbacks.into_iter().map(Some).collect();
    let mut mpls_tunnels = mpls_tunnel::declared(root);
    let mut virtuals = virtuals::All::new();
    for section in virtuals::SECTIONS {
        let all = d.field(&fields, section.name, |d, node| virtuals::decode(d, node, section));
        virtuals.extend(all.unwrap_or_default());
    }
    let mut others = interface::Others {
        mpls_tunnels: &mut mpls_tunnels,
        virtuals: &mut virtuals,
        devices: &mut devices,
        taps: &mut taps,
        loopbacks: &mut loopbacks,
    };
    let interfaces = d.field(&fields, "interfaces", |d, node| interface::decode(d, node, &mut others));
    document.interfaces = interfaces.unwrap_or_default();
    document.interfaces.extend(tap::remaining(taps, &mut devices));
    document.interfaces.extend(mpls_tunnel::remaining(mpls_tunnels));
    document.interfaces.extend(virtuals::remaining(d, virtuals));
    document.interfaces.extend(loopbacks.into_iter().flatten());
    device::promiscuity(&mut document.interfaces, &mut devices);
    device::placement_fits(d, &document.interfaces, document.settings.workers);
    device::rings_fit(d, &document.interfaces, document.settings.buffers.count);
    d.key("devices", |d| device::unused(d, devices));
    document.bridges = d.field(&fields, "bridgedomains", bridge::decode).unwrap_or_default();

    let lists = d.field(&fields, "prefixlists", acl::prefixlist::decode).unwrap_or_default();
    document.acls = d.field(&fields, "acls", |d, node| acl::decode(d, node, &lists)).unwrap_or_default();
    document.sflow = d.field(&fields, "sflow", sflow::decode);
    document.tables = d.field(&fields, "tables", table::decode).unwrap_or_default();

    virtuals::check(d, &document.interfaces);
    virtuals::check_tables(d, &document.interfaces, &document.tables);
    l3::further_addresses(root, &mut document.interfaces);
    let bound = table::bindings(root, &document.tables);
    let own_mtu = l2::own_mtu(root);
    let names = rules::Names::new(&document.interfaces, &document.bridges, &document.tables, bound, own_mtu);
    rules::check(&document.interfaces, &document.bridges, &document.acls, &names, &mut d.errors);
    let routes = d.field(&fields, "routes", |d, node| route::decode(d, node, &names));
    let neighbors = d.field(&fields, "neighbors", |d, node| neighbor::decode(d, node, &names));
    let streams = d.field(&fields, "packet-generator", |d, node| stream::decode(d, node, &names));
    let l2 = d.field(&fields, "l2", |d, node| l2::decode(d, node, &names, &document.bridges));
    document.l3 = d.field(&fields, "l3", |d, node| l3::decode(d, node, &names)).unwrap_or_default();
    document.mpls = d.field(&fields, "mpls", |d, node| mpls::decode(d, node, &names)).unwrap_or_default();
    let span = d.field(&fields, "span", |d, node| span::decode(d, node, &names, &document.bridges));
    document.span = span.unwrap_or_default();
    document.linux_cp = linux_cp::decode(d, &fields, &names);
    document.virtuals = virtuals::of_others(d, &document.interfaces, &names);
    document.l2 = l2.unwrap_or_default();
    document.routes = routes.unwrap_or_default();
    document.neighbors = neighbors.unwrap_or_default();
    document.streams = streams.unwrap_or_default();
}
