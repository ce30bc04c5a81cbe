//! The way to a router over its API, from this machine or from another one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use quiver_client::v1::commands_client::CommandsClient;
use quiver_client::v1::{Format, RunRequest, run_request, run_response};
use quiver_client::{Error, Router, Tls};
use serde_json::{Value as Json, json};
use tokio::runtime::{Builder, Runtime};

use super::link::{Failure, LOOK};

/// Where the API is, and who comes there.
#[derive(Clone, Debug, Args)]
pub struct Over {
    /// Go over the router's API, and not to its control socket: the path of its socket, or HOST:PORT with TLS
    #[arg(long, value_name = "PATH|HOST:PORT")]
    pub api: Option<String>,
    /// With HOST:PORT: who you are, a certificate in PEM
    #[arg(long, env = "QUIVER_CERTIFICATE", value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// With HOST:PORT: its private key in PEM
    #[arg(long, env = "QUIVER_KEY", value_name = "FILE")]
    key: Option<PathBuf>,
    /// With HOST:PORT: who signs the certificates of routers, in PEM
    #[arg(long, env = "QUIVER_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// With HOST:PORT: the name in the router's certificate, where it is not HOST
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
}

/// A connection to the API.
pub struct Remote {
    over: Over,
    address: String,
    runtime: Runtime,
    router: Option<Router>,
}

/// A failure of a call, in the form in which the control socket tells it.
fn failure(e: &Error) -> Failure {
    match e.infos.first() {
        Some(info) => Failure::Refused(json!({ "kind": info.rule, "message": e.message, "text": e.message })),
        None => Failure::Said(e.message.clone()),
    }
}

impl Remote {
    /// A way that nobody has gone yet.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(over: &Over, address: &str) -> Result<Remote, Failure> {
        // A thread of its own answers the router's questions while the operator thinks.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|e| Failure::Said(format!("cannot start a thread: {e}")))?;
        Ok(Remote { over: over.clone(), address: address.to_owned(), runtime, router: None })
    }

    /// Connects, if there is no connection.
    ///
    /// # Errors
    /// A sentence that says why the router cannot be reached.
    pub fn connect(&mut self) -> Result<Router, Failure> {
        if let Some(router) = &self.router {
            return Ok(router.clone());
        }
        let address = &self.address;
        let connected = if address.contains('/') {
            self.runtime.block_on(Router::unix(address))
        } else {
            let Over { certificate: Some(certificate), key: Some(key), ca: Some(ca), .. } = &self.over else {
                return Err(Failure::Said(format!(
                    "{address} is no path, and over a network --certificate, --key and --ca are needed"
                )));
            };
            let tls = Tls::new(certificate, key, ca);
            let tls = match &self.over.server_name {
                Some(name) => tls.server_name(name),
                None => tls,
            };
            self.runtime.block_on(Router::tls(address, tls))
        };
        let router = connected.map_err(|e| Failure::Said(format!("{address}: {e}")))?;
        Ok(self.router.insert(router).clone())
    }

    /// Sends a request of the control socket's protocol, and makes the reply that would come there.
    ///
    /// # Errors
    /// What the router answers, or why it does not answer.
    pub fn ask(
        &mut self,
        request: &Json,
        interrupted: &Arc<AtomicBool>,
        part: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Json, Failure> {
        let router = self.connect()?;
        let here = self.address.contains('/');
        let asked = async {
            if let Some(complete) = request.get("complete") {
                let cursor =
                    u32::try_from(complete["cursor"].as_u64().unwrap_or_default()).unwrap_or(u32::MAX);
                let line = complete["line"].as_str().unwrap_or_default();
                let found = router.complete(line, cursor).await.map_err(|e| failure(&e))?;
                let candidates = found.candidates.iter().map(|c| json!({ "text": c.text, "help": c.help }));
                let candidates: Vec<Json> = candidates.collect();
                let complete = json!({ "start": found.start, "candidates": candidates, "path": found.path });
                return Ok(json!({ "ok": true, "complete": complete }));
            }
            if let Some(line) = request["help"].as_str() {
                let text = router.help(line).await.map_err(|e| failure(&e))?;
                return Ok(json!({ "ok": true, "text": text }));
            }
            run(&router, request, here, part).await
        };
        let interrupt = async {
            while !interrupted.swap(false, Ordering::Relaxed) {
                tokio::time::sleep(LOOK).await;
            }
            Err(Failure::Interrupted)
        };
        self.runtime.block_on(async {
            tokio::select! {
                reply = asked => reply,
                ended = interrupt => ended,
            }
        })
    }
}

/// Runs commands. A router that is not `here` has other directories.
async fn run(
    router: &Router,
    request: &Json,
    here: bool,
    part: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<Json, Failure> {
    let text = |field: &str| request[field].as_str().map(str::to_owned);
    let line = text("line").map(run_request::What::Line);
    let json = request["json"] == true;
    let call = RunRequest {
        what: line.or_else(|| text("lines").map(run_request::What::Lines)),
        format: if json { Format::Json } else { Format::Text }.into(),
        directory: text("cwd").filter(|_| here).unwrap_or_default(),
        failures: true,
        ssh: text("ssh").unwrap_or_default(),
    };
    let called = CommandsClient::new(router.channel()).run(call).await;
    let mut pieces = called.map_err(|e| failure(&e.into()))?.into_inner();
    let mut value = String::new();
    while let Some(piece) = pieces.message().await.map_err(|e| failure(&e.into()))? {
        match piece.what {
            Some(run_response::What::Text(text)) => part(&text)?,
            Some(run_response::What::Json(text)) => value += &text,
            Some(run_response::What::Ended(ended)) => {
                let mut reply = json!({ "ok": true, "failed": ended.failed });
                if !value.is_empty() {
                    reply["json"] = read(&value)?;
                }
                return Ok(reply);
            }
            Some(run_response::What::Failure(error)) => return Err(Failure::Refused(read(&error)?)),
            None => {}
        }
    }
    Err(Failure::Said("the router ended in the midst of the answer".to_owned()))
}

fn read(json: &str) -> Result<Json, Failure> {
    serde_json::from_str(json).map_err(|e| Failure::Said(format!("the router answered what is no JSON: {e}")))
}
