//! A router in a process of its own. The tests of the binary start theirs by this file as well (`tests/started`).

use quiver_client::Router;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder of its own, and the router that runs on the document in it. Both go with this.
pub struct Started {
    /// Its files: `router.yaml` is the document, `log` what the router says, `api` and `ctl` are its sockets.
    pub folder: PathBuf,
    binary: PathBuf,
    /// The router, while there is one.
    pub router: Option<Child>,
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut router) = self.router.take() {
            let _ = router.kill();
            let _ = router.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn told<T>(of: &Path, result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{}: {e}", of.display()))
}

impl Started {
    /// An empty folder, and no router yet.
    ///
    /// # Errors
    /// In words.
    pub fn new(folder: PathBuf, binary: PathBuf) -> Result<Started, String> {
        let _ = std::fs::remove_dir_all(&folder);
        told(&folder, std::fs::create_dir_all(&folder))?;
        Ok(Started { folder, binary, router: None })
    }

    /// A file of its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The binary with this as its first word.
    pub fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg(what).stdin(Stdio::null());
        command
    }

    /// What its log says.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Starts a router on this document, with more arguments.
    ///
    /// # Errors
    /// In words.
    pub fn run(&mut self, document: &str, arguments: &[&OsStr]) -> Result<(), String> {
        let config = self.file("router.yaml");
        told(&config, std::fs::write(&config, document))?;
        let log = told(&self.folder, std::fs::File::create(self.file("log")))?;
        let mut run = self.command("run");
        run.arg("--config").arg(&config).args(arguments).stdout(Stdio::null()).stderr(log);
        self.router = Some(run.spawn().map_err(|e| format!("cannot start a router: {e}"))?);
        Ok(())
    }

    /// Waits until something of the running router is there, and answers it; what is said of it until then is an error at the end.
    ///
    /// # Errors
    /// It is not there in this time, or the router has ended: in words, with the log.
    pub async fn wait<T>(
        &self,
        patience: Duration,
        mut there: impl AsyncFnMut() -> Result<T, String>,
    ) -> Result<T, String> {
        let until = Instant::now() + patience;
        loop {
            let why = match there().await {
                Ok(there) => return Ok(there),
                Err(why) => why,
            };
            let ended = self.router.as_ref().and_then(|router| {
                // Whoever owns the child is still to have its status.
                let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                waitid(WaitId::Pid(Pid::from_child(router)), look).ok().flatten()
            });
            if ended.is_some() || Instant::now() > until {
                let ended = ended.map_or("", |_| "the router has ended: ");
                return Err(format!("{ended}{why}\n{}", self.log()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A client of its API, as soon as that is there.
    ///
    /// # Errors
    /// As of [`Started::wait`].
    pub async fn client(&self, patience: Duration) -> Result<Router, String> {
        let api = self.file("api");
        self.wait(patience, async || Router::unix(&api).await.map_err(|e| e.to_string())).await
    }
}
