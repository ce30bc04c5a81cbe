//! The connection to the router, made when it is needed and made again after the router has restarted.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::remote::{Over, Remote};

/// How often a wait for a reply looks whether the operator has interrupted it.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// What to tell the operator.
    Said(String),
    /// The error that the router answered, see docs/control-protocol.md.
    Refused(Json),
    /// The command ran and answered, without success: all is said.
    Unsuccessful,
    /// The operator interrupted it.
    Interrupted,
    /// Nobody reads the output any more.
    Closed,
}

impl Failure {
    /// The message, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Failure::Said(text) => Some(text),
            Failure::Refused(error) => {
                let text = error["text"].as_str().or_else(|| error["message"].as_str());
                Some(text.unwrap_or("the router answered without a reason"))
            }
            Failure::Unsuccessful | Failure::Interrupted | Failure::Closed => None,
        }
    }

    /// The message as the operator reads it: for people, or for programs as JSON of the router's form.
    pub fn told(&self, json: bool) -> Option<String> {
        let text = self.text()?;
        if !json {
            return Some(text.to_owned());
        }
        let error = match self {
            Failure::Refused(error) => error.clone(),
            _ => json!({ "kind": "client", "message": text, "text": text }),
        };
        Some(format!("{:#}", json!({ "error": error })))
    }
}

/// A connection to the router: to its control socket, or over its API.
pub struct Link {
    path: PathBuf,
    json: bool,
    stream: Option<BufReader<UnixStream>>,
    remote: Option<Remote>,
    /// Set by whoever wants the current wait to end.
    pub interrupted: Arc<AtomicBool>,
}

impl Link {
    /// A link that is not connected yet; `json` asks for JSON in the place of text.
    pub fn new(path: &Path, json: bool) -> Self {
        Self { path: path.to_owned(), json, stream: None, remote: None, interrupted: Arc::default() }
    }

    /// The same; where an API is named, over that.
    ///
    /// # Errors
    /// The system refuses what that takes.
    pub fn over(self, over: &Over) -> Result<Self, Failure> {
        let remote = over.api.as_ref().map(|address| Remote::new(over, address)).transpose()?;
        Ok(Self { remote, ..self })
    }

    /// Whether JSON is asked for.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Connects, if there is no connection.
    ///
    /// # Errors
    /// A sentence that says why the router cannot be reached.
    pub fn connect(&mut self) -> Result<(), Failure> {
        if let Some(remote) = &mut self.remote {
            return remote.connect().map(|_| ());
        }
        // The router closes a connection that was idle for long; what it then said is no answer to what comes next.
        if self.stream.as_mut().is_some_and(is_stale) {
            self.stream = None;
        }
        if self.stream.is_none() {
            let stream =
                UnixStream::connect(&self.path).map_err(|error| Failure::Said(self.explain(&error)))?;
            let set = stream.set_read_timeout(Some(LOOK));
            set.map_err(|error| Failure::Said(self.explain(&error)))?;
            self.stream = Some(BufReader::new(stream));
        }
        Ok(())
    }

    fn explain(&self, error: &io::Error) -> String {
        let path = self.path.display();
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => format!(
                "no router listens on {path}: start one with 'quiver run -c FILE', or name its socket with --socket or \
                 QUIVER_CTL"
            ),
            ErrorKind::PermissionDenied => match fs::metadata(&self.path)
                .ok()
                .map(|found| group_name(found.gid()))
            {
                Some(group) => format!("no permission to use {path}: be root or a member of group '{group}'"),
                None => format!("no permission to use {path}: be root or a member of its group"),
            },
            _ => format!("cannot connect to {path}: {error}"),
        }
    }

    /// Runs a line; `show` gets the text, or the JSON as text, as it comes.
    ///
    /// # Errors
    /// What the router answers, or why it does not answer.
    pub fn run(&mut self, line: &str, show: &mut dyn FnMut(&str) -> io::Result<()>) -> Result<(), Failure> {
        self.run_request(json!({ "id": 1, "line": line, "json": self.json }), show)
    }

    /// Runs several lines up to the first that fails; `show` as for [`Link::run`].
    ///
    /// # Errors
    /// As for [`Link::run`]; the router's error has the number of the line.
    pub fn run_lines(
        &mut self,
        lines: &str,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.run_request(json!({ "id": 1, "lines": lines, "json": self.json }), show)
    }

    fn run_request(
        &mut self,
        mut request: Json,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if let Some(cwd) = std::env::current_dir().ok().as_deref().and_then(Path::to_str) {
            request["cwd"] = cwd.into();
        }
        if let Some((client, _)) = super::ssh::ends() {
            request["ssh"] = client.to_string().into();
        }
        let mut shown = |text: &str| show(text).map_err(|_| Failure::Closed);
        let reply = self.ask(&request, &mut shown)?;
        match reply.get("json") {
            // A change that has nothing to say.
            None | Some(Json::Null) if self.json => shown("{ \"ok\": true }\n")?,
            None | Some(Json::Null) => {}
            Some(json) => shown(&format!("{json:#}\n"))?,
        }
        shown(reply["text"].as_str().unwrap_or_default())?;
        if reply["failed"] == true { Err(Failure::Unsuccessful) } else { Ok(()) }
    }

    /// Sends a request and waits for the end of its reply, without a limit: some commands take their time.
    ///
    /// # Errors
    /// What the router answers, or why it does not answer.
    pub fn ask(
        &mut self,
        request: &Json,
        part: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Json, Failure> {
        if let Some(remote) = &mut self.remote {
            return remote.ask(request, &self.interrupted, part);
        }
        self.connect()?;
        let result = self.exchange(request, part);
        // Only an answer of the router leaves the connection in a known state.
        if result.is_err() {
            self.stream = None;
        }
        let reply = result?;
        if reply["ok"] == true {
            return Ok(reply);
        }
        // A reply without an id is the router's good-bye.
        if reply["id"].is_null() {
            self.stream = None;
        }
        Err(Failure::Refused(reply["error"].clone()))
    }

    fn exchange(
        &mut self,
        request: &Json,
        part: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Json, Failure> {
        let lost = || Failure::Said("the router closed the connection".to_owned());
        let stream = self.stream.as_mut().ok_or_else(lost)?;
        // The router may have refused us and closed before it read this: its words are still to be read.
        let _ = stream.get_mut().write_all(format!("{request}\n").as_bytes());
        let mut line = Vec::new();
        loop {
            match stream.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {}
                Ok(_) => return Err(lost()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    if self.interrupted.swap(false, Ordering::Relaxed) {
                        return Err(Failure::Interrupted);
                    }
                    continue;
                }
                Err(_) => return Err(lost()),
            }
            let reply: Json = serde_json::from_slice(&line)
                .map_err(|error| Failure::Said(format!("the router answered what is no JSON: {error}")))?;
            line.clear();
            match reply["part"].as_str() {
                Some(text) => part(text)?,
                None => return Ok(reply),
            }
        }
    }
}

/// Whether the other side has closed the connection, or said something that nobody asked for.
fn is_stale(stream: &mut BufReader<UnixStream>) -> bool {
    let quiet = |on: bool| stream.get_ref().set_nonblocking(on).is_ok();
    if !quiet(true) {
        return true;
    }
    let waits = matches!(stream.fill_buf(), Err(error) if error.kind() == ErrorKind::WouldBlock);
    !waits || stream.get_ref().set_nonblocking(false).is_err()
}

/// The name of a group, or its number.
fn group_name(gid: u32) -> String {
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let name = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| gid.to_string())
}
