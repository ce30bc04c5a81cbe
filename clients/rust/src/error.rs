//! What goes wrong.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

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

/// google.rpc.RetryInfo.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<prost_types::Duration>,
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
    /// The client has asked for too much (`RESOURCE_EXHAUSTED`), and may come again after this.
    pub retry_after: Option<Duration>,
}

/// What an error comes from: the sentence of the system, or of TLS.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    error.to_string()
}

impl Error {
    /// The role that the caller lacks, where that is why.
    pub fn role_needed(&self) -> Option<Role> {
        self.infos.iter().map(ErrorInfo::role_needed).find(|role| *role != Role::Unspecified)
    }

    pub(crate) fn connect(error: tonic::transport::Error) -> Error {
        let message = format!("cannot connect: {}", deepest(&error));
        Error { code: Code::Unavailable, message, infos: vec![], retry_after: None }
    }

    /// The router has ended what goes on for ever.
    pub(crate) fn gone(message: &str) -> Error {
        Error { code: Code::Unavailable, message: message.into(), infos: vec![], retry_after: None }
    }

    /// The router has said something that is not in the schema.
    pub(crate) fn protocol(message: &str) -> Error {
        Error { code: Code::Internal, message: message.into(), infos: vec![], retry_after: None }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        let details = Details::decode(status.details()).unwrap_or_default().details;
        let ours = details.iter().filter(|any| any.type_url.ends_with("/quiver.v1.ErrorInfo"));
        let infos = ours.filter_map(|any| ErrorInfo::decode(&*any.value).ok()).collect();
        let retry = details.iter().find(|any| any.type_url.ends_with("/google.rpc.RetryInfo"));
        let retry = retry.and_then(|any| RetryInfo::decode(&*any.value).ok()?.delay);
        // A router that goes in the midst of a call says nothing any more: what has a source was made here.
        let (code, message) = match (status.code(), status.source()) {
            (Code::Unknown | Code::Unavailable, Some(source)) => (Code::Unavailable, deepest(source)),
            // The router has closed the connection, and said why.
            (code, Some(source)) => (code, deepest(source)),
            (code, None) => (code, status.message().to_owned()),
        };
        Error { code, message, infos, retry_after: retry.and_then(|d| d.try_into().ok()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
