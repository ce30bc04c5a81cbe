//! What goes wrong.

use std::error::Error as _;
use std::fmt;

use prost::Message;
use tonic::{Code, Status};

use crate::v1::{ErrorInfo, Role};

/// google.rpc.Status.
#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// Why a call did not do what was asked.
#[derive(Debug, Clone)]
pub struct Error {
    /// The kind of failure.
    pub code: Code,
    /// What is wrong, in a sentence.
    pub message: String,
    /// Each fault with its place, where the router tells such.
    pub infos: Vec<ErrorInfo>,
}

impl Error {
    /// The role that the caller lacks, where that is why.
    pub fn role_needed(&self) -> Option<Role> {
        self.infos.iter().map(ErrorInfo::role_needed).find(|role| *role != Role::Unspecified)
    }

    pub(crate) fn connect(error: tonic::transport::Error) -> Error {
        // The sentence is that of the system's error, at the end of the chain.
        let (mut message, mut source) = (error.to_string(), error.source());
        while let Some(inner) = source {
            message = inner.to_string();
            source = inner.source();
        }
        Error { code: Code::Unavailable, message: format!("cannot connect: {message}"), infos: vec![] }
    }

    /// The router has said something that is not in the schema.
    pub(crate) fn protocol(message: &str) -> Error {
        Error { code: Code::Internal, message: message.into(), infos: vec![] }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        let details = Details::decode(status.details()).unwrap_or_default().details;
        let ours = details.into_iter().filter(|any| any.type_url.ends_with("/quiver.v1.ErrorInfo"));
        let infos = ours.filter_map(|any| ErrorInfo::decode(&*any.value).ok()).collect();
        // A router that goes in the midst of a call says nothing any more: what has a source was made here.
        let code = match status.code() {
            Code::Unknown if status.source().is_some() => Code::Unavailable,
            code => code,
        };
        Error { code, message: status.message().to_owned(), infos }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
