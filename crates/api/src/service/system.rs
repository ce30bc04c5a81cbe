//! Which router this is, and who asks.

use tonic::{Request, Response, Status};

use super::Router;
use crate::v1::{GetSystemRequest, GetSystemResponse, system_server::System};
use crate::{limits, status, who};

#[tonic::async_trait]
impl System for Router {
    async fn get(&self, request: Request<GetSystemRequest>) -> Result<Response<GetSystemResponse>, Status> {
        let caller = who::caller(&request)?;
        Ok(Response::new(GetSystemResponse {
            version: self.0.version.clone(),
            instance: self.0.instance.clone(),
            started: self.0.started,
            process: std::process::id(),
            role: status::role(caller.access).into(),
            user: caller.user,
            certificate: caller.remote.as_ref().map(|r| r.name.clone()).unwrap_or_default(),
            largest_message: limits::MESSAGE as u64,
            calls_at_once: limits::CALLS,
        }))
    }
}
