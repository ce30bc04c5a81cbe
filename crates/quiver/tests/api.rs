//! The API of the real binary, by the Rust client and beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

#[path = "../../../clients/rust/examples/first.rs"]
mod first;
mod started;

use quiver_client::v1::configuration_client::ConfigurationClient;
use quiver_client::v1::{ApplyRequest, CaptureRequest, Change, RouteHello, TraceRequest};
use quiver_client::{Apply, Role, Router};
use started::{PATIENCE, Started};
use tokio_stream::StreamExt;
use tonic::Code;

const LOOPBACKS: &str = "loopbacks:\n  loop0: {addresses: [192.0.2.1/32]}\n";

/// Starts a router whose document says where its sockets and its state are.
fn start(name: &str, more: &str) -> Started {
    let mut lab = Started::named(name);
    let at = lab.folder.display();
    let settings = format!(
        "quiver:\n  poll: power\n  buffers: {{count: 2048, huge-pages: never}}\n  sockets: {{ctl: {at}/ctl}}\n  \
         api: {{socket: {at}/api}}\n  state: {at}/state\n"
    );
    lab.run(&(settings + more), &[]).unwrap();
    lab
}

/// What `quiver ctl` answers, well or not.
fn ctl(lab: &Started, words: &[&str]) -> String {
    String::from_utf8(lab.try_ctl(words).stdout).unwrap()
}

#[tokio::test]
async fn commands_answer_as_on_the_control_socket() {
    let lab = start("commands", LOOPBACKS);
    let router = lab.connect().await;
    for line in [
        "show interface",
        "show ip fib",
        "show configuration",
        "show interface | include loop",
        "nothing-here ?",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let (text, told) = (router.command(line).await.map(|o| o.text), ctl(&lab, &words));
        assert_eq!(text.unwrap_or_default(), told, "{line}");
    }
    for line in ["show interface", "show configuration", "show ip fib"] {
        let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        let json: serde_json::Value =
            serde_json::from_str(&router.command_json(line).await.unwrap().text).unwrap();
        assert_eq!(json, serde_json::from_str::<serde_json::Value>(&ctl(&lab, &words)).unwrap(), "{line}");
    }
    // Whoever says nothing has JSON as well.
    assert_eq!(router.command_json("clear log-nothing").await.unwrap_err().code, Code::InvalidArgument);

    let error = router.command("show interfaze").await.unwrap_err();
    assert_eq!((error.code, error.infos[0].rule.as_str()), (Code::InvalidArgument, "syntax"));
    assert_eq!((error.infos[0].column, error.infos[0].length), (6, 9));
    assert!(error.infos[0].expected.iter().any(|w| w == "interface"), "{error:?}");

    // A script ends at its first faulty line, and says which, and how many commands before it stay.
    let script = "# a comment\ncreate loopback interface\nset interface mtu 10 nothing\nshow version";
    let error = router.script(script).await.unwrap_err();
    assert_eq!((error.infos[0].line, error.infos[0].applied), (3, 1), "{error:?}");

    let commands = router.list_commands().await.unwrap();
    let apply = commands.iter().find(|c| c.syntax.starts_with("configuration apply")).unwrap();
    assert_eq!(apply.role(), Role::Configure);
    let found = router.complete("show inter", 10).await.unwrap();
    assert_eq!((found.start, found.candidates[0].text.as_str()), (5, "interface"));
    assert!(router.help("show ").await.unwrap().contains("interface"));

    let system = router.system().await.unwrap();
    assert_eq!((system.version.as_str(), system.role()), (env!("CARGO_PKG_VERSION"), Role::Admin));
    assert_eq!(system.process, lab.router.as_ref().unwrap().id());
}

