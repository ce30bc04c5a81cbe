//! Commands.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_stream::{Stream, StreamExt};
use tonic::Streaming;

use crate::v1::commands_client::CommandsClient;
use crate::v1::{
    CompleteRequest, CompleteResponse, Format, HelpRequest, ListRequest, RunRequest, RunResponse,
    list_response, run_request, run_response,
};
use crate::{Error, Router};

/// The pieces of a command's answer as they come. It is a [`Stream`]; dropping it ends the command.
#[derive(Debug)]
pub struct Answer {
    pieces: Streaming<RunResponse>,
    failed: Option<bool>,
}

impl Answer {
    /// Whether the command did not find what it was to find; `None` before the end.
    pub fn failed(&self) -> Option<bool> {
        self.failed
    }

    async fn whole(mut self) -> Result<Output, Error> {
        let mut text = String::new();
        while let Some(piece) = self.next().await {
            text += &piece?;
        }
        Ok(Output { text, failed: self.failed == Some(true) })
    }
}

impl Stream for Answer {
    type Item = Result<String, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Poll::Ready(next) = Pin::new(&mut self.pieces).poll_next(cx) else { return Poll::Pending };
            match next {
                Some(Ok(RunResponse { what: Some(what) })) => match what {
                    run_response::What::Text(piece) | run_response::What::Json(piece) => {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                    run_response::What::Ended(ended) => self.failed = Some(ended.failed),
                    // It comes only where it is asked for.
                    run_response::What::Failure(_) => {}
                },
                // A piece of a kind that this version does not know.
                Some(Ok(RunResponse { what: None })) => {}
                Some(Err(status)) => return Poll::Ready(Some(Err(status.into()))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The whole answer of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What it said.
    pub text: String,
    /// It did not find what it was to find, such as a ping that nobody answered.
    pub failed: bool,
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Router {
    fn commands(&self) -> CommandsClient<tonic::transport::Channel> {
        CommandsClient::new(self.channel())
    }

    async fn run(&self, what: run_request::What, format: Format) -> Result<Answer, Error> {
        let request = RunRequest { what: Some(what), format: format.into(), ..RunRequest::default() };
        let pieces = self.commands().run(self.request(request)).await?.into_inner();
        Ok(Answer { pieces, failed: None })
    }

    /// Runs a command; its text.
    ///
    /// # Errors
    /// The line is no command, the command was refused, or the router is gone.
    pub async fn command(&self, line: &str) -> Result<Output, Error> {
        self.run(run_request::What::Line(line.into()), Format::Text).await?.whole().await
    }

    /// Runs a command; its JSON, as text.
    ///
    /// # Errors
    /// As [`Router::command`].
    pub async fn command_json(&self, line: &str) -> Result<Output, Error> {
        self.run(run_request::What::Line(line.into()), Format::Json).await?.whole().await
    }

    /// Runs commands, one a line, until one fails.
    ///
    /// # Errors
    /// As [`Router::command`]; the error has the faulty line's number.
    pub async fn script(&self, lines: &str) -> Result<Output, Error> {
        self.run(run_request::What::Lines(lines.into()), Format::Text).await?.whole().await
    }

    /// Runs a command of which the text is read as it comes.
    ///
    /// # Errors
    /// As [`Router::command`]; what comes later is an item of the stream.
    pub async fn stream(&self, line: &str) -> Result<Answer, Error> {
        self.run(run_request::What::Line(line.into()), Format::Text).await
    }

    /// What could stand at byte `cursor` of a line.
    ///
    /// # Errors
    /// The router is gone.
    pub async fn complete(&self, line: &str, cursor: u32) -> Result<CompleteResponse, Error> {
        let request = CompleteRequest { line: line.into(), cursor };
        Ok(self.commands().complete(self.request(request)).await?.into_inner())
    }

    /// What may follow the beginning of a line.
    ///
    /// # Errors
    /// The router is gone.
    pub async fn help(&self, line: &str) -> Result<String, Error> {
        Ok(self.commands().help(self.request(HelpRequest { line: line.into() })).await?.into_inner().text)
    }

    /// All commands.
    ///
    /// # Errors
    /// The router is gone.
    pub async fn list_commands(&self) -> Result<Vec<list_response::Command>, Error> {
        let mut pages = self.commands().list(self.request(ListRequest {})).await?.into_inner();
        let mut all = vec![];
        while let Some(page) = pages.message().await? {
            all.extend(page.commands);
        }
        Ok(all)
    }
}
