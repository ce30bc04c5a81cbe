//! The packet generator: streams of made packets, put into the graph at any node.
//!
//! A [`StreamDef`] says what a stream is; [`StreamDef::compile`] checks it and builds the bytes that all its packets
//! share with a short list of edits, so that a packet costs a copy, the edits and its checksums. A [`GeneratorQueue`]
//! is the receive queue that makes them; its [`Control`] starts, stops and counts from any thread.
//! [`parse_words`] reads a stream from the words of a command; `docs/packet-generator.md` explains them.
//!
//! ```text
//! stream := item...
//! item   := [name] NAME | interface IF | node NODE | rate PPS | rate max | count N | size SIZE | seed N
//!         | state enabled | state disabled | data "LAYER / LAYER / ..."
//! PPS    := number, with k or m behind it for thousands and millions
//! SIZE   := BYTES | BYTES-BYTES [increment | random] | imix | BYTES:WEIGHT,BYTES:WEIGHT,...
//! LAYER  := ethernet | vlan | arp | ipv4 | ipv6 | udp | tcp | icmp-echo, each with FIELD VALUE...
//!         | payload increment | payload random | payload zero | raw HEX...
//! VALUE  := V | LOW-HIGH, then increment or random for all ranges of the layer before it that have no mode yet
//! ```
//!
//! Reading order: [`def`], [`compile`], [`emit`], [`pace`], [`queue`], [`parse`].

pub mod compile;
pub mod def;
pub mod emit;
pub mod pace;
pub mod parse;
pub mod queue;

mod template;

pub use compile::{CompileError, Compiled, MAX_SIZE};
pub use def::{
    Arp, Checksum, Echo, Ethernet, Field, Ipv4, Ipv6, Layer, Mode, Payload, Rate, Size, StreamDef, Tcp, Udp,
    Vlan,
};
pub use parse::{ParseError, parse_layers, parse_words};
pub use queue::{Control, GeneratorQueue};

#[cfg(test)]
mod tests;
