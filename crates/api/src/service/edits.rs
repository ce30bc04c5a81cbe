//! Changes of single places of what runs, and reading them.

use std::sync::Arc;

use command::{Caller, CommandError};
use control::commands::{Desk, Edits, Got, Held, Steps};
use control::edit::{Act, Change, MOST, Place, Value};
use tonic::{Code, Status};

use super::Router;
use super::configuration::{applied, piece, tried, wish};
use super::pieces::Next;
use crate::status;
use crate::v1::edit::Act as Asked;
use crate::v1::{ApplyResponse, Edit, EditRequest, EditResponse, ErrorInfo, GetRequest, GetResponse};

/// A change that is none, by its number.
fn wrong(n: usize, message: &str, expected: &str) -> Status {
    let change = u32::try_from(n + 1).unwrap_or(u32::MAX);
    let info = ErrorInfo {
        rule: "syntax".into(),
        message: message.into(),
        expected: vec![expected.into()],
        change,
        ..ErrorInfo::default()
    };
    status::refusal(Code::InvalidArgument, &format!("edits: change {change}: {message}"), vec![info])
}

fn place(elements: Vec<String>, text: &str) -> Result<Place, String> {
    match (elements.is_empty(), text) {
        (_, "") => Place::of(elements),
        (true, text) => Place::parse(text),
        (false, _) => Err("the place is there twice, in elements and in one text".into()),
    }
}

fn change(n: usize, edit: Edit) -> Result<Change, Status> {
    let place =
        place(edit.place, &edit.at).map_err(|e| wrong(n, &e, "a place such as interfaces.eth0.mtu"))?;
    let act = match edit.act {
        Some(Asked::Set(text)) => Act::Set(Value::text(text)),
        Some(Asked::Merge(text)) => Act::Merge(Value::text(text)),
        Some(Asked::Delete(true)) => Act::Delete,
        Some(Asked::Delete(false)) | None => {
            return Err(wrong(
                n,
                "it does not say what is to be done",
                "`set`, `merge`, or `delete` with true",
            ));
        }
    };
    Ok(Change { place, act })
}

fn edits(edits: Vec<Edit>, version: String) -> Result<Edits, Status> {
    if edits.is_empty() || edits.len() > MOST {
        return Err(Status::invalid_argument(format!(
            "edits: {} of them: 1 to {MOST} make a transaction",
            edits.len()
        )));
    }
    let changes = edits.into_iter().enumerate().map(|(n, e)| change(n, e)).collect::<Result<_, _>>()?;
    Ok(Edits { changes, version: Some(version).filter(|v| !v.is_empty()) })
}

/// Carries changes out, or tells how many steps that would take.
pub(super) async fn edit(
    router: &Router,
    asked: EditRequest,
    caller: Arc<Caller>,
) -> Result<EditResponse, Status> {
    let EditRequest { edits: list, version, confirm_seconds, comment, restart, dry_run } = asked;
    let wish = wish(confirm_seconds, comment, true, restart)?;
    let edits = edits(list, version)?;
    let (done, version) = if dry_run {
        // That of before the plan: what changes behind it refuses the edit that names it.
        let plan = async move |desk: Desk| {
            let version = desk.version()?;
            Ok((desk.plan_edit(edits, None, Some(&caller)).await?, version))
        };
        let (found, version) = router.desk(plan).await?;
        (tried(found)?, version)
    } else {
        let (done, version) = router.desk(async move |desk| desk.edit(edits, wish, &caller).await).await?;
        (applied(done), version)
    };
    let ApplyResponse { steps, number, confirm_seconds, restart, text } = done;
    Ok(EditResponse { steps, number, confirm_seconds, restart, text, version })
}

/// The steps that they would take.
pub(super) async fn plan(router: &Router, asked: EditRequest, caller: Arc<Caller>) -> Result<Steps, Status> {
    let edits = edits(asked.edits, asked.version)?;
    router.desk(async move |desk| desk.plan_edit(edits, None, Some(&caller)).await).await
}

/// What stands at a place, piece by piece.
pub(super) async fn get(
    router: &Router,
    asked: GetRequest,
    caller: Arc<Caller>,
) -> Result<impl FnMut() -> Result<Next<GetResponse>, CommandError> + use<>, Status> {
    let place = place(asked.place, &asked.at).map_err(|e| Status::invalid_argument(format!("place: {e}")))?;
    let got = router.desk(async move |desk| desk.get(place, Some(&caller)).await).await?;
    Ok(pieces(got))
}

fn pieces(mut got: Held<Got>) -> impl FnMut() -> Result<Next<GetResponse>, CommandError> {
    let mut at = 0;
    move || {
        let got = got.read()?;
        let Some(piece) = piece(&got.json, at) else { return Ok(Next::End) };
        at += piece.len();
        Ok(Next::Message(GetResponse { piece, version: std::mem::take(&mut got.version) }))
    }
}
