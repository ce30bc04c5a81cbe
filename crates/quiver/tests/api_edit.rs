//! Transactions of single places over the API, with the binary: what they change, what they refuse, two clients, roles.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod started;

use quiver_client::v1::configuration_client::ConfigurationClient;
use quiver_client::v1::{Edit, EditRequest, edit::Act};
use quiver_client::{Role, Router};
use started::Started;
use std::process::Command;
use tonic::Code;

const DOCUMENT: &str = "loopbacks:
  loop0: {addresses: [10.0.0.1/24], mtu: 9000}
  loop1: {}
tables: {7: {}}
routes:
  - 10.1.0.0/16 via 10.0.0.9
  - 10.1.0.0/16 table 7 drop
";

fn run(name: &str, sockets: &str, test: impl AsyncFnOnce(&mut Started, Router)) {
    started::run(Started::with(name, sockets, DOCUMENT), test);
}

#[test]
fn places_are_changed_together() {
    run("together", "", async |_, router| {
        let before = router.dump().await.unwrap();
        let transaction = router
            .transaction()
            .set("loopbacks.loop0.mtu", 1400)
            .merge("loopbacks.loop0", "{description: first, addresses: [10.0.0.1/24, 10.0.0.2/24]}")
            .delete("loopbacks.loop1")
            .set("loopbacks.loop2.addresses[+]", "10.2.0.1/24")
            .route("10.1.0.0/16".parse().unwrap(), 0, "via 10.0.0.8")
            .delete_route("10.1.0.0/16".parse().unwrap(), 7)
            .comment("all of it");
        let plan = transaction.plan().await.unwrap();
        assert!(plan.steps.iter().any(|s| s.text.contains("MTU: 9000 -> 1400")), "{plan:?}");
        assert_eq!(router.dump().await.unwrap(), before);
        let done = transaction.apply().await.unwrap();
        assert_eq!((done.steps, done.number), (plan.steps.len() as u64, 2), "{done:?}");
        // What the same document would make of it.
        let wanted = "loopbacks:
  loop0:
    description: first
    mtu: 1400
    addresses: [10.0.0.1/24, 10.0.0.2/24]
  loop2:
    addresses: [10.2.0.1/24]
tables:
  7: {}
routes:
  - 10.1.0.0/16 via 10.0.0.8
";
        let after = router.dump().await.unwrap();
        assert_eq!(after.split_once("loopbacks:").unwrap().1, wanted.split_once("loopbacks:").unwrap().1);
        assert!(router.diff(&after, true).await.unwrap().differences.is_empty());
        let entry = router.history().await.unwrap().remove(0);
        assert_eq!((entry.kind.as_str(), entry.comment.as_str()), ("apply", "all of it"));
        assert_eq!(entry.source, "loopbacks.loop0.mtu and 5 more");

        let got = router.get("loopbacks.loop0.addresses").await.unwrap();
        assert_eq!((got.json.as_str(), &got.version), ("[\"10.0.0.1/24\",\"10.0.0.2/24\"]", &done.version));
        assert_eq!(
            router.get("routes[prefix=10.1.0.0/16]").await.unwrap().json,
            "\"10.1.0.0/16 via 10.0.0.8\""
        );
        assert_eq!(router.get("loopbacks.loop1").await.unwrap_err().code, Code::FailedPrecondition);

        // What is so already is no entry of the history.
        let same = router.transaction().set("loopbacks.loop0.mtu", 1400).apply().await.unwrap();
        assert_eq!((same.steps, same.number, same.text.as_str()), (0, 0, "nothing differs"));

        // The way back, at once and by the history.
        router.transaction().set("loopbacks.loop0.mtu", 1300).confirm_within(600).apply().await.unwrap();
        router.roll_back(None, Default::default()).await.unwrap();
        assert_eq!(router.dump().await.unwrap(), after);
        router.roll_back(Some(1), Default::default()).await.unwrap();
        assert_eq!(router.dump().await.unwrap(), before);
    });
}

#[test]
fn what_a_command_made_is_changed_as_well() {
    run("commands", "", async |started, router| {
        started.ctl(&["create", "loopback", "interface", "instance", "2"]);
        started.ctl(&["set", "interface", "state", "loop2", "up"]);
        started.ctl(&["ip", "route", "add", "10.9.0.0/16", "via", "10.0.0.7"]);
        router.transaction().set("loopbacks.loop0.mtu", 1400).apply().await.unwrap();
        assert!(router.dump().await.unwrap().contains("10.9.0.0/16 via 10.0.0.7"));
        let delete =
            router.transaction().delete("loopbacks.loop2").delete_route("10.9.0.0/16".parse().unwrap(), 0);
        delete.apply().await.unwrap();
        let dump = router.dump().await.unwrap();
        assert!(!dump.contains("loop2") && !dump.contains("10.9.0.0/16"), "{dump}");
    });
}