#[tokio::test]
async fn documents_are_applied_as_a_whole_or_not_at_all() {
    let lab = start("documents", LOOPBACKS);
    let router = lab.connect().await;
    let more = lab.document() + "  loop1: {addresses: [192.0.2.2/32]}\n";

    let differs = router.diff(&more, false).await.unwrap();
    assert!(
        differs.differences.iter().any(|d| d.change() == Change::Add && d.text.contains("loop1")),
        "{differs:?}"
    );
    let plan = router.plan(&more, false).await.unwrap();
    assert!(!plan.steps.is_empty() && plan.restart.is_empty(), "{plan:?}");
    let tried = router.apply(&more, Apply { dry_run: true, ..Apply::default() }).await.unwrap();
    assert_eq!((tried.steps, tried.number), (plan.steps.len() as u64, 0));
    assert!(!ctl(&lab, &["show", "interface"]).contains("loop1"));

    let done = router.apply(&more, Apply { comment: "one more".into(), ..Apply::default() }).await.unwrap();
    assert_eq!(done.steps, plan.steps.len() as u64);
    assert!(ctl(&lab, &["show", "interface"]).contains("loop1"));
    let history = router.history().await.unwrap();
    assert_eq!((history[0].number, history[0].comment.as_str()), (done.number, "one more"));
    assert_eq!(router.kept(done.number).await.unwrap(), more);

    // What is not confirmed goes back at once when asked to.
    let confirm = Apply { confirm_seconds: 600, ..Apply::default() };
    let waits = router.apply(&lab.document(), confirm).await.unwrap();
    assert_eq!((waits.number, waits.confirm_seconds), (0, 600));
    assert!(!ctl(&lab, &["show", "interface"]).contains("loop1"));
    router.roll_back(None, Apply::default()).await.unwrap();
    assert!(ctl(&lab, &["show", "interface"]).contains("loop1"));

    // Each fault has its place, and nothing changes.
    let wrong = lab.document() + "  loop2: {addresses: [192.0.2.300/32], mtu: 9}\n";
    let line = wrong.lines().count() as u32;
    let checked = router.check(&wrong).await.unwrap();
    assert!(!checked.ok && checked.text.contains("192.0.2.300"), "{checked:?}");
    let error = router.apply(&wrong, Apply::default()).await.unwrap_err();
    assert_eq!(error.infos, checked.findings);
    assert!(error.infos.len() >= 2 && error.infos.iter().all(|i| i.line == line), "{error:?}");
    assert!(error.infos.iter().any(|i| i.object == "loopbacks.loop2.mtu" && i.value == "9"), "{error:?}");
    assert!(!ctl(&lab, &["show", "interface"]).contains("loop2"));

    let dump = router.dump().await.unwrap();
    assert_eq!(dump, ctl(&lab, &["show", "configuration"]));
    assert!(router.check(&dump).await.unwrap().ok);
}

/// Runs a test of this file by itself, behind other words.
fn run(words: &[&str], lab: &Started, program: &str) -> String {
    let (first, rest) = words.split_first().unwrap();
    let output = Command::new(first)
        .args(rest)
        .args(["--exact", program, "--nocapture"])
        .env("QUIVER_API", lab.file("api"))
        .output()
        .unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Runs as another user, who has no group: the client half of a test that needs one.
fn as_nobody(lab: &Started, program: &str) -> String {
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let this = std::env::current_exe().unwrap();
    run(&[&user[..], &[this.to_str().unwrap()]].concat(), lab, program)
}

/// Run by the test below.
#[test]
fn first_program() {
    if std::env::var_os("QUIVER_API").is_some() {
        first::main().unwrap();
    }
}

#[tokio::test]
async fn the_manual_begins_with_a_program_that_works() {
    let manual = include_str!("../../../docs/api.md");
    let program = include_str!("../../../clients/rust/examples/first.rs");
    let program = program.split_once("\n\n").unwrap().1;
    assert!(manual.starts_with(&format!("# The API for programs\n\n```rust\n{program}```\n")));
    let lab = start("manual", &LOOPBACKS.replace("{addr", "{mtu: 1500, addr"));
    let _ = lab.connect().await;
    let said = run(&[std::env::current_exe().unwrap().to_str().unwrap()], &lab, "first_program");
    assert!(said.contains("loop0") && said.contains("nothing differs"), "{said}");
}

#[tokio::test]
async fn counters_are_read_once_and_at_an_interval() {
    let lab = start("counters", LOOPBACKS);
    let router = lab.connect().await;
    let all = router.list_counters(&[]).await.unwrap();
    let told: serde_json::Value = serde_json::from_str(&ctl(&lab, &["show", "counters", "--json"])).unwrap();
    let told = told["counters"].as_array().unwrap().clone();
    let names: Vec<&str> = told.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(all.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), names);
    let error = router.counters(&["nothing/*"]).await.unwrap_err();
    assert_eq!(error.code, Code::FailedPrecondition, "{error}");
    let error = router.watch_counters(&[], Duration::from_millis(1)).await.err().unwrap();
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    let readings = router.watch_counters(&[], Duration::from_millis(100)).await.unwrap();
    let readings: Vec<_> = readings.take(3).map(Result::unwrap).collect().await;
    assert!(readings.windows(2).all(|w| w[0].time_ns < w[1].time_ns));
    // Workers count their turns, so something is there, and it only grows.
    let of = |n: usize| -> u64 { readings[n].values.iter().map(|v| v.value).sum() };
    assert!(of(0) > 0 && of(2) >= of(0), "{} {}", of(0), of(2));
}

