//! Values of arguments and their conversion into Rust types.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The checked value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Uint(u64),
    /// A number with a fraction.
    Float(f64),
    /// An address of either family.
    Ip(IpAddr),
    /// A prefix, or an address with a prefix length.
    Net(IpNet),
    /// An Ethernet address.
    Mac([u8; 6]),
    /// A time span.
    Duration(Duration),
    /// Bytes given in hexadecimal.
    Bytes(Vec<u8>),
    /// Any text: strings, names, paths.
    Text(String),
}

/// A Rust type that a [`Value`] can become.
pub trait FromValue: Sized {
    /// The value as this type; `None` when the argument's declared type is another one.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! from_uint {
    ($($t:ty),*) => {$(
        impl FromValue for $t {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Uint(n) => Self::try_from(*n).ok(),
                    _ => None,
                }
            }
        }
    )*};
}
from_uint!(u8, u16, u32, u64, usize);

macro_rules! from_variant {
    ($($t:ty: $($pattern:pat => $result:expr),+;)*) => {$(
        impl FromValue for $t {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    $($pattern => Some($result),)+
                    _ => None,
                }
            }
        }
    )*};
}
from_variant! {
    f64: Value::Float(x) => *x, Value::Uint(n) => *n as f64;
    IpAddr: Value::Ip(ip) => *ip;
    Ipv4Addr: Value::Ip(IpAddr::V4(ip)) => *ip;
    Ipv6Addr: Value::Ip(IpAddr::V6(ip)) => *ip;
    IpNet: Value::Net(net) => *net;
    Ipv4Net: Value::Net(IpNet::V4(net)) => *net;
    Ipv6Net: Value::Net(IpNet::V6(net)) => *net;
    [u8; 6]: Value::Mac(mac) => *mac;
    Duration: Value::Duration(time) => *time;
    Vec<u8>: Value::Bytes(bytes) => bytes.clone();
    String: Value::Text(text) => text.clone();
    PathBuf: Value::Text(text) => PathBuf::from(text);
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}
