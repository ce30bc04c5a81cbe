//! Why a device cannot be used, in sentences for operators.

use std::fmt;
use std::io;

/// A namespace in a sentence: nothing for Quiver's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within(pub Option<String>);

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(ns) => write!(f, " in network namespace {ns}"),
            None => Ok(()),
        }
    }
}

impl Within {
    /// The option that makes `ip` look there.
    fn ip(&self) -> String {
        self.0.as_ref().map_or_else(|| "ip".to_owned(), |ns| format!("ip -n {ns}"))
    }
}

fn process(pid: Option<i32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A capability is missing.
    #[error("{what} needs {capability}: run as root, or give the process that capability")]
    Permission {
        /// What was tried.
        what: String,
        /// What it takes.
        capability: &'static str,
    },
    /// There is no such device.
    #[error("there is no device {name}{within}: \"{} link\" lists those there are", within.ip())]
    NoDevice {
        /// The name looked for.
        name: String,
        /// Where.
        within: Within,
    },
    /// The device is no Ethernet device.
    #[error("{name}{within} is not an Ethernet device")]
    NotEthernet {
        /// The device.
        name: String,
        /// Where.
        within: Within,
    },
    /// A device name that Linux does not take.
    #[error("\"{name}\" cannot name a Linux device: {why}")]
    Name {
        /// The name.
        name: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// Another device or process has the name.
    #[error("the name {name} is taken{within}: {why}")]
    Taken {
        /// The name.
        name: String,
        /// Where.
        within: Within,
        /// By what.
        why: &'static str,
    },
    /// Another router has the device.
    #[error("{name}{within} is in use by another router{}: stop it, or take another device", process(*pid))]
    InUse {
        /// The device.
        name: String,
        /// Where.
        within: Within,
        /// The process that has it, where that can be seen.
        pid: Option<i32>,
    },
    /// An interface of this router has the device.
    #[error("{name}{within} is the device of another interface of this router")]
    Ours {
        /// The device.
        name: String,
        /// Where.
        within: Within,
    },
    /// The number of queues is out of range.
    #[error("{count} {which} queues for {name}: there must be between 1 and {max}")]
    Queues {
        /// The device.
        name: String,
        /// `receive` or `transmit`.
        which: &'static str,
        /// The number asked for.
        count: usize,
        /// The most there can be.
        max: usize,
    },
    /// The number of slots is out of range.
    #[error(
        "a receive ring of {slots} slots for {name}: there must be a power of two between {min} and {max}"
    )]
    Slots {
        /// The device.
        name: String,
        /// The number asked for.
        slots: usize,
        /// The fewest there can be.
        min: usize,
        /// The most there can be.
        max: usize,
    },
    /// The receive rings take more memory than there is.
    #[error(
        "the receive rings of {name} take {need} MiB, but only {have} MiB of memory are available: ask for fewer \
         queues or slots"
    )]
    Memory {
        /// The device.
        name: String,
        /// MiB that all its rings take.
        need: usize,
        /// MiB that are available.
        have: usize,
    },
    /// The receive rings hold more of the router's buffers than may be.
    #[error(
        "the receive rings of {name} would hold {need} of the router's {buffers} buffers, of which they may have {most}: ask for fewer \
         queues or slots, or give the router more buffers"
    )]
    Buffers {
        /// The device.
        name: String,
        /// Buffers that all its rings hold.
        need: usize,
        /// Buffers of the router.
        buffers: usize,
        /// How many of them rings may hold.
        most: usize,
    },
    /// No namespace of that name.
    #[error(
        "there is no network namespace {name}: \"ip netns\" lists those there are, \"ip netns add {name}\" makes it"
    )]
    NoNamespace {
        /// The name.
        name: String,
    },
    /// A name that no namespace can have.
    #[error("\"{name}\" cannot name a network namespace: it must be one word without \"/\"")]
    NamespaceName {
        /// The name.
        name: String,
    },
    /// No such bridge.
    #[error("there is no bridge {name}{within}: \"{} link add {name} type bridge\" makes it", within.ip())]
    NoBridge {
        /// The name.
        name: String,
        /// Where.
        within: Within,
    },
    /// Another device has the default route.
    #[error(
        "{what} is refused{within}: there is another default route, which \"{} {ip} route show default\" shows", within.ip()
    )]
    DefaultRoute {
        /// What was asked for, e.g. `the gateway 10.0.0.1`.
        what: String,
        /// Where.
        within: Within,
        /// The option of `ip` for the family.
        ip: &'static str,
    },
    /// Linux has no IPv6 on the device.
    #[error(
        "{name}{within} does not take {what}: IPv6 is off there, sysctl net.ipv6.conf.{name}.disable_ipv6 says so"
    )]
    NoIp6 {
        /// The device.
        name: String,
        /// Where.
        within: Within,
        /// What was asked for.
        what: String,
    },
    /// The kernel refused a value.
    #[error("{name}{within} does not take {what}: {cause}")]
    Value {
        /// The device.
        name: String,
        /// Where.
        within: Within,
        /// The value, e.g. `MTU 70000`.
        what: String,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// Anything else the kernel refused.
    #[error("cannot {what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        cause: io::Error,
    },
}

impl Error {
    /// Whether it is a driver that does not work on the device, and not the device itself that is not to be had.
    pub fn is_of_driver(&self) -> bool {
        matches!(
            self,
            Error::System { .. } | Error::Value { .. } | Error::Permission { .. } | Error::Buffers { .. }
        )
    }
}

/// Turns a refusal of the kernel into a sentence; `what` completes "cannot ...".
pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |cause| Error::System { what, cause }
}

/// As [`system`], naming the capability when that is what is missing; `what` stands in front of "needs".
pub(crate) fn privileged(
    what: impl Into<String>,
    capability: &'static str,
) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |cause| match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::Permission { what, capability },
        _ => Error::System { what: format!("complete {what}"), cause },
    }
}

/// Checks a name as Linux does (`dev_valid_name`).
pub fn check_device_name(name: &str) -> Result<(), Error> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() >= libc::IFNAMSIZ {
        "it has more than 15 bytes"
    } else if name == "." || name == ".." {
        "it names a folder"
    } else if name.bytes().any(|b| b == b'/' || b == b':' || b == 0 || b.is_ascii_whitespace()) {
        "it must have no \"/\", \":\" or white space"
    } else {
        return Ok(());
    };
    Err(Error::Name { name: name.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_linux_does() {
        for good in ["eth0", "a", "veth-long-name1", "enp0s31f6.100"] {
            assert!(check_device_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a-name-of-16-byt", ".", "..", "a/b", "a b", "a:b", "a\0b", "tap%d/"] {
            assert!(check_device_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sentences_name_the_device_and_the_namespace() {
        let e = Error::NoDevice { name: "eth7".into(), within: Within(Some("blue".into())) };
        assert_eq!(
            e.to_string(),
            "there is no device eth7 in network namespace blue: \"ip -n blue link\" lists those there are"
        );
        let e = Error::NoDevice { name: "eth7".into(), within: Within(None) };
        assert_eq!(e.to_string(), "there is no device eth7: \"ip link\" lists those there are");
    }
}