/// Only looks, as the role of `nobody` allows; run by the test below.
#[tokio::test]
async fn nobody_looks() {
    let Ok(path) = std::env::var("QUIVER_API") else { return };
    let router = Router::unix(path).await.unwrap();
    assert_eq!(router.system().await.unwrap().role(), Role::Read);
    assert!(!router.command("show interface").await.unwrap().text.is_empty());
    let refused = [
        router.command("create loopback interface").await.map(|_| ()),
        router.apply("{}", Apply::default()).await.map(|_| ()),
        router.confirm().await.map(|_| ()),
        router.save("").await.map(|_| ()),
        router.roll_back(None, Apply::default()).await.map(|_| ()),
    ];
    let inject = router.injector().await.map(|_| ());
    let program = router.program(RouteHello { name: "p".into(), ..RouteHello::default() }).await.map(|_| ());
    let more = [
        router.transaction().set("loopbacks.loop0.mtu", 1400).apply().await.map(|_| ()),
        router.punt(vec![]).await.map(|_| ()),
        router.command("configuration save").await.map(|_| ()),
        inject,
        program,
    ];
    let named = |refused: Result<(), quiver_client::Error>, role: Role| {
        let error = refused.unwrap_err();
        assert_eq!((error.code, error.role_needed()), (Code::PermissionDenied, Some(role)), "{error}");
        // Also for who reads the sentence alone.
        let word = role.as_str_name().trim_start_matches("ROLE_").to_lowercase();
        assert_eq!(error.message, format!("this needs the role `{word}`, and you have `read`"));
    };
    refused.into_iter().chain(more).for_each(|refused| named(refused, Role::Configure));
    named(router.capture(CaptureRequest::default()).await.map(|_| ()), Role::Operate);
    named(router.trace(TraceRequest::default()).await.map(|_| ()), Role::Operate);
    named(router.command("clear interfaces").await.map(|_| ()), Role::Operate);
    // No way out shows the secret of a memif interface.
    let dump = router.dump().await.unwrap();
    let json = router.command_json("show configuration").await.unwrap().text;
    let get = router.get("memifs.memif1/0").await.unwrap().json;
    let (kept, history) = (router.kept(1).await.unwrap(), router.history().await.unwrap());
    let plan = router.plan("loopbacks: {}", true).await.unwrap();
    let diff = router.diff("loopbacks: {}", true).await.unwrap();
    let said = [&dump, &json, &get, &format!("{kept:?} {history:?}"), &format!("{plan:?} {diff:?}")];
    assert!(said.iter().all(|text| !text.contains("s3cret")), "{said:?}");
    assert!(said[..4].iter().all(|text| text.contains("(hidden)")), "{said:?}");
    let refused = router.plan(&dump, true).await.unwrap_err();
    assert!(refused.message.contains("hidden-secret"), "{refused}");
    println!("nobody only looks");
}

/// Has no role, and gets to know which is missing; run by the test below.
#[tokio::test]
async fn nobody_is_refused() {
    let Ok(path) = std::env::var("QUIVER_API") else { return };
    let router = Router::unix(path).await.unwrap();
    let error = router.command("show interface").await.unwrap_err();
    assert_eq!((error.code, error.role_needed()), (Code::PermissionDenied, Some(Role::Read)), "{error}");
    println!("nobody is refused");
}

#[tokio::test]
async fn roles_are_those_of_the_control_socket() {
    if !rustix_is_root() {
        return;
    }
    for (program, who, says) in [
        ("nobody_looks", "nobody", "nobody only looks"),
        ("nobody_is_refused", "daemon", "nobody is refused"),
    ] {
        let more =
            format!("{LOOPBACKS}memifs: {{memif1/0: {{socket: \"@api-{program}\", secret: s3cret}}}}\n");
        let mut lab = start(program, &more);
        assert!(lab.connect().await.dump().await.unwrap().contains("secret: s3cret"));
        lab.kill();
        let at = lab.folder.display().to_string();
        let mine = format!("sockets: {{ctl: {at}/ctl, roles: {{read: {{users: [{who}]}}}}}}");
        let document = lab.document().replace(&format!("sockets: {{ctl: {at}/ctl}}"), &mine);
        assert!(document.contains("roles"));
        lab.run(&document, &[]).unwrap();
        let _ = lab.connect().await;
        let said = as_nobody(&lab, program);
        assert!(said.contains(says), "{said}");
    }
}

