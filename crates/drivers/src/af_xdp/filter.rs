//! What of the frames on a device stays Linux's, and the instructions that find it.
//!
//! Frames are looked at as far as fixed places tell: without VLAN tags, IPv6 without extension headers, ports of first fragments.

use super::program::instruction;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Most rules of a device: the kernel reads the program as a whole.
pub const MOST_KEPT: usize = 64;

/// Frames that stay Linux's: those to an address, of a protocol, to a port of it, or all of these. An address alone takes its ARP and
/// neighbor solicitations along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The destination; any when absent.
    pub to: Option<IpAddr>,
    /// The protocol of what IP carries (IANA's numbers), and the destination port of TCP, UDP or SCTP.
    pub protocol: Option<(u8, Option<u16>)>,
}

/// Names of protocols that a rule may have in place of numbers.
const NAMES: [(&str, u8); 9] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("esp", 50),
    ("icmp6", 58),
    ("ospf", 89),
    ("vrrp", 112),
    ("sctp", 132),
];
const WITH_PORTS: [u8; 3] = [6, 17, 132];
const HELP: &str = "`ADDRESS`, `PROTOCOL`, `PROTOCOL/PORT`, or one of the last two with `@ADDRESS` behind, as in `tcp/22@192.0.2.9`";

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Kept, String> {
        if let Ok(to) = text.parse() {
            return Ok(Kept { to: Some(to), protocol: None });
        }
        let (what, to) = match text.split_once('@') {
            Some((what, to)) => {
                (what, Some(to.parse().map_err(|_| format!("`{to}` is no IP address: {HELP}"))?))
            }
            None => (text, None),
        };
        let (name, port) = match what.split_once('/') {
            Some((name, port)) => {
                let port = port
                    .parse()
                    .ok()
                    .filter(|p| *p != 0)
                    .ok_or_else(|| format!("`{port}` is no port, 1 to 65535"))?;
                (name, Some(port))
            }
            None => (what, None),
        };
        let known = NAMES.iter().find(|(n, _)| *n == name).map(|(_, n)| *n);
        let number = known.or_else(|| name.parse().ok()).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(n, _)| *n).collect();
            format!("`{name}` is no protocol ({}, or a number 0 to 255): {HELP}", names.join(", "))
        })?;
        if port.is_some() && !WITH_PORTS.contains(&number) {
            return Err(format!("{name} has no ports: tcp, udp and sctp have"));
        }
        Ok(Kept { to, protocol: Some((number, port)) })
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((number, port)) = self.protocol else {
            return self.to.map_or(Ok(()), |to| write!(f, "{to}"));
        };
        match NAMES.iter().find(|(_, n)| *n == number) {
            Some((name, _)) => f.write_str(name)?,
            None => write!(f, "{number}")?,
        }
        if let Some(port) = port {
            write!(f, "/{port}")?;
        }
        self.to.map_or(Ok(()), |to| write!(f, "@{to}"))
    }
}

// Operation codes (linux/bpf.h, linux/bpf_common.h).
const LOAD_8: u8 = 0x71;
const LOAD_16: u8 = 0x69;
const LOAD_32: u8 = 0x61;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_NUMBER: u8 = 0x07;
const AND_NUMBER: u8 = 0x57;
const SHIFT_LEFT: u8 = 0x67;
const JUMP: u8 = 0x05;
const JUMP_ABOVE: u8 = 0x2d;
const JUMP_UNLIKE: u8 = 0x56; // of the lower 32 bits, with a number
const JUMP_LIKE: u8 = 0x16;
const EXIT: u8 = 0x95;

// Registers of the program.
const ANSWER: u8 = 0;
const DATA: u8 = 2;
const END: u8 = 3;
const FIELD: u8 = 4;
const SPARE: u8 = 5;
const CONTEXT: u8 = 6;
const PROTOCOL: u8 = 7;
const PORT: u8 = 8;

/// In place of a port where there is none.
const NO_PORT: i32 = 1 << 16;
const XDP_PASS: i32 = 2;
const ETHERNET: i16 = 14;
const NEIGHBOR_SOLICITATION: i32 = 135;
const ICMP6: i32 = 58;

/// A place that jumps lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Label(usize);

#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    /// Jumps, and the labels that they lead to.
    jumps: Vec<(usize, Label)>,
    places: Vec<usize>,
}

impl Assembler {
    fn label(&mut self) -> Label {
        self.places.push(usize::MAX);
        Label(self.places.len() - 1)
    }

    fn here(&mut self, label: Label) {
        self.places[label.0] = self.code.len();
    }

    fn put(&mut self, code: u8, dst: u8, src: u8, off: i16, imm: i32) {
        self.code.push(instruction(code, dst, src, off, imm));
    }

    fn jump(&mut self, code: u8, dst: u8, src: u8, imm: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(code, dst, src, 0, imm);
    }

    /// Jumps where the frame has fewer than so many bytes.
    fn need(&mut self, bytes: i32, or: Label) {
        self.put(MOVE, SPARE, DATA, 0, 0);
        self.put(ADD_NUMBER, SPARE, 0, 0, bytes);
        self.jump(JUMP_ABOVE, SPARE, END, 0, or);
    }