#[test]
fn a_refused_change_changes_nothing_and_is_named() {
    run("refused", "", async |_, router| {
        let before = router.dump().await.unwrap();
        let start =
            || router.transaction().set("loopbacks.loop0.description", "x").set("loopbacks.loop3", "{}");
        for (wrong, rule, place) in [
            (start().delete("loopbacks.loop9"), "place", "loopbacks.loop9"),
            (start().set("loopbacks.loop0.mtu", 7), "range", "loopbacks.loop0.mtu"),
            (start().set("loopbacks.loop0", "[x"), "yaml-syntax", "loopbacks.loop0"),
            (
                start().route("10.6.0.0/16".parse().unwrap(), 0, "via 10.0.0.9 gone"),
                "",
                "routes[prefix=10.6.0.0/16,table=0]",
            ),
            (
                start().route("10.6.0.0/16".parse().unwrap(), 0, "via 10.0.0.9 weight 0"),
                "",
                "routes[prefix=10.6.0.0/16,table=0]",
            ),
        ] {
            for e in [wrong.plan().await.unwrap_err(), wrong.apply().await.unwrap_err()] {
                let info = &e.infos[0];
                assert_eq!(
                    (e.code, info.change, info.object.as_str(), info.line),
                    (Code::FailedPrecondition, 3, place, 0),
                    "{e:?}"
                );
                assert!(rule.is_empty() || info.rule == rule, "{e:?}");
                assert!(e.message.contains("change 3") && !info.expected.is_empty(), "{e:?}");
            }
            assert_eq!(router.dump().await.unwrap(), before);
        }
        // A change that is none.
        let mut client = ConfigurationClient::new(router.channel());
        let edit = |place: &[&str], at: &str, act| Edit {
            place: place.iter().map(|e| (*e).to_owned()).collect(),
            at: at.into(),
            act,
        };
        for edits in [
            vec![],
            vec![edit(&["a"], "", None)],
            vec![edit(&["a"], "", Some(Act::Delete(false)))],
            vec![edit(&["a"], "a", Some(Act::Delete(true)))],
            vec![edit(&[""], "", Some(Act::Delete(true)))],
            vec![edit(&[], "a..b", Some(Act::Delete(true)))],
        ] {
            let status = client.edit(EditRequest { edits, ..EditRequest::default() }).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        }
        assert_eq!(router.dump().await.unwrap(), before);
    });
}

#[test]
fn of_two_clients_with_one_version_one_is_refused() {
    run("version", "", async |started, router| {
        let other = Router::unix(started.folder.join("api")).await.unwrap();
        let (one, two) =
            (router.get("loopbacks.loop0").await.unwrap(), other.get("loopbacks.loop0.mtu").await.unwrap());
        assert_eq!(one.version, two.version);
        let set = |router: &Router, mtu: u16, version: &str| {
            router.transaction().set("loopbacks.loop0.mtu", mtu).version(version)
        };
        let (first, second) =
            tokio::join!(set(&router, 1400, &one.version).apply(), set(&other, 1300, &two.version).apply(),);
        // Both may be under way at once: then the second is told that something is applied, and asks again.
        let (won, lost) = if first.is_ok() { (first, second) } else { (second, first) };
        let now = won.unwrap().version;
        let lost = match lost.unwrap_err() {
            e if e.code == Code::Aborted => e,
            _ => set(&other, 1300, &two.version).apply().await.unwrap_err(),
        };
        assert_eq!((lost.code, lost.infos[0].rule.as_str()), (Code::Aborted, "conflict"), "{lost:?}");
        assert_eq!(set(&other, 1300, &two.version).plan().await.unwrap_err().code, Code::Aborted);
        assert_ne!(now, one.version);
        set(&other, 1200, &now).apply().await.unwrap();
        // A command's static route is a change, too.
        let now = router.get("loopbacks.loop0.mtu").await.unwrap();
        assert_eq!(now.json, "1200");
        started.ctl(&["ip", "route", "add", "10.7.0.0/16", "via", "10.0.0.9"]);
        assert_eq!(set(&other, 1500, &now.version).apply().await.unwrap_err().code, Code::Aborted);
        assert_eq!(router.get("loopbacks.loop0.mtu").await.unwrap().json, "1200");
        // What only looks changes no version, and a refused change neither.
        let now = router.get("loopbacks.loop0.mtu").await.unwrap().version;
        started.ctl(&["show", "interface"]);
        router.transaction().set("loopbacks.loop0.mtu", 7).apply().await.unwrap_err();
        assert_eq!(router.get("loopbacks.loop0.mtu").await.unwrap().version, now);
    });
}