fn rustix_is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn garbage_and_silence_harm_nobody() {
    let lab = start("garbage", LOOPBACKS);
    let router = lab.connect().await;
    let mut silent = vec![];
    for n in 0..8u8 {
        let mut garbage = UnixStream::connect(lab.file("api")).unwrap();
        garbage.write_all(&[n.wrapping_mul(37); 4096]).unwrap();
        garbage.set_read_timeout(Some(PATIENCE)).unwrap();
        // The router says that this is no HTTP/2, and closes the connection.
        let _ = garbage.read_to_end(&mut vec![]);
        let mut half = UnixStream::connect(lab.file("api")).unwrap();
        half.write_all(b"PRI * HTTP/2.0\r\n").unwrap();
        silent.push(half);
    }
    assert!(router.command("show interface").await.unwrap().text.contains("loop0"));
    // A message that is none of the schema.
    let mut client = tonic::client::Grpc::new(router.channel());
    client.ready().await.unwrap();
    let path = "/quiver.v1.Nothing/Run".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<ApplyRequest, ApplyRequest>::default();
    let answer = client.unary(tonic::Request::new(ApplyRequest::default()), path, codec).await;
    assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
    // One that is too large.
    let mut client = ConfigurationClient::new(router.channel());
    let document = "#".repeat(33 << 20);
    let answer = client.apply(ApplyRequest { document, ..ApplyRequest::default() }).await;
    assert_eq!(answer.unwrap_err().code(), Code::OutOfRange);
    assert!(router.command("show interface").await.unwrap().text.contains("loop0"));
}

#[tokio::test]
async fn who_never_reads_is_cut_off_and_others_go_on() {
    let lab = start("slow", LOOPBACKS);
    let router = lab.connect().await;
    for ten in 10..22 {
        let route = |n| format!("ip route add {ten}.{}.{}.0/24 via drop\n", n >> 8, n & 255);
        router.script(&(0..25_000).map(route).collect::<String>()).await.unwrap();
    }
    // More than the windows of a client take.
    let whole = router.command("show configuration").await.unwrap().text.len();
    assert!(whole > 3 << 20, "{whole}");
    // Who sleeps on the answer for longer than the router's patience finds it cut off. A machine that stands still meanwhile gets
    // another chance.
    let mut ended = None;
    for sleeps in [15, 30, 60] {
        let slow = lab.connect().await;
        let mut unread = slow.stream("show configuration").await.unwrap();
        // Ten others read everything meanwhile.
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let router = lab.connect().await;
            readers.spawn(async move { router.command("show configuration").await.unwrap().text.len() });
        }
        let slept = tokio::time::sleep(Duration::from_secs(sleeps));
        assert_eq!(readers.join_all().await, [whole; 10]);
        slept.await;
        while let Some(piece) = unread.next().await {
            ended = piece.err();
        }
        if ended.is_some() {
            break;
        }
    }
    assert_eq!(ended.unwrap().code, Code::Aborted);
    // A deadline ends what goes on.
    let short = router.clone().within(Duration::from_millis(300));
    let error = short.command("ping 192.0.2.1 repeat 1000").await.unwrap_err();
    assert!(matches!(error.code, Code::DeadlineExceeded | Code::Cancelled), "{error:?}");
}

#[tokio::test]
async fn a_router_that_dies_is_found_again_with_what_was_kept() {
    let mut lab = start("dies", LOOPBACKS);
    let router = lab.connect().await;
    let before = router.system().await.unwrap().instance;
    let more = lab.document() + "  loop1: {addresses: [192.0.2.2/32]}\n";
    let kept = router.apply(&more, Apply::default()).await.unwrap().number;
    assert_ne!(kept, 0);
    lab.kill();
    assert_eq!(router.system().await.unwrap_err().code, Code::Unavailable);
    lab.run(&lab.document(), &[]).unwrap();
    // The same client, over a new connection: the dead router's socket was taken over.
    let until = Instant::now() + PATIENCE;
    let after = loop {
        match router.system().await {
            Ok(system) => break system.instance,
            Err(e) => assert!(Instant::now() < until, "{e}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_ne!(after, before);
    assert!(router.command("show interface").await.unwrap().text.contains("loop1"));
    assert_eq!(router.history().await.unwrap()[0].number, kept);
    // One that ends in order leaves no file.
    assert!(lab.end().success());
    assert!(!lab.file("api").exists());
}
