//! The section `quiver.api`: where programs reach the router, and what each may ask for.

use std::net::SocketAddr;

use super::decode::Decoder;
use super::model::{Api, CONNECTIONS, ClientRate, Listen, PemFile};
use super::scalar::short;
use super::tree::Node;
use command::Access;

pub(super) const API: &[&str] = &["socket", "group", "listen", "connections", "rate"];
pub(super) const LISTEN: &[&str] = &["address", "certificate", "key", "client-ca", "roles"];
pub(super) const RATE: &[&str] = &["calls", "bytes"];

/// The most addresses.
const MOST_ADDRESSES: usize = 8;
/// The longest name in a certificate, in characters.
const LONGEST_NAME: usize = 200;

/// The API for programs; there is none without its socket.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Api> {
    let fields = d.fields(node, API)?;
    let example = "/run/quiver/api.sock";
    let help = "the path of the API's socket, such as `socket: /run/quiver/api.sock`";
    let path = d.required(&fields, "socket", help, |d, node| socket(d, node, example));
    let group = d.field(&fields, "group", |d, node| d.string(node, "the name of a group", 32));
    let listen = d.field(&fields, "listen", addresses).unwrap_or_default();
    let connections = d.field(&fields, "connections", |d, node| d.int(node, 1u16, 64));
    let connections = connections.unwrap_or(CONNECTIONS);
    let mut rate = ClientRate::default();
    d.field(&fields, "rate", |d, node| {
        let fields = d.fields(node, RATE)?;
        let calls = d.field(&fields, "calls", |d, node| d.int(node, 1u32, 1_000_000));
        let bytes = d.field(&fields, "bytes", |d, node| d.int(node, 1u64 << 20, 1 << 40));
        rate = ClientRate { calls: calls.unwrap_or(rate.calls), bytes: bytes.unwrap_or(rate.bytes) };
        Some(())
    });
    Some(Api { socket: path?, group, listen, connections, rate })
}

/// The path of a socket, such as `example`.
pub(super) fn socket<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, example: &str) -> Option<String> {
    let path = d.text(node, "the path of a socket")?;
    // sun_path holds 108 bytes with its terminator.
    if !path.starts_with('/') || path.len() > 107 || path.chars().any(char::is_control) {
        d.error(node.place, "socket-path", format!("{} cannot be the path of a socket", short(path)))
            .value(path)
            .help(format!("an absolute path of at most 107 bytes, such as {example}"));
        return None;
    }
    Some(path.to_string())
}

fn addresses<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<Listen>> {
    let items = d.items(node, "addresses with certificates");
    if items.len() > MOST_ADDRESSES {
        d.error(node.place, "range", format!("{} addresses", items.len()))
            .help(format!("{MOST_ADDRESSES} at most"));
        return None;
    }
    let mut all: Vec<Listen> = vec![];
    for (i, node) in items.iter().enumerate() {
        let listen = d.index(i, |d| listen(d, node, &all));
        all.extend(listen);
    }
    Some(all)
}

fn listen<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, before: &[Listen]) -> Option<Listen> {
    let fields = d.fields(node, LISTEN)?;
    let help = "where clients come to, such as `address: 192.0.2.1:50051`";
    let address = d.required(&fields, "address", help, |d, node| address(d, node, before));
    let help = "the router's certificate in PEM, such as `certificate: /etc/quiver/router.crt`";
    let certificate = d.required(&fields, "certificate", help, file);
    let help = "the certificate's private key in PEM, such as `key: /etc/quiver/router.key`";
    let key = d.required(&fields, "key", help, file);
    let help = "who signs certificates of clients, in PEM, such as `client-ca: /etc/quiver/clients.crt`";
    let client_ca = d.required(&fields, "client-ca", help, file);
    let help = "what each name in a certificate may do, such as `roles: {fleet: configure}`";
    let roles = d.required(&fields, "roles", help, roles);
    Some(Listen {
        address: address?,
        certificate: certificate?,
        key: key?,
        client_ca: client_ca?,
        roles: roles?,
    })
}

/// An address with a port that no other one has.
fn address<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, before: &[Listen]) -> Option<SocketAddr> {
    const HELP: &str = "an address and a port, such as 192.0.2.1:50051 or \"[2001:db8::1]:50051\"";
    let text = d.text(node, HELP)?;
    let parsed = text.parse().ok().filter(|a: &SocketAddr| {
        let broadcast = matches!(a.ip(), std::net::IpAddr::V4(ip) if ip.is_broadcast());
        a.port() != 0 && !a.ip().is_multicast() && !broadcast
    });
    let Some(address) = parsed else {
        d.error(node.place, "listen-address", format!("the API cannot listen on {}", short(text)))
            .value(text)
            .help(HELP);
        return None;
    };
    if before.iter().any(|l| l.address == address) {
        d.error(node.place, "listen-unique", format!("{address} is named twice"))
            .value(text)
            .help("each address and port once");
        return None;
    }
    Some(address)
}

fn file<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<PemFile> {
    let path = d.string(node, "the path of a file in PEM", 4000)?;
    if !path.starts_with('/') {
        d.error(node.place, "file-path", format!("{} is no absolute path", short(&path)))
            .value(&path)
            .help("an absolute path, such as /etc/quiver/router.crt");
        return None;
    }
    Some(PemFile { path, place: node.place })
}

/// What the names of clients may do: a name at least, or nobody could come.
fn roles<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<(String, Access)>> {
    let entries = d.entries(node, "names in certificates");
    if entries.is_empty() {
        d.error(node.place, "no-roles", "nobody has a role here")
            .help("a name in a certificate and its role, such as `fleet: configure`");
        return None;
    }
    let words = Access::ALL.map(|access| (access.role(), access));
    let mut roles = vec![];
    for (name, place, node) in entries {
        d.key(name, |d| {
            if name.is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control) {
                d.error(place, "certificate-name", format!("{} is no name in a certificate", short(name)))
                    .value(name)
                    .help(format!("1 to {LONGEST_NAME} characters: a host, URI or e-mail address of the certificate, or its common name"));
                return;
            }
            roles.extend(d.choice(node, &words).map(|access| (name.to_string(), access)));
        });
    }
    Some(roles)
}
