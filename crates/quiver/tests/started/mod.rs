//! The binary, started for a test.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use hyper_util::rt::TokioIo;
use quiver_client::Router;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

/// For what must come about, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A router of its own, which ends with this.
pub struct Started {
    child: Child,
    /// Its files: `api` and `ctl` are its sockets.
    pub folder: PathBuf,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

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
        let folder = std::env::temp_dir().join(format!("quiver-api-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let config = folder.join("router.yaml");
        let ctl = folder.join("ctl");
        let text = format!(
            "quiver: {{sockets: {{ctl: {}{sockets}}}, buffers: {{count: 4096}}}}\n{document}\n",
            ctl.display()
        );
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_quiver"))
            .args(["run", "--config"])
            .arg(&config)
            .arg("--api")
            .arg(folder.join("api"))
            .arg("--state")
            .arg(folder.join("state"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Started { child, folder }
    }

    /// A client of it, as soon as it is there.
    pub async fn connect(&mut self) -> Router {
        let until = Instant::now() + PATIENCE;
        loop {
            match Router::unix(self.folder.join("api")).await {
                Ok(router) => return router,
                Err(e) => {
                    let ended = self.child.try_wait().unwrap();
                    if ended.is_some() || Instant::now() > until {
                        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                        panic!("{e}; {ended:?}\n{log}");
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
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
        let mut ctl = Command::new(env!("CARGO_BIN_EXE_quiver"));
        ctl.arg("ctl").arg("-s").arg(self.folder.join("ctl")).args(words).output().unwrap()
    }

    /// What a command says.
    pub fn ctl(&self, words: &[&str]) -> String {
        let out = self.try_ctl(words);
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}
