//! Who gives commands.

use std::fmt;
use std::net::IpAddr;

/// What a command needs, and what an operator has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Looks only.
    Read,
    /// Clears counters, traces and captures packets: what changes nothing that is configured.
    Operate,
    /// Changes what is configured.
    Write,
    /// Changes what concerns the process, and who may do what.
    Admin,
}

impl Access {
    /// All, the least first.
    pub const ALL: [Access; 4] = [Access::Read, Access::Operate, Access::Write, Access::Admin];

    /// The role that has it.
    pub fn role(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Operate => "operate",
            Access::Write => "configure",
            Access::Admin => "admin",
        }
    }
}

/// Who has a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// What they may do.
    pub access: Access,
    /// Names of users.
    pub users: Vec<String>,
    /// Names of groups.
    pub groups: Vec<String>,
}

/// Who gives a command: what files it names are opened with these rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What it may do.
    pub access: Access,
    /// Its user, by number.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Its further groups.
    pub groups: Vec<u32>,
    /// Its process, where that is known.
    pub process: Option<u32>,
    /// The address of the SSH client that it is used over, as it says itself.
    pub ssh: Option<IpAddr>,
    /// Who it is, where it comes over TLS: user and groups are those of nobody then.
    pub remote: Option<Remote>,
}

/// Who comes over a network, by a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The name in the certificate.
    pub name: String,
    /// Where it comes from.
    pub address: IpAddr,
}

/// Who a client is, whatever it may do: all its connections together have its limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// A user of the machine.
    User(u32),
    /// A name in certificates.
    Name(String),
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Client::User(user) => write!(f, "uid:{user}"),
            Client::Name(name) => write!(f, "tls:{name}"),
        }
    }
}

impl Caller {
    /// Whose limits count.
    pub fn client(&self) -> Client {
        match &self.remote {
            Some(remote) => Client::Name(remote.name.clone()),
            None => Client::User(self.user),
        }
    }
}

/// The user and group that comes over a network: Linux's for what has none of its own.
pub const NOBODY: u32 = 65_534;
