//! Carries out the cases that every client must pass (clients/conformance.md): `conformance SOCKET CASES [NAME...]`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a program for tests")]

mod calls;
mod hold;
mod values;

use calls::Runner;
use hold::Hold;
use serde_json::{Map, Value as Json};
use std::time::{Duration, Instant};

/// What is asked for and expected in a step.
fn argument<'a>(step: &'a Json, name: &str) -> Option<&'a Json> {
    step.get(name).filter(|v| !v.is_null())
}

/// The value with what was kept in the place of `{"$kept": NAME}`.
fn filled(value: &Json, kept: &Map<String, Json>) -> Json {
    match value {
        Json::Object(map) => match map.get("$kept").and_then(Json::as_str) {
            Some(name) => kept.get(name).cloned().unwrap_or_default(),
            None => map.iter().map(|(k, v)| (k.clone(), filled(v, kept))).collect(),
        },
        Json::Array(list) => list.iter().map(|v| filled(v, kept)).collect(),
        plain => plain.clone(),
    }
}

async fn step(runner: &mut Runner, step: &Json) -> Result<(), String> {
    let until = argument(step, "within").and_then(Json::as_f64).map(Duration::from_secs_f64);
    let until = Instant::now() + until.unwrap_or_default();
    loop {
        let arguments = filled(step, &runner.kept);
        let done = runner.call(&arguments).await;
        let hold = Hold(&runner.kept);
        let held = match (done, argument(step, "fails")) {
            (Ok(result), None) => {
                let held = step.get("gives").map_or(Ok(()), |want| hold.hold(want, &result, ""));
                if held.is_ok() {
                    let keep = argument(step, "keep").and_then(Json::as_object);
                    for (name, field) in keep.into_iter().flatten() {
                        let field = field.as_str().unwrap_or_default();
                        runner.kept.insert(name.clone(), result.get(field).cloned().unwrap_or_default());
                    }
                }
                held
            }
            (Err(e), Some(want)) => hold.hold(want, &values::error(&e), "the error"),
            (Err(e), None) => Err(format!("it failed: {}", values::error(&e))),
            (Ok(result), Some(_)) => Err(format!("it did not fail: {result}")),
        };
        match held {
            Err(_) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(50)).await,
            held => return held,
        }
    }
}

async fn case(runner: &mut Runner, case: &Json) -> Result<(), String> {
    runner.kept.clear();
    for (n, one) in case["steps"].as_array().unwrap().iter().enumerate() {
        let call = one["call"].as_str().unwrap_or_default();
        step(runner, one).await.map_err(|why| format!("step {} ({call}): {why}", n + 1))?;
    }
    Ok(())
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let (socket, cases) = (words.next().unwrap(), words.next().unwrap());
    let names: Vec<String> = words.collect();
    let all: Json = serde_json::from_str(&std::fs::read_to_string(cases).unwrap()).unwrap();
    let mut runner = Runner::new(&socket, all["documents"].clone()).await;
    let mut failed = false;
    for one in all["cases"].as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        if !names.is_empty() && !names.iter().any(|n| n == name) {
            continue;
        }
        match case(&mut runner, one).await {
            Ok(()) => println!("ok {name}"),
            Err(why) => {
                failed = true;
                println!("FAIL {name}: {}", why.replace('\n', "\\n"));
            }
        }
        runner.close();
    }
    std::process::exit(failed.into());
}
