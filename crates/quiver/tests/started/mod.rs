//! The binary, started for a test.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use hyper_util::rt::TokioIo;
use quiver_client::Router;
use std::path::PathBuf;
use std::process::{ExitStatus, Output};
use std::time::Duration;
use tokio::net::UnixStream;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

#[path = "../../src/bench/started.rs"]
mod process;

pub use process::Started;

/// For what must come about, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What a test does with a router of its own and a client of it.
pub fn run(mut started: Started, test: impl AsyncFnOnce(&mut Started, Router)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let router = started.connect().await;
        test(&mut started, router).await;
    });
}

impl Started {
    /// Starts one with a loopback, and more in its document.
    pub fn start(name: &str, more: &str) -> Started {
        Started::with(name, "", &format!("loopbacks: {{loop0: {{addresses: [10.255.0.1/16]}}}}\n{more}"))
    }

    /// Starts one with a state folder, more fields of its `sockets`, and this document. Others can come to its folder.
    pub fn with(name: &str, sockets: &str, document: &str) -> Started {
        let mut started = Started::named(name);
        let text = format!(
            "quiver: {{sockets: {{ctl: {}{sockets}}}, buffers: {{count: 4096}}}}\n{document}\n",
            started.file("ctl").display()
        );
        let (api, state) = (started.file("api"), started.file("state"));
        started
            .run(&text, &["--api".as_ref(), api.as_os_str(), "--state".as_ref(), state.as_os_str()])
            .unwrap();
        started
    }

    /// A folder to which others can come, and no router yet.
    pub fn named(name: &str) -> Started {
        Started::at(std::env::temp_dir().join(format!("quiver-api-{name}-{}", std::process::id())))
    }

    /// This folder, and no router yet.
    pub fn at(folder: PathBuf) -> Started {
        Started::new(folder, env!("CARGO_BIN_EXE_quiver").into()).unwrap()
    }

    /// The document that it was started with.
    pub fn document(&self) -> String {
        std::fs::read_to_string(self.file("router.yaml")).unwrap()
    }

    /// A client of it, as soon as it is there.
    pub async fn connect(&self) -> Router {
        self.client(PATIENCE).await.unwrap_or_else(|e| panic!("{e}"))
    }

    /// Waits until its log has this.
    pub async fn tells(&self, line: &str) {
        let there = async || if self.log().contains(line) { Ok(()) } else { Err(line.to_owned()) };
        self.wait(PATIENCE, there).await.unwrap_or_else(|e| panic!("{e}"));
    }

    /// Ends it at once, as a machine without power does.
    pub fn kill(&mut self) {
        let mut router = self.router.take().unwrap();
        router.kill().unwrap();
        router.wait().unwrap();
    }

    /// Has it end in order.
    pub fn end(&mut self) -> ExitStatus {
        let mut router = self.router.take().unwrap();
        let process = rustix::process::Pid::from_child(&router);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        router.wait().unwrap()
    }

    /// A client of it that takes little before it is read. The router must be there.
    pub async fn connect_narrow(&self) -> Router {
        let path = self.folder.join("api");
        let endpoint = Endpoint::from_static("http://quiver.invalid").initial_stream_window_size(1 << 16);
        let connector = service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        Router::over(endpoint.connect_with_connector(connector).await.unwrap())
    }

    /// What `quiver ctl` does with a command of these words, or of one text.
    pub fn try_ctl(&self, words: &[&str]) -> Output {
        self.command("ctl").arg("-s").arg(self.file("ctl")).args(words).output().unwrap()
    }

    /// What a command says.
    pub fn ctl(&self, words: &[&str]) -> String {
        let out = self.try_ctl(words);
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}