#[test]
fn operators_say_the_same() {
    run("shell", "", async |started, router| {
        let ctl = |words: &[&str]| started.ctl(words);
        assert_eq!(ctl(&["configuration", "get", "loopbacks.loop0.mtu"]), "9000\n");
        let plan = ctl(&["configuration", "set", "loopbacks.loop0.mtu", "1400", "plan"]);
        assert!(plan.contains("MTU: 9000 -> 1400"), "{plan}");
        let version = router.get("").await.unwrap().version;
        assert_eq!(ctl(&["configuration", "version"]).trim(), version);
        ctl(&["configuration", "set", "loopbacks.loop0.mtu", "1400", "version", &version, "comment", "less"]);
        let late = started.try_ctl(&["configuration", "delete", "loopbacks.loop1", "version", &version]);
        assert!(String::from_utf8_lossy(&late.stderr).contains("read it again"), "{late:?}");
        ctl(&["configuration", "merge", "loopbacks.loop0", "{description: first, mtu: null}"]);
        ctl(&[
            "configuration",
            "edit",
            "[{delete: loopbacks.loop1}, {set: 'routes[prefix=10.1.0.0/16]', to: via 10.0.0.8}]",
        ]);
        assert_eq!(
            ctl(&["configuration", "get", "routes[prefix=10.1.0.0/16]"]),
            "\"10.1.0.0/16 via 10.0.0.8\"\n"
        );
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let told = ctl(&["configuration", "get", "loopbacks", "--json"]);
        assert_eq!(read(&told), read(&router.get("loopbacks").await.unwrap().json));
        let whole = read(&ctl(&["configuration", "get", "--json"]));
        assert_eq!(whole, read(&ctl(&["show", "configuration", "--json"])));
        assert_eq!(whole["loopbacks"]["loop0"]["mtu"], serde_json::Value::Null);
    });
}

/// Only looks, as the role of `nobody` allows; run by the test below.
#[test]
fn looks() {
    let Some(socket) = std::env::var_os("QUIVER_TEST_EDIT") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let router = Router::unix(socket).await.unwrap();
        assert_eq!(router.system().await.unwrap().role(), Role::Read);
        let before = router.dump().await.unwrap();
        assert_eq!(router.get("loopbacks.loop0.mtu").await.unwrap().json, "9000");
        let set = || router.transaction().set("loopbacks.loop0.mtu", 1400);
        assert_eq!(set().plan().await.unwrap().steps.len(), 1);
        let e = set().apply().await.unwrap_err();
        assert_eq!((e.code, e.role_needed()), (Code::PermissionDenied, Some(Role::Configure)), "{e}");
        assert_eq!(router.dump().await.unwrap(), before);
        println!("it only looks");
    });
}

#[test]
fn who_only_looks_changes_no_place() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    run("roles", ", roles: {read: {users: [nobody]}}", async |started, _| {
        let mut looks = Command::new("setpriv");
        looks
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(std::env::current_exe().unwrap());
        looks.args(["--exact", "looks", "--nocapture"]).env("QUIVER_TEST_EDIT", started.folder.join("api"));
        let out = looks.output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && said.contains("only looks"), "{out:?}");
    });
}

#[test]
fn the_section_of_the_process_is_that_of_the_next_start() {
    run("next", "", async |started, router| {
        let version = || started.ctl(&["configuration", "version"]);
        let restart = || started.ctl(&["show configuration restart"]);
        let before = version();
        assert_eq!(
            (restart().as_str(), router.get("quiver").await.unwrap().json.contains("log")),
            ("nothing differs\n", false)
        );
        started.ctl(&["configuration", "set", "quiver.log.level", "debug", "restart"]);
        let after = version();
        assert_ne!(before, after);
        // All tell of the same, and one of both.
        assert_eq!(router.get("quiver.log.level").await.unwrap().json, "\"debug\"");
        assert!(started.ctl(&["show configuration"]).contains("level: debug"));
        assert!(router.dump().await.unwrap().contains("level: debug"));
        assert!(restart().contains("+ quiver: log:"), "{}", restart());
        // What was read before refuses.
        let late = ["configuration", "set", "loopbacks.loop0.mtu", "1400", "version", before.trim()];
        assert!(!started.try_ctl(&late).status.success());
        // Nothing differs any more.
        started.ctl(&["configuration", "delete", "quiver.log", "restart"]);
        assert_ne!(version(), after);
        assert_eq!(restart(), "nothing differs\n");
    });
}
