//! Where the answers of a session go: to a socket, as lines of JSON, or piece by piece to who has asked through a [`Door`](super::Door).

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::protocol::Failure;
use super::reply::Reply;
use super::session::Answer;

/// A client that takes nothing for so long is closed.
const WRITE_TIMEOUT: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// Bytes written between two looks at the clock.
const WRITE_CHUNK: usize = 64 * 1024;
/// Text of one part of a reply at most, in bytes.
const PART: usize = 128 * 1024;

/// Where answers go.
pub(super) enum Replies {
    Socket(Wire),
    Pieces(Pieces),
}

impl Replies {
    /// The next answer is to the request `id`.
    pub fn begin(&mut self, id: &Json) {
        if let Replies::Socket(wire) = self {
            (wire.id, wire.reply) = (id.clone(), Reply::to(id));
        }
    }

    /// Sends a whole reply of the socket's protocol.
    pub async fn send(&mut self, reply: &Json) -> io::Result<()> {
        match self {
            Replies::Socket(wire) => wire.send(reply).await,
            Replies::Pieces(_) => Ok(()),
        }
    }

    /// Sends a piece of text before the end.
    pub async fn part(&mut self, text: String) -> io::Result<()> {
        match self {
            Replies::Socket(wire) => wire.send(&json!({ "id": wire.id, "part": text })).await,
            Replies::Pieces(pieces) => pieces.send(Piece::Text(text)).await,
        }
    }

    /// Writes a value into the JSON, or a piece of one that `begins` here or has begun.
    pub async fn json(&mut self, json: &str, begins: bool) -> io::Result<()> {
        let reply = match self {
            Replies::Socket(wire) => &mut wire.reply,
            Replies::Pieces(pieces) => &mut pieces.reply,
        };
        if begins {
            reply.next_value();
        }
        reply.write(json);
        if reply.buffer.len() < WRITE_CHUNK {
            return Ok(());
        }
        reply.sent = true;
        match self {
            Replies::Socket(wire) => wire.flush().await,
            Replies::Pieces(pieces) => pieces.flush().await,
        }
    }

    /// Sends the rest, and that the command ran.
    pub async fn finish(&mut self, answer: Answer, json: bool) -> io::Result<()> {
        match self {
            Replies::Socket(wire) => wire.finish(answer, json).await,
            Replies::Pieces(pieces) => pieces.finish(answer, json).await,
        }
    }

    /// Sends why the command failed.
    pub async fn fail(&mut self, failure: Box<Failure>) -> io::Result<()> {
        match self {
            Replies::Socket(wire) => wire.fail(&failure).await,
            Replies::Pieces(pieces) => pieces.send(Piece::Failed(failure)).await,
        }
    }

    /// Whether nobody reads any more. Who will only say nothing more still reads.
    pub fn is_gone(&self) -> bool {
        match self {
            Replies::Socket(wire) => {
                let mut fds = [PollFd::new(wire.writer.as_ref(), PollFlags::empty())];
                let found = rustix::event::poll(&mut fds, Some(&Timespec::default()));
                let [fd] = fds;
                found.is_ok() && fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)
            }
            Replies::Pieces(pieces) => pieces.to.is_closed(),
        }
    }
}

/// Cuts a text in parts; the last one is not longer than a part.
fn parts(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut cut = PART.min(text.len());
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let (part, rest) = text.split_at(cut);
        text = rest;
        Some(part).filter(|p| !p.is_empty())
    })
}

/// The writing half of a connection.
pub(super) struct Wire {
    writer: OwnedWriteHalf,
    id: Json,
    /// The JSON of the request that is being answered, as far as it is written.
    reply: Reply,
}

impl Wire {
    pub fn new(writer: OwnedWriteHalf) -> Self {
        Self { writer, id: Json::Null, reply: Reply::default() }
    }

    async fn finish(&mut self, answer: Answer, json: bool) -> io::Result<()> {
        if self.reply.begun {
            self.reply.end(if answer.failed { ",\"ok\":true,\"failed\":true}\n" } else { ",\"ok\":true}\n" });
            return self.flush().await;
        }
        let mut reply = if json {
            json!({ "id": self.id, "ok": true, "json": answer.json })
        } else {
            let mut last = "";
            for part in parts(&answer.text) {
                if !last.is_empty() {
                    self.send(&json!({ "id": self.id, "part": last })).await?;
                }
                last = part;
            }
            json!({ "id": self.id, "ok": true, "text": last })
        };
        if answer.failed {
            reply["failed"] = true.into();
        }
        self.send(&reply).await
    }

    async fn fail(&mut self, failure: &Failure) -> io::Result<()> {
        if self.reply.sent {
            self.reply.end(&format!(",\"ok\":false,\"error\":{}}}\n", failure.to_json()));
            return self.flush().await;
        }
        let reply = json!({ "id": self.id, "ok": false, "error": failure.to_json() });
        self.send(&reply).await
    }

    async fn flush(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.reply.buffer);
        self.write(text.as_bytes()).await
    }

    async fn send(&mut self, reply: &Json) -> io::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        self.write(&line).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(WRITE_CHUNK) {
            timeout(WRITE_TIMEOUT, self.writer.write_all(chunk)).await??;
        }
        Ok(())
    }
}

/// A piece of an answer.
#[derive(Debug)]
pub enum Piece {
    /// Some of the text.
    Text(String),
    /// Some of the JSON; all pieces make one value.
    Json(String),
    /// The command ran: this is the last piece. With true it did not find what it was to find.
    Done(bool),
    /// The command failed: this is the last piece.
    Failed(Box<Failure>),
}

/// Hands pieces on as they come.
pub(super) struct Pieces {
    to: mpsc::Sender<Piece>,
    reply: Reply,
}

impl Pieces {
    pub fn new(to: mpsc::Sender<Piece>) -> Self {
        Self { to, reply: Reply::default() }
    }

    async fn send(&mut self, piece: Piece) -> io::Result<()> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        timeout(WRITE_TIMEOUT, self.to.send(piece)).await?.map_err(gone)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.reply.buffer);
        for part in parts(&text) {
            self.send(Piece::Json(part.to_owned())).await?;
        }
        Ok(())
    }

    async fn finish(&mut self, answer: Answer, json: bool) -> io::Result<()> {
        if json {
            if !self.reply.begun {
                self.reply.write(&answer.json.to_string());
            }
            self.flush().await?;
        } else {
            for part in parts(&answer.text) {
                self.send(Piece::Text(part.to_owned())).await?;
            }
        }
        self.send(Piece::Done(answer.failed)).await
    }
}