    /// Jumps where the bytes at a place are not these.
    fn unlike(&mut self, at: i16, bytes: &[u8], or: Label) {
        for (word, at) in bytes.as_chunks::<4>().0.iter().zip((at..).step_by(4)) {
            self.put(LOAD_32, FIELD, DATA, at, 0);
            self.jump(JUMP_UNLIKE, FIELD, 0, i32::from_ne_bytes(*word), or);
        }
    }

    fn finish(mut self) -> Vec<u64> {
        for (at, label) in &self.jumps {
            let off = (self.places[label.0] as i64 - *at as i64 - 1) as i16;
            self.code[*at] |= (off as u16 as u64) << 16;
        }
        self.code
    }
}

/// A number as the program reads it from two bytes in network order.
fn read(n: u16) -> i32 {
    i32::from(n.to_be())
}

/// The rules for one family: jumps to `pass` where one is for the address at a place of the frame, and for the protocol and port in
/// registers.
fn rules(a: &mut Assembler, kept: &[Kept], v6: bool, at: i16, pass: Label) {
    for k in kept.iter().filter(|k| k.to.is_none_or(|to| to.is_ipv6() == v6)) {
        let next = a.label();
        match k.to {
            Some(IpAddr::V4(to)) => a.unlike(at, &to.octets(), next),
            Some(IpAddr::V6(to)) => a.unlike(at, &to.octets(), next),
            None => {}
        }
        if let Some((protocol, port)) = k.protocol {
            a.jump(JUMP_UNLIKE, PROTOCOL, 0, protocol.into(), next);
            if let Some(port) = port {
                a.jump(JUMP_UNLIKE, PORT, 0, read(port), next);
            }
        }
        a.jump(JUMP, 0, 0, 0, pass);
        a.here(next);
    }
}

/// Instructions that give Linux what is kept, and go on with `rest` for all else. They find the context in register 1, as `rest` does.
pub(super) fn code(kept: &[Kept], rest: Vec<u64>) -> Vec<u64> {
    if kept.is_empty() {
        return rest;
    }
    let mut a = Assembler::default();
    let [pass, on, arp, v6, no_port] = [(); 5].map(|()| a.label());
    let whole: Vec<Kept> = kept.iter().copied().filter(|k| k.protocol.is_none()).collect();
    a.put(MOVE, CONTEXT, 1, 0, 0);
    a.put(LOAD_32, DATA, CONTEXT, 0, 0);
    a.put(LOAD_32, END, CONTEXT, 4, 0);
    a.need(i32::from(ETHERNET), on);
    a.put(LOAD_16, FIELD, DATA, 12, 0);
    a.put(MOVE_NUMBER, PORT, 0, 0, NO_PORT);
    a.jump(JUMP_LIKE, FIELD, 0, read(0x0806), arp);
    a.jump(JUMP_LIKE, FIELD, 0, read(0x86dd), v6);
    a.jump(JUMP_UNLIKE, FIELD, 0, read(0x0800), on);

    a.need(34, on);
    a.put(LOAD_8, PROTOCOL, DATA, 23, 0);
    // Of later fragments nothing tells the port.
    a.put(LOAD_16, FIELD, DATA, 20, 0);
    a.put(AND_NUMBER, FIELD, 0, 0, read(0x1fff));
    a.jump(JUMP_UNLIKE, FIELD, 0, 0, no_port);
    a.put(LOAD_8, FIELD, DATA, ETHERNET, 0);
    a.put(AND_NUMBER, FIELD, 0, 0, 15);
    a.put(SHIFT_LEFT, FIELD, 0, 0, 2);
    a.put(MOVE, ANSWER, DATA, 0, 0);
    a.put(ADD, ANSWER, FIELD, 0, 0);
    a.put(MOVE, SPARE, ANSWER, 0, 0);
    a.put(ADD_NUMBER, SPARE, 0, 0, i32::from(ETHERNET) + 4);
    a.jump(JUMP_ABOVE, SPARE, END, 0, no_port);
    a.put(LOAD_16, PORT, ANSWER, ETHERNET + 2, 0);
    a.here(no_port);
    rules(&mut a, kept, false, 30, pass);
    a.jump(JUMP, 0, 0, 0, on);

    a.here(arp);
    a.need(42, on);
    rules(&mut a, &whole, false, 38, pass);
    a.jump(JUMP, 0, 0, 0, on);

    a.here(v6);
    let short = a.label();
    a.need(54, on);
    a.put(LOAD_8, PROTOCOL, DATA, 20, 0);
    a.need(58, short);
    a.put(LOAD_16, PORT, DATA, 56, 0);
    a.jump(JUMP_UNLIKE, PROTOCOL, 0, ICMP6, short);
    a.need(78, short);
    a.put(LOAD_8, FIELD, DATA, 54, 0);
    a.jump(JUMP_UNLIKE, FIELD, 0, NEIGHBOR_SOLICITATION, short);
    rules(&mut a, &whole, true, 62, pass);
    a.here(short);
    rules(&mut a, kept, true, 38, pass);
    a.jump(JUMP, 0, 0, 0, on);

    a.here(pass);
    a.put(MOVE_NUMBER, ANSWER, 0, 0, XDP_PASS);
    a.put(EXIT, 0, 0, 0, 0);
    a.here(on);
    a.put(MOVE, 1, CONTEXT, 0, 0);
    a.code.extend(rest);
    a.finish()
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
